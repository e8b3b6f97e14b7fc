"""`kbgit memory`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence

import click

from kbgit.cli import terminal
from kbgit.cli.client import reach
from kbgit.cli.http_client import Json
from kbgit.cli.options import json_option, library_options, pass_session
from kbgit.cli.output import answer
from kbgit.cli.paging import first
from kbgit.cli.recall import KINDS
from kbgit.cli.session import Session
from kbgit.cli.terminal import line, note
from kbgit.cli.token import Period
from kbgit.errors import InvalidRequest

_CLIENT = "kbgit"
_BRIEF = 72

_space_option = click.option("--space", metavar="KEY", help="Only of this space.")
_project_option = click.option("--project", metavar="NAME", help="Only of this project.")


@click.group(short_help="Remember, list, forget and export records.")
def memory() -> None:
    """What agents and people remember about a project, beside the bases.

    \b
    Examples:
      kbgit memory remember --project harbour "Deploys on Friday need the harbour's consent."
      kbgit memory list --project harbour
      kbgit memory forget mem_5f1c9a0e6b2d47830c1e2f3a
    """


@memory.command(short_help="Keep a record.")
@click.argument("text")
@click.option("--project", required=True, metavar="NAME", help="What it is about: a repository, a piece of work.")
@click.option("--space", metavar="KEY", help="Whose it is.  [default: your personal space]")
@click.option("--kind", type=click.Choice(KINDS), help="Durable, or short-lived.  [default: knowledge]")
@click.option("--title", metavar="TEXT", help="Its title.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="A tag; can be given several times.")
@click.option("--lasts", type=Period(), metavar="PERIOD", help="How long a working record lasts: 12h, 30d, 8w.")
@library_options
@json_option
@pass_session
def remember(
    session: Session,
    text: str,
    project: str,
    space: str | None,
    kind: str | None,
    title: str | None,
    tags: Sequence[str],
    lasts: int | None,
    as_json: bool,
) -> None:
    """Keep TEXT, in Markdown, for later conversations; - reads it from standard input.

    \b
    Examples:
      kbgit memory remember --project harbour "Deploys on Friday need the harbour's consent."
      kbgit memory remember --project harbour --kind working --lasts 8h - < notes.md
      kbgit memory remember --project harbour --space team:platform --tag deploy "Ask before noon."
    """
    if text == "-":
        text = _standard_input()
    given = {"space": space, "kind": kind, "title": title, "tags": list(tags) or None, "lifetime_seconds": lasts}
    body: Json = {"text": text, "project": project, "client": _CLIENT}
    body |= {name: value for name, value in given.items() if value is not None}
    with reach(session) as client:
        found = client.remember(body)
    until = f", until {found['expires_at']}" if found["expires_at"] else ""
    answer(found, [f"{found['id']} in {found['space']}/{found['project']}{until}"], as_json=as_json)


@memory.command("list", short_help="List records, newest first.")
@_space_option
@_project_option
@click.option("--kind", type=click.Choice(KINDS), help="Only durable or only short-lived records.")
@click.option("--query", metavar="WORDS", help="Only records with all of these words.")
@click.option("--limit", "-n", type=click.IntRange(1), default=50, show_default=True, help="Most records to list.")
@library_options
@json_option
@pass_session
def list_records(
    session: Session,
    space: str | None,
    project: str | None,
    kind: str | None,
    query: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """List records, newest first: id, when, where, by whom, and how they begin.

    \b
    Examples:
      kbgit memory list --project harbour
      kbgit memory list --space team:platform --kind working --json
    """
    asked = {"space": space, "project": project, "kind": kind, "query": query}
    with reach(session) as client:
        found = first(lambda cursor, most: client.records({**asked, "cursor": cursor}, most), "records", limit)
    answer(found, _records(found), as_json=as_json)
    if not as_json:
        _tell_problems(found)


@memory.command(short_help="Remove a record for good.")
@click.argument("record_id", metavar="ID")
@library_options
@json_option
@pass_session
def forget(session: Session, record_id: str, as_json: bool) -> None:
    """Remove a record for good.

    \b
    Examples:
      kbgit memory forget mem_5f1c9a0e6b2d47830c1e2f3a
    """
    with reach(session) as client:
        found = client.forget(record_id)
    answer(found, [f"forgot {line(found['id'])}"], as_json=as_json)


@memory.command(short_help="Print everything that is remembered.")
@_space_option
@_project_option
@library_options
@json_option
@pass_session
def export(session: Session, space: str | None, project: str | None, as_json: bool) -> None:
    """Print every record that you may see, in Markdown for people or, with --json, for programs.

    \b
    Examples:
      kbgit memory export > memory.md
      kbgit memory export --space team:platform --json > memory.json
    """
    with reach(session) as client:
        text = client.export_memory(space, project, "json" if as_json else "markdown")
    if as_json:
        answer(json.loads(text), (), as_json=True)
    else:
        click.echo(terminal.harmless(text) if sys.stdout.isatty() else text, nl=False)


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidRequest("standard input is not UTF-8") from None


def _records(found: Json) -> Iterator[str]:
    """A page of records as a table."""
    rows = [
        [
            *(row["id"], row["created_at"], f"{row['space']}/{row['project']}", row["kind"], line(row["author"])),
            terminal.cut(line(row["title"] or " ".join(row["text"].split())), _BRIEF),
        ]
        for row in found["records"]
    ]
    if not rows:
        yield "no such record"
        return
    yield from terminal.table(rows, ("id", "created", "project", "kind", "author", "text"))
    if found["cursor"] is not None:
        yield click.style("there are more: --limit shows them", dim=True)


def _tell_problems(found: Json) -> None:
    for problem in found["problems"]:
        note(f"{problem['space']}/{problem['project']}: {line(problem['file'])} is left out: {line(problem['what'])}")
