"""Refusals with their reason: the rule that decided and, where it is the token that falls short, the scope it lacks."""

from __future__ import annotations

from kbgit.access import ACTION_SCOPE, Action, Principal, Scope, Target, decide
from kbgit.errors import Forbidden


def require(caller: Principal, action: Action, target: Target) -> None:
    """Raises `Forbidden` unless the caller may. Only for what the caller may know to be there."""
    decision = decide(caller, action, target)
    if not decision:
        scope = ACTION_SCOPE[action]
        lacking = {} if scope in caller.scopes else {"scope": scope.value}
        raise Forbidden(f"this needs the right to {action}: {decision.rule}", {"rule": decision.rule, **lacking})


def require_scope(caller: Principal, scope: Scope) -> None:
    """Raises `Forbidden` unless the caller's token has the scope, which says nothing about what there is."""
    if not caller.operator and scope not in caller.scopes:
        rule = f"the token lacks the scope {scope}"
        raise Forbidden(rule, {"rule": rule, "scope": scope.value})
