"""Reading SQLite files that another process may be writing: read-only, and never in the process that writes them.

(POSIX locks belong to a process, so closing a file drops what that process has locked of it: a program that serves a home
must not open its files by other ways than it serves them.)
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from kbgit.sqlite import BUSY_SECONDS


@contextmanager
def read_only(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that changes nothing. Rows are `sqlite3.Row`. Raises `sqlite3.Error`."""
    connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=BUSY_SECONDS)
    connection.row_factory = sqlite3.Row
    with closing(connection):
        yield connection


def copy_database(source: Path, target: Path) -> None:
    """A consistent copy of what is committed, in one file of mode 0600. Raises `sqlite3.Error`."""
    target.touch(mode=0o600)
    with read_only(source) as reading, closing(sqlite3.connect(target)) as writing:
        reading.backup(writing)
        # A copy is not written by several: without a write-ahead log it is one file.
        writing.execute("PRAGMA journal_mode = DELETE")


def damage_of(path: Path) -> str | None:
    """Why SQLite calls a file damaged; None for a sound one."""
    try:
        with read_only(path) as connection:
            told = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(5)")]
            if told != ["ok"]:
                return "; ".join(told)
            rows = connection.execute("PRAGMA foreign_key_check").fetchmany(5)
            return f"rows of {rows[0][0]} name rows of {rows[0][2]} that are not there" if rows else None
    except sqlite3.Error as error:
        return str(error)
