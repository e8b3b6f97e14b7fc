"""Users, spaces, members, tokens and the audit log, for those who may.

Rules beyond the roles: an administrator of the home manages users and teams and sees no space through that; whoever manages
a space's members is an owner or admin of it, and only owners make owners; everybody may leave a team; a token never gives
more, nor for longer, than the token that made it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from kbgit.access import ACTION_SCOPE, HOME, TEAM, Action, Decision, Principal, Role, Scope, Target, decide
from kbgit.accounts import Accounts, AuditEntry, Token
from kbgit.errors import Forbidden, InvalidRequest, NotFound, SpaceNotFound
from kbgit.library.rights import require, require_scope
from kbgit.revision import rfc3339

_MOST = 200


@dataclass(frozen=True, slots=True)
class SpaceView:
    """A space and the caller's role in it (None: they only administer the home)."""

    key: str
    role: Role | None

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"space": self.key, "role": self.role.value if self.role else None}


@dataclass(frozen=True, slots=True)
class AuditPage:
    """A page of the audit log, newest first; `cursor` asks for the next, None at the end."""

    entries: list[AuditEntry]
    cursor: str | None

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"type": "audit", "entries": [entry.as_json() for entry in self.entries], "cursor": self.cursor}


def token_json(token: Token) -> dict[str, Any]:
    """A token as listings show it: everything but its secret, which nobody has any more."""
    return {
        "id": token.id,
        "user": token.user,
        "name": token.name,
        "scopes": sorted(scope.value for scope in token.scopes),
        "bases": sorted(token.bases) if token.bases is not None else None,
        "profile": token.profile,
        "created_at": rfc3339(token.created_at),
        "expires_at": rfc3339(token.expires_at) if token.expires_at is not None else None,
        "revoked_at": rfc3339(token.revoked_at) if token.revoked_at is not None else None,
        "used_at": rfc3339(token.used_at) if token.used_at is not None else None,
    }


class People:
    """Administration of who may do what. Everything raises `Forbidden` with the rule, or says that there is no such thing."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    # Users

    def users(self, caller: Principal) -> list[str]:
        """Every user, for an administrator of the home."""
        require(caller, Action.ADMINISTER_HOME, HOME)
        return self._accounts.users()

    def add_user(self, caller: Principal, name: str, *, administrator: bool = False) -> None:
        """A new user with a personal space. Raises `AlreadyExists`, `InvalidName`."""
        require(caller, Action.ADMINISTER_HOME, HOME)
        self._accounts.add_user(name, caller.user, administrator=administrator)

    def remove_user(self, caller: Principal, name: str) -> None:
        """Close a user's account. Raises `Conflict` for the last owner of a team, `NotFound`."""
        require(caller, Action.ADMINISTER_HOME, HOME)
        if name == caller.user and not caller.operator:
            raise InvalidRequest("nobody removes themselves; ask another administrator")
        self._accounts.remove_user(name, caller.user)

    # Spaces and members

    def roles(self, caller: Principal) -> dict[str, Role]:
        """Space → the caller's role there; with a token limited to bases, only the spaces of those."""
        if caller.bases is None:
            return dict(caller.roles)
        reached = {base.rpartition("/")[0] for base in caller.bases}
        return {space: role for space, role in caller.roles.items() if space in reached}

    def spaces(self, caller: Principal) -> list[SpaceView]:
        """The spaces the caller is a member of; for an administrator of the home, every team as well."""
        listed = {key: SpaceView(key, role) for key, role in self.roles(caller).items()}
        if decide(caller, Action.ADMINISTER_HOME, HOME):
            for key in self._accounts.spaces():
                if key.startswith(TEAM) or caller.operator:
                    listed.setdefault(key, SpaceView(key, None))
        return [listed[key] for key in sorted(listed)]

    def create_team(self, caller: Principal, name: str, owner: str | None = None) -> str:
        """A new team space, owned by `owner` (default: the caller). Its key. Raises `AlreadyExists`, `NotFound`."""
        require(caller, Action.ADMINISTER_HOME, HOME)
        return self._accounts.add_team(name, owner or caller.user, caller.user)

    def members(self, caller: Principal, space: str) -> list[tuple[str, Role]]:
        """Members of a space, for its members and those who administer the home. Raises `SpaceNotFound`."""
        self._require_seen(caller, space)
        return self._accounts.members(space)

    def set_member(self, caller: Principal, space: str, user: str, role: Role) -> None:
        """Give `user` a role. Raises `Conflict` for the last owner, `NotFound`."""
        self._require_manager(caller, space, {role} | self._role_of(space, user))
        self._accounts.set_member(space, user, role, caller.user)

    def remove_member(self, caller: Principal, space: str, user: str) -> None:
        """Take `user` out of a team; everybody may leave by themselves. Raises `Conflict` for the last owner, `NotFound`."""
        is_leaving = user == caller.user and space in caller.roles and caller.bases is None
        if is_leaving:
            require_scope(caller, ACTION_SCOPE[Action.MANAGE_MEMBERS])
        else:
            self._require_manager(caller, space, self._role_of(space, user))
        self._accounts.remove_member(space, user, caller.user)

    def _role_of(self, space: str, user: str) -> set[Role]:
        return {role for name, role in self._accounts.members(space) if name == user}

    def _require_seen(self, caller: Principal, space: str) -> None:
        target = Target(space)
        is_seen = decide(caller, Action.READ_PUBLISHED, target) or decide(caller, Action.MANAGE_MEMBERS, target)
        is_administered = space.startswith(TEAM) and bool(decide(caller, Action.ADMINISTER_HOME, HOME))
        if not (is_seen or is_administered):
            require_scope(caller, Scope.KNOWLEDGE_READ)
            raise SpaceNotFound(f"there is no space {space[:200]!r}", {"space": space[:200]})
        self._accounts.require_space(space)

    def _require_manager(self, caller: Principal, space: str, touched: Collection[Role]) -> None:
        self._require_seen(caller, space)
        is_home_matter = space.startswith(TEAM) and bool(decide(caller, Action.ADMINISTER_HOME, HOME))
        if not is_home_matter:
            require(caller, Action.MANAGE_MEMBERS, Target(space))
        is_owner = caller.operator or caller.roles.get(space) is Role.OWNER
        if Role.OWNER in touched and not is_owner and not is_home_matter:
            rule = "only owners make, change or remove owners"
            raise Forbidden(rule, {"rule": rule})

    # Tokens

    def tokens(self, caller: Principal, user: str | None = None) -> list[Token]:
        """The caller's tokens; for an administrator also those of `user`, for an operator everybody's. Raises `NotFound`."""
        if user is not None and user != caller.user:
            require(caller, Action.ADMINISTER_HOME, HOME)
            self._accounts.require_user(user)
        return self._accounts.tokens(user if caller.operator else user or caller.user)

    def create_token(
        self,
        caller: Principal,
        *,
        name: str,
        scopes: Collection[Scope],
        user: str | None = None,
        bases: Collection[str] | None = None,
        profile: str | None = None,
        expires_at: int | None = None,
    ) -> tuple[Token, str]:
        """A token for the caller (an operator: for anybody) that gives at most what the present one gives; its text."""
        owner = user or caller.user
        if not caller.operator:
            if owner != caller.user:
                raise Forbidden("a token is made by the user it is for", {"rule": "nobody signs in as somebody else"})
            beyond = set(scopes) - caller.scopes
            if beyond:
                rule = "a token gives no scope that the token making it lacks"
                raise Forbidden(f"{rule}: {', '.join(sorted(beyond))}", {"rule": rule, "scopes": sorted(beyond)})
            if caller.bases is not None and (bases is None or not set(bases) <= caller.bases):
                rule = "a token limited to bases makes only tokens limited to those"
                raise Forbidden(rule, {"rule": rule})
            if caller.profile is not None and profile != caller.profile:
                rule = "a token of a client profile makes only tokens of that profile"
                raise Forbidden(rule, {"rule": rule})
            end = self._accounts.token(caller.token_id).expires_at if caller.token_id else None
            if end is not None and (expires_at is None or expires_at > end):
                rule = "a token that expires makes only tokens that expire no later"
                raise Forbidden(rule, {"rule": rule, "expires_at": rfc3339(end)})
        return self._accounts.add_token(
            owner, name, scopes, caller.user, bases=bases, profile=profile, expires_at=expires_at
        )

    def revoke_token(self, caller: Principal, token_id: str) -> Token:
        """End a token of the caller's; an administrator ends anybody's. What it is now. Raises `NotFound`."""
        token = self._accounts.token(token_id)
        if token.user != caller.user and not decide(caller, Action.ADMINISTER_HOME, HOME):
            raise NotFound(f"there is no token {token_id[:100]!r}")
        self._accounts.revoke_token(token_id, caller.user)
        return self._accounts.token(token_id)

    # Audit

    def audit(
        self, caller: Principal, *, space: str | None = None, cursor: str | None = None, limit: int = 50
    ) -> AuditPage:
        """The log, newest first: events of the spaces whose members the caller manages, and of the home for those who
        administer it."""
        if not 1 <= limit <= _MOST:
            raise InvalidRequest(f"field `limit` must be a whole number from 1 to {_MOST}", {"field": "limit"})
        if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
            raise InvalidRequest("field `cursor` is none that an earlier page gave", {"field": "cursor"})
        is_home = bool(decide(caller, Action.ADMINISTER_HOME, HOME))
        spaces = self._audited(caller, is_home)
        if space is not None:
            if spaces is not None and space not in spaces:
                raise SpaceNotFound(f"there is no space {space[:200]!r}", {"space": space[:200]})
            self._accounts.require_space(space)
            spaces, is_home = {space}, False
        if spaces is not None and not spaces and not is_home:
            raise Forbidden("the audit log is for those who manage members or the home", {"rule": "owner or admin"})
        before = int(cursor) if cursor is not None else None
        entries = self._accounts.audit(spaces, home=is_home, before=before, limit=limit + 1)
        return AuditPage(entries[:limit], str(entries[limit - 1].number) if len(entries) > limit else None)

    def _audited(self, caller: Principal, is_home: bool) -> set[str] | None:
        if caller.operator:
            return None
        managed = {space for space in caller.roles if decide(caller, Action.MANAGE_MEMBERS, Target(space))}
        if is_home:
            managed |= {space for space in self._accounts.spaces() if space.startswith(TEAM)}
        return managed

    def explain(self, caller: Principal, user: str, action: Action, target: Target) -> Decision:
        """Whether `user`, with every scope, may do `action` on `target`, and by which rule: for whoever manages the space."""
        if user != caller.user:
            if action is Action.ADMINISTER_HOME:
                require(caller, action, HOME)
            else:
                self._require_manager(caller, target.space, ())
        return decide(self._accounts.principal(user), action, target)
