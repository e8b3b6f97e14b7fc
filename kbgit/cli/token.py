"""`kbgit token`."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from kbgit.access import Scope
from kbgit.cli import terminal
from kbgit.cli.base_names import base_key, key_named
from kbgit.cli.client import administer
from kbgit.cli.homes import home_of
from kbgit.cli.http_client import HttpClient, Json
from kbgit.cli.options import json_option, library_options, pass_session
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
@click.option("--profile", metavar="NAME", help="The client profile that it is for: which tools its client gets.")
@click.option("--expires", type=Period(), metavar="PERIOD", help="How long it is valid: 12h, 30d, 8w, 1y.")
@library_options
@json_option
@pass_session
def create(
    session: Session,
    scopes: Sequence[str],
    user: str | None,
    name: str,
    bases: Sequence[str],
    profile: str | None,
    expires: int | None,
    as_json: bool,
) -> None:
    """Create a token and print it. It is stored hashed, so this is the only time that it can be seen.

    Into a pipe or a file goes the token alone, on one line. On a server it gives at most what the token in KBGIT_TOKEN
    gives; for somebody else it can be made by whoever holds the home.

    \b
    Examples:
      kbgit token create --scope knowledge:read --name assistant --expires 30d
      kbgit token create --scope knowledge:read --scope item:write > token.txt
      kbgit token create --scope knowledge:read --base team:platform/runbooks --user grace
    """
    given = {"user": user, "bases": _keys(session, bases) or None, "profile": profile}
    given["expires_at"] = rfc3339(int(time.time()) + expires) if expires else None
    body = {"name": name, "scopes": list(scopes)} | {key: value for key, value in given.items() if value is not None}
    with administer(session) as accounts:
        made = accounts.create_token(body)
    lines = [made["token"]]
    if sys.stdout.isatty():
        lines = [f"Token {made['id']} of {made['user']}, shown only now:", "", f"  {made['token']}", ""]
    answer({"type": "token_created", **with_state(made)}, lines, as_json=as_json)


def _keys(session: Session, names: Sequence[str]) -> list[str]:
    """The keys of bases; asked of a server only where a slug alone names one."""
    if session.server is None:
        return [str(base_key(home_of(session), name)) for name in names]
    client = HttpClient(session.server, session.token, is_local=False)
    return [str(key_named(client, name)) for name in names]


@token.command("list", short_help="List the tokens of a home.")
@click.option("--user", metavar="NAME", help="Only this user's.")
@library_options
@json_option
@pass_session
def list_tokens(session: Session, user: str | None, as_json: bool) -> None:
    """List tokens, newest first: what they are for and whether they are valid, never their text.

    Of a home in your hands everybody's; of a server your own, and for administrators those of --user.

    \b
    Examples:
      kbgit token list
      kbgit token list --user grace --json
    """
    with administer(session) as accounts:
        found = accounts.tokens(user)["tokens"]
    rows = [with_state(row) for row in sorted(found, key=lambda row: (row["created_at"], row["id"]), reverse=True)]
    cells = [
        [
            *(row["id"], row["state"], row["user"], terminal.line(row["name"]) or "-"),
            *(" ".join(row["scopes"]), ", ".join(row["bases"] or ["every base"]), row["profile"] or "-"),
            *(row["expires_at"] or "never", row["used_at"] or "never"),
        ]
        for row in rows
    ]
    heads = ("id", "state", "user", "name", "scopes", "bases", "profile", "expires", "last used")
    answer({"type": "tokens", "tokens": rows}, terminal.table(cells, heads), as_json=as_json)


@token.command(short_help="Make a token invalid from its next use on.")
@click.argument("token_id", metavar="ID")
@library_options
@json_option
@pass_session
def revoke(session: Session, token_id: str, as_json: bool) -> None:
    """Revoke a token by its id, which `kbgit token list` shows. From its next use on it is refused.

    \b
    Examples:
      kbgit token revoke 3f9a0c51d2e4
    """
    with administer(session) as accounts:
        accounts.revoke_token(token_id)
    answer({"type": "token_revoked", "id": token_id}, [f"revoked {token_id}"], as_json=as_json)


def with_state(found: Json) -> Json:
    """A token as listed, with its state in a word."""
    expires = found["expires_at"]
    if found["revoked_at"] is not None:
        state = "revoked"
    elif expires is not None and datetime.fromisoformat(expires).timestamp() <= time.time():
        state = "expired"
    else:
        state = "valid"
    return {**found, "state": state}
