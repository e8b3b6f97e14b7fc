"""Who may do what: one function, default deny, with the rule that decided.

Nothing here reads a store. Surfaces resolve a caller to a `Principal` and an object to a `Target`, ask `decide`, and
obey. Roles and scopes are those of the specification; a caller's rights are the intersection of both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType


class Role(StrEnum):
    """A member's role in a space."""

    OWNER = "owner"
    ADMIN = "admin"
    MEMBER = "member"
    VIEWER = "viewer"


class Scope(StrEnum):
    """What a token may be used for."""

    KNOWLEDGE_READ = "knowledge:read"
    ITEM_WRITE = "item:write"
    BASE_ADMIN = "base:admin"
    MEMORY_READ = "memory:read"
    MEMORY_WRITE = "memory:write"


class Action(StrEnum):
    """Everything that can be asked of `decide`."""

    READ_PUBLISHED = "read published knowledge"
    READ_DRAFTS = "read drafts and unpublished revisions"
    FETCH = "fetch by Git"
    WRITE_ITEMS = "create, edit and publish items"
    DELETE_ITEMS = "delete items"
    ADMINISTER_BASE = "create, change, archive, restore and delete bases"
    MANAGE_MEMBERS = "manage members of a space"
    READ_MEMORY = "read memory"
    WRITE_MEMORY = "write memory"
    ADMINISTER_HOME = "manage users and team spaces"


_EVERYTHING = frozenset(Action) - {Action.ADMINISTER_HOME}
_MEMBER = frozenset(
    {
        Action.READ_PUBLISHED,
        Action.READ_DRAFTS,
        Action.FETCH,
        Action.WRITE_ITEMS,
        Action.READ_MEMORY,
        Action.WRITE_MEMORY,
    }
)
ROLE_ACTIONS: Mapping[Role, frozenset[Action]] = MappingProxyType(
    {
        Role.OWNER: _EVERYTHING,
        Role.ADMIN: _EVERYTHING,
        Role.MEMBER: _MEMBER,
        Role.VIEWER: frozenset({Action.READ_PUBLISHED, Action.READ_MEMORY}),
    }
)
ACTION_SCOPE: Mapping[Action, Scope] = MappingProxyType(
    {
        Action.READ_PUBLISHED: Scope.KNOWLEDGE_READ,
        Action.READ_DRAFTS: Scope.ITEM_WRITE,
        Action.FETCH: Scope.ITEM_WRITE,
        Action.WRITE_ITEMS: Scope.ITEM_WRITE,
        Action.DELETE_ITEMS: Scope.BASE_ADMIN,
        Action.ADMINISTER_BASE: Scope.BASE_ADMIN,
        Action.MANAGE_MEMBERS: Scope.BASE_ADMIN,
        Action.READ_MEMORY: Scope.MEMORY_READ,
        Action.WRITE_MEMORY: Scope.MEMORY_WRITE,
        Action.ADMINISTER_HOME: Scope.BASE_ADMIN,
    }
)

PERSONAL = "personal:"
TEAM = "team:"


def personal_space(user: str) -> str:
    """The key of `user`'s personal space."""
    return PERSONAL + user


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller: a user, and what the credential they came with allows.

    `roles` maps space keys to the user's role there. `bases` limits the credential to those base keys (None: all).
    `administrator` may manage the home's users and team spaces, and sees no space through that. `operator` is someone with
    the data directory in their hands (CLI, local Git path): every role, every scope.
    """

    user: str
    roles: Mapping[str, Role] = field(default_factory=dict)
    scopes: frozenset[Scope] = frozenset(Scope)
    bases: frozenset[str] | None = None
    profile: str | None = None
    token_id: str | None = None
    administrator: bool = False
    operator: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """What is acted on: a space, and the key of a base in it where there is one."""

    space: str
    base: str | None = None


HOME = Target("")
"""The home as a whole, for what concerns no space."""


@dataclass(frozen=True, slots=True)
class Decision:
    """An answer of `decide`, with the rule that gave it, in words an operator understands."""

    allowed: bool
    rule: str

    def __bool__(self) -> bool:
        return self.allowed


def decide(principal: Principal | None, action: Action, target: Target) -> Decision:
    """Whether `principal` may do `action` on `target`. Whatever no rule allows is denied."""
    if principal is None:
        return Decision(False, "nobody is signed in")
    if principal.operator:
        return Decision(True, "operators hold the data directory itself")
    scope = ACTION_SCOPE[action]
    if scope not in principal.scopes:
        return Decision(False, f"the token lacks the scope {scope}")
    if action is Action.ADMINISTER_HOME:
        is_administrator = principal.administrator and principal.bases is None
        return Decision(is_administrator, f"{principal.user} is {'' if is_administrator else 'not '}an administrator")
    if principal.bases is not None and target.base not in principal.bases:
        return Decision(False, "the token is limited to other bases")
    if target.space.startswith(PERSONAL) and target.space != personal_space(principal.user):
        return Decision(False, "a personal space has one owner and nobody else")
    role = principal.roles.get(target.space)
    if role is None:
        return Decision(False, f"{principal.user} is not a member of {target.space}")
    if action not in ROLE_ACTIONS[role]:
        return Decision(False, f"the role {role} does not include: {action}")
    return Decision(True, f"role {role} in {target.space}, scope {scope}")
