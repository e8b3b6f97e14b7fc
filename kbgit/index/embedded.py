"""The default index: for each base, Whoosh's postings and Chroma's vectors on disk, joined in NumPy.

    <directory>/<base>/<generation>/lexical     see `kbgit.index.lexical`
    <directory>/<base>/<generation>/vectors     see `kbgit.index.vectors`

A base has one generation, or, after `reset`, a second one that is built while the first goes on answering. The one with
the highest number that was stamped with a head is the current one; there is no other record of which it is.

The lexical stamp is the base's commit point. Vectors follow it: a passage without one is pending, whatever the reason.
So the two halves are repaired apart: lost vectors are pending again (and come back from the cache without embedding), a
lost lexical half makes the base's head None, whereupon the indexer builds it anew.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, RLock
from urllib.parse import quote, unquote

import numpy as np

from kbgit.embedding.cache import VectorCache
from kbgit.errors import EmbeddingFailure, IndexDamaged, IndexFailure
from kbgit.index.arithmetic import keep_to_one_thread
from kbgit.index.bm25 import Bm25, LexicalScores, Searched
from kbgit.index.contract import (
    BaseState,
    Floats,
    IndexedPassage,
    IndexUpdate,
    Integers,
    PendingVectors,
    Query,
    Scope,
)
from kbgit.index.generation import EMPTY_STATE, NEAREST, Generation, Model, View, remove_tree
from kbgit.index.postings import PostingsCache
from kbgit.index.query import parse_query
from kbgit.index.vector_table import DEFAULT_FLOOR
from kbgit.index.vectors import VectorMemory, VectorStore

_SMALL_SCOPE = 2 * NEAREST
"""Passages in scope of which all are looked up exactly when vectors are not in memory."""
_DROPPED = "dropped-"
"""Begins the name of a directory that is being removed; no encoded base does, all of them hold a `%3A`."""

log = logging.getLogger(__name__)


def directory_name(base: str) -> str:
    """A base's key as the name of a directory: `team%3Aplatform%2Frunbooks`. Reversible, and never `.` or `..`."""
    return quote(base, safe="").replace(".", "%2E")


class EmbeddedIndex:
    """The `Index` contract over directories of one process. See the module for what is where."""

    def __init__(
        self,
        directory: Path,
        *,
        fingerprint: str | None,
        dimension: int | None,
        cache: VectorCache | None,
        vector_memory_bytes: int,
        postings_memory_bytes: int,
    ) -> None:
        """Open lazily what is in `directory`. Without `fingerprint` and `dimension` there is no semantic leg.

        `cache` gives vectors back that were embedded before. Bases whose vectors do not fit into what is left of
        `vector_memory_bytes` are searched approximately.
        """
        keep_to_one_thread()
        self._directory = directory
        self._model: Model | None = None
        if fingerprint is not None and dimension is not None:
            self._model = Model(fingerprint, dimension, cache, VectorMemory(vector_memory_bytes))
        self._cache = cache
        self._postings_memory = postings_memory_bytes
        self._scorer = Bm25(PostingsCache(postings_memory_bytes))
        self._bases: dict[str, _BaseIndex] = {}
        self._lock = Lock()
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as problem:
            raise IndexFailure(f"{directory} cannot be made: {problem}") from problem
        for leftover in directory.glob(f"{_DROPPED}*"):
            remove_tree(leftover)

    # --- the contract ------------------------------------------------------------------------------------------------

    def state(self, base: str) -> BaseState:
        """What is indexed of `base`; while it is built anew after `reset`, what there is of the new one."""
        found = self._find(base)
        return found.state() if found else EMPTY_STATE

    def items(self, base: str) -> Mapping[str, str]:
        """Item id → revision of everything indexed of `base`; of the new one after `reset`, like `state`."""
        found = self._find(base)
        return found.items() if found else {}

    def update(self, base: str, update: IndexUpdate) -> None:
        """Apply one step, durably, then stamp its head. Raises `IndexFailure`; then the old state still answers."""
        self._of(base).update(update)

    def rebuild(self, base: str, updates: Iterable[IndexUpdate]) -> None:
        """Build `base` anew beside what answers, which goes on answering until the last update is complete."""
        self._of(base).rebuild(updates)

    def pending_vectors(self, base: str, limit: int) -> PendingVectors:
        """At most `limit` passages without vector, newest first, after those that the cache knows have got theirs."""
        found = self._find(base)
        return PendingVectors(base, found.pending(limit) if found else {})

    def add_vectors(self, base: str, vectors: Mapping[str, Floats]) -> None:
        """Store unit vectors by vector key; keys that no passage has (any more) are ignored.

        Raises `EmbeddingFailure` for what is no unit vector of the right dimension, `IndexFailure` for a store that
        takes none now; passages are searched by their words meanwhile.
        """
        if self._model and not all(map(self._model.can_make, vectors.values())):
            raise EmbeddingFailure(f"not every vector has {self._model.dimension} dimensions and a length of 1")
        if found := self._find(base):
            found.add_vectors(vectors)

    def score(self, query: Query, scope: Scope) -> Scores:
        """Score every passage in `scope`. A base that proves unreadable is left out, and becomes empty."""
        views = dict(self._views(scope))
        try:
            return self._score(query, scope, views)
        except IndexFailure:
            sound = {base: view for base, view in views.items() if self._of(base).is_sound()}
            return self._score(query, scope, sound)

    def drop(self, base: str) -> None:
        """Forget a base: its directory, and every cached vector that no other base needs."""
        found = self._of(base)  # it stays known until it has gone, so that nobody opens what is being removed
        found.drop(self._directory / f"{_DROPPED}{directory_name(base)}")
        with self._lock:
            self._bases.pop(base, None)
            self._scorer = Bm25(PostingsCache(self._postings_memory))  # its memory holds snapshots of the base
        gc.collect()  # Whoosh's readers are cycles, which would keep removed files open
        if self._cache is not None:
            self._cache.prune(frozenset().union(*(other.wanted() for other in self._each())))

    def bases(self) -> Iterable[str]:
        """Keys of the bases that have anything indexed."""
        return sorted(
            unquote(path.name)
            for path in self._directory.iterdir()
            if path.is_dir() and not path.name.startswith(_DROPPED)
        )

    def close(self) -> None:
        """Release files and memory. The index can be opened again."""
        with self._lock:
            bases, self._bases = list(self._bases.values()), {}
        for base in bases:
            base.close()

    # --- beyond the contract -----------------------------------------------------------------------------------------

    def reset(self, base: str) -> None:
        """Build `base` anew: `state` is empty from now on, and `score` answers from what was there until the first
        update with a head is complete."""
        self._of(base).reset()

    # --- inside ------------------------------------------------------------------------------------------------------

    def _path(self, base: str) -> Path:
        return self._directory / directory_name(base)

    def _of(self, base: str) -> _BaseIndex:
        with self._lock:
            found = self._bases.get(base)
            if found is None:
                found = self._bases[base] = _BaseIndex(base, self._path(base), self._model)
        return found

    def _find(self, base: str) -> _BaseIndex | None:
        """A base that is there; asking for others leaves no trace."""
        return self._of(base) if base in self._bases or self._path(base).is_dir() else None

    def _each(self) -> Iterator[_BaseIndex]:
        return (found for base in self.bases() if (found := self._find(base)) is not None)

    def _views(self, scope: Scope) -> Iterator[tuple[str, View]]:
        for base in scope.bases:
            try:
                found = self._find(base)
                view = found.view() if found else None
            except IndexFailure as problem:
                log.error("%s is left out of a search: %s", base, problem)
                continue
            if view is not None:
                yield base, view

    def _score(self, query: Query, scope: Scope, views: Mapping[str, View]) -> Scores:
        searched = [Searched(base, view.snapshot, scope.bases[base]) for base, view in views.items()]
        found = self._scorer.score(parse_query(query.text, query.exclude), searched)
        if query.vector is None:
            return Scores(found, None, DEFAULT_FLOOR, self._verify)
        legs = [
            self._semantic_leg(base, view, query.vector, found, start)
            for (base, view), start in zip(views.items(), found.collection.starts, strict=True)
        ]
        every = np.concatenate([cosines for cosines, _ in legs]) if legs else np.empty(0, np.float32)
        weights = [view.snapshot.passages for view in views.values()]
        floor = float(np.average([floor for _, floor in legs], weights=weights)) if sum(weights) else DEFAULT_FLOOR
        return Scores(found, every[found.rows] if len(found.rows) < len(every) else every, floor, self._verify)

    def _semantic_leg(
        self, base: str, view: View, vector: Floats, found: LexicalScores, start: int
    ) -> tuple[Floats, float]:
        """Cosines of the rows of one base, which begin at row `start` of the collection, and the floor of the base."""
        try:
            if view.vectors is None or view.vectors.may_be_in_memory():
                return view.cosines(vector), view.floor
            rows = _rows_to_look_up(found, start, start + len(view.keys))
            return view.approximate_cosines(vector, rows), view.floor
        except IndexFailure as problem:
            log.error("vectors of %s are left out of a search: %s", base, problem)
            if isinstance(problem, IndexDamaged):
                self._of(base).lost_vectors(view.vectors, problem)
            return np.full(len(view.keys), np.nan, np.float32), DEFAULT_FLOOR

    def _verify(self, bases: Iterable[str]) -> None:
        for base in bases:
            if (found := self._find(base)) is not None:
                found.is_sound()


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """The `Scores` contract: lexical scores, with the cosines of the same rows."""

    found: LexicalScores
    cosine: Floats | None
    cosine_floor: float
    verify: Callable[[Iterable[str]], None]
    """Reads bases again, and gives up those that are damaged."""

    @property
    def lexical(self) -> Floats:
        """BM25 scores, shape (n,)."""
        return self.found.lexical

    @property
    def lexical_bound(self) -> float:
        """Upper bound of `lexical`."""
        return self.found.bound

    @property
    def item(self) -> Integers:
        """Item ordinals, shape (n,)."""
        return self.found.item

    def order(self, rows: Integers) -> Integers:
        """What orders equal scores."""
        return self.found.collection.order[self.found.rows[rows]]

    def passage(self, row: int) -> IndexedPassage:
        """The passage at `row`. Raises `IndexDamaged`; then its base is empty from now on, to be built anew."""
        try:
            return self.found.passage(row)
        except IndexDamaged:
            self.verify(self.found.bases)
            raise


def _rows_to_look_up(found: LexicalScores, start: int, end: int) -> Integers:
    """The rows of one base, counted from its first, whose cosine is worth a look: those that score best lexically, or
    all that are in scope when they are few."""
    first, last = np.searchsorted(found.rows, (start, end))
    rows = found.rows[first:last] - start
    if len(rows) <= _SMALL_SCOPE:
        return rows
    scores = found.lexical[first:last]
    best = np.argpartition(-scores, NEAREST)[:NEAREST]
    return rows[best[scores[best] > 0]]


class _BaseIndex:
    """One base: the generation that answers, and the one that is being built if there is one. Thread-safe."""

    def __init__(self, base: str, directory: Path, model: Model | None) -> None:
        self._base = base
        self._directory = directory
        self._model = model
        self._changing = RLock()
        self._current: Generation | None = None
        self._building: Generation | None = None
        self._is_open = False
        self._is_dropped = False

    def state(self) -> BaseState:
        generation = self._shown()
        return generation.state if generation else EMPTY_STATE

    def items(self) -> Mapping[str, str]:
        generation = self._shown()
        return generation.lexical.snapshot().items if generation else {}

    def wanted(self) -> Iterable[str]:
        self._open()
        generations = (self._current, self._building)
        return {key for generation in generations if generation for key in generation.wanted}

    def view(self) -> View | None:
        self._open()
        generation = self._current
        return generation.view() if generation else None

    def update(self, update: IndexUpdate) -> None:
        with self._changing:
            self._open()
            if self._is_dropped:
                raise IndexFailure(f"{self._base} was dropped")
            generation = self._shown()
            if generation is None:
                generation = self._current = self._begin(1)
            try:
                generation.apply(update)
            except IndexDamaged as problem:
                self._give_up(generation, problem)
                raise
            if generation is self._building and update.head is not None:
                self._switch(generation)
            with suppress(IndexFailure):  # what has no use any more does no harm; the next update tries again
                self._change_vectors(generation, generation.trim)

    def rebuild(self, updates: Iterable[IndexUpdate]) -> None:
        self._open()
        built = self._begin(self._current.number + 1 if self._current else 1)
        try:
            for update in updates:
                built.apply(update)
            with suppress(IndexFailure):  # what is missing yet is embedded as ever
                built.fill()
                built.take_vectors(self._current)
        except BaseException:
            built.remove()
            raise
        with self._changing:
            if self._is_dropped:
                built.remove()
                raise IndexFailure(f"{self._base} was dropped")
            self._switch(built)

    def pending(self, limit: int) -> dict[str, str]:
        with self._changing:
            generation = self._shown()
            if generation is None:
                return {}
            self._change_vectors(generation, generation.fill)
            try:
                return generation.texts(limit)
            except IndexDamaged as problem:
                self._give_up(generation, problem)
                return {}

    def add_vectors(self, vectors: Mapping[str, Floats]) -> None:
        with self._changing:
            if generation := self._shown():
                self._change_vectors(generation, lambda: generation.add(vectors))

    def lost_vectors(self, vectors: VectorStore | None, problem: IndexFailure) -> None:
        with self._changing:
            for generation in (self._current, self._building):
                if generation is not None and generation.vectors is vectors:
                    generation.lose_vectors(problem)

    def is_sound(self) -> bool:
        """Whether what answers is as it was written; if not, it is given up and the base is empty."""
        with self._changing:
            if self._current is None:
                return False
            try:
                self._current.lexical.refresh()
            except IndexDamaged as problem:
                self._give_up(self._current, problem)
                return False
            except IndexFailure as problem:
                log.error("%s is left out of a search: %s", self._base, problem)
                return False
            return True

    def reset(self) -> None:
        with self._changing:
            self._open()
            if self._current is None:
                return
            if self._building is not None:
                self._building.remove()
            self._building = self._begin(self._current.number + 1)

    def drop(self, trash: Path) -> None:
        with self._changing:
            self._is_dropped = True
            for generation in (self._current, self._building):
                if generation is not None and generation.vectors is not None:
                    with suppress(IndexFailure):
                        generation.vectors.destroy()
            self._current = self._building = None
            self._is_open = True
            # Renamed first, so that a crash leaves no half of it that could be taken for a base.
            try:
                if self._directory.exists():
                    self._directory.rename(trash)
            except OSError as problem:
                raise IndexFailure(f"{self._directory} cannot be removed: {problem}") from problem
            remove_tree(trash)

    def close(self) -> None:
        with self._changing:
            for generation in (self._current, self._building):
                if generation is not None:
                    generation.close()
            self._current = self._building = None
            self._is_open = False

    # --- inside ------------------------------------------------------------------------------------------------------

    def _shown(self) -> Generation | None:
        self._open()
        return self._building or self._current

    def _open(self) -> None:
        if self._is_open:
            return
        with self._changing:
            if self._is_open:
                return
            for number in self._numbers():
                generation = self._opened(number)
                if generation is None:
                    continue
                if self._current is None or (self._current.state.head is None and generation.state.head is not None):
                    if self._current is not None:
                        self._current.remove()
                    self._current = generation
                else:
                    generation.remove()
            self._is_open = True
            if (current := self._current) is not None:
                # A crash may have come between a step and what follows from it; vectors of no passage move the floor.
                with suppress(IndexFailure):
                    self._change_vectors(current, current.trim)

    def _numbers(self) -> list[int]:
        """The numbers of the generations on disk, the newest first."""
        try:
            names = [path.name for path in self._directory.iterdir()]
        except FileNotFoundError:
            return []
        except OSError as problem:
            raise IndexFailure(f"{self._directory} cannot be read: {problem}") from problem
        return sorted((int(name) for name in names if name.isdecimal()), reverse=True)

    def _opened(self, number: int) -> Generation | None:
        directory = self._directory / str(number)
        try:
            return Generation(number, directory, self._model)
        except IndexDamaged as problem:
            log.warning("the index of %s must be built anew: %s", self._base, problem)
            remove_tree(directory)
            return None

    def _begin(self, number: int) -> Generation:
        directory = self._directory / str(number)
        remove_tree(directory)
        return Generation(number, directory, self._model)

    def _switch(self, generation: Generation) -> None:
        old, self._current, self._building = self._current, generation, None
        if old is not None:
            old.remove()

    def _give_up(self, generation: Generation, problem: IndexFailure) -> None:
        log.error("the index of %s must be built anew: %s", self._base, problem)
        if generation is self._building:
            self._building = None
        else:
            self._current = None
        generation.remove()

    def _change_vectors(self, generation: Generation, change: Callable[[], None]) -> None:
        """Change vectors; damaged ones are begun anew. Raises `IndexFailure` all the same, so that nobody tries at once."""
        try:
            change()
        except IndexDamaged as problem:
            generation.lose_vectors(problem)
            raise
