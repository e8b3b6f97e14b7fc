"""Opening SQLite files, also by many at once."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing, suppress
from pathlib import Path

import pytest

from kbgit.errors import StoreTooNew
from kbgit.sqlite import Database, Migration

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


def test_a_file_that_cannot_be_opened_is_not_kept_open(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.sqlite"
    damaged.write_bytes(b"no database" * 1000)
    database = Database(tmp_path / "notes.sqlite", SCHEMA, 1)
    database.close()
    for path, schema in ((damaged, SCHEMA), (tmp_path / "new.sqlite", "CREATE nothing;\n")):
        problem = None
        try:
            Database(path, schema, 1)
        except sqlite3.DatabaseError as error:
            problem = error  # which knows every frame, and so what is open in it
        assert problem is not None
        assert not [name for name in open_files() if name.startswith(str(path))]


def open_files() -> list[str]:
    """What this process has open, by path."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one that lists them
            found.append(str(descriptor.readlink()))
    return found


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


# Versions

STEPS = (
    Migration(2, "ALTER TABLE notes ADD COLUMN author TEXT NOT NULL DEFAULT 'unknown';\n"),
    Migration(3, "CREATE TABLE tags (note TEXT) STRICT;\nINSERT INTO tags SELECT text FROM notes;\n"),
)


def old_file(path: Path, version: int = 1) -> None:
    """A file as a program of version 1 left it."""
    connection = sqlite3.connect(path)
    connection.executescript(SCHEMA + f"INSERT INTO notes VALUES ('kept');\nPRAGMA user_version = {version};\n")
    connection.close()


def rows(path: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return [tuple(row) for row in connection.execute(sql)]


def test_an_older_file_is_brought_to_the_present_version_step_by_step_with_a_copy_made_before(tmp_path: Path) -> None:
    path = tmp_path / "notes.sqlite"
    old_file(path)
    database = Database(path, "", 3, STEPS)
    try:
        assert database.version == 3
        assert [tuple(row) for row in database.connection().execute("SELECT * FROM notes")] == [("kept", "unknown")]
        assert [row[0] for row in database.connection().execute("SELECT note FROM tags")] == ["kept"]
    finally:
        database.close()
    copy = tmp_path / "notes.sqlite.version-1"
    assert rows(copy, "SELECT * FROM notes") == [("kept",)]
    assert rows(copy, "PRAGMA user_version") == [(1,)]
    assert copy.stat().st_mode & 0o077 == 0
    assert not list(tmp_path.glob(".*"))


def test_what_an_earlier_copy_holds_can_be_put_back(tmp_path: Path) -> None:
    path = tmp_path / "notes.sqlite"
    old_file(path)
    Database(path, "", 3, STEPS).close()
    (tmp_path / "notes.sqlite.version-1").rename(path)
    Database(path, SCHEMA, 1, ()).close()
    assert rows(path, "SELECT * FROM notes") == [("kept",)]


def test_a_step_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "notes.sqlite"
    old_file(path)
    wrong = (STEPS[0], Migration(3, "CREATE TABLE tags (note TEXT);\nINSERT INTO nowhere VALUES (1);\n"))
    with pytest.raises(sqlite3.OperationalError):
        Database(path, "", 3, wrong)
    assert rows(path, "PRAGMA user_version") == [(1,)]
    assert rows(path, "SELECT * FROM notes") == [("kept",)]
    Database(path, "", 3, STEPS).close()
    assert rows(path, "PRAGMA user_version") == [(3,)]


def test_a_newer_file_is_refused_by_name_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.sqlite"
    old_file(path, version=4)
    with pytest.raises(StoreTooNew, match=r"version 4.*version 3.*the kbgit that wrote it") as refused:
        Database(path, "", 3, STEPS)
    assert refused.value.details == {"found": 4, "known": 3}
    assert rows(path, "SELECT * FROM notes") == [("kept",)]
    assert not list(tmp_path.glob("*.version-*"))


def test_several_that_open_an_old_file_at_once_migrate_it_once(tmp_path: Path) -> None:
    path = tmp_path / "notes.sqlite"
    old_file(path)
    start = threading.Barrier(4)
    found: list[int] = []

    def open_it() -> None:
        start.wait(10)
        database = Database(path, "", 3, STEPS)
        found.append(database.version)
        database.close()

    threads = [threading.Thread(target=open_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [3] * 4
    assert rows(path, "SELECT note FROM tags") == [("kept",)]


def test_a_file_without_migrations_is_its_owners_business(tmp_path: Path) -> None:
    path = tmp_path / "notes.sqlite"
    old_file(path, version=7)
    database = Database(path, SCHEMA, 1)
    assert database.version == 7
    database.close()


def test_a_version_without_its_step_cannot_be_declared(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        Database(tmp_path / "notes.sqlite", SCHEMA, 3, STEPS[:1])
