"""Opening a SQLite file: one connection per thread, write-ahead log, waiting instead of failing, erasing on deletion.

A file is stamped with the version of its schema. What can be derived again is thrown away where the version is another one,
by its owner. What cannot be derived is brought to the version of the program, step by step, in one transaction and with a
copy of the file made before.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from kbgit.errors import StoreTooNew

BUSY_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Migration:
    """The step from the version before to version `to`: statements, each ended by a semicolon at the end of its line."""

    to: int
    statements: str


class Database:
    """A SQLite file with `schema`, stamped with `version` (`PRAGMA user_version`).

    Connections are per thread; `transaction()` takes the write lock at once, so that nothing read inside it is stale.
    Raises `sqlite3.DatabaseError` from every method for a damaged file: owners translate it.

    `migrations` is for what cannot be derived again: every step from version 1 on, in order. A file of an older version is
    then copied to `<name>.version-<n>` beside it and brought to `version`; for one of a newer version `StoreTooNew` is raised
    and nothing is touched. Without `migrations` a file of another version is opened as it is.
    """

    def __init__(self, path: Path, schema: str, version: int, migrations: Sequence[Migration] | None = None) -> None:
        assert migrations is None or [step.to for step in migrations] == list(range(2, version + 1))
        self.path = path
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        try:
            self._bring_to(schema, version, migrations)
        except BaseException:
            self.close()
            raise

    @property
    def version(self) -> int:
        """The stamp of the schema in the file; 0 for an empty one."""
        return int(self.connection().execute("PRAGMA user_version").fetchone()[0])

    def _bring_to(self, schema: str, version: int, migrations: Sequence[Migration] | None) -> None:
        if self.version == 0:
            with self.transaction() as connection:
                if self.version == 0:
                    _run(connection, schema, version)
        if migrations is not None and self.version != version:
            self._migrate(version, migrations)

    def _migrate(self, version: int, migrations: Sequence[Migration]) -> None:
        with self.transaction() as connection:
            found = self.version  # now that nobody else can be at it
            if found > version:
                raise StoreTooNew(
                    f"{self.path} has version {found}, and this kbgit knows version {version}: run the kbgit that wrote "
                    f"it, or a later one; or put back the copy that its upgrade made, {self.path.name}.version-{version}",
                    {"found": found, "known": version},
                )
            if found < version:
                self._copy(self.path.with_name(f"{self.path.name}.version-{found}"))
                for step in migrations[found - 1 :]:
                    _run(connection, step.statements, step.to)

    def _copy(self, target: Path) -> None:
        """Write the file as it was before the transaction at hand to `target`, whole or not at all, for its owner's eyes."""
        draft = target.with_name(f".{target.name}.draft")
        draft.unlink(missing_ok=True)
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with closing(sqlite3.connect(self.path)) as source, closing(sqlite3.connect(draft)) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
        descriptor = os.open(draft, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        draft.replace(target)

    def connection(self) -> sqlite3.Connection:
        """This thread's connection. Rows are `sqlite3.Row`; statements outside `transaction()` commit by themselves."""
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            found = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            try:
                _prepare(found)
            except BaseException:
                found.close()
                raise
            self._local.connection = found
            with self._lock:
                self._connections.append(found)
        return found

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing: commits at the end, rolls back on any exception."""
        connection = self.connection()
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def erase_deleted(self) -> None:
        """Leave no byte of deleted rows: fold the write-ahead log into the file and drop free pages."""
        self.connection().execute("VACUUM")
        self.connection().execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close every thread's connection."""
        with self._lock:
            for connection in self._connections:
                connection.close()
            self._connections.clear()
        self._local = threading.local()


def remove(path: Path) -> None:
    """Remove a database and the files that SQLite keeps beside it; nobody may have it open."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _run(connection: sqlite3.Connection, statements: str, version: int) -> None:
    """Execute statements and stamp what they lead to; in a transaction of the caller's."""
    for statement in statements.split(";\n"):
        if statement.strip():
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {version:d}")


def _prepare(connection: sqlite3.Connection) -> None:
    connection.row_factory = sqlite3.Row
    _use_write_ahead_log(connection)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA secure_delete = ON")


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    # Two that switch a new file at once would each wait for the other, so SQLite refuses one at once, whatever the timeout.
    give_up = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
                return
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.005)
