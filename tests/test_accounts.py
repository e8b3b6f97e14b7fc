"""Accounts: users, spaces, members, tokens, audit."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kbgit.access import Role, Scope
from kbgit.accounts import Accounts
from kbgit.errors import (
    AlreadyExists,
    Conflict,
    InvalidName,
    InvalidRequest,
    NotFound,
    SpaceNotFound,
    StoreTooNew,
    Unauthenticated,
)


@dataclass
class Clock:
    """A time that tests set."""

    now: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Office:
    """Accounts with ada, who owns the platform team, and max, who is in no team."""

    accounts: Accounts
    path: Path
    clock: Clock = field(default_factory=Clock)

    def events(self) -> list[str]:
        connection = sqlite3.connect(self.path)
        rows = connection.execute("SELECT event FROM audit ORDER BY number").fetchall()
        connection.close()
        return [row[0] for row in rows]


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    clock = Clock()
    accounts = Accounts(tmp_path / "accounts.sqlite", clock)
    accounts.add_user("ada", "test")
    accounts.add_user("max", "test")
    accounts.add_team("platform", "ada", "test")
    yield Office(accounts, tmp_path / "accounts.sqlite", clock)
    accounts.close()


def test_a_user_owns_a_personal_space_and_what_they_found(office: Office) -> None:
    assert office.accounts.users() == ["ada", "max"]
    assert office.accounts.spaces() == ["personal:ada", "personal:max", "team:platform"]
    assert office.accounts.roles("ada") == {"personal:ada": Role.OWNER, "team:platform": Role.OWNER}
    assert office.accounts.roles("nobody") == {}


def test_a_name_is_given_once_and_must_be_one(office: Office) -> None:
    with pytest.raises(AlreadyExists):
        office.accounts.add_user("ada", "test")
    with pytest.raises(AlreadyExists):
        office.accounts.add_team("platform", "max", "test")
    with pytest.raises(InvalidName):
        office.accounts.add_user("../ada", "test")
    with pytest.raises(InvalidName):
        office.accounts.add_team("Plat form", "ada", "test")
    with pytest.raises(NotFound):
        office.accounts.add_team("other", "nobody", "test")
    assert office.accounts.spaces() == ["personal:ada", "personal:max", "team:platform"]


@pytest.mark.parametrize("role", Role)
def test_a_member_gets_a_role_and_another_one_later(office: Office, role: Role) -> None:
    office.accounts.set_member("team:platform", "max", Role.VIEWER, "ada")
    office.accounts.set_member("team:platform", "max", role, "ada")
    assert office.accounts.roles("max")["team:platform"] is role


def test_membership_needs_a_user_a_team_and_no_personal_space(office: Office) -> None:
    with pytest.raises(NotFound):
        office.accounts.set_member("team:platform", "nobody", Role.MEMBER, "ada")
    with pytest.raises(SpaceNotFound):
        office.accounts.set_member("team:other", "max", Role.MEMBER, "ada")
    with pytest.raises(InvalidRequest):
        office.accounts.set_member("personal:ada", "max", Role.OWNER, "ada")


def test_the_last_owner_of_a_space_cannot_be_made_less(office: Office) -> None:
    office.accounts.set_member("team:platform", "max", Role.ADMIN, "ada")
    with pytest.raises(Conflict, match="last owner"):
        office.accounts.set_member("team:platform", "ada", Role.ADMIN, "ada")
    assert office.accounts.roles("ada")["team:platform"] is Role.OWNER
    office.accounts.set_member("team:platform", "max", Role.OWNER, "ada")
    office.accounts.set_member("team:platform", "ada", Role.VIEWER, "max")
    assert office.accounts.roles("ada")["team:platform"] is Role.VIEWER


def test_a_token_gives_its_holder_roles_and_its_own_limits(office: Office) -> None:
    scopes = {Scope.KNOWLEDGE_READ, Scope.ITEM_WRITE}
    token, text = office.accounts.add_token(
        "ada",
        "laptop",
        scopes,
        "ada",
        bases=["team:platform/runbooks"],
        profile="cursor-plugin",
        expires_at=1_900_000_000,
    )
    principal = office.accounts.authenticate(text)
    assert principal.user == "ada"
    assert principal.roles == office.accounts.roles("ada")
    assert principal.scopes == scopes
    assert principal.bases == frozenset({"team:platform/runbooks"})
    assert (principal.profile, principal.token_id, principal.operator) == ("cursor-plugin", token.id, False)
    unlimited, text = office.accounts.add_token("ada", "all", set(Scope), "ada")
    assert office.accounts.authenticate(text).bases is None
    assert {found.id for found in office.accounts.tokens("ada")} == {token.id, unlimited.id}
    assert office.accounts.tokens("max") == []


def test_a_token_limited_to_no_base_is_limited(office: Office) -> None:
    _, text = office.accounts.add_token("ada", "none", set(Scope), "ada", bases=[])
    assert office.accounts.authenticate(text).bases == frozenset()


def test_a_token_needs_a_scope_and_a_user(office: Office) -> None:
    with pytest.raises(InvalidRequest):
        office.accounts.add_token("ada", "laptop", [], "ada")
    with pytest.raises(NotFound):
        office.accounts.add_token("nobody", "laptop", set(Scope), "ada")


def test_a_secret_is_stored_nowhere(office: Office) -> None:
    _, text = office.accounts.add_token("ada", "laptop", set(Scope), "ada")
    office.accounts.authenticate(text)
    secret = text.rpartition("_")[2] if text.count("_") == 2 else text.split("_", 2)[2]
    stored = b"".join(path.read_bytes() for path in office.path.parent.glob("accounts.sqlite*"))
    assert secret.encode() not in stored
    assert text.encode() not in stored


def test_whatever_is_wrong_with_a_token_the_answer_is_the_same(office: Office) -> None:
    good, text = office.accounts.add_token("ada", "good", set(Scope), "ada")
    other, other_text = office.accounts.add_token("max", "other", set(Scope), "ada")
    _, expired_text = office.accounts.add_token("ada", "expired", set(Scope), "ada", expires_at=int(office.clock.now))
    revoked, revoked_text = office.accounts.add_token("ada", "revoked", set(Scope), "ada")
    office.accounts.revoke_token(revoked.id, "ada")
    secret, other_secret = text.split("_", 2)[2], other_text.split("_", 2)[2]
    wrong = [
        "",
        "x",
        "kbgit_",
        text + "x",
        text[:-1],
        text.upper(),
        f" {text}",
        f"{text}\n",
        f"kbgit_{'0' * 12}_{secret}",
        f"kbgit_{good.id}_{other_secret}",
        f"kbgit_{other.id}_{secret}",
        f"kbgit_{good.id}_{'A' * 43}",
        f"kbgit_{good.id}_{'é' * 43}",
        expired_text,
        revoked_text,
    ]
    answers = set()
    for attempt in wrong:
        with pytest.raises(Unauthenticated) as caught:
            office.accounts.authenticate(attempt)
        answers.add(str(caught.value.as_json()))
    assert len(answers) == 1
    assert office.accounts.authenticate(text).user == "ada"


def test_a_token_ends_at_its_time_and_not_before(office: Office) -> None:
    end = int(office.clock.now) + 100
    _, text = office.accounts.add_token("ada", "short", set(Scope), "ada", expires_at=end)
    office.clock.now = end - 1
    assert office.accounts.authenticate(text)
    office.clock.now = end
    with pytest.raises(Unauthenticated):
        office.accounts.authenticate(text)


def test_revoking_works_at_once_in_every_process_and_keeps_its_first_time(office: Office) -> None:
    token, text = office.accounts.add_token("ada", "laptop", set(Scope), "ada")
    elsewhere = Accounts(office.path, office.clock)
    assert elsewhere.authenticate(text)
    office.accounts.revoke_token(token.id, "ada")
    with pytest.raises(Unauthenticated):
        elsewhere.authenticate(text)
    elsewhere.close()
    first = office.clock.now
    office.clock.now += 50
    office.accounts.revoke_token(token.id, "ada")
    assert office.accounts.token(token.id).revoked_at == int(first)
    with pytest.raises(NotFound):
        office.accounts.revoke_token("0" * 12, "ada")


def test_the_last_use_is_kept_to_the_minute(office: Office) -> None:
    token, text = office.accounts.add_token("ada", "laptop", set(Scope), "ada")
    assert office.accounts.token(token.id).used_at is None
    start = office.clock.now
    seen = []
    for later in (0, 30, 60):
        office.clock.now = start + later
        office.accounts.authenticate(text)
        seen.append(office.accounts.token(token.id).used_at)
    assert seen == [start, start, start + 60]


def test_a_change_and_its_audit_line_are_there_together_or_not_at_all(office: Office) -> None:
    before = office.events()
    assert before == ["user_added", "user_added", "space_added"]
    token, _ = office.accounts.add_token("ada", "laptop", set(Scope), "ada")
    office.accounts.set_member("team:platform", "max", Role.MEMBER, "ada")
    office.accounts.revoke_token(token.id, "ada")
    office.accounts.record("ada", "base_archived", {"base": "team:platform/runbooks"})
    assert office.events()[3:] == ["token_added", "member_set", "token_revoked", "base_archived"]
    connection = sqlite3.connect(office.path)
    connection.execute("CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'disk full'); END")
    connection.close()
    changes: list[Callable[[], object]] = [
        lambda: office.accounts.add_user("eve", "ada"),
        lambda: office.accounts.add_team("other", "ada", "ada"),
        lambda: office.accounts.set_member("team:platform", "max", Role.OWNER, "ada"),
        lambda: office.accounts.add_token("max", "x", set(Scope), "ada"),
    ]
    for change in changes:
        with pytest.raises(sqlite3.IntegrityError):
            change()
    assert office.accounts.users() == ["ada", "max"]
    assert "team:other" not in office.accounts.spaces()
    assert office.accounts.roles("max")["team:platform"] is Role.MEMBER
    assert office.accounts.tokens("max") == []


def test_tokens_are_all_different(office: Office) -> None:
    texts = [office.accounts.add_token("ada", str(n), set(Scope), "ada")[1] for n in range(20)]
    parts = list(itertools.chain.from_iterable(text.split("_", 2)[1:] for text in texts))
    assert len(set(parts)) == 40


# Sessions


def test_a_session_has_the_rights_that_its_token_has_now(office: Office) -> None:
    token, text = office.accounts.add_token("max", "page", {Scope.KNOWLEDGE_READ}, "test", bases=["team:platform/a"])
    assert office.accounts.principal_of(token.id) == office.accounts.authenticate(text)
    office.accounts.set_member("team:platform", "max", Role.VIEWER, "test")
    now = office.accounts.principal_of(token.id)
    assert now.roles["team:platform"] is Role.VIEWER
    assert now == office.accounts.authenticate(text)


@pytest.mark.parametrize("how", ["revoked", "expired", "removed"])
def test_a_token_that_has_ended_is_worth_nothing_to_a_session_and_no_attempt(how: str, office: Office) -> None:
    token, _ = office.accounts.add_token("max", "page", {Scope.KNOWLEDGE_READ}, "test", expires_at=1_800_000_060)
    assert office.accounts.principal_of(token.id).user == "max"
    if how == "revoked":
        office.accounts.revoke_token(token.id, "test")
    elif how == "expired":
        office.clock.now += 60
    else:
        office.accounts.remove_user("max", "test")
    with pytest.raises(Unauthenticated):
        office.accounts.principal_of(token.id)
    assert "token_refused" not in office.events()


def test_an_unknown_token_is_worth_nothing_to_a_session(office: Office) -> None:
    with pytest.raises(Unauthenticated):
        office.accounts.principal_of("0" * 12)


# Versions

_FIRST_VERSION = """
CREATE TABLE users (
    name TEXT PRIMARY KEY, administrator INTEGER NOT NULL, created_at INTEGER NOT NULL, removed_at INTEGER
) STRICT;
CREATE TABLE spaces (key TEXT PRIMARY KEY, created_at INTEGER NOT NULL) STRICT;
CREATE TABLE members (
    space TEXT NOT NULL REFERENCES spaces ON DELETE CASCADE, user TEXT NOT NULL REFERENCES users ON DELETE CASCADE,
    role TEXT NOT NULL, PRIMARY KEY (space, user)
) STRICT, WITHOUT ROWID;
CREATE TABLE tokens (
    id TEXT PRIMARY KEY, user TEXT NOT NULL REFERENCES users ON DELETE CASCADE, name TEXT NOT NULL, hash TEXT NOT NULL,
    scopes TEXT NOT NULL, bases TEXT, profile TEXT, created_at INTEGER NOT NULL, expires_at INTEGER, revoked_at INTEGER,
    used_at INTEGER
) STRICT;
CREATE TABLE audit (
    number INTEGER PRIMARY KEY, at INTEGER NOT NULL, actor TEXT NOT NULL, event TEXT NOT NULL, space TEXT,
    details TEXT NOT NULL
) STRICT;
INSERT INTO users VALUES ('ada', 1, 1700000000, NULL);
INSERT INTO spaces VALUES ('personal:ada', 1700000000);
INSERT INTO members VALUES ('personal:ada', 'ada', 'owner');
INSERT INTO tokens VALUES (
    '0123456789ab', 'ada', 'laptop', '9f8a3e41d2aa0ae22a2b8f6a4b7d03f8b4c7a0cbd6df1d0b5e5b1c1b2f1c6d4e',
    'knowledge:read item:write', NULL, NULL, 1700000000, NULL, NULL, NULL
);
INSERT INTO audit VALUES (1, 1700000000, 'init', 'user_added', 'personal:ada', '{"user": "ada"}');
"""
"""The accounts as the first version wrote them. It does not change: files like this are out there."""


def first_version_file(path: Path, version: int = 1) -> Path:
    connection = sqlite3.connect(path)
    connection.executescript(_FIRST_VERSION + f"PRAGMA user_version = {version};\n")
    connection.close()
    return path


def test_accounts_of_the_first_version_are_read_by_this_one(tmp_path: Path) -> None:
    accounts = Accounts(first_version_file(tmp_path / "accounts.sqlite"))
    try:
        assert accounts.users() == ["ada"]
        assert accounts.roles("ada") == {"personal:ada": Role.OWNER}
        (token,) = accounts.tokens("ada")
        assert (token.name, token.scopes) == ("laptop", frozenset({Scope.KNOWLEDGE_READ, Scope.ITEM_WRITE}))
        accounts.add_user("max", "test")
        assert accounts.users() == ["ada", "max"]
    finally:
        accounts.close()


def test_accounts_of_a_later_version_are_refused_and_left_as_they_are(tmp_path: Path) -> None:
    path = first_version_file(tmp_path / "accounts.sqlite", version=99)
    before = path.read_bytes()
    with pytest.raises(StoreTooNew, match="version 99"):
        Accounts(path)
    assert path.read_bytes()[100:] == before[100:]
