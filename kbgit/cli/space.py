"""`kbgit space`: the group, and the commands on spaces themselves."""

from __future__ import annotations

from typing import Any, ClassVar

import click

from kbgit.cli import terminal
from kbgit.cli.base_names import SpaceKey
from kbgit.cli.client import Administration, administer
from kbgit.cli.lazy import Entry, LazyGroup
from kbgit.cli.options import json_option, library_options, pass_session
from kbgit.cli.output import answer
from kbgit.cli.session import Session


class SpaceCommands(LazyGroup):
    """The commands of `kbgit space`."""

    entries: ClassVar[dict[str, Entry]] = {
        "create": Entry("kbgit.cli.space:create", "Create a team's space."),
        "list": Entry("kbgit.cli.space:list_spaces", "List the spaces, and who is in them."),
        "show": Entry("kbgit.cli.space:show", "Show a space and its members."),
        "member": Entry("kbgit.cli.space_member:member", "Say who is in a space, and as what."),
    }


@click.group(cls=SpaceCommands, short_help="Create and show spaces, and who is in them.")
def space() -> None:
    """Spaces say who may see and change a set of bases: one personal space for each user, any number for teams.

    \b
    Examples:
      kbgit space create platform --owner mia
      kbgit space member set team:platform tom viewer
      kbgit space list
    """


@click.command(short_help="Create a team's space.")
@click.argument("name")
@click.option("--owner", metavar="USER", help="The user who owns it.  [default: you, or the owner of the home]")
@library_options
@json_option
@pass_session
def create(session: Session, name: str, owner: str | None, as_json: bool) -> None:
    """Create the space of a team. Its key is team:NAME. It takes an administrator of the home.

    \b
    Examples:
      kbgit space create platform --owner mia
      kbgit base import --space team:platform --from ~/src/runbooks
    """
    with administer(session) as accounts:
        owner = owner or accounts.me()["user"]
        key = accounts.create_team(name.removeprefix("team:"), owner)["space"]
    found = {"type": "space_created", "space": key, "owner": owner}
    answer(found, [f"created {key}, owned by {owner}"], as_json=as_json)


@click.command("list", short_help="List the spaces, and who is in them.")
@library_options
@json_option
@pass_session
def list_spaces(session: Session, as_json: bool) -> None:
    """List the spaces that you are in, and who else is; administrators of the home see every team.

    Of a home in your hands every space is listed.

    \b
    Examples:
      kbgit space list
      kbgit space list --json
    """
    with administer(session) as accounts:
        rows = [_with_members(accounts, row["space"], row["role"]) for row in accounts.spaces()["spaces"]]
    cells = [
        [row["space"], row["role"] or "-", ", ".join(f"{user} ({role})" for user, role in row["members"].items())]
        for row in rows
    ]
    answer({"type": "spaces", "spaces": rows}, terminal.table(cells, ("space", "you", "members")), as_json=as_json)


@click.command(short_help="Show a space and its members.")
@click.argument("space_key", metavar="SPACE", type=SpaceKey())
@library_options
@json_option
@pass_session
def show(session: Session, space_key: str, as_json: bool) -> None:
    """Show a space: your role in it, and every member's.

    \b
    Examples:
      kbgit space show team:platform
    """
    with administer(session) as accounts:
        roles = {row["space"]: row["role"] for row in accounts.spaces()["spaces"]}
        found = _with_members(accounts, space_key, roles.get(space_key))
    cells = [[user, role] for user, role in found["members"].items()]
    answer({"type": "space", **found}, terminal.table(cells, ("user", "role")), as_json=as_json)


def _with_members(accounts: Administration, key: str, role: str | None) -> dict[str, Any]:
    members = {row["user"]: row["role"] for row in accounts.members(key)["members"]}
    return {"space": key, "role": role, "members": members}
