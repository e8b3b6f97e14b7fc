"""`kbgit space`."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import click

from kbgit.cli import terminal
from kbgit.cli.homes import home_of, owner_of
from kbgit.cli.options import home_option, json_option, pass_session
from kbgit.cli.output import answer
from kbgit.cli.session import Session


@click.group(short_help="Create and list the spaces that bases are in.")
def space() -> None:
    """Spaces say who may see and change a set of bases: one personal space for each user, any number for teams.

    \b
    Examples:
      kbgit space create platform
      kbgit space list
    """


@space.command(short_help="Create a team's space.")
@click.argument("name")
@click.option("--owner", metavar="USER", help="The user who owns it.  [default: the owner of the home]")
@home_option
@json_option
@pass_session
def create(session: Session, name: str, owner: str | None, as_json: bool) -> None:
    """Create the space of a team. Its key is team:NAME.

    \b
    Examples:
      kbgit space create platform
      kbgit base import --space team:platform --from ~/src/runbooks
    """
    home = home_of(session)
    with closing(home.accounts()) as accounts:
        actor = owner_of(home, accounts)
        key = accounts.add_team(name.removeprefix("team:"), owner or actor, actor)
    found = {"type": "space_created", "space": key, "owner": owner or actor}
    answer(found, [f"created {key}, owned by {owner or actor}"], as_json=as_json)


@space.command("list", short_help="List the spaces of a home.")
@home_option
@json_option
@pass_session
def list_spaces(session: Session, as_json: bool) -> None:
    """List the spaces of a home, and who is in them.

    \b
    Examples:
      kbgit space list
      kbgit space list --json
    """
    with closing(home_of(session).accounts()) as accounts:
        members: dict[str, dict[str, str]] = {key: {} for key in accounts.spaces()}
        for user in accounts.users():
            for key, role in accounts.roles(user).items():
                members[key][user] = role.value
    rows: list[dict[str, Any]] = [{"space": key, "members": found} for key, found in members.items()]
    cells = [[key, ", ".join(f"{user} ({role})" for user, role in found.items())] for key, found in members.items()]
    answer({"type": "spaces", "spaces": rows}, terminal.table(cells, ("space", "members")), as_json=as_json)
