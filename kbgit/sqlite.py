"""Opening a SQLite file: one connection per thread, write-ahead log, waiting instead of failing, erasing on deletion."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BUSY_SECONDS = 30.0


class Database:
    """A SQLite file with `schema`, stamped with `version` (`PRAGMA user_version`).

    Connections are per thread; `transaction()` takes the write lock at once, so that nothing read inside it is stale.
    Raises `sqlite3.DatabaseError` from every method for a damaged file: owners translate it.
    """

    def __init__(self, path: Path, schema: str, version: int) -> None:
        self.path = path
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        connection = self.connection()
        if self.version == 0:
            with self.transaction():
                if self.version == 0:
                    for statement in schema.split(";\n"):
                        if statement.strip():
                            connection.execute(statement)
                    connection.execute(f"PRAGMA user_version = {version:d}")

    @property
    def version(self) -> int:
        """The stamp of the schema in the file; 0 for an empty one."""
        return int(self.connection().execute("PRAGMA user_version").fetchone()[0])

    def connection(self) -> sqlite3.Connection:
        """This thread's connection. Rows are `sqlite3.Row`; statements outside `transaction()` commit by themselves."""
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            found = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            found.row_factory = sqlite3.Row
            _use_write_ahead_log(found)
            found.execute("PRAGMA synchronous = FULL")
            found.execute("PRAGMA foreign_keys = ON")
            found.execute("PRAGMA secure_delete = ON")
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
