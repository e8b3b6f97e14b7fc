"""`kbgit user`."""

from __future__ import annotations

from collections.abc import Iterator

import click

from kbgit.cli import terminal
from kbgit.cli.client import Administration, administer
from kbgit.cli.http_client import Json
from kbgit.cli.options import json_option, library_options, pass_session
from kbgit.cli.output import answer
from kbgit.cli.session import Session
from kbgit.cli.token import with_state
from kbgit.errors import NotFound


@click.group(short_help="Create, list and remove users.")
def user() -> None:
    """Users have a personal space, roles in teams, and tokens with which they sign in.

    \b
    Examples:
      kbgit user create mia
      kbgit token create --user mia --scope knowledge:read --scope item:write
      kbgit user list
    """


@user.command(short_help="Create a user.")
@click.argument("name")
@click.option("--administrator", is_flag=True, help="They may manage users and teams.")
@library_options
@json_option
@pass_session
def create(session: Session, name: str, administrator: bool, as_json: bool) -> None:
    """Create a user, with a personal space. It takes an administrator of the home.

    \b
    Examples:
      kbgit user create mia
      kbgit user create ida --administrator
    """
    with administer(session) as accounts:
        accounts.add_user(name, administrator=administrator)
    found = {"type": "user_created", "user": name, "administrator": administrator, "space": f"personal:{name}"}
    what = "administrator" if administrator else "user"
    answer(found, [f"created the {what} {name}, with the space personal:{name}"], as_json=as_json)


@user.command("list", short_help="List the users.")
@library_options
@json_option
@pass_session
def list_users(session: Session, as_json: bool) -> None:
    """List the users by name. It takes an administrator of the home.

    \b
    Examples:
      kbgit user list
      kbgit user list --json
    """
    with administer(session) as accounts:
        names = accounts.users()["users"]
    answer({"type": "users", "users": names}, names, as_json=as_json)


@user.command(short_help="Close a user's account.")
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Only say what would end.")
@library_options
@json_option
@pass_session
def remove(session: Session, name: str, dry_run: bool, as_json: bool) -> None:
    """Close a user's account: from the next request on they have no token and no role.

    What they published stays, with their name. Their personal space stays too, closed, and so does their name: nobody
    comes into that space by taking it. The last owner of a team is not removed before somebody else owns it.

    \b
    Examples:
      kbgit user remove tom --dry-run
      kbgit user remove tom
    """
    with administer(session) as accounts:
        found = {"type": "user_removal_preview" if dry_run else "user_removed", **_rights(accounts, name)}
        if not dry_run:
            accounts.remove_user(name)
    answer(found, _lines(found, "would lose" if dry_run else "lost"), as_json=as_json)


def _rights(accounts: Administration, name: str) -> Json:
    """What a user has that a removal takes. Raises `NotFound`."""
    if name not in accounts.users()["users"]:
        raise NotFound(f"there is no user {name[:100]!r}")
    tokens = [row["id"] for row in map(with_state, accounts.tokens(name)["tokens"]) if row["state"] == "valid"]
    teams: dict[str, str] = {}
    last: list[str] = []
    for row in accounts.spaces()["spaces"]:
        if row["space"].startswith("team:"):
            roles = {member["user"]: member["role"] for member in accounts.members(row["space"])["members"]}
            teams |= {row["space"]: roles[name]} if name in roles else {}
            last += [row["space"]] if [user for user, role in roles.items() if role == "owner"] == [name] else []
    return {"user": name, "tokens": tokens, "roles": teams, "last_owner_of": last}


def _lines(found: Json, verb: str) -> Iterator[str]:
    lost = [terminal.count(len(found["tokens"]), "valid token"), *(f"{r} of {s}" for s, r in found["roles"].items())]
    yield f"{found['user']} {verb} {', '.join(lost)}"
    if found["last_owner_of"]:
        yield f"but is the last owner of {', '.join(found['last_owner_of'])}, and stays until somebody else is one"
