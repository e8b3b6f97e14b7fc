"""`kbgit changes`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from kbgit.cli import terminal
from kbgit.cli.client import reach
from kbgit.cli.http_client import Json
from kbgit.cli.options import json_option, library_options, pass_session
from kbgit.cli.output import answer
from kbgit.cli.paging import first
from kbgit.cli.session import Session
from kbgit.cli.terminal import line, note


@click.command(short_help="List what changed since a commit, a time or citations.")
@click.option("--since-commit", metavar="SHA", help="Since this commit of a base, a full SHA.")
@click.option("--since-time", metavar="TIME", help="Since this time, with its zone: 2026-11-30T12:00:00Z.")
@click.option(
    "--citation",
    "citations",
    multiple=True,
    metavar="CITATION",
    help="Only the item that this cites, since that revision; several times: these.",
)
@click.option("--base", "bases", multiple=True, metavar="NAME", help="Only this base; several times: these.")
@click.option("--limit", "-n", type=click.IntRange(1), default=50, show_default=True, help="Most items to list.")
@library_options
@json_option
@pass_session
def changes(
    session: Session,
    since_commit: str | None,
    since_time: str | None,
    citations: Sequence[str],
    bases: Sequence[str],
    limit: int,
    as_json: bool,
) -> None:
    """List what changed, item by item and section by section, so that only that need be read again.

    Say since when in one way: --since-commit, --since-time, or --citation.

    \b
    Examples:
      kbgit changes --since-time 2026-11-30T12:00:00Z
      kbgit changes --since-commit 0b1c2d3e4f5a6b7c8d9e0f1a2b3c4d5e6f708192 --base runbooks
      kbgit changes --citation 'knowledge:item_runbook_deploy@0b1c…#L12-L31' --json
    """
    if [since_commit is None, since_time is None, not citations].count(False) != 1:
        raise click.UsageError("say since when, in one way: --since-commit, --since-time, or --citation")
    given = {
        "since_commit": since_commit,
        "since_time": since_time,
        "since_citations": list(citations) or None,
        "bases": list(bases) or None,
    }
    body = {name: value for name, value in given.items() if value is not None}

    def page(cursor: str | None, most: int) -> Json:
        return client.changes({**body, "limit": most} | ({"cursor": cursor} if cursor is not None else {}))

    with reach(session) as client:
        found = first(page, "changes", limit)
    answer(found, _lines(found), as_json=as_json)
    if not as_json:
        for text in found.get("unknown", ()):
            note(f"{line(text)} cites nothing that can be seen here")
        if not found["changes"]:
            note("nothing changed")


def _lines(found: Json) -> Iterator[str]:
    """Each item with what became of it, and below it its sections, each with what to cite."""
    for base in found["bases"]:
        if base["status"] != base["old_status"]:
            yield f"{base['space']}/{base['slug']} is {base['status']}, and was {base['old_status']}"
    for change in found["changes"]:
        title = line(change["title"] or change["knowledge_item_id"])
        place = f"{change['base']}/{change['locator'] or change['old_locator'] or ''}"
        yield f"{change['kind']}  {click.style(title, bold=True)}  {click.style(line(place), dim=True)}"
        cited = change["reference"] or change["old_reference"]
        if cited:
            yield click.style(f"  {line(cited)}", fg="cyan")
        for section in change["sections"]:
            path = line(" › ".join(section["section"])) or "(beginning)"
            at = f"  {terminal.line(section['citation'])}" if section["citation"] else ""
            yield f"  {section['kind']}  {path}{click.style(at, dim=True)}"
    if found["cursor"] is not None:
        yield click.style("there are more: --limit shows them", dim=True)
