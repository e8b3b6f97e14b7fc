"""Accounts: users, spaces, members, tokens and the audit log, in one SQLite file. Not derived: back it up."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from kbgit.access import TEAM, Principal, Role, Scope, personal_space
from kbgit.base import check_user_name
from kbgit.errors import AlreadyExists, Conflict, InvalidRequest, NotFound, SpaceNotFound, Unauthenticated
from kbgit.revision import rfc3339
from kbgit.sqlite import Database, Migration

VERSION = 1
MIGRATIONS: tuple[Migration, ...] = ()
"""From version 1 to VERSION, in order. Whoever changes the schema adds the step for the files that are there."""
_SCHEMA = """
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
"""
_TOKEN_AND_USER = "SELECT tokens.*, administrator, removed_at FROM tokens JOIN users ON users.name = user WHERE id = ?"
_TOKEN = re.compile(r"kbgit_(?P<id>[0-9a-f]{12})_(?P<secret>[A-Za-z0-9_-]{43})")
_USE_RESOLUTION_SECONDS = 60
_REFUSAL_SECONDS = 60
_NOBODY = "(nobody)"  # no user can be called so


@dataclass(frozen=True, slots=True)
class Token:
    """A credential as stored: never its secret, only the secret's SHA-256. Times are seconds since the epoch."""

    id: str
    user: str
    name: str
    scopes: frozenset[Scope]
    bases: frozenset[str] | None
    profile: str | None
    created_at: int
    expires_at: int | None
    revoked_at: int | None
    used_at: int | None


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A line of the audit log; `at` is in seconds since the epoch, `space` None where an event is about no space."""

    number: int
    at: int
    actor: str
    event: str
    space: str | None
    details: Mapping[str, object]

    def as_json(self) -> dict[str, object]:
        """JSON-ready."""
        return {
            "number": self.number,
            "at": rfc3339(self.at),
            "actor": self.actor,
            "event": self.event,
            "space": self.space,
            "details": dict(self.details),
        }


class Accounts:
    """The accounts of one home."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._database = Database(path, _SCHEMA, VERSION, MIGRATIONS)
        self._clock = clock
        self._refusals: dict[str | None, int] = {}
        self._refusals_lock = threading.Lock()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _now(self) -> int:
        return int(self._clock())

    # Users and spaces

    def add_user(self, name: str, actor: str, *, administrator: bool = False) -> None:
        """A new user with a personal space. Raises `InvalidName`, `AlreadyExists` (also for a name that was removed)."""
        check_user_name(name)
        space = personal_space(name)
        with self._database.transaction() as connection:
            known = connection.execute("SELECT removed_at FROM users WHERE name = ?", (name,)).fetchone()
            if known:
                # What a removed user left behind is theirs: nobody comes into it by taking the name.
                was = "was removed; take another name" if known["removed_at"] is not None else "is there already"
                raise AlreadyExists(f"a user {name!r} {was}")
            connection.execute(
                "INSERT INTO users (name, administrator, created_at) VALUES (?, ?, ?)",
                (name, administrator, self._now()),
            )
            connection.execute("INSERT OR IGNORE INTO spaces VALUES (?, ?)", (space, self._now()))
            connection.execute("INSERT OR REPLACE INTO members VALUES (?, ?, ?)", (space, name, Role.OWNER))
            self._record(connection, actor, "user_added", {"user": name})

    def add_team(self, name: str, owner: str, actor: str) -> str:
        """A new team space, owned by `owner`. Returns its key. Raises `InvalidName`, `AlreadyExists`, `NotFound`."""
        space = TEAM + check_user_name(name)
        with self._database.transaction() as connection:
            self.require_user(owner)
            if connection.execute("SELECT 1 FROM spaces WHERE key = ?", (space,)).fetchone():
                raise AlreadyExists(f"there is a space {space!r} already")
            connection.execute("INSERT INTO spaces VALUES (?, ?)", (space, self._now()))
            connection.execute("INSERT INTO members VALUES (?, ?, ?)", (space, owner, Role.OWNER))
            self._record(connection, actor, "space_added", {"space": space, "owner": owner})
        return space

    def require_user(self, name: str) -> None:
        """Raises `NotFound` unless `name` is a user."""
        sql = "SELECT 1 FROM users WHERE name = ? AND removed_at IS NULL"
        if not self._database.connection().execute(sql, (name,)).fetchone():
            raise NotFound(f"there is no user {name!r}")

    def require_space(self, key: str) -> None:
        """Raises `SpaceNotFound` unless `key` is a space."""
        if not self._database.connection().execute("SELECT 1 FROM spaces WHERE key = ?", (key,)).fetchone():
            raise SpaceNotFound(f"there is no space {key!r}", {"space": key})

    def users(self) -> list[str]:
        """Names of the users, in order."""
        sql = "SELECT name FROM users WHERE removed_at IS NULL ORDER BY name"
        return [row[0] for row in self._database.connection().execute(sql)]

    def spaces(self) -> list[str]:
        """Keys of the spaces, in order."""
        return [row[0] for row in self._database.connection().execute("SELECT key FROM spaces ORDER BY key")]

    def roles(self, user: str) -> dict[str, Role]:
        """Space key → the user's role there."""
        rows = self._database.connection().execute("SELECT space, role FROM members WHERE user = ?", (user,))
        return {row[0]: Role(row[1]) for row in rows}

    def set_member(self, space: str, user: str, role: Role, actor: str) -> None:
        """Give `user` a role in a space. Raises `NotFound`, `Conflict` for the last owner of a space."""
        with self._database.transaction() as connection:
            self.require_user(user)
            self._require_team(space)
            connection.execute("INSERT OR REPLACE INTO members VALUES (?, ?, ?)", (space, user, role))
            self._require_owner(connection, space, user)
            self._record(connection, actor, "member_set", {"space": space, "user": user, "role": role.value})

    def remove_member(self, space: str, user: str, actor: str) -> None:
        """Take `user` out of a team space. Raises `NotFound`, `Conflict` for its last owner."""
        self._require_team(space)
        with self._database.transaction() as connection:
            gone = connection.execute("DELETE FROM members WHERE space = ? AND user = ?", (space, user)).rowcount
            if not gone:
                raise NotFound(f"{user!r} is not a member of {space}")
            self._require_owner(connection, space, user)
            self._record(connection, actor, "member_removed", {"space": space, "user": user})

    def remove_user(self, name: str, actor: str) -> None:
        """From the next request on, the user has no token and no role. Their personal space stays, closed.

        Raises `NotFound`, `Conflict` for the last owner of a team.
        """
        with self._database.transaction() as connection:
            self.require_user(name)
            for space in self.roles(name):
                if space.startswith(TEAM):
                    connection.execute("DELETE FROM members WHERE space = ? AND user = ?", (space, name))
                    self._require_owner(connection, space, name)
            connection.execute("UPDATE users SET removed_at = ? WHERE name = ?", (self._now(), name))
            connection.execute(
                "UPDATE tokens SET revoked_at = coalesce(revoked_at, ?) WHERE user = ?", (self._now(), name)
            )
            self._record(connection, actor, "user_removed", {"user": name})

    def members(self, space: str) -> list[tuple[str, Role]]:
        """Users and roles of a space, by name."""
        sql = "SELECT user, role FROM members WHERE space = ? ORDER BY user"
        return [(row[0], Role(row[1])) for row in self._database.connection().execute(sql, (space,))]

    def is_administrator(self, name: str) -> bool:
        """Whether a user may manage the home's users and teams."""
        sql = "SELECT administrator FROM users WHERE name = ? AND removed_at IS NULL"
        row = self._database.connection().execute(sql, (name,)).fetchone()
        return bool(row and row[0])

    def _require_team(self, space: str) -> None:
        self.require_space(space)
        if not space.startswith(TEAM):
            raise InvalidRequest("a personal space has one owner and nobody else")

    @staticmethod
    def _require_owner(connection: sqlite3.Connection, space: str, leaving: str) -> None:
        owners = "SELECT 1 FROM members WHERE space = ? AND role = ?"
        if not connection.execute(owners, (space, Role.OWNER)).fetchone():
            raise Conflict(f"{leaving} is the last owner of {space}; give somebody else that role first")

    # Tokens

    def add_token(
        self,
        user: str,
        name: str,
        scopes: Collection[Scope],
        actor: str,
        *,
        bases: Collection[str] | None = None,
        profile: str | None = None,
        expires_at: int | None = None,
    ) -> tuple[Token, str]:
        """A new token, and its text, which is not stored and cannot be shown again. Raises `NotFound`."""
        self.require_user(user)
        if not scopes:
            raise InvalidRequest(f"a token needs a scope: {', '.join(Scope)}")
        token_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        listed = json.dumps(sorted(bases)) if bases is not None else None
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT INTO tokens (id, user, name, hash, scopes, bases, profile, created_at, expires_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(token_id, user, name, _hash(secret), " ".join(sorted(scopes)), listed, profile),
                    *(self._now(), expires_at),
                ),
            )
            self._record(connection, actor, "token_added", {"token": token_id, "user": user, "scopes": sorted(scopes)})
        return self.token(token_id), f"kbgit_{token_id}_{secret}"

    def token(self, token_id: str) -> Token:
        """A token by its id. Raises `NotFound`."""
        row = self._database.connection().execute("SELECT * FROM tokens WHERE id = ?", (token_id,)).fetchone()
        if row is None:
            raise NotFound(f"there is no token {token_id!r}")
        return _token(dict(row))

    def tokens(self, user: str | None = None) -> list[Token]:
        """Every token, or those of one user, newest first."""
        sql = "SELECT * FROM tokens WHERE user = coalesce(?, user) ORDER BY created_at DESC, id"
        return [_token(dict(row)) for row in self._database.connection().execute(sql, (user,))]

    def revoke_token(self, token_id: str, actor: str) -> None:
        """From the next request on, the token is no credential. Raises `NotFound`."""
        self.token(token_id)
        with self._database.transaction() as connection:
            connection.execute(
                "UPDATE tokens SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?", (self._now(), token_id)
            )
            self._record(connection, actor, "token_revoked", {"token": token_id})

    def authenticate(self, text: str) -> Principal:
        """Who holds this token. Raises `Unauthenticated`, with the same words whatever is wrong with it.

        The audit log tells what it was.
        """
        match = _TOKEN.fullmatch(text)
        if match is None:
            raise self._refused(None, "malformed")
        row = self._database.connection().execute(_TOKEN_AND_USER, (match["id"],)).fetchone()
        stored = row["hash"] if row else _hash("")
        is_genuine = hmac.compare_digest(stored, _hash(match["secret"]))
        now = self._now()
        if row is None:
            raise self._refused(None, "unknown")
        if not is_genuine:
            raise self._refused(row["id"], "wrong secret")
        if why := _why_ended(row, now):
            raise self._refused(row["id"], why)
        return self._holder(row, now)

    def principal_of(self, token_id: str) -> Principal:
        """Who holds the token of that id, with what it gives now: for a session that was opened with its text.

        Raises `Unauthenticated` once it is revoked or has expired, or its user was removed; that is nobody's attempt, and
        is not in the audit log.
        """
        row = self._database.connection().execute(_TOKEN_AND_USER, (token_id,)).fetchone()
        now = self._now()
        if row is None or _why_ended(row, now):
            raise Unauthenticated("the token that this was opened with is no longer valid; sign in again")
        return self._holder(row, now)

    def _holder(self, row: sqlite3.Row, now: int) -> Principal:
        if (row["used_at"] or 0) + _USE_RESOLUTION_SECONDS <= now:
            self._database.connection().execute("UPDATE tokens SET used_at = ? WHERE id = ?", (now, row["id"]))
        token = _token(dict(row))
        return Principal(
            user=token.user,
            roles=self.roles(token.user),
            scopes=token.scopes,
            bases=token.bases,
            profile=token.profile,
            token_id=token.id,
            administrator=bool(row["administrator"]),
        )

    def _refused(self, token_id: str | None, why: str) -> Unauthenticated:
        """The one answer to every token that is no credential, noted at most once a minute for each token that is known.

        Whatever is no token that was ever given out counts as one, so that nobody can fill the log.
        """
        now = self._now()
        with self._refusals_lock:
            is_due = now - self._refusals.get(token_id, -_REFUSAL_SECONDS) >= _REFUSAL_SECONDS
            if is_due:
                self._refusals[token_id] = now
        if is_due:
            self.record(_NOBODY, "token_refused", {"token": token_id, "why": why})
        return Unauthenticated("the token is missing, malformed, expired, revoked or unknown")

    def principal(self, user: str) -> Principal:
        """A user with every scope: who they would be at their best. Raises `NotFound`."""
        self.require_user(user)
        return Principal(user=user, roles=self.roles(user), administrator=self.is_administrator(user))

    # Audit

    def record(self, actor: str, event: str, details: Mapping[str, object]) -> None:
        """Add a line to the audit log."""
        with self._database.transaction() as connection:
            self._record(connection, actor, event, details)

    def _record(self, connection: sqlite3.Connection, actor: str, event: str, details: Mapping[str, object]) -> None:
        # In the transaction of what it records, so that neither is there without the other.
        connection.execute(
            "INSERT INTO audit (at, actor, event, space, details) VALUES (?, ?, ?, ?, ?)",
            (self._now(), actor, event, _space_of(details), json.dumps(dict(details), ensure_ascii=False)),
        )

    def audit(
        self, spaces: Collection[str] | None, *, home: bool, before: int | None = None, limit: int = 50
    ) -> list[AuditEntry]:
        """Entries about `spaces` (None: any), and with `home` those about no space, newest first, below number `before`."""
        sql = "SELECT * FROM audit WHERE number < ?"
        parameters: list[int | str] = [before if before is not None else 1 << 62]
        if spaces is not None:
            listed = ", ".join("?" * len(spaces))
            sql += f" AND (space IN ({listed}){' OR space IS NULL' if home else ''})"
            parameters += list(spaces)
        rows = self._database.connection().execute(sql + " ORDER BY number DESC LIMIT ?", (*parameters, limit))
        return [
            AuditEntry(row["number"], row["at"], row["actor"], row["event"], row["space"], json.loads(row["details"]))
            for row in rows
        ]


def _space_of(details: Mapping[str, object]) -> str | None:
    """The space that an event is about: named, or that of its base or project."""
    inside = details.get("base") or details.get("project")
    space = details.get("space") or (inside.rpartition("/")[0] if isinstance(inside, str) else None)
    return str(space) if space else None


def _why_ended(row: sqlite3.Row, now: int) -> str:
    """Why a token is no credential any more; empty while it is one."""
    if row["revoked_at"] is not None or row["removed_at"] is not None:
        return "revoked"
    return "expired" if row["expires_at"] is not None and row["expires_at"] <= now else ""


def _hash(secret: str) -> str:
    # The secret has 256 random bits, so a plain hash cannot be reversed by guessing; slow hashes are for passwords.
    return hashlib.sha256(secret.encode()).hexdigest()


def _token(row: dict[str, object]) -> Token:
    bases = row["bases"]
    return Token(
        id=str(row["id"]),
        user=str(row["user"]),
        name=str(row["name"]),
        scopes=frozenset(Scope(scope) for scope in str(row["scopes"]).split()),
        bases=frozenset(json.loads(str(bases))) if bases is not None else None,
        profile=str(row["profile"]) if row["profile"] is not None else None,
        created_at=_seconds(row["created_at"]) or 0,
        expires_at=_seconds(row["expires_at"]),
        revoked_at=_seconds(row["revoked_at"]),
        used_at=_seconds(row["used_at"]),
    )


def _seconds(value: object) -> int | None:
    return value if isinstance(value, int) else None
