"""The accounts of a home, administered by its operator: whoever holds the data directory."""

from __future__ import annotations

from datetime import datetime

from kbgit.access import Action, Principal, Role, Scope, Target
from kbgit.accounts import Accounts
from kbgit.cli.homes import owner_of
from kbgit.cli.http_client import Json
from kbgit.home import Home
from kbgit.library import People, token_json


class OperatorAccounts:
    """Every role and every scope, in the name of the home's owner. Answers are the API's."""

    def __init__(self, accounts: Accounts, owner: str) -> None:
        self._accounts = accounts
        self._people = People(accounts)
        self._owner = owner
        self._operator = Principal(owner, operator=True)

    def __enter__(self) -> OperatorAccounts:
        return self

    def __exit__(self, *error: object) -> None:
        self._accounts.close()

    def me(self) -> Json:
        """As the API's."""
        return {"user": self._owner}

    def users(self) -> Json:
        """As the API's."""
        return {"users": self._people.users(self._operator)}

    def add_user(self, name: str, *, administrator: bool) -> Json:
        """As the API's."""
        self._people.add_user(self._operator, name, administrator=administrator)
        return {"name": name, "administrator": administrator}

    def remove_user(self, name: str) -> Json:
        """As the API's."""
        self._people.remove_user(self._operator, name)
        return {"name": name}

    def spaces(self) -> Json:
        """As the API's, with every space."""
        roles = self._accounts.roles(self._owner)
        views = self._people.spaces(self._operator)
        return {"spaces": [{**view.as_json(), "role": roles.get(view.key)} for view in views]}

    def create_team(self, name: str, owner: str | None) -> Json:
        """As the API's."""
        return {"space": self._people.create_team(self._operator, name, owner)}

    def members(self, space: str) -> Json:
        """As the API's."""
        rows = self._people.members(self._operator, space)
        return {"members": [{"user": user, "role": role.value} for user, role in rows]}

    def set_member(self, space: str, user: str, role: str) -> Json:
        """As the API's."""
        self._people.set_member(self._operator, space, user, Role(role))
        return {"space": space, "user": user, "role": role}

    def remove_member(self, space: str, user: str) -> Json:
        """As the API's."""
        self._people.remove_member(self._operator, space, user)
        return {"space": space, "user": user}

    def tokens(self, user: str | None) -> Json:
        """As the API's, of everybody unless `user` is given."""
        return {"tokens": [token_json(token) for token in self._people.tokens(self._operator, user)]}

    def create_token(self, body: Json) -> Json:
        """As the API's, for anybody."""
        made, text = self._people.create_token(
            self._operator,
            name=body["name"],
            scopes=[Scope(scope) for scope in body["scopes"]],
            user=body.get("user"),
            bases=body.get("bases"),
            profile=body.get("profile"),
            expires_at=_seconds(body.get("expires_at")),
        )
        return {**token_json(made), "token": text}

    def revoke_token(self, token_id: str) -> Json:
        """As the API's."""
        return token_json(self._people.revoke_token(self._operator, token_id))

    def audit(self, space: str | None, cursor: str | None, limit: int) -> Json:
        """As the API's."""
        return self._people.audit(self._operator, space=space, cursor=cursor, limit=limit).as_json()

    def explain(self, user: str, action: str, space: str, base: str | None) -> Json:
        """As the API's."""
        key = f"{space}/{base}" if base else None
        decision = self._people.explain(self._operator, user, Action(action), Target(space, key))
        return {"allowed": decision.allowed, "rule": decision.rule}


def _seconds(moment: str | None) -> int | None:
    return int(datetime.fromisoformat(moment).timestamp()) if moment is not None else None


def open_accounts(home: Home) -> OperatorAccounts:
    """Open the accounts of a home. Raises `HomeProblem` where nobody can be told to own it."""
    accounts = home.accounts()
    try:
        return OperatorAccounts(accounts, owner_of(home, accounts))
    except BaseException:
        accounts.close()
        raise
