"""`kbgit space member`."""

from __future__ import annotations

import click

from kbgit.access import Role
from kbgit.cli import terminal
from kbgit.cli.base_names import SpaceKey
from kbgit.cli.client import administer
from kbgit.cli.options import json_option, library_options, pass_session
from kbgit.cli.output import answer
from kbgit.cli.session import Session

_ROLES = [role.value for role in Role]


@click.group(short_help="Say who is in a space, and as what.")
def member() -> None:
    """Members of a team space have a role: owner, admin, member or viewer. A personal space has its user alone.

    \b
    Examples:
      kbgit space member list team:platform
      kbgit space member set team:platform tom viewer
      kbgit space member remove team:platform tom
    """


@member.command("list", short_help="List the members of a space.")
@click.argument("space", type=SpaceKey())
@library_options
@json_option
@pass_session
def list_members(session: Session, space: str, as_json: bool) -> None:
    """List the members of a space and their roles.

    \b
    Examples:
      kbgit space member list team:platform
    """
    with administer(session) as accounts:
        rows = [{"user": row["user"], "role": row["role"]} for row in accounts.members(space)["members"]]
    cells = [[row["user"], row["role"]] for row in rows]
    answer(
        {"type": "members", "space": space, "members": rows}, terminal.table(cells, ("user", "role")), as_json=as_json
    )


@member.command("set", short_help="Give a user a role in a team.")
@click.argument("space", type=SpaceKey())
@click.argument("user")
@click.argument("role", type=click.Choice(_ROLES))
@library_options
@json_option
@pass_session
def set_member(session: Session, space: str, user: str, role: str, as_json: bool) -> None:
    """Give USER a ROLE in a team, or another one. It takes an owner or admin of it, and only owners make owners.

    \b
    Examples:
      kbgit space member set team:platform tom viewer
    """
    with administer(session) as accounts:
        accounts.set_member(space, user, role)
    found = {"type": "member_set", "space": space, "user": user, "role": role}
    answer(found, [f"{user} is {role} of {space}"], as_json=as_json)


@member.command(short_help="Take a user out of a team.")
@click.argument("space", type=SpaceKey())
@click.argument("user")
@library_options
@json_option
@pass_session
def remove(session: Session, space: str, user: str, as_json: bool) -> None:
    """Take USER out of a team, from the next request on. The last owner stays until somebody else is one.

    \b
    Examples:
      kbgit space member remove team:platform tom
    """
    with administer(session) as accounts:
        accounts.remove_member(space, user)
    found = {"type": "member_removed", "space": space, "user": user}
    answer(found, [f"{user} is no member of {space} any more"], as_json=as_json)
