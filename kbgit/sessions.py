"""Sessions of browsers, in one SQLite file that can be thrown away: whoever was signed in signs in again.

The file holds nothing that anybody could sign in with: of a session's text only its hash, and of the token that it was
opened with only the id. What a session may do is never stored; whoever asks looks at what the token is worth then.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kbgit.errors import HomeProblem
from kbgit.sqlite import Database, remove

VERSION = 1
_SCHEMA = """
CREATE TABLE sessions (
    hash TEXT PRIMARY KEY, token TEXT NOT NULL, created_at INTEGER NOT NULL, used_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_by_token ON sessions (token, created_at);
"""
_TEXT = re.compile(r"[A-Za-z0-9_-]{43}")
_USE_RESOLUTION_SECONDS = 60
_MOST_OF_A_TOKEN = 50


@dataclass(frozen=True, slots=True)
class Session:
    """A session that lives. `csrf` is known to whoever holds the session's text, and is in no file.

    Times are seconds since the epoch; `expires_at` is the end that no use puts off.
    """

    token_id: str
    csrf: str
    created_at: int
    expires_at: int


class Sessions:
    """The sessions of one home. They end `hours` after they began, or `idle_minutes` after they were last used."""

    def __init__(
        self, path: Path, *, hours: float = 12.0, idle_minutes: float = 120.0, clock: Callable[[], float] = time.time
    ) -> None:
        self._life = int(hours * 3600)
        self._idle = int(idle_minutes * 60)
        self._clock = clock
        self._database = _opened(path)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def begin(self, token_id: str) -> str:
        """A new session for the holder of a token. Its text, which is not stored, is what the cookie holds.

        A token has a bounded number of sessions: the oldest make room.
        """
        text = secrets.token_urlsafe(32)
        now = self._now()
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM sessions WHERE expires_at <= ? OR used_at <= ?", (now, now - self._idle))
            connection.execute(
                "DELETE FROM sessions WHERE hash IN (SELECT hash FROM sessions WHERE token = ?"
                " ORDER BY created_at DESC, hash LIMIT -1 OFFSET ?)",
                (token_id, _MOST_OF_A_TOKEN - 1),
            )
            connection.execute(
                "INSERT INTO sessions VALUES (?, ?, ?, ?, ?)", (_hash(text), token_id, now, now, now + self._life)
            )
        return text

    def find(self, text: str) -> Session | None:
        """The session of that text, if it lives; this counts as a use of it."""
        if not _TEXT.fullmatch(text):
            return None
        connection = self._database.connection()
        row = connection.execute("SELECT * FROM sessions WHERE hash = ?", (_hash(text),)).fetchone()
        now = self._now()
        if row is None or row["expires_at"] <= now or row["used_at"] + self._idle <= now:
            return None
        if row["used_at"] + min(_USE_RESOLUTION_SECONDS, self._idle // 4) <= now:
            connection.execute("UPDATE sessions SET used_at = ? WHERE hash = ?", (now, row["hash"]))
        return Session(row["token"], _csrf(text), row["created_at"], row["expires_at"])

    def end(self, text: str) -> None:
        """From now on the session is none."""
        self._database.connection().execute("DELETE FROM sessions WHERE hash = ?", (_hash(text),))

    def _now(self) -> int:
        return int(self._clock())


def _opened(path: Path) -> Database:
    """The file, readable by its owner alone; a new one in place of one that is damaged or of another version."""
    try:
        found = _database(path)
        if found.version == VERSION:
            return found
        found.close()
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):  # busy, no space, no permission: not the file's fault
            raise _unusable(path, error) from error
    except OSError as error:
        raise _unusable(path, error) from error
    remove(path)
    return _database(path)


def _unusable(path: Path, error: Exception) -> HomeProblem:
    return HomeProblem(f"{path} cannot be used ({error}); mend that, or remove the file: everybody signs in again then")


def _database(path: Path) -> Database:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite gives its other files the same mode
    path.chmod(0o600)
    return Database(path, _SCHEMA, VERSION)


def _hash(text: str) -> str:
    # 256 random bits cannot be guessed, so a plain hash is enough.
    return hashlib.sha256(text.encode()).hexdigest()


def _csrf(text: str) -> str:
    # Made of the text, not of its hash: whoever reads the file cannot make it.
    return hmac.new(text.encode(), b"kbgit csrf", hashlib.sha256).hexdigest()
