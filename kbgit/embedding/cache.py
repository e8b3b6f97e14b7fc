"""Vectors remembered by model and text, so that nothing is embedded twice.

Kept as float32: half the size is possible as float16 without measurable loss in ranking, but then an index rebuilt from
the cache would not be, bit for bit, the one that was built from the model.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np

from kbgit.embedding.contract import Vectors
from kbgit.errors import IndexFailure
from kbgit.sqlite import Database

_Result = TypeVar("_Result")

_VERSION = 1
_SCHEMA = """
CREATE TABLE vectors (
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (key, fingerprint)
)
"""
_KEYS_A_STATEMENT = 500
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

_log = logging.getLogger(__name__)


class VectorCache:
    """Vectors in the SQLite file `path`, by embedder fingerprint and vector key. Safe over threads and processes.

    It is derived data. A damaged file, or one of another version, is removed and begun anew, with a warning; a
    read that fails otherwise finds nothing and a write that fails is left out, both with a warning. Only `delete` and
    `prune` raise, `IndexFailure`, because to forget is a promise.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._database: Database | None = None

    def get_many(self, fingerprint: str, keys: Collection[str]) -> dict[str, Vectors]:
        """Those of the vectors for `keys` that are known, each of shape (dimension,)."""

        def read(database: Database) -> dict[str, Vectors]:
            found = {}
            for chunk in _chunks(keys):
                rows = database.connection().execute(
                    f"SELECT key, vector FROM vectors WHERE fingerprint = ? AND key IN ({_marks(chunk)})",
                    (fingerprint, *chunk),
                )
                found.update({row["key"]: np.frombuffer(row["vector"], "<f4") for row in rows})
            return found

        try:
            return self._run(read)
        except (sqlite3.Error, OSError) as error:
            _log.warning("cannot read remembered vectors from %s: %s", self._path, error)
            return {}

    def put_many(self, fingerprint: str, vectors: Mapping[str, Vectors]) -> None:
        """Remember `vectors`, key → vector of shape (dimension,)."""
        rows = [(key, fingerprint, np.asarray(vector, "<f4").tobytes()) for key, vector in vectors.items()]

        def write(database: Database) -> None:
            with database.transaction() as connection:
                connection.executemany(
                    "INSERT OR REPLACE INTO vectors (key, fingerprint, vector) VALUES (?, ?, ?)", rows
                )

        try:
            self._run(write)
        except (sqlite3.Error, OSError) as error:
            _log.warning("cannot remember %d vectors in %s: %s", len(rows), self._path, error)

    def delete(self, keys: Collection[str]) -> None:
        """Forget the vectors of `keys`, of every model; no byte of them stays in the file. Raises `IndexFailure`."""
        self._forget(lambda _: keys)

    def prune(self, keep: Collection[str]) -> None:
        """Forget the vectors of every key that is not in `keep`, like `delete`. Raises `IndexFailure`."""
        kept = frozenset(keep)

        def superfluous(connection: sqlite3.Connection) -> list[str]:
            rows = connection.execute("SELECT DISTINCT key FROM vectors")
            return [row["key"] for row in rows if row["key"] not in kept]

        self._forget(superfluous)

    def count(self, fingerprint: str) -> int:
        """How many vectors of a model are remembered."""

        def read(database: Database) -> int:
            row = database.connection().execute("SELECT count(*) FROM vectors WHERE fingerprint = ?", (fingerprint,))
            return int(row.fetchone()[0])

        try:
            return self._run(read)
        except (sqlite3.Error, OSError) as error:
            _log.warning("cannot count remembered vectors in %s: %s", self._path, error)
            return 0

    def close(self) -> None:
        """Close the file. The next call opens it again."""
        with self._lock:
            if self._database:
                self._database.close()
                self._database = None

    def _forget(self, choose: Callable[[sqlite3.Connection], Collection[str]]) -> None:
        def erase(database: Database) -> None:
            with database.transaction() as connection:
                for chunk in _chunks(choose(connection)):
                    connection.execute(f"DELETE FROM vectors WHERE key IN ({_marks(chunk)})", chunk)
            database.erase_deleted()

        try:
            self._run(erase)
        except (sqlite3.Error, OSError) as error:
            raise IndexFailure(f"cannot erase remembered vectors from {self._path}: {error}") from error

    def _run(self, step: Callable[[Database], _Result]) -> _Result:
        """Run `step`, a second time on a new file if the first shows that the file is damaged."""
        database = self._open()
        try:
            return step(database)
        except sqlite3.Error as error:
            if not _is_damage(error) and database is self._database:
                raise
            self._replace(database, error)
            return step(self._open())

    def _open(self) -> Database:
        with self._lock:
            if self._database is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                try:
                    self._database = _opened(self._path)
                except sqlite3.Error as error:
                    if not _is_damage(error):
                        raise
                    self._remove(error)
                    self._database = _opened(self._path)
            return self._database

    def _replace(self, damaged: Database, error: sqlite3.Error) -> None:
        with self._lock:
            # Another thread may have met the damage first and begun anew already.
            if self._database is damaged:
                damaged.close()
                self._database = None
                self._remove(error)

    def _remove(self, error: sqlite3.Error) -> None:
        # Not kept aside: what is deleted for good must not live on in a copy.
        _log.warning("the remembered vectors in %s are lost and will be made again: %s", self._path, error)
        for suffix in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)


class _OtherVersion(sqlite3.DatabaseError):
    """The file is whole, but of another version of kbgit."""


def _opened(path: Path) -> Database:
    database = Database(path, _SCHEMA, _VERSION)
    if database.version != _VERSION:
        database.close()
        raise _OtherVersion(f"version {database.version} instead of {_VERSION}")
    return database


def _is_damage(error: sqlite3.Error) -> bool:
    if isinstance(error, _OtherVersion):
        return True
    # The low byte is the primary code of an extended one.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE


def _chunks(keys: Collection[str]) -> Iterator[list[str]]:
    remaining = iter(keys)
    while chunk := list(islice(remaining, _KEYS_A_STATEMENT)):
        yield chunk


def _marks(chunk: Sequence[str]) -> str:
    return ", ".join("?" * len(chunk))
