"""The home of a session, and who owns it."""

from __future__ import annotations

from collections.abc import Mapping

from kbgit import config
from kbgit.accounts import Accounts
from kbgit.cli.session import Session
from kbgit.errors import HomeProblem, Unauthenticated
from kbgit.home import Home


def home_of(session: Session, overlay: Mapping[str, object] | None = None) -> Home:
    """The home, `overlay` over the environment over its file. Raises `HomeProblem`, `InvalidSetting`."""
    return Home.at(session.home_path, {**config.from_environment(session.environment), **(overlay or {})})


def owner_of(home: Home, accounts: Accounts) -> str:
    """The user who owns the home: the holder of its owner token, else its only user. Raises `HomeProblem`."""
    if home.owner_token_file.is_file():
        try:
            return accounts.authenticate(home.owner_token_file.read_text().strip()).user
        except Unauthenticated:
            pass  # revoked or replaced: then it says nothing about the owner
    users = accounts.users()
    if len(users) == 1:
        return users[0]
    raise HomeProblem(
        f"{home.owner_token_file} holds no valid token, so the owner is unknown; "
        "write a token of the owner there (`kbgit token create --user NAME` makes one)"
    )
