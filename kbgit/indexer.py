"""Keeping the index at the published heads: what the catalogue says is published, against what is indexed.

The difference between the two is all there is to do, whatever happened before; so an update after one push, after a crash
and after the loss of the index is the same step. Vectors follow in the background.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from kbgit.admission import Limits, Problem
from kbgit.base import BaseKey
from kbgit.catalogue import Catalogue
from kbgit.embedding.batch import embed_batch
from kbgit.embedding.cache import VectorCache
from kbgit.embedding.contract import Embedder, Vectors
from kbgit.errors import (
    BaseNotFound,
    EmbeddingFailure,
    GitFailure,
    HistoryRewritten,
    IndexFailure,
    KbgitError,
    TimedOut,
)
from kbgit.home import Home
from kbgit.index.contract import BaseState, Index, IndexedPassage, IndexUpdate
from kbgit.item import parse_document
from kbgit.passage import Passage, split_passages
from kbgit.publish import catch_up, is_under_way
from kbgit.rebuilding import rebuild_beside
from kbgit.rows import BaseRow, ItemRow
from kbgit.store import Repository

log = logging.getLogger(__name__)

_CHUNK = 20_000  # items of one step: few steps make few segments, which are read faster ever after
_BATCH = 1_000
_EMBEDDING_BATCH = 32
_RETRY_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a step has come: `done` of `total` things named by `what`."""

    base: str
    what: str
    done: int
    total: int


def passages_of(item: ItemRow, raw: bytes) -> Iterator[IndexedPassage]:
    """An item's passages, from its file's bytes. An item without text still has one, to be found by its title."""
    document = parse_document(raw)
    passages = split_passages(document.content) or [Passage(0, (), 1, 1, "")]
    for passage in passages:
        yield IndexedPassage(
            base=item.base,
            item_id=item.item_id,
            revision=item.revision,
            title=item.title,
            locator=item.path,
            description=item.description,
            tags=item.tags,
            ordinal=passage.ordinal,
            section=passage.section,
            lines=(passage.start_line, passage.end_line),
            text=passage.text,
        )


class Indexer:
    """Brings bases to their heads, one step at a time, in whichever thread calls; wakes those who wait for a commit."""

    def __init__(
        self,
        home: Home,
        catalogue: Catalogue,
        index: Index,
        embedder: Embedder | None,
        cache: VectorCache | None,
        progress: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        self._home = home
        self._catalogue = catalogue
        self._index = index
        self._embedder = embedder
        self._cache = cache
        self._progress = progress
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._repositories: dict[str, Repository] = {}
        self._unembeddable: set[str] = set()
        self._closing = False
        self.embedding_problem: str | None = None
        self.on_behind: Callable[[BaseKey], None] = lambda _: None
        """Called when a reader finds a base whose index is behind: whoever owns the index catches up."""

    # Publication

    def state(self, key: str) -> BaseState:
        """What is indexed of a base; of one whose index cannot be read nothing, which spoils no question about the others."""
        try:
            return self._index.state(key)
        except IndexFailure as error:
            log.error("the index of %s cannot be read: %s", key, error.message)
            return BaseState(head=None, items=0, passages=0, vectors=0)

    def repository(self, key: BaseKey) -> Repository:
        """A base's repository, opened once."""
        found = self._repositories.get(str(key))
        if found is None or not found.path.exists():
            found = self._repositories[str(key)] = self._home.repository(key)
        return found

    def forget(self, key: BaseKey) -> None:
        """Close a base's repository."""
        found = self._repositories.pop(str(key), None)
        if found is not None:
            found.close()

    def published(self, base: BaseRow) -> BaseRow:
        """`base` as its repository shows it now: if the branch moved and nobody published that yet, it is done here."""
        repository = self.repository(base.key)
        if repository.head() == base.head:
            if base.alarm:
                self._catalogue.raise_alarm(str(base.key), "")  # whatever it was, the branch is as published again
            return replace(base, alarm="")
        base = catch_up(repository, self._catalogue, base, self._limits)
        self.on_behind(base.key)
        return base

    def seen(self, base: BaseRow) -> BaseRow:
        """`base` as `published` gives it, or, where that cannot be had, as it is catalogued, under an alarm.

        A repository that is damaged, missing or rewritten changes nothing that is published. Nor does a push that is being
        published at this moment: whoever reads need not wait for it, as its pusher is not told before that is done.
        """
        try:
            repository = self.repository(base.key)
            head = repository.head()
            if head == base.head and not base.alarm:
                return base
            if head is not None and head != base.head and is_under_way(repository, head):
                return base
            return self.published(self._catalogue.base(str(base.key)))  # which may have been published since
        except (HistoryRewritten, GitFailure, BaseNotFound) as error:
            if not base.alarm:
                self._catalogue.raise_alarm(str(base.key), error.message)
            return self._catalogue.base(str(base.key))

    @property
    def _limits(self) -> Limits:
        return self._home.limits

    # Index

    def sweep(self) -> None:
        """Compare every base with its repository and its index, and do what is missing. One bad base stops no other."""
        for key in self._home.base_keys():
            try:
                self.synchronise(key)
            except KbgitError as error:
                log.error("base %s: %s", key, error.message)
        # In this order: a base that was made meanwhile is among what there is before it is among what is missing.
        indexed = set(self._index.bases())
        keys = {str(key) for key in self._home.base_keys()}
        catalogued = {str(row.key) for row in self._catalogue.bases()}
        for base in sorted(indexed - keys):
            # What the catalogue still knows was not deleted: a repository that vanished is an alarm, not an order.
            if base in catalogued:
                self._catalogue.raise_alarm(base, "the repository is missing; its index is kept")
                log.error("base %s: the repository is missing; its index is kept", base)
            elif keys:
                self._index.drop(base)
            else:
                log.error("no repository is left below %s; the index is kept", self._home.repositories)

    def synchronise(self, key: BaseKey) -> None:
        """Publish what the branch shows, then index what is published. Raises `BaseNotFound`."""
        repository = self.repository(key)  # first: a base that was destroyed meanwhile must not be catalogued anew
        self._catalogue.add_base(key)
        try:
            catch_up(repository, self._catalogue, self._catalogue.base(str(key)), self._limits)
        finally:
            # Whatever became of the branch, what is published is indexed.
            self.update_index(self._catalogue.base(str(key)))

    def update_index(self, base: BaseRow) -> bool:
        """Bring a base's index to its catalogued head. Returns whether there was anything to do."""
        key = str(base.key)
        with self._writing:
            base = self._catalogue.base(key)
            if base.head is None or self._index.state(key).head == base.head:
                return False
            have = self._index.items(key)
            want = self._catalogue.published(key)
            removed = {item for item, revision in have.items() if want.get(item) != revision}
            added = [item for item, revision in want.items() if have.get(item) != revision]
            for step in self._steps(base, removed, added):
                self._index.update(key, step)
        with self._changed:
            self._changed.notify_all()
        return True

    def rebuild(self, key: BaseKey) -> None:
        """Derive a base's rows and its index from Git anew, beside what answers: that goes on until each is complete.

        Raises `BaseNotFound`; `HistoryRewritten` for a repository without the publication log that it had, of which
        nothing is derived.
        """
        repository = self.repository(key)
        self._catalogue.add_base(key)
        rebuild_beside(repository, self._catalogue, key, self._home.path, self._limits)
        with self._writing:
            base = self._catalogue.base(str(key))
            if base.head is not None:
                published = list(self._catalogue.published(str(key)))
                self._index.rebuild(str(key), self._steps(base, set(), published))
        self.synchronise(key)
        with self._changed:
            self._changed.notify_all()

    def _steps(self, base: BaseRow, removed: set[str], added: list[str]) -> Iterator[IndexUpdate]:
        """What brings the index to the base's head: the last step carries it."""
        key = str(base.key)
        repository = self.repository(base.key)
        rows = list(self._catalogue.items_named(key, added).values())
        done = 0
        for start in range(0, max(1, len(rows)), _CHUNK):
            chunk = rows[start : start + _CHUNK]
            passages: list[IndexedPassage] = []
            for first in range(0, len(chunk), _BATCH):
                batch = chunk[first : first + _BATCH]
                blobs = dict(repository.blobs({row.blob for row in batch}))
                passages += [passage for row in batch for passage in self._passages(row, blobs[row.blob])]
                if len(rows) > _BATCH:
                    self._progress(Progress(key, "items read", start + first + len(batch), len(rows)))
            is_last = start + _CHUNK >= len(rows)
            gone = removed if start == 0 else set()
            yield IndexUpdate(
                head=base.head if is_last else None,
                removed=frozenset(gone | {row.item_id for row in chunk}),
                added=passages,
            )
            done += len(chunk)
            self._progress(Progress(key, "items indexed", done, len(rows)))

    def _passages(self, item: ItemRow, raw: bytes) -> list[IndexedPassage]:
        """An item's passages; one that cannot be split is reported and left out, and holds up no other."""
        try:
            return list(passages_of(item, raw))
        except KbgitError as error:
            what = f"cannot be indexed: {error.message}"
            self._catalogue.add_problem(item.base, Problem(item.path, 1, error.code, what, "change it, or report this"))
            log.error("base %s: %s %s", item.base, item.path, what)
            return []

    def wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until `condition` holds, looking again after every change of the index.

        False when time ran out. Raises `TimedOut` when the index is being closed.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closing or condition(), timeout=seconds)
            if self._closing:
                raise TimedOut("the server is stopping; ask again")
            return condition()

    def close(self) -> None:
        """Let nobody wait any longer, and close the repositories."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for repository in list(self._repositories.values()):  # whoever works on may open another meanwhile
            repository.close()

    # Vectors

    def embed_some(self) -> bool:
        """Embed one batch of passages that have no vector. Returns whether there may be more.

        Raises `EmbeddingFailure`; and `IndexFailure` for a base whose vectors cannot be had, when no other needs any.
        """
        if self._embedder is None:
            return False
        failure: IndexFailure | None = None
        for base in list(self._index.bases()):
            try:
                if self._embed_some_of(base):
                    return True
            except IndexFailure as error:
                failure = error
        if failure is not None:
            raise failure
        return False

    def _embed_some_of(self, base: str) -> bool:
        pending = self._index.pending_vectors(base, _EMBEDDING_BATCH + len(self._unembeddable)).texts
        texts = {key: text for key, text in pending.items() if key not in self._unembeddable}
        if texts:
            self._embed(base, dict(list(texts.items())[:_EMBEDDING_BATCH]))
        return bool(texts)

    def _embed(self, base: str, texts: Mapping[str, str]) -> None:
        assert self._embedder is not None
        fingerprint = self._embedder.fingerprint
        known = self._cache.get_many(fingerprint, list(texts)) if self._cache else {}
        missing = [key for key in texts if key not in known]
        vectors = dict(known)
        if missing:
            fresh = self._vectors({key: texts[key] for key in missing})
            if self._cache:
                self._cache.put_many(fingerprint, fresh)
            if base not in self._index.bases():
                self._index.drop(base)  # destroyed meanwhile: its vectors were swept out before these came
                return
            vectors |= fresh
        self._index.add_vectors(base, vectors)
        state = self._index.state(base)
        self._progress(Progress(base, "passages embedded", state.vectors, state.passages))
        with self._changed:
            self._changed.notify_all()

    def _vectors(self, texts: Mapping[str, str]) -> dict[str, Vectors]:
        """Embed a batch; a text that alone cannot be embedded is set aside, and found by its words only."""
        assert self._embedder is not None
        found, failed = embed_batch(self._embedder, texts)
        for key, failure in failed.items():
            log.error("passage %s cannot be embedded and is found by its words only: %s", key[:12], failure.message)
        self._unembeddable |= failed.keys()
        return found


def at_most_every(seconds: float, chore: Callable[[], object]) -> Callable[[], None]:
    """`chore`, done only when `seconds` have passed since it was last done; the first time counts from now."""
    last = time.monotonic()

    def done_when_due() -> None:
        nonlocal last
        if time.monotonic() - last >= seconds:
            last = time.monotonic()
            chore()

    return done_when_due


def when_idle_for(seconds: float, step: Callable[[], bool]) -> Callable[[], bool]:
    """`step`, which looks for something to do: at once after it found some, and else when `seconds` have passed."""
    idle_since = float("-inf")

    def look() -> bool:
        nonlocal idle_since
        if time.monotonic() - idle_since < seconds:
            return False
        if step():
            return True
        idle_since = time.monotonic()
        return False

    return look


class Background:
    """Two threads: one brings noticed bases to their heads, one embeds. Notices coalesce.

    `chores` are done after each sweep. `embed_beside` is asked for a batch, like `Indexer.embed_some`, when the bases have
    none.
    """

    def __init__(
        self,
        indexer: Indexer,
        chores: Sequence[Callable[[], object]] = (),
        embed_beside: Callable[[], bool] = lambda: False,
    ) -> None:
        self._indexer = indexer
        self._chores = chores
        self._embed_beside = embed_beside
        self._wake = threading.Condition()
        self._noticed: set[BaseKey] = set()
        self._sweep = False
        self._stopping = threading.Event()
        self._may_embed = threading.Event()
        self._threads = [
            threading.Thread(target=self._index_loop, name="kbgit-indexer", daemon=True),
            threading.Thread(target=self._embed_loop, name="kbgit-embedder", daemon=True),
        ]

    def start(self) -> None:
        """Start both threads, with a sweep."""
        self.request_sweep()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Finish the step at hand and stop."""
        self._stopping.set()
        self._may_embed.set()
        with self._wake:
            self._wake.notify_all()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def notice(self, key: BaseKey) -> None:
        """Something may have happened to this base."""
        with self._wake:
            self._noticed.add(key)
            self._wake.notify_all()

    @property
    def waiting(self) -> int:
        """How many noticed bases are not looked at yet."""
        with self._wake:
            return len(self._noticed)

    def request_sweep(self) -> None:
        """Look at every base."""
        with self._wake:
            self._sweep = True
            self._wake.notify_all()

    def _next(self) -> tuple[bool, set[BaseKey]]:
        with self._wake:
            self._wake.wait_for(lambda: self._noticed or self._sweep or self._stopping.is_set())
            sweep, noticed = self._sweep, self._noticed
            self._sweep, self._noticed = False, set()
            return sweep, noticed

    def _index_loop(self) -> None:
        while not self._stopping.is_set():
            sweep, noticed = self._next()
            for key in noticed:
                self._guarded(partial(self._indexer.synchronise, key))
            if sweep:
                for step in (self._indexer.sweep, *self._chores):
                    self._guarded(step)
            self._may_embed.set()

    def _embed_loop(self) -> None:
        while not self._stopping.is_set():
            self._may_embed.wait()
            self._may_embed.clear()
            while not self._stopping.is_set():
                try:
                    if not self._indexer.embed_some() and not self._embed_beside():
                        break
                    self._indexer.embedding_problem = None
                except EmbeddingFailure as error:
                    # A remote model may be back later; until then search says that it is lexical only.
                    self._indexer.embedding_problem = error.message
                    log.warning("embedding: %s", error.message)
                    self._stopping.wait(_RETRY_SECONDS)
                except Exception:  # as above: report, and try again when there is something new
                    log.exception("embedding failed")
                    break

    def _guarded(self, step: Callable[[], object]) -> None:
        try:
            step()
        except BaseNotFound:
            log.debug("a base was destroyed before its notice was looked at")
        except KbgitError as error:
            log.error("indexing: %s", error.message)
        except Exception:  # a fault of ours must not end the thread that every base depends on
            log.exception("indexing failed")
