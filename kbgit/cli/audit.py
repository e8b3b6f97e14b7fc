"""`kbgit audit`."""

from __future__ import annotations

from collections.abc import Iterator

import click

from kbgit.cli import terminal
from kbgit.cli.base_names import SpaceKey
from kbgit.cli.client import administer
from kbgit.cli.http_client import Json
from kbgit.cli.options import json_option, library_options, pass_session
from kbgit.cli.output import answer
from kbgit.cli.session import Session


@click.command(short_help="Show who changed access, bases and tokens.")
@click.option("--space", type=SpaceKey(), metavar="KEY", help="Only what concerns this space.")
@click.option("--limit", "-n", type=click.IntRange(1, 200), default=50, show_default=True, help="Most entries to show.")
@click.option("--cursor", metavar="CURSOR", help="Go on where an earlier page ended.")
@library_options
@json_option
@pass_session
def audit(session: Session, space: str | None, limit: int, cursor: str | None, as_json: bool) -> None:
    """Show the audit log, newest first: changes of users, spaces, members and tokens, archiving and deletion.

    Owners and admins of a space see what concerns it, administrators of the home what concerns users and teams.

    \b
    Examples:
      kbgit audit
      kbgit audit --space team:platform --limit 20 --json
    """
    with administer(session) as accounts:
        found = accounts.audit(space, cursor, limit)
    answer(found, _lines(found), as_json=as_json)


def _lines(found: Json) -> Iterator[str]:
    cells = [
        [str(row["number"]), row["at"], terminal.line(row["actor"]), row["event"], _details(row["details"])]
        for row in found["entries"]
    ]
    yield from terminal.table(cells, ("nr", "at", "who", "what", "details"))
    if found["cursor"] is not None:
        yield click.style(f"older ones: --cursor {found['cursor']}", dim=True)


def _details(details: Json) -> str:
    shown = (
        f"{name}={','.join(map(str, value)) if isinstance(value, list) else value}" for name, value in details.items()
    )
    return terminal.line(" ".join(shown))
