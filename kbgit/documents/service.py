"""Documents as their uploaders meet them: taken in, listed, followed, cancelled, tried again. Rights are checked here.

Whoever may write items of a base sees its documents, and for everybody else there are none.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbgit import names
from kbgit.access import Action, Principal, Scope, Target
from kbgit.catalogue import Catalogue
from kbgit.config import Settings
from kbgit.documents import child
from kbgit.documents.contract import ExtractionLimits, State
from kbgit.documents.cursor import Cursors
from kbgit.documents.extraction.kinds import KINDS, Kind, kind_of
from kbgit.documents.originals import Originals
from kbgit.documents.placing import Placing
from kbgit.documents.pool import Pool
from kbgit.documents.row import DocumentEvent, DocumentRow, NewDocument
from kbgit.documents.store import DocumentStore, document_not_found, new_id
from kbgit.errors import Conflict, InvalidRequest, QueueFull, TooLarge
from kbgit.importing import SourceFile, locator_of
from kbgit.importing.text.kinds import KINDS as TEXT_KINDS
from kbgit.library.rights import require, require_scope
from kbgit.library.sight import Sight
from kbgit.revision import Via
from kbgit.rows import BaseRow

FILE_NAME = "queue.sqlite"
LONGEST_WAIT_SECONDS = 10
_MOST_PER_PAGE = 200
_MOST_WAITING = 8
_LONGEST_NAME = 500
_DAY_SECONDS = 86_400
_CHORES_SECONDS = 3_600.0
_HEADER_BYTES = 16 << 10  # of an item's size, for the front matter above its text
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_LIST, _EVENTS = "documents", "events"


@dataclass(frozen=True, slots=True)
class Wish:
    """What an upload asks for, before its bytes are there."""

    base: BaseRow
    kind: Kind
    name: str
    folder: str
    locator: str
    replace: bool


@dataclass(frozen=True, slots=True)
class Arrived:
    """An upload's bytes: the synchronised file that has them, how many they are, their SHA-256 in hex."""

    path: Path
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """Documents, newest first, and what asks for the next ones."""

    documents: Sequence[DocumentRow]
    cursor: str | None

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"documents": [row.as_json() for row in self.documents], "cursor": self.cursor}


@dataclass(frozen=True, slots=True)
class EventPage:
    """What happened to documents, oldest first, and what asks for what happens next."""

    events: Sequence[DocumentEvent]
    cursor: str

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"events": [event.as_json() for event in self.events], "cursor": self.cursor}


class Documents:
    """The documents of one home. `directory` holds the queue and the files; `command` starts a worker."""

    def __init__(
        self,
        directory: Path,
        settings: Settings,
        catalogue: Catalogue,
        placing: Placing,
        *,
        clock: Callable[[], float] = time.time,
        command: Sequence[str] = child.COMMAND,
    ) -> None:
        self._settings = settings
        self._catalogue = catalogue
        self._placing = placing
        self._clock = clock
        self._originals = Originals(directory, settings.disk_free_min_mb << 20)
        self._store = DocumentStore(directory / FILE_NAME, clock)
        self._cursors = Cursors(self._store.cursor_key)
        self._waiting = threading.BoundedSemaphore(_MOST_WAITING)
        self._chores_due = 0.0
        self._is_closing = False
        self.limits = limits_of(settings)
        self._pool = Pool(
            self._store,
            self._originals,
            placing,
            self.limits,
            settings.document_workers,
            self._forget_old,
            command,
        )

    # Life

    def start(self) -> None:
        """Remove what an earlier server left behind, queue again what it was at, and extract from now on."""
        self._store.recover()
        self._originals.tidy(self._store.needing_originals())
        self._pool.start()

    def stop_waiting(self) -> None:
        """Answer every follower at once from now on: the server is about to end. Can be called by a signal handler."""
        self._is_closing = True
        with self._store.changed:
            self._store.changed.notify_all()

    def stop(self) -> None:
        """End workers and waits, and close the queue. Nothing that was taken in is lost."""
        self.stop_waiting()
        self._pool.stop()
        self._store.close()

    def work_off(self) -> None:
        """Extract everything that is queued, in this thread: for a home that no server has started."""
        self._pool.work_off()

    def counts(self) -> dict[State, int]:
        """How many documents are in each state, in all bases: for whoever operates the server."""
        return self._store.counts()

    def forget_base(self, key: str) -> None:
        """Erase everything of a base that is destroyed."""
        self._pool.drop(self._store.forget_base(key))

    def _forget_old(self) -> None:
        """Now and then, remove documents that have been in a final state for as long as they are kept."""
        now = self._clock()
        if now < self._chores_due:
            return
        self._chores_due = now + _CHORES_SECONDS
        for document_id in self._store.forget_before(int(now - self._settings.document_keep_days * _DAY_SECONDS)):
            self._originals.remove(document_id)

    # Uploading

    @property
    def most_bytes(self) -> int:
        """The largest document."""
        return self._settings.document_max_mb << 20

    def admit(self, key: str, caller: Principal, *, name: str, folder: str, replace: bool, size: int | None) -> Wish:
        """Whether an upload may come; asked before its bytes are read, and once more when they are there.

        `size` is in bytes, None where it is not known yet. Raises `Forbidden`, `BaseNotFound`, `InvalidRequest` (its name,
        or a kind that is not read), `TooLarge`, `QueueFull`, `StorageFull`.
        """
        require_scope(caller, Scope.KNOWLEDGE_READ)
        base = Sight(self._catalogue, caller).one(key)
        require(caller, Action.WRITE_ITEMS, _target(base))
        _check_text("name", name)
        _check_text("folder", folder)
        kind = kind_of(name)
        if kind is None:
            known = ", ".join(KINDS)
            raise InvalidRequest(f"documents end in {known}", {"parameter": "name", "known": list(KINDS)})
        locator = locator_of(name, "/".join(part for part in (base.settings.subdir, folder) if part))
        if why := names.fault(locator.encode()):
            raise InvalidRequest(f"no item can be stored for this name: {why}", {"parameter": "name"})
        if size is not None and size > self.most_bytes:
            raise document_too_large(self.most_bytes)
        if self._store.pending() >= self._settings.document_queue_max:
            most = self._settings.document_queue_max
            raise QueueFull(f"{most} documents are waiting already; try again when some are done", {"limit": most})
        self._originals.require_space(size or 0)
        return Wish(base, kind, name, folder, locator, replace)

    def new_incoming(self) -> Path:
        """A new, empty file for the bytes of an upload that was admitted. Whoever asks for it removes it."""
        return self._originals.new_incoming()

    def accept(self, wish: Wish, caller: Principal, arrived: Arrived, via: Via) -> DocumentRow:
        """Take a document in: queued, or ready at once where these bytes are this item already.

        It is on disk when this returns. Raises `AlreadyExists` for a place that something else holds, unless the upload
        replaces it.
        """
        source = SourceFile(wish.name, wish.kind.media_type, arrived.size, arrived.sha256)
        key = str(wish.base.key)
        new = NewDocument(key, caller.user, source, wish.folder, wish.locator, wish.replace, via)
        placed = self._placing.existing(new)
        if placed is not None:
            return self._store.add_ready(new, placed.item_id, placed.revision)
        made = new_id()
        self._originals.adopt(arrived.path, made)
        return self._store.add(new, made)

    # Following

    def document(self, document_id: str, caller: Principal) -> DocumentRow:
        """One document. Raises `NotFound`, `Forbidden` (a token that cannot read)."""
        require_scope(caller, Scope.KNOWLEDGE_READ)
        row = self._store.document(document_id)
        if row.base not in self._written_by(caller):
            raise document_not_found(document_id)
        return row

    def documents(
        self, caller: Principal, *, base: str | None, state: str | None, cursor: str | None, limit: int
    ) -> DocumentPage:
        """A page of documents, newest first. Raises `BaseNotFound`, `Forbidden`, `InvalidRequest`."""
        require_scope(caller, Scope.KNOWLEDGE_READ)
        if not 1 <= limit <= _MOST_PER_PAGE:
            raise InvalidRequest(f"parameter `limit` must be from 1 to {_MOST_PER_PAGE}", {"parameter": "limit"})
        if state is not None and state not in list(State):
            known = ", ".join(State)
            raise InvalidRequest(f"parameter `state` must be one of {known}", {"parameter": "state"})
        before = self._cursors.open(cursor, _LIST, "cursor") if cursor is not None else None
        bases = self._written_by(caller, base)
        rows = self._store.documents(bases, State(state) if state else None, before, limit + 1)
        more = self._cursors.seal(rows[limit - 1].number, _LIST) if len(rows) > limit else None
        return DocumentPage(rows[:limit], more)

    def events(self, caller: Principal, *, after: str | None, wait: int) -> EventPage:
        """What happened since the cursor `after` was given out; without one nothing, but a cursor for what comes.

        Where there is nothing yet, it is waited for up to `wait` seconds, as long as not too many wait already.
        """
        require_scope(caller, Scope.KNOWLEDGE_READ)
        if wait > LONGEST_WAIT_SECONDS:
            raise InvalidRequest(f"parameter `wait` must be at most {LONGEST_WAIT_SECONDS}", {"parameter": "wait"})
        if after is None:
            return EventPage((), self._cursors.seal(self._store.last_event(), _EVENTS))
        number = self._cursors.open(after, _EVENTS, "after")
        bases = self._written_by(caller)
        page = self._page_of_events(bases, number)
        if page.events or not wait or not self._waiting.acquire(blocking=False):
            return page
        try:
            give_up = time.monotonic() + wait
            while not page.events and not self._is_closing and (left := give_up - time.monotonic()) > 0:
                with self._store.changed:
                    if self._store.last_event() <= number and not self._is_closing:
                        self._store.changed.wait(left)
                number = self._cursors.open(page.cursor, _EVENTS, "after")
                page = self._page_of_events(bases, number)
        finally:
            self._waiting.release()
        return page

    def _page_of_events(self, bases: Collection[str], after: int) -> EventPage:
        last = self._store.last_event()
        events = self._store.events(bases, after, _MOST_PER_PAGE)
        seen = events[-1].number if len(events) == _MOST_PER_PAGE else max(last, *(e.number for e in events), after)
        return EventPage(events, self._cursors.seal(seen, _EVENTS))

    def cancel(self, document_id: str, caller: Principal) -> DocumentRow:
        """Let nothing come of a document; a worker that reads it is ended. Raises `Conflict` where it is ready."""
        row = self.document(document_id, caller)
        if not self._pool.cancel(row.id):
            row = self.document(document_id, caller)
            if row.state is State.READY:
                raise Conflict("it is an item already; archive or delete that", {"knowledge_item_id": row.item_id})
        return self.document(document_id, caller)

    def retry(self, document_id: str, caller: Principal) -> DocumentRow:
        """Queue a failed document again. Raises `Conflict` for any other."""
        row = self.document(document_id, caller)
        if not self._store.retry(row.id):
            row = self.document(document_id, caller)
            raise Conflict(f"only a failed document can be tried again; it is {row.state}", {"state": row.state.value})
        return self.document(document_id, caller)

    def _written_by(self, caller: Principal, base: str | None = None) -> list[str]:
        """The keys of the bases whose items the caller may write; of those called `base`, which must be one at least."""
        sight = Sight(self._catalogue, caller)
        if base is None:
            return [str(row.key) for row in sight.bases if sight.may(Action.WRITE_ITEMS, row)]
        found = sight.named(base)
        written = [str(row.key) for row in found if sight.may(Action.WRITE_ITEMS, row)]
        if not written:
            require(caller, Action.WRITE_ITEMS, _target(found[0]))
        return written

    def file_types(self) -> dict[str, list[dict[str, Any]]]:
        """Which files can come in, JSON-ready: documents, uploaded whole, and texts, which become items as they are."""
        return {
            "documents": [_file_type(kind.suffix, kind.media_type, self.most_bytes) for kind in KINDS.values()],
            "texts": [
                _file_type(suffix, kind.media_type, self._settings.item_max_kb * 1024)
                for suffix, kind in TEXT_KINDS.items()
            ],
        }


def limits_of(settings: Settings) -> ExtractionLimits:
    """What an extraction may use: an item that is too large to be stored is not worth making."""
    usual = ExtractionLimits()
    return ExtractionLimits(
        seconds=settings.document_seconds,
        memory=settings.document_memory_mb << 20,
        output=max(1024, min(usual.output, settings.item_max_kb * 1024 - _HEADER_BYTES)),
    )


def document_too_large(limit: int) -> TooLarge:
    """The error for a document of more than `limit` bytes."""
    return TooLarge(f"a document may have at most {limit} bytes", {"limit": limit})


def _file_type(suffix: str, media_type: str, most: int) -> dict[str, Any]:
    return {"suffix": suffix, "media_type": media_type, "max_bytes": most}


def _target(base: BaseRow) -> Target:
    return Target(base.key.space, str(base.key))


def _check_text(parameter: str, text: str) -> None:
    if len(text) > _LONGEST_NAME:
        raise InvalidRequest(
            f"parameter `{parameter}` has more than {_LONGEST_NAME} characters", {"parameter": parameter}
        )
    if _UNSTORABLE.search(text):
        raise InvalidRequest(f"parameter `{parameter}` has a character that no file can hold", {"parameter": parameter})
