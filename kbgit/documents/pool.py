"""The workers' supervisors: threads that take documents from the queue, one worker process at a time each."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from kbgit.documents import child
from kbgit.documents.child import Brake, Died, Failure, Stopped
from kbgit.documents.contract import Extracted, ExtractionLimits, Reason
from kbgit.documents.originals import Originals
from kbgit.documents.placing import Placed, Placing
from kbgit.documents.row import DocumentRow, NewDocument
from kbgit.documents.store import DocumentStore
from kbgit.errors import Conflict, GitFailure, HistoryRewritten, KbgitError

log = logging.getLogger(__name__)

MOST_ATTEMPTS = 3
_TROUBLE_SECONDS = 5.0
_IDLE_SECONDS = 60.0
_TRANSIENT = (GitFailure, HistoryRewritten)
"""What may have gone by the next attempt; a `Conflict` that is no more than one may too."""


@dataclass
class _Job:
    """A document in a supervisor's hands."""

    row: DocumentRow
    brake: Brake = field(default_factory=Brake)
    is_placing: bool = False


class Pool:
    """The supervisors of one home. `chores` are done between documents; `command` starts a worker."""

    def __init__(
        self,
        store: DocumentStore,
        originals: Originals,
        placing: Placing,
        limits: ExtractionLimits,
        workers: int,
        chores: Callable[[], None] = lambda: None,
        command: Sequence[str] = child.COMMAND,
    ) -> None:
        self._store = store
        self._originals = originals
        self._placing = placing
        self._limits = limits
        self._command = command
        self._chores = chores
        self._jobs: dict[str, _Job] = {}
        self._lock = threading.Condition()
        """Held to look at or change `_jobs`; notified when one ends."""
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._supervise, name=f"documents-{number}", daemon=True)
            for number in range(workers)
        ]

    def start(self) -> None:
        """Take documents from the queue from now on."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the workers; what they had goes back into the queue. What is being committed is finished first."""
        self._stopping.set()
        with self._lock:
            for job in self._jobs.values():
                job.brake.pull()
        with self._store.changed:
            self._store.changed.notify_all()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def cancel(self, document_id: str) -> bool:
        """End the document's worker, if it has one, and let nothing come of it. False if it was in a final state.

        Raises `Conflict` while its item is being committed.
        """
        with self._lock:
            job = self._jobs.get(document_id)
            if job is not None and job.is_placing:
                raise Conflict("its item is being stored just now, so it is too late to cancel", {"id": document_id})
            cancelled = self._store.cancel(document_id)
            if job is not None:
                job.brake.pull()
        if cancelled and job is None:
            self._originals.remove(document_id)
        return cancelled

    def drop(self, document_ids: Collection[str]) -> None:
        """End the workers of documents that are gone from the store, and return when nothing of them is left on disk.

        One that is being committed is not waited for: it has no files any more, and its base decides what comes of it.
        """

        def is_left() -> bool:
            return any(not job.is_placing for name, job in self._jobs.items() if name in document_ids)

        with self._lock:
            for name, job in self._jobs.items():
                if name in document_ids:
                    job.brake.pull()
            self._lock.wait_for(lambda: not is_left())
        for document_id in document_ids:
            self._originals.remove(document_id)

    def work_off(self) -> None:
        """Do, in this thread, everything that is queued."""
        while (row := self._store.claim()) is not None:
            self._do(row)

    def _supervise(self) -> None:
        while not self._stopping.is_set():
            try:
                self._chores()
                row = self._store.claim()
                if row is not None:
                    self._do(row)
                    continue
                with self._store.changed:
                    # Looked at again with the lock held, so that nothing is queued unseen between looking and waiting.
                    if not self._stopping.is_set() and not self._store.has_queued():
                        self._store.changed.wait(_IDLE_SECONDS)
            except Exception:  # a disk that is full, say: the documents stay queued, and this thread must not end
                log.exception("documents wait, because something is wrong with their queue")
                self._stopping.wait(_TROUBLE_SECONDS)

    def _do(self, row: DocumentRow) -> None:
        job = _Job(row)
        with self._lock:
            self._jobs[row.id] = job
            if self._stopping.is_set():
                job.brake.pull()
        try:
            self._settle(job)
        except Stopped:
            # Cancelled: then this does nothing. Stopped: then it was no attempt.
            self._store.requeue(row.id, counts=False)
        except Exception:  # no document may hold up the others, and none may stay in a state that never ends
            log.exception("document %s could not be handled", row.id)
            self._store.finish_failed(
                row.id, Reason.CRASHED, "something went wrong inside kbgit; its log has the details"
            )
        finally:
            with self._lock:
                if self._jobs.get(row.id) is job:  # and not of another supervisor, who took up what was queued again
                    del self._jobs[row.id]
                self._lock.notify_all()
            job.brake.close()
            if not self._store.needs_original(row.id):
                self._originals.remove(row.id)

    def _settle(self, job: _Job) -> None:
        """Bring a document into its next state."""
        row, new = job.row, _as_new(job.row)
        try:
            notes: Sequence[str] = ()
            placed = self._placing.existing(new)
            if placed is None:
                extracted = self._extracted(row, job.brake)
                if extracted is None:
                    return
                placed, notes = self._place(job, new, extracted), extracted.notes
        except _TRANSIENT as error:
            self._again(row, Reason.REFUSED, error.message)
        except KbgitError as error:
            if type(error) is Conflict:  # the base changed faster than this could be stored
                self._again(row, Reason.REFUSED, error.message)
            else:
                self._store.finish_failed(row.id, Reason.REFUSED, error.message)
        else:
            self._store.finish_ready(row.id, placed.item_id, placed.revision, notes)

    def _extracted(self, row: DocumentRow, brake: Brake) -> Extracted | None:
        """The text; None where the document has been brought into another state instead. Raises `Stopped`."""
        suffix = PurePath(row.source.name).suffix.lower()
        with self._originals.workplace() as workplace:
            file = self._originals.path(row.id)
            made = child.extract(file, suffix, self._limits, workplace, brake, self._command)
        if isinstance(made, Extracted):
            return made
        if isinstance(made, Failure):
            self._store.finish_failed(row.id, made.reason, made.detail)
        elif isinstance(made, Died):
            log.warning("the worker of document %s ended with %s", row.id, made.how)
            self._again(row, Reason.CRASHED, "the process that read it ended unexpectedly, more than once")
        return None

    def _place(self, job: _Job, new: NewDocument, extracted: Extracted) -> Placed:
        with self._lock:
            if self._store.document(job.row.id).state.is_final:
                raise Stopped
            job.is_placing = True
        return self._placing.place(new, extracted)

    def _again(self, row: DocumentRow, reason: Reason, detail: str) -> None:
        """Try again, but not for ever."""
        if row.attempts < MOST_ATTEMPTS:
            self._store.requeue(row.id, counts=True)
        else:
            self._store.finish_failed(row.id, reason, detail)


def _as_new(row: DocumentRow) -> NewDocument:
    return NewDocument(row.base, row.uploader, row.source, row.folder, row.locator, row.replace, row.via)
