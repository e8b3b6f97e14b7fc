"""`kbgit init`."""

from __future__ import annotations

import getpass
import os
import shutil
from pathlib import Path

import click

from kbgit.access import Scope, personal_space
from kbgit.base import check_user_name, slug_from
from kbgit.cli.options import home_option, json_option, pass_session
from kbgit.cli.output import answer
from kbgit.cli.session import DEFAULT_HOME, Session
from kbgit.errors import InvalidName
from kbgit.home import Home

_LONGEST_NAME = 64


@click.command(short_help="Make a home: the directory in which one kbgit lives.")
@click.argument("directory", metavar="[HOME]", required=False, type=click.Path(path_type=Path))
@click.option("--owner", metavar="NAME", help="The user who owns the home.  [default: the system's name for you]")
@home_option
@json_option
@pass_session
def init(session: Session, directory: Path | None, owner: str | None, as_json: bool) -> None:
    """Make a home in a new or empty directory (default: KBGIT_HOME, else ~/.kbgit).

    The owner gets a personal space, and a token with every scope. The token is written to HOME/owner-token, which
    nobody else can read, and is printed once.

    \b
    Examples:
      kbgit init
      kbgit init /srv/kbgit --owner ada
    """
    session.given_home = directory or session.given_home
    path = session.home_path
    owner = check_user_name(owner or _system_name())
    made = Home.create(path)
    try:
        token = _populate(made, owner)
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)  # it was empty or not there a moment ago
        raise
    found = {
        "type": "home_created",
        "home": str(path),
        "owner": owner,
        "space": personal_space(owner),
        "token": token,
        "token_file": str(made.owner_token_file),
    }
    answer(found, _lines(made, owner, token), as_json=as_json)


def _populate(home: Home, owner: str) -> str:
    accounts = home.accounts()
    try:
        accounts.add_user(owner, actor="init", administrator=True)
        _, token = accounts.add_token(owner, "owner", set(Scope), actor="init")
    finally:
        accounts.close()
    home.catalogue().close()
    # With its mode from the start: a file that is made readable and then closed to others was readable for a moment.
    with open(os.open(home.owner_token_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(token + "\n")
    return token


def _system_name() -> str:
    """The system's name for whoever runs this, made valid; `owner` where there is none."""
    try:
        return slug_from(getpass.getuser())[:_LONGEST_NAME].rstrip("-._")
    except (KeyError, OSError, InvalidName):  # a container may run a user id that has no name
        return "owner"


def _lines(home: Home, owner: str, token: str) -> list[str]:
    is_default = home.path == Path(DEFAULT_HOME).expanduser()
    first = [] if is_default else [f"  export KBGIT_HOME={home.path}"]
    return [
        f"{home.path} is a kbgit home, owned by {owner}.",
        f"The owner's token, also in {home.owner_token_file.name} there: {token}",
        "",
        "Next:",
        *first,
        "  kbgit base import --from DIRECTORY-OR-REPOSITORY",
        '  kbgit search "…"',
        "  kbgit serve",
    ]
