"""Who may do what with memory: `kbgit.access.decide`, and whose a record is. What a caller may not see is not there."""

from __future__ import annotations

from dataclasses import replace

from kbgit.access import ACTION_SCOPE, Action, Principal, Role, Scope, Target, decide, personal_space
from kbgit.errors import Forbidden, SpaceNotFound
from kbgit.memory.records import MemoryRecord


def may(caller: Principal, action: Action, space: str) -> bool:
    """Whether the caller may do `action` in `space`."""
    return bool(decide(caller, action, Target(space)))


def require_scope(caller: Principal, action: Action) -> None:
    """Raises `Forbidden` when the token lacks the scope, whatever the space: so it tells nothing about any."""
    scope = ACTION_SCOPE[action]
    if not caller.operator and scope not in caller.scopes:
        raise Forbidden(
            f"the token lacks the scope {scope}", {"rule": f"the token lacks the scope {scope}", "scope": scope}
        )


def require(caller: Principal, action: Action, space: str) -> None:
    """Raises unless the caller may do `action` in `space`; one they may not see is not there."""
    require_scope(caller, action)
    decision = decide(caller, action, Target(space))
    if decision:
        return
    if may(replace(caller, scopes=frozenset(Scope)), Action.READ_MEMORY, space):
        raise Forbidden(f"this needs the right to {action}: {decision.rule}", {"rule": decision.rule})
    raise SpaceNotFound(f"there is no space {space[:200]!r}", {"space": space[:200]})


def may_forget(caller: Principal, space: str, record: MemoryRecord | None) -> bool:
    """Beyond the right to write: whose record it is."""
    if caller.operator or space == personal_space(caller.user):
        return True
    is_own = record is not None and record.author == caller.user
    return is_own or caller.roles.get(space) in (Role.OWNER, Role.ADMIN)
