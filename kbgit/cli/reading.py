"""`kbgit read`, `history`, `diff` and `resolve`: addressed reads."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

import click

from kbgit.citation import SCHEME
from kbgit.cli import render, terminal
from kbgit.cli.client import Client, reach
from kbgit.cli.http_client import Json
from kbgit.cli.options import base_option, json_option, library_options, pass_session
from kbgit.cli.output import answer
from kbgit.cli.paging import first
from kbgit.cli.session import Session
from kbgit.errors import InvalidRequest, RevisionNotFound

_ABBREVIATED = re.compile(r"[0-9a-f]{4,39}")


class Lines(click.ParamType[tuple[int, int]]):
    """`10-24`, or `10`."""

    name = "lines"

    def convert(
        self,
        value: Any,  # noqa: ANN401 - as in click
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> tuple[int, int]:
        """Read it."""
        if isinstance(value, tuple):
            return value
        match = re.fullmatch(r"L?([1-9][0-9]{0,8})(?:-L?([1-9][0-9]{0,8}))?", value)
        start, end = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if end < start:
            self.fail(f"{value!r} is no range of lines; write 10-24", param, ctx)
        return start, end


@click.command(short_help="Print an item, or what a citation cites.")
@click.argument("item", metavar="ITEM-OR-CITATION")
@click.option("--revision", metavar="SHA", help="As of this revision.  [default: the current one]")
@click.option("--lines", type=Lines(), metavar="FROM-TO", help="Only these lines of the content.")
@base_option
@library_options
@json_option
@pass_session
def read(
    session: Session, item: str, revision: str | None, lines: tuple[int, int] | None, base: str | None, as_json: bool
) -> None:
    """Print the content of an item, or the lines that a citation cites, exactly as they are in Git.

    \b
    Examples:
      kbgit read item_runbook_deploy
      kbgit read handbook/de/urlaub --lines 10-24
      kbgit read 'knowledge:item_runbook_deploy@0b1c…#L12-L31'
    """
    with reach(session) as client:
        if item.startswith(SCHEME):
            if revision is not None:
                raise InvalidRequest("a citation names its revision itself; leave out --revision")
            found = client.resolve(item, base)
        else:
            pinned = _revision(client, item, revision, base) if revision is not None else None
            found = client.read(item, pinned, base)
    if lines is not None:
        found["lines"] = list(lines)
        found["excerpt"] = "\n".join(found["content"].split("\n")[lines[0] - 1 : lines[1]])
    if as_json:
        answer(found, (), as_json=True)
        return
    render.item_notes(found)
    text = str(found.get("excerpt", found["content"]))
    click.echo(terminal.harmless(text) if sys.stdout.isatty() else text, nl=not text.endswith("\n"))


@click.command(short_help="List an item's revisions.")
@click.argument("item")
@click.option("--limit", "-n", type=click.IntRange(1), default=50, show_default=True, help="Most revisions to list.")
@base_option
@library_options
@json_option
@pass_session
def history(session: Session, item: str, limit: int, base: str | None, as_json: bool) -> None:
    """List the revisions of an item, newest first: number, SHA, when, who published it and how, and the message.

    \b
    Examples:
      kbgit history item_runbook_deploy
      kbgit history handbook/de/urlaub --limit 5 --json
    """
    with reach(session) as client:
        found = _revisions(client, item, base, limit)
    answer(found, render.revisions(found), as_json=as_json)


@click.command(short_help="Show what changed between two revisions of an item.")
@click.argument("item")
@click.argument("revisions", nargs=-1, required=True, metavar="OLD NEW | OLD..NEW")
@base_option
@library_options
@json_option
@pass_session
def diff(session: Session, item: str, revisions: Sequence[str], base: str | None, as_json: bool) -> None:
    """Show what changed in an item's file between two revisions, front matter included.

    A SHA can be shortened to as many digits as tell the item's revisions apart, at least four.

    \b
    Examples:
      kbgit diff item_runbook_deploy 0b1c2d3 4e5f6a7
      kbgit diff item_runbook_deploy 0b1c2d3..4e5f6a7
    """
    named = [part for text in revisions for part in text.split("..")]
    if len(named) != 2 or not all(named):
        raise click.UsageError("name two revisions: OLD NEW, or OLD..NEW")
    with reach(session) as client:
        old, new = (_revision(client, item, text, base) for text in named)
        found = client.diff(item, old, new, base)
    answer(found, render.difference(found), as_json=as_json)


@click.command(short_help="Say what a citation cites, and whether it is current.")
@click.argument("citation")
@base_option
@library_options
@json_option
@pass_session
def resolve(session: Session, citation: str, base: str | None, as_json: bool) -> None:
    """Say what a citation cites: item, revision, where it came from, and whether that is still the current one.

    \b
    Examples:
      kbgit resolve 'knowledge:item_runbook_deploy@0b1c…'
      kbgit resolve 'knowledge:item_runbook_deploy@0b1c…#L12-L31' --json
    """
    with reach(session) as client:
        found = client.resolve(citation, base)
    answer(found, render.resolved(found), as_json=as_json)


def _revisions(client: Client, item: str, base: str | None, limit: int | None = None) -> Json:
    """The newest `limit` revisions (None: all) as one page."""
    return first(lambda cursor, most: client.revisions(item, base, cursor, most), "revisions", limit)


def _revision(client: Client, item: str, text: str, base: str | None) -> str:
    """The full SHA that `text` abbreviates; `text` itself where it is no abbreviation. Raises `RevisionNotFound`."""
    if not _ABBREVIATED.fullmatch(text):
        return text
    known = [row["knowledge_revision_id"] for row in _revisions(client, item, base)["revisions"]]
    found = [sha for sha in known if sha.startswith(text)]
    if len(found) != 1:
        how_many = f"{len(found)} revisions begin" if found else "no revision begins"
        raise RevisionNotFound(f"{how_many} with {text!r} among those of {item[:200]!r}")
    return str(found[0])
