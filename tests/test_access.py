"""`decide`, over every role, scope, action and kind of space."""

from __future__ import annotations

import itertools

import pytest

from kbgit.access import (
    ACTION_SCOPE,
    HOME,
    ROLE_ACTIONS,
    Action,
    Principal,
    Role,
    Scope,
    Target,
    decide,
    personal_space,
)

TEAM = "team:platform"
# What concerns no space is no role's to give.
SPACE_ACTIONS = set(Action) - {Action.ADMINISTER_HOME}
# The specification's table of roles (7), written out a second time: every cell that is allowed.
ALLOWED = {
    Role.OWNER: SPACE_ACTIONS,
    Role.ADMIN: SPACE_ACTIONS,
    Role.MEMBER: SPACE_ACTIONS - {Action.DELETE_ITEMS, Action.ADMINISTER_BASE, Action.MANAGE_MEMBERS},
    Role.VIEWER: {Action.READ_PUBLISHED, Action.READ_MEMORY},
}
NEEDS = {
    Action.READ_PUBLISHED: "knowledge:read",
    Action.READ_DRAFTS: "item:write",
    Action.FETCH: "item:write",
    Action.WRITE_ITEMS: "item:write",
    Action.DELETE_ITEMS: "base:admin",
    Action.ADMINISTER_BASE: "base:admin",
    Action.MANAGE_MEMBERS: "base:admin",
    Action.READ_MEMORY: "memory:read",
    Action.WRITE_MEMORY: "memory:write",
}
CELLS = list(itertools.product([*Role, None], sorted(SPACE_ACTIONS)))


def test_the_tables_are_total() -> None:
    assert set(ROLE_ACTIONS) == set(Role) == set(ALLOWED)
    assert set(NEEDS) == SPACE_ACTIONS
    assert set(ACTION_SCOPE) == set(Action)


@pytest.mark.parametrize(("role", "action"), CELLS)
def test_a_team_grants_what_the_role_includes_and_the_scope_allows(role: Role | None, action: Action) -> None:
    roles = {TEAM: role} if role else {}
    for scope in Scope:
        decision = decide(Principal("max", roles, frozenset({scope})), action, Target(TEAM, f"{TEAM}/notes"))
        expected = role is not None and action in ALLOWED[role] and NEEDS[action] == scope
        assert decision.allowed is bool(decision) is expected
        assert decision.rule


@pytest.mark.parametrize(("role", "action"), CELLS)
def test_a_personal_space_is_for_its_owner_whatever_role_is_on_record(role: Role | None, action: Action) -> None:
    space = personal_space("ada")
    roles = {space: role} if role else {}
    assert not decide(Principal("max", roles), action, Target(space, f"{space}/notes"))
    assert bool(decide(Principal("ada", {space: Role.OWNER}), action, Target(space)))


@pytest.mark.parametrize("action", Action)
def test_nobody_may_do_nothing(action: Action) -> None:
    assert not decide(None, action, Target(TEAM))


@pytest.mark.parametrize("action", Action)
def test_an_operator_may_do_everything_everywhere(action: Action) -> None:
    operator = Principal("root", scopes=frozenset(), bases=frozenset(), operator=True)
    assert decide(operator, action, Target(personal_space("ada"), "personal:ada/notes"))


@pytest.mark.parametrize(("role", "action"), list(itertools.product(Role, sorted(SPACE_ACTIONS))))
def test_a_token_limited_to_bases_opens_no_other_base_and_no_space(role: Role, action: Action) -> None:
    principal = Principal("max", {TEAM: role}, bases=frozenset({f"{TEAM}/one"}))
    assert bool(decide(principal, action, Target(TEAM, f"{TEAM}/one"))) is (action in ALLOWED[role])
    assert not decide(principal, action, Target(TEAM, f"{TEAM}/two"))
    assert not decide(principal, action, Target(TEAM))


def test_the_home_is_for_its_administrators_and_opens_no_space() -> None:
    roles = {TEAM: Role.OWNER}
    assert not decide(Principal("max", roles), Action.ADMINISTER_HOME, HOME)
    chief = Principal("root", administrator=True)
    assert decide(chief, Action.ADMINISTER_HOME, HOME)
    assert not decide(
        Principal("root", scopes=frozenset({Scope.ITEM_WRITE}), administrator=True), Action.ADMINISTER_HOME, HOME
    )
    assert not decide(
        Principal("root", bases=frozenset({f"{TEAM}/one"}), administrator=True), Action.ADMINISTER_HOME, HOME
    )
    for action in SPACE_ACTIONS:
        assert not decide(chief, action, Target(TEAM))
        assert not decide(chief, action, Target(personal_space("ada")))


def test_a_role_counts_only_in_its_own_space() -> None:
    assert not decide(Principal("max", {"team:other": Role.OWNER}), Action.READ_PUBLISHED, Target(TEAM))


def test_a_space_of_an_unknown_kind_is_denied() -> None:
    assert not decide(Principal("max"), Action.READ_PUBLISHED, Target("world:all"))


def test_a_refusal_names_the_rule_that_decided() -> None:
    base = Target(TEAM, f"{TEAM}/notes")
    rules = [
        decide(None, Action.FETCH, base).rule,
        decide(Principal("max", scopes=frozenset()), Action.FETCH, base).rule,
        decide(Principal("max", bases=frozenset()), Action.FETCH, base).rule,
        decide(Principal("max"), Action.FETCH, Target("personal:ada")).rule,
        decide(Principal("max"), Action.FETCH, base).rule,
        decide(Principal("max", {TEAM: Role.VIEWER}), Action.FETCH, base).rule,
    ]
    assert len(set(rules)) == len(rules)
    assert "item:write" in rules[1]
    assert "viewer" in rules[5]
