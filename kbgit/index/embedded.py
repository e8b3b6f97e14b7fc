"""The default index: for each base, Whoosh's postings and Chroma's vectors on disk, joined in NumPy.

    <directory>/<base>/<generation>/lexical     see `kbgit.index.lexical`
    <directory>/<base>/<generation>/vectors     see `kbgit.index.vectors`

A base has one generation; while it is built anew, a second one beside the first, which goes on answering. The one with the
highest number that was stamped with a head is the current one; there is no other record of which it is.

The lexical stamp is the base's commit point. Vectors follow it: a passage without one is pending, whatever the reason.
So the two halves are repaired apart: lost vectors are pending again (and come back from the cache without embedding), a
lost lexical half makes the base's head None, whereupon the indexer builds it anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from urllib.parse import quote, unquote

import numpy as np

from kbgit.embedding.cache import VectorCache
from kbgit.errors import EmbeddingFailure, IndexDamaged, IndexFailure
from kbgit.index.arithmetic import keep_to_one_thread
from kbgit.index.base_index import BaseIndex
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
from kbgit.index.garbage import collect_garbage
from kbgit.index.generation import EMPTY_STATE, NEAREST, Model, View, remove_tree
from kbgit.index.postings import PostingsCache
from kbgit.index.query import parse_query
from kbgit.index.vector_table import DEFAULT_FLOOR
from kbgit.index.vectors import VectorMemory
from kbgit.index.writer import HERE, Writer

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
        writer: Writer = HERE,
    ) -> None:
        """Open lazily what is in `directory`. Without `fingerprint` and `dimension` there is no semantic leg.

        `cache` gives vectors back that were embedded before. Bases whose vectors do not fit into what is left of
        `vector_memory_bytes` are searched approximately. `writer` changes the files, and is closed with the index.
        """
        keep_to_one_thread()
        self._directory = directory
        self._model: Model | None = None
        if fingerprint is not None and dimension is not None:
            self._model = Model(fingerprint, dimension, cache, VectorMemory(vector_memory_bytes))
        self._cache = cache
        self._writer = writer
        self._postings_memory = postings_memory_bytes
        self._scorer = Bm25(PostingsCache(postings_memory_bytes))
        self._bases: dict[str, BaseIndex] = {}
        self._lock = Lock()
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as problem:
            raise IndexFailure(f"{directory} cannot be made: {problem}") from problem
        for leftover in directory.glob(f"{_DROPPED}*"):
            remove_tree(leftover)

    # --- the contract ------------------------------------------------------------------------------------------------

    def state(self, base: str) -> BaseState:
        """What is indexed of `base`; the empty state for an unknown base."""
        found = self._find(base)
        return found.state() if found else EMPTY_STATE

    def items(self, base: str) -> Mapping[str, str]:
        """Item id → revision of everything indexed of `base`."""
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
        collect_garbage()
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
        self._writer.close()

    # --- inside ------------------------------------------------------------------------------------------------------

    def _path(self, base: str) -> Path:
        return self._directory / directory_name(base)

    def _of(self, base: str) -> BaseIndex:
        with self._lock:
            found = self._bases.get(base)
            if found is None:
                found = self._bases[base] = BaseIndex(base, self._path(base), self._model, self._writer)
        return found

    def _find(self, base: str) -> BaseIndex | None:
        """A base that is there; asking for others leaves no trace."""
        return self._of(base) if base in self._bases or self._path(base).is_dir() else None

    def _each(self) -> Iterator[BaseIndex]:
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
