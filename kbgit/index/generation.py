"""One build of one base: its lexical index and its vectors, and the view that joins them for a query."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, compress, islice
from pathlib import Path
from threading import Lock

import numpy as np

from kbgit.embedding.cache import VectorCache
from kbgit.errors import IndexDamaged, IndexFailure
from kbgit.index.contract import BaseState, Floats, IndexUpdate, Integers
from kbgit.index.lexical import LexicalIndex, Segment, Snapshot
from kbgit.index.vector_table import DEFAULT_FLOOR, UNIT_TOLERANCE, Keys, VectorTable, packed
from kbgit.index.vectors import VectorMemory, VectorStore
from kbgit.index.writer import Writer

EMPTY_STATE = BaseState(head=None, items=0, passages=0, vectors=0)

NEAREST = 400
"""Passages of a base that get a cosine for each leg's sake when its vectors are not in memory."""
_CACHE_PAGE = 2000

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Model:
    """Which vectors are kept, where they may be known from, and how many may be in memory."""

    fingerprint: str
    dimension: int
    cache: VectorCache | None
    memory: VectorMemory

    def can_make(self, vector: Floats) -> bool:
        """Whether it has the right shape and length."""
        return vector.shape == (self.dimension,) and abs(float(np.linalg.norm(vector)) - 1) < UNIT_TOLERANCE


@dataclass(frozen=True, eq=False)
class View:
    """A lexical snapshot joined with the vectors there are: `keys` are the vector keys of its rows, deleted included."""

    snapshot: Snapshot
    keys: Keys
    vectors: VectorStore | None
    table: VectorTable | None
    """The vectors that `joined` refers to; None as long as nobody loaded them."""
    joined: Integers
    """The row in `table` of each passage, -1 where there is none."""

    @property
    def floor(self) -> float:
        """The median cosine between unrelated passages of the base."""
        return DEFAULT_FLOOR if self.vectors is None else self.vectors.floor

    def cosines(self, query: Floats) -> Floats:
        """Exact cosines, shape (rows,)."""
        table, joined = self.table, self.joined
        if table is None:
            if self.vectors is None:
                return np.full(len(self.keys), np.nan, np.float32)
            table = self.vectors.table()
            joined = table.rows(self.keys)
        return np.append(table.cosines(query), np.float32(np.nan))[joined]  # -1 is the last

    def approximate_cosines(self, query: Floats, rows: Integers) -> Floats:
        """Cosines of about the nearest, and exactly of `rows`; NaN for others. Shape (rows,)."""
        assert self.vectors is not None
        known = self.vectors.nearest(query, NEAREST)
        further = {key for row in rows if (key := self.keys[row].ljust(32, b"\0").hex()) not in known}
        keys = [key for key in further if key in self.vectors]
        found = VectorTable(packed([*known, *keys]), np.empty((0, len(query)), np.float32))
        cosines = np.array([*known.values(), *np.vecdot(self.vectors.vectors(keys), query), np.nan], np.float32)
        return cosines[found.rows(self.keys)]


class Generation:
    """One build of a base: its lexical index, its vectors, and what follows from both. Its owner serialises changes."""

    def __init__(self, number: int, directory: Path, model: Model | None, writer: Writer) -> None:
        """Open or create it. Raises `IndexDamaged` when the lexical half is lost; lost vectors are begun anew."""
        self.number = number
        self.directory = directory
        self.lexical = LexicalIndex(directory / "lexical", writer)
        self.model = model
        self._writer = writer
        self.vectors = _opened_vectors(directory / "vectors", model, writer)
        self.wanted: dict[str, int] = {}
        """Vector key → how many passages have it."""
        self.pending: dict[str, None] = {}
        """Keys without a vector, the newest last."""
        self.state = EMPTY_STATE
        self._unasked: dict[str, None] = {}
        self._segment_keys: dict[str, Keys] = {}
        self._view: View | None = None
        self._viewing = Lock()
        self.changed([])

    def apply(self, update: IndexUpdate) -> None:
        """Apply one step to the lexical index, durably. Raises `IndexDamaged`, `IndexFailure`."""
        self.lexical.apply(update.removed, update.added, update.head or self.lexical.snapshot().head)
        self.changed([passage.vector_key for passage in update.added])

    def changed(self, added: Iterable[str]) -> None:
        """Take note of a new lexical snapshot, in which the passages with the keys `added` are the newest."""
        snapshot = self.lexical.snapshot()
        wanted: dict[str, int] = {}
        for live_segment in snapshot.segments:
            keys = live_segment.segment.vector_keys()
            for key in keys if live_segment.live is None else compress(keys, live_segment.live.tolist()):
                wanted[key] = wanted.get(key, 0) + 1
        self.wanted = wanted
        known = {live.segment.segment_id for live in snapshot.segments}
        self._segment_keys = {name: keys for name, keys in self._segment_keys.items() if name in known}
        if self.vectors is not None:
            newest = dict.fromkeys(added)
            before = self.pending
            lost = (key for key in wanted if key not in before and key not in newest)
            older = (key for key in before if key not in newest)
            order = dict.fromkeys(chain(lost, older, reversed(newest)))
            self.pending = {key: None for key in order if key in wanted and key not in self.vectors}
            self._unasked.update((key, None) for key in self.pending if key not in before)
        self.count()

    def count(self) -> None:
        """Bring `state` up to date."""
        snapshot = self.lexical.snapshot()
        lacking = sum(self.wanted[key] for key in self.pending)
        vectors = snapshot.passages - lacking if self.vectors is not None else 0
        self.state = BaseState(snapshot.head, len(snapshot.items), snapshot.passages, vectors)

    def add(self, vectors: Mapping[str, Floats]) -> None:
        """Store those of `vectors` that are pending."""
        if self.vectors is None:
            return
        self.vectors.add({key: vector for key, vector in vectors.items() if key in self.pending})
        for key in vectors:
            self.pending.pop(key, None)
        if not self.pending:
            self.vectors.settle()
        self.count()

    def fill(self) -> None:
        """Give pending passages the vectors that the cache knows; it is asked once for each."""
        if self.model is None or self.model.cache is None:
            return
        while keys := list(islice(reversed(self._unasked), _CACHE_PAGE)):
            for key in keys:
                del self._unasked[key]
            known = self.model.cache.get_many(self.model.fingerprint, [key for key in keys if key in self.pending])
            self.add({key: vector for key, vector in known.items() if self.model.can_make(vector)})

    def take_vectors(self, other: Generation | None) -> None:
        """Give pending passages the vectors that `other` has."""
        if other is not None and other.vectors is not None:
            keys = [key for key in self.pending if key in other.vectors]
            self.add(dict(zip(keys, other.vectors.vectors(keys), strict=True)))

    def trim(self) -> None:
        """Remove vectors that no passage has any more."""
        if self.vectors is not None and len(self.vectors) > len(self.wanted) - len(self.pending):
            self.vectors.remove([key for key in self.vectors.keys() if key not in self.wanted])  # noqa: SIM118
            if not self.pending:
                self.vectors.settle()

    def lose_vectors(self, problem: IndexFailure) -> None:
        """Begin the vectors anew."""
        if self.vectors is not None:
            log.warning("vectors in %s are begun anew: %s", self.directory, problem)
            with suppress(IndexFailure):
                self.vectors.destroy()
            self.vectors = _opened_vectors(self.directory / "vectors", self.model, self._writer)
            self.pending = {}  # so that the cache is asked for all of them again
            self.changed([])

    def view(self) -> View:
        """Both halves as they are now."""
        snapshot = self.lexical.snapshot()
        vectors = self.vectors
        table = vectors.table() if vectors is not None and vectors.is_in_memory else None
        view = self._view
        if view is None or view.snapshot is not snapshot or view.table is not table or view.vectors is not vectors:
            with self._viewing:
                keys = [self._keys_of(live.segment) for live in snapshot.segments]
                every = np.concatenate(keys) if keys else packed([])
                joined = table.rows(every) if table is not None else np.full(len(every), -1, np.int64)
                view = self._view = View(snapshot, every, vectors, table, joined)
        return view

    def texts(self, limit: int) -> dict[str, str]:
        """Vector key → text of the `limit` newest pending passages."""
        keys = list(islice(reversed(self.pending), max(0, limit)))
        sought = VectorTable(packed(keys), np.empty((0, 0), np.float32))
        texts: dict[str, str] = {}
        for live_segment in self.lexical.snapshot().segments:
            segment, live = live_segment.segment, live_segment.live
            at = sought.rows(self._keys_of(segment))
            for row in np.flatnonzero((at >= 0) if live is None else (at >= 0) & live).tolist():
                if (key := keys[at[row]]) not in texts:
                    texts[key] = segment.passage(row, "").embedding_text
        return {key: texts[key] for key in keys if key in texts}

    def remove(self) -> None:
        """Remove every file; views that were handed out stay valid as far as they had been read."""
        if self.vectors is not None:
            with suppress(IndexFailure):
                self.vectors.destroy()
        remove_tree(self.directory)

    def close(self) -> None:
        """Make everything durable, close the files, free the memory."""
        if self.vectors is not None:
            try:
                self.vectors.settle()
            except IndexFailure as problem:  # whoever opens them finds no stamp; nothing else must stay open for that
                log.warning("vectors in %s will be begun anew: %s", self.directory, problem)
            self.vectors.unload()

    def _keys_of(self, segment: Segment) -> Keys:
        keys = self._segment_keys.get(segment.segment_id)
        if keys is None:
            keys = self._segment_keys[segment.segment_id] = packed(segment.vector_keys())
        return keys


def _opened_vectors(directory: Path, model: Model | None, writer: Writer) -> VectorStore | None:
    """The vectors of a generation, begun anew when they are damaged; None without a model or when they are kept from us."""
    if model is None:
        return None
    try:
        try:
            return VectorStore(directory, model.fingerprint, model.dimension, model.memory, writer)
        except IndexDamaged as problem:
            log.warning("vectors in %s are begun anew: %s", directory, problem)
            remove_tree(directory)
            return VectorStore(directory, model.fingerprint, model.dimension, model.memory, writer)
    except IndexFailure as problem:
        log.error("vectors in %s cannot be used: %s", directory, problem)
        return None


def remove_tree(directory: Path) -> None:
    """Remove `directory` with all it holds, if it is there. Raises `IndexFailure`."""
    try:
        if directory.exists():
            shutil.rmtree(directory)
    except OSError as problem:
        raise IndexFailure(f"{directory} cannot be removed: {problem}") from problem
