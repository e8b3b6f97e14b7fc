"""The queue on disk: every document and what happened to it, in one SQLite file.

Not derived: a queued document is nowhere else. Each change of state is one transaction, which also writes the event that
followers read, and is made only from the state it starts from, so that of two who race one finds that it came too late.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kbgit.documents.contract import Reason, State
from kbgit.documents.row import DocumentEvent, DocumentRow, NewDocument
from kbgit.errors import HomeProblem, NotFound
from kbgit.sqlite import Database

VERSION = 1
_SCHEMA = """
CREATE TABLE documents (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, base TEXT NOT NULL, uploader TEXT NOT NULL,
    via TEXT NOT NULL, name TEXT NOT NULL, media_type TEXT NOT NULL, size INTEGER NOT NULL, sha256 TEXT NOT NULL,
    folder TEXT NOT NULL, locator TEXT NOT NULL, replace INTEGER NOT NULL, state TEXT NOT NULL, reason TEXT,
    detail TEXT NOT NULL DEFAULT '', attempts INTEGER NOT NULL DEFAULT 0, item TEXT, revision TEXT,
    notes TEXT NOT NULL DEFAULT '[]', created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX documents_by_state ON documents (state, number);
CREATE INDEX documents_by_base ON documents (base, number);
CREATE TABLE events (
    number INTEGER PRIMARY KEY AUTOINCREMENT, document TEXT NOT NULL, base TEXT NOT NULL, state TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;
CREATE TABLE secrets (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT;
"""
_CURSOR_KEY = "cursors"
_ID_BYTES = 12
_PENDING = (State.QUEUED, State.EXTRACTING)
_NEED_ORIGINAL = (*_PENDING, State.FAILED)


class DocumentStore:
    """The documents of one home. Raises `HomeProblem` for a file that is damaged or of another version."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        mend = "nothing but uploads on their way is lost if you move it away"
        try:
            self._database = Database(path, _SCHEMA, VERSION)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):  # busy, no space, no permission: not the file's fault
                raise
            raise HomeProblem(f"{path} is damaged ({error}); {mend}") from None
        if self._database.version != VERSION:
            found = self._database.version
            self._database.close()
            raise HomeProblem(f"{path} has version {found}, this kbgit reads {VERSION}; {mend}")
        self._clock = clock
        self.changed = threading.Condition()
        """Notified after every change of state."""

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    @property
    def cursor_key(self) -> bytes:
        """The key under which numbers are sealed; made once."""
        with self._database.transaction() as connection:
            fresh = (_CURSOR_KEY, secrets.token_bytes(32))
            connection.execute("INSERT OR IGNORE INTO secrets VALUES (?, ?)", fresh)
            found = connection.execute("SELECT value FROM secrets WHERE name = ?", (_CURSOR_KEY,)).fetchone()[0]
        return bytes(found)

    # Reading

    def document(self, document_id: str) -> DocumentRow:
        """A document. Raises `NotFound`."""
        rows = self._rows("WHERE id = ?", (document_id,))
        if not rows:
            raise document_not_found(document_id)
        return rows[0]

    def documents(
        self, bases: Collection[str], state: State | None, before: int | None, limit: int
    ) -> list[DocumentRow]:
        """Documents of `bases`, newest first, below the number `before`."""
        listed = ", ".join("?" * len(bases))
        sql = f"WHERE base IN ({listed}) AND number < ?"
        values: list[str | int] = [*bases, before if before is not None else 1 << 62]
        if state is not None:
            sql += " AND state = ?"
            values.append(state)
        return self._rows(f"{sql} ORDER BY number DESC LIMIT ?", (*values, limit))

    def pending(self) -> int:
        """How many documents are queued or being extracted."""
        sql = "SELECT count(*) FROM documents WHERE state IN (?, ?)"
        return int(self._database.connection().execute(sql, _PENDING).fetchone()[0])

    def counts(self) -> dict[State, int]:
        """How many documents are in each state."""
        rows = self._database.connection().execute("SELECT state, count(*) FROM documents GROUP BY state")
        return dict.fromkeys(State, 0) | {State(row[0]): int(row[1]) for row in rows}

    def has_queued(self) -> bool:
        """Whether anything waits to be claimed."""
        sql = "SELECT 1 FROM documents WHERE state = ? LIMIT 1"
        return self._database.connection().execute(sql, (State.QUEUED,)).fetchone() is not None

    def needing_originals(self) -> set[str]:
        """The ids of the documents whose file is still needed: those on their way, and failed ones, to be tried again."""
        sql = f"SELECT id FROM documents WHERE state IN ({', '.join('?' * len(_NEED_ORIGINAL))})"
        return {row[0] for row in self._database.connection().execute(sql, _NEED_ORIGINAL)}

    def needs_original(self, document_id: str) -> bool:
        """Whether a document's file is still needed."""
        sql = "SELECT state FROM documents WHERE id = ?"
        row = self._database.connection().execute(sql, (document_id,)).fetchone()
        return row is not None and row[0] in _NEED_ORIGINAL

    def events(self, bases: Collection[str], after: int, limit: int) -> list[DocumentEvent]:
        """Events of documents of `bases` behind the number `after`, oldest first."""
        listed = ", ".join("?" * len(bases))
        sql = f"SELECT * FROM events WHERE number > ? AND base IN ({listed}) ORDER BY number LIMIT ?"
        rows = self._database.connection().execute(sql, (after, *bases, limit))
        return [
            DocumentEvent(row["number"], row["document"], row["base"], State(row["state"]), row["at"]) for row in rows
        ]

    def last_event(self) -> int:
        """The number of the newest event; 0 without any."""
        return int(self._database.connection().execute("SELECT coalesce(max(number), 0) FROM events").fetchone()[0])

    def _rows(self, where: str, values: Sequence[str | int]) -> list[DocumentRow]:
        return [
            DocumentRow.of(row)
            for row in self._database.connection().execute(f"SELECT * FROM documents {where}", values)
        ]

    # Changing

    def add(self, new: NewDocument, document_id: str | None = None) -> DocumentRow:
        """A new document, queued."""
        made = document_id or new_id()
        with self._change() as connection:
            self._insert(connection, new, made, State.QUEUED, None)
        return self.document(made)

    def add_ready(self, new: NewDocument, item_id: str, revision: str) -> DocumentRow:
        """A new document whose item is there already."""
        made = new_id()
        with self._change() as connection:
            self._insert(connection, new, made, State.READY, (item_id, revision))
        return self.document(made)

    def claim(self) -> DocumentRow | None:
        """The oldest queued document, which is being extracted from now on; None where nothing is queued."""
        with self._change() as connection:
            sql = "SELECT id FROM documents WHERE state = ? ORDER BY number LIMIT 1"
            found = connection.execute(sql, (State.QUEUED,)).fetchone()
            if found is None:
                return None
            self._move(connection, found[0], [State.QUEUED], State.EXTRACTING, "attempts = attempts + 1")
        return self.document(found[0])

    def requeue(self, document_id: str, *, counts: bool) -> bool:
        """Put a document that is being extracted back. `counts` says that the attempt was one."""
        less = "" if counts else "attempts = attempts - 1"
        with self._change() as connection:
            return self._move(connection, document_id, [State.EXTRACTING], State.QUEUED, less)

    def finish_ready(self, document_id: str, item_id: str, revision: str, notes: Sequence[str]) -> bool:
        """The item is there. False if the document is not being extracted any more."""
        fields = "item = ?, revision = ?, notes = ?, reason = NULL, detail = ''"
        values = (item_id, revision, json.dumps(list(notes), ensure_ascii=False))
        with self._change() as connection:
            return self._move(connection, document_id, [State.EXTRACTING], State.READY, fields, values)

    def finish_failed(self, document_id: str, reason: Reason, detail: str) -> bool:
        """It cannot become an item. False if the document is not being extracted any more."""
        with self._change() as connection:
            return self._move(
                connection, document_id, [State.EXTRACTING], State.FAILED, "reason = ?, detail = ?", (reason, detail)
            )

    def cancel(self, document_id: str) -> bool:
        """Nothing more happens to the document. False if it is ready or cancelled."""
        with self._change() as connection:
            return self._move(connection, document_id, [*_PENDING, State.FAILED], State.CANCELLED)

    def retry(self, document_id: str) -> bool:
        """Queue a failed document again. False if it did not fail."""
        fields = "attempts = 0, reason = NULL, detail = ''"
        with self._change() as connection:
            return self._move(connection, document_id, [State.FAILED], State.QUEUED, fields)

    def recover(self) -> int:
        """Queue again what was being extracted when the last server ended; gives how many.

        An attempt that a server took with it is none: killing a server must not fail its documents.
        """
        with self._change() as connection:
            sql = "SELECT id FROM documents WHERE state = ?"
            stranded = [row[0] for row in connection.execute(sql, (State.EXTRACTING,))]
            for document_id in stranded:
                self._move(connection, document_id, [State.EXTRACTING], State.QUEUED, "attempts = attempts - 1")
        return len(stranded)

    def forget_base(self, base: str) -> list[str]:
        """Erase every document of a base, leaving no byte of them in the file; gives their ids."""
        with self._change() as connection:
            gone = [row[0] for row in connection.execute("SELECT id FROM documents WHERE base = ?", (base,))]
            connection.execute("DELETE FROM documents WHERE base = ?", (base,))
            connection.execute("DELETE FROM events WHERE base = ?", (base,))
        if gone:
            self._database.erase_deleted()
        return gone

    def forget_before(self, moment: int) -> list[str]:
        """Remove documents in a final state, unchanged since before `moment`, and their events; gives their ids."""
        final = [state for state in State if state.is_final]
        where = f"updated_at < ? AND state IN ({', '.join('?' * len(final))})"
        with self._change() as connection:
            gone = [row[0] for row in connection.execute(f"SELECT id FROM documents WHERE {where}", (moment, *final))]
            connection.execute(f"DELETE FROM documents WHERE {where}", (moment, *final))
            connection.execute("DELETE FROM events WHERE document NOT IN (SELECT id FROM documents)")
        return gone

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        with self._database.transaction() as connection:
            yield connection
        with self.changed:
            self.changed.notify_all()

    def _insert(
        self,
        connection: sqlite3.Connection,
        new: NewDocument,
        document_id: str,
        state: State,
        item: tuple[str, str] | None,
    ) -> None:
        now = int(self._clock())
        connection.execute(
            "INSERT INTO documents (id, base, uploader, via, name, media_type, size, sha256, folder, locator, replace,"
            " state, item, revision, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(document_id, new.base, new.uploader, new.via),
                *(new.source.name, new.source.media_type, new.source.size, new.source.sha256),
                *(new.folder, new.locator, new.replace, state, *(item or (None, None)), now, now),
            ),
        )
        self._tell(connection, document_id, state, now)

    def _move(
        self,
        connection: sqlite3.Connection,
        document_id: str,
        before: Sequence[State],
        after: State,
        fields: str = "",
        values: Sequence[str] = (),
    ) -> bool:
        """Change a document's state, and `fields` with it, if it is in one of `before`."""
        now = int(self._clock())
        listed = ", ".join("?" * len(before))
        more = f", {fields}" if fields else ""
        sql = f"UPDATE documents SET state = ?, updated_at = ?{more} WHERE id = ? AND state IN ({listed})"
        if not connection.execute(sql, (after, now, *values, document_id, *before)).rowcount:
            return False
        self._tell(connection, document_id, after, now)
        return True

    def _tell(self, connection: sqlite3.Connection, document_id: str, state: State, now: int) -> None:
        connection.execute(
            "INSERT INTO events (document, base, state, at) SELECT id, base, ?, ? FROM documents WHERE id = ?",
            (state, now, document_id),
        )


def new_id() -> str:
    """An id that nobody can guess."""
    return f"doc_{secrets.token_hex(_ID_BYTES)}"


def document_not_found(document_id: str) -> NotFound:
    """The one answer for a document that is not there and for one that the caller may not know about."""
    return NotFound(f"there is no document {document_id[:100]!r}", {"id": document_id[:100]})
