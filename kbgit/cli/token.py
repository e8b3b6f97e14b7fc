"""`kbgit token`."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import click

from kbgit.access import Scope
from kbgit.accounts import Token
from kbgit.cli import terminal
from kbgit.cli.base_names import base_key
from kbgit.cli.homes import home_of, owner_of
from kbgit.cli.options import home_option, json_option, pass_session
from kbgit.cli.output import answer
from kbgit.cli.session import Session
from kbgit.revision import rfc3339

_UNITS = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400, "y": 365 * 86_400}


class Period(click.ParamType[int]):
    """A length of time, `12h` or `30d`, in seconds."""

    name = "period"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ANN401
        """Read it."""
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"([1-9][0-9]{0,4})([mhdwy])", value)
        if match is None:
            self.fail(f"{value!r} is no period; write 12h, 30d, 8w or 1y", param, ctx)
        return int(match[1]) * _UNITS[match[2]]


@click.group(short_help="Create, list and revoke access tokens.")
def token() -> None:
    """Tokens let programs in: agents, scripts, and Git over HTTP (as the password).

    \b
    Examples:
      kbgit token create --scope knowledge:read --name assistant
      kbgit token list
      kbgit token revoke 3f9a0c51d2e4
    """


@token.command(short_help="Create a token, and print it once.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    type=click.Choice([scope.value for scope in Scope]),
    help="What it may be used for; can be given several times.",
)
@click.option("--user", metavar="NAME", help="Whose it is.  [default: the owner of the home]")
@click.option("--name", default="", metavar="TEXT", help="What you will know it by in the list.")
@click.option("--base", "bases", multiple=True, metavar="NAME", help="Limit it to this base; several times: to these.")
@click.option("--expires", type=Period(), metavar="PERIOD", help="How long it is valid: 12h, 30d, 8w, 1y.")
@home_option
@json_option
@pass_session
def create(
    session: Session,
    scopes: Sequence[str],
    user: str | None,
    name: str,
    bases: Sequence[str],
    expires: int | None,
    as_json: bool,
) -> None:
    """Create a token and print it. It is stored hashed, so this is the only time that it can be seen.

    Into a pipe or a file goes the token alone, on one line.

    \b
    Examples:
      kbgit token create --scope knowledge:read --name assistant --expires 30d
      kbgit token create --scope knowledge:read --scope item:write > token.txt
      kbgit token create --scope knowledge:read --base team:platform/runbooks --user grace
    """
    home = home_of(session)
    with closing(home.accounts()) as accounts:
        actor = owner_of(home, accounts)
        made, text = accounts.add_token(
            user or actor,
            name,
            [Scope(scope) for scope in scopes],
            actor,
            bases=[str(base_key(home, base)) for base in bases] or None,
            expires_at=int(time.time()) + expires if expires else None,
        )
    lines = [text]
    if sys.stdout.isatty():
        lines = [f"Token {made.id} of {made.user}, shown only now:", "", f"  {text}", ""]
    answer({"type": "token_created", **_as_json(made), "token": text}, lines, as_json=as_json)


@token.command("list", short_help="List the tokens of a home.")
@click.option("--user", metavar="NAME", help="Only this user's.")
@home_option
@json_option
@pass_session
def list_tokens(session: Session, user: str | None, as_json: bool) -> None:
    """List the tokens of a home, newest first: what they are for and whether they are valid, never their text.

    \b
    Examples:
      kbgit token list
      kbgit token list --user grace --json
    """
    with closing(home_of(session).accounts()) as accounts:
        if user is not None:
            accounts.require_user(user)
        rows = [_as_json(found) for found in accounts.tokens(user)]
    cells = [
        [
            *(row["id"], row["state"], row["user"], terminal.line(row["name"]) or "-"),
            *(" ".join(row["scopes"]), ", ".join(row["bases"] or ["every base"])),
            *(row["expires_at"] or "never", row["used_at"] or "never"),
        ]
        for row in rows
    ]
    heads = ("id", "state", "user", "name", "scopes", "bases", "expires", "last used")
    answer({"type": "tokens", "tokens": rows}, terminal.table(cells, heads), as_json=as_json)


@token.command(short_help="Make a token invalid from its next use on.")
@click.argument("token_id", metavar="ID")
@home_option
@json_option
@pass_session
def revoke(session: Session, token_id: str, as_json: bool) -> None:
    """Revoke a token by its id, which `kbgit token list` shows. From its next use on it is refused.

    \b
    Examples:
      kbgit token revoke 3f9a0c51d2e4
    """
    home = home_of(session)
    with closing(home.accounts()) as accounts:
        accounts.revoke_token(token_id, owner_of(home, accounts))
        found = _as_json(accounts.token(token_id))
    answer({"type": "token_revoked", **found}, [f"revoked {token_id} of {found['user']}"], as_json=as_json)


def _as_json(found: Token) -> dict[str, Any]:
    return {
        "id": found.id,
        "user": found.user,
        "name": found.name,
        "scopes": sorted(scope.value for scope in found.scopes),
        "bases": sorted(found.bases) if found.bases is not None else None,
        "state": _state(found),
        "created_at": rfc3339(found.created_at),
        "expires_at": _moment(found.expires_at),
        "revoked_at": _moment(found.revoked_at),
        "used_at": _moment(found.used_at),
    }


def _state(found: Token) -> str:
    if found.revoked_at is not None:
        return "revoked"
    return "expired" if found.expires_at is not None and found.expires_at <= time.time() else "valid"


def _moment(seconds: int | None) -> str | None:
    return rfc3339(seconds) if seconds is not None else None
