"""Opening SQLite files, also by many at once."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from kbgit.sqlite import Database

SCHEMA = "CREATE TABLE notes (text TEXT) STRICT;\nCREATE INDEX notes_by_text ON notes (text);\n"


def test_many_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    problems: list[sqlite3.Error] = []
    for number in range(20):
        path = tmp_path / f"{number}.sqlite"
        start = threading.Barrier(6)

        def open_it(path: Path = path, start: threading.Barrier = start) -> None:
            start.wait(10)
            try:
                database = Database(path, SCHEMA, 1)
                with database.transaction() as connection:
                    connection.execute("INSERT INTO notes VALUES ('x')")
                database.close()
            except sqlite3.Error as problem:
                problems.append(problem)

        threads = [threading.Thread(target=open_it) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not problems
        database = Database(path, SCHEMA, 1)
        assert database.connection().execute("SELECT count(*) FROM notes").fetchone()[0] == 6
        database.close()


def test_a_transaction_that_fails_changes_nothing(tmp_path: Path) -> None:
    database = Database(tmp_path / "a.sqlite", SCHEMA, 1)

    def fail() -> None:
        with database.transaction() as connection:
            connection.execute("INSERT INTO notes VALUES ('x')")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert database.connection().execute("SELECT count(*) FROM notes").fetchone()[0] == 0
    database.close()


def test_deleted_text_leaves_no_byte(tmp_path: Path) -> None:
    database = Database(tmp_path / "a.sqlite", SCHEMA, 1)
    with database.transaction() as connection:
        connection.execute("INSERT INTO notes VALUES ('zanzibarcanary')")
    with database.transaction() as connection:
        connection.execute("DELETE FROM notes")
    database.erase_deleted()
    database.close()
    assert not [path for path in tmp_path.iterdir() if b"zanzibarcanary" in path.read_bytes()]
