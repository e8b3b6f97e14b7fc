"""The index contract in plain Python, without files: what the default index is tested against.

It shares with it what a text and a query *are* (`kbgit.analysis`, `kbgit.index.terms`, `kbgit.index.query`) and the
constants of the formula, which `kbgit.index.bm25` states; how they are applied is written down a second time here, passage
by passage, to be read rather than to be fast.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from struct import unpack
from threading import RLock

import numpy as np

from kbgit.errors import EmbeddingFailure
from kbgit.index.arithmetic import keep_to_one_thread
from kbgit.index.bm25 import EXPANDED_WEIGHT, K1, LONGEST_ENDING, MOST_EXPANSIONS, SHORTEST_STEM, STEM_WEIGHT, B
from kbgit.index.contract import (
    BaseState,
    Floats,
    IndexedPassage,
    IndexUpdate,
    Integers,
    PendingVectors,
    Query,
    Scope,
    item_number,
)
from kbgit.index.postings import Term
from kbgit.index.query import Phrase, QueryTerm, parse_query
from kbgit.index.terms import passage_terms
from kbgit.index.vector_table import DEFAULT_FLOOR, UNIT_TOLERANCE, cosine_floor, packed


class MemoryIndex:
    """Every base as a list of passages. `dimension` None: there is no semantic leg."""

    def __init__(self, dimension: int | None = None) -> None:
        keep_to_one_thread()
        self._dimension = dimension
        self._bases: dict[str, _Base] = {}
        self._lock = RLock()

    def state(self, base: str) -> BaseState:
        """What is indexed of `base`; the empty state for an unknown base."""
        with self._lock:
            found = self._bases.get(base, _Base())
            with_vector = sum(entry.passage.vector_key in found.vectors for entry in found.entries)
            return BaseState(found.head, len(found.items()), len(found.entries), with_vector)

    def items(self, base: str) -> Mapping[str, str]:
        """Item id → revision of everything indexed of `base`."""
        with self._lock:
            return self._bases.get(base, _Base()).items()

    def update(self, base: str, update: IndexUpdate) -> None:
        """Apply one step."""
        with self._lock:
            self._bases[base] = self._bases.get(base, _Base()).updated(update)

    def rebuild(self, base: str, updates: Iterable[IndexUpdate]) -> None:
        """Build a base anew from nothing."""
        with self._lock:
            known = self._bases.get(base, _Base()).vectors
        built = _Base()
        for update in updates:
            built = built.updated(update)
        wanted = {entry.passage.vector_key for entry in built.entries}
        built.vectors.update({key: vector for key, vector in known.items() if key in wanted})
        with self._lock:
            self._bases[base] = built

    def pending_vectors(self, base: str, limit: int) -> PendingVectors:
        """At most `limit` passages without vector, the most recently indexed first."""
        with self._lock:
            found = self._bases.get(base)
            if found is None or self._dimension is None:
                return PendingVectors(base)
            texts = {
                entry.passage.vector_key: entry.passage.embedding_text
                for entry in sorted(found.entries, key=lambda entry: -entry.step)
                if entry.passage.vector_key not in found.vectors
            }
            return PendingVectors(base, dict(islice(texts.items(), max(0, limit))))

    def add_vectors(self, base: str, vectors: Mapping[str, Floats]) -> None:
        """Store unit vectors by vector key; keys that no passage has (any more) are ignored."""
        for vector in vectors.values():
            is_unit = abs(float(np.linalg.norm(vector)) - 1) < UNIT_TOLERANCE
            if self._dimension is not None and not (is_unit and vector.shape == (self._dimension,)):
                raise EmbeddingFailure(f"not every vector has {self._dimension} dimensions and a length of 1")
        with self._lock:
            if base in self._bases and self._dimension is not None:
                wanted = {entry.passage.vector_key for entry in self._bases[base].entries}
                self._bases[base].vectors.update({key: vector for key, vector in vectors.items() if key in wanted})

    def score(self, query: Query, scope: Scope) -> Scores:
        """Score every passage in `scope`."""
        with self._lock:
            searched = {base: self._bases[base] for base in scope.bases if base in self._bases}
            return _Scoring([entry for base in searched.values() for entry in base.entries]).score(
                query, searched, scope
            )

    def drop(self, base: str) -> None:
        """Forget a base entirely."""
        with self._lock:
            self._bases.pop(base, None)

    def bases(self) -> Iterable[str]:
        """Keys of the bases that have anything indexed."""
        with self._lock:
            return sorted(self._bases)

    def close(self) -> None:
        """Nothing to release; what was indexed stays."""


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """The `Scores` contract as it is."""

    lexical: Floats
    lexical_bound: float
    cosine: Floats | None
    cosine_floor: float
    item: Integers
    passages: Sequence[IndexedPassage]

    def order(self, rows: Integers) -> Integers:
        """What orders equal scores."""
        passages = [self.passages[row] for row in rows.tolist()]
        keys = [int.from_bytes(bytes.fromhex(passage.vector_key[:16]), "big", signed=True) for passage in passages]
        return np.array(
            [item_number(passage.item_id) ^ key for passage, key in zip(passages, keys, strict=True)], np.int64
        )

    def passage(self, row: int) -> IndexedPassage:
        """The passage at `row`."""
        return self.passages[row]


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    """A passage with its terms: token → (weight, positions)."""

    passage: IndexedPassage
    length: int
    terms: Mapping[str, tuple[float, frozenset[int]]]
    step: int

    @classmethod
    def of(cls, passage: IndexedPassage, step: int) -> _Entry:
        terms, length = passage_terms(passage)
        found = {
            token.decode(): (weight, frozenset(unpack(f"<{count}I", positions)))
            for token, count, weight, positions in terms
        }
        return cls(passage, length, found, step)

    def weight(self, term: Iterable[str]) -> float:
        """The largest weight of the tokens that count as one; 0 where none occurs."""
        return max((self.terms[token][0] for token in term if token in self.terms), default=0.0)

    def positions(self, term: Iterable[str]) -> set[int]:
        return {position for token in term if token in self.terms for position in self.terms[token][1]}


@dataclass(slots=True, eq=False)
class _Base:
    head: str | None = None
    entries: list[_Entry] = field(default_factory=list)
    vectors: dict[str, Floats] = field(default_factory=dict)
    steps: int = 0

    def items(self) -> dict[str, str]:
        return {entry.passage.item_id: entry.passage.revision for entry in self.entries}

    def updated(self, update: IndexUpdate) -> _Base:
        revisions = {passage.item_id: passage.revision for passage in update.added}
        gone = update.removed | revisions.keys()
        step = self.steps + 1
        entries = [entry for entry in self.entries if entry.passage.item_id not in gone]
        entries += [
            _Entry.of(passage, step) for passage in update.added if passage.revision == revisions[passage.item_id]
        ]
        wanted = {entry.passage.vector_key for entry in entries}
        vectors = {key: vector for key, vector in self.vectors.items() if key in wanted}
        return _Base(self.head if update.head is None else update.head, entries, vectors, step)


class _Scoring:
    """BM25 over a list of passages."""

    def __init__(self, entries: Sequence[_Entry]) -> None:
        self._entries = entries
        self._lexicon = sorted({token for entry in entries for token in entry.terms})
        self._average = sum(entry.length for entry in entries) / len(entries) if entries else 1.0

    def score(self, query: Query, searched: Mapping[str, _Base], scope: Scope) -> Scores:
        parsed = parse_query(query.text, query.exclude)
        terms = [self._weighted(asked) for asked in parsed.terms]
        rows = [
            (name, entry)
            for name, base in searched.items()
            for entry in base.entries
            if _is_in_scope(entry, scope.bases[name])
            and all(self._holds(entry, phrase) for phrase in parsed.phrases)
            and not any(self._holds(entry, phrase) for phrase in parsed.exclusions)
        ]
        ordinals: dict[tuple[str, str], int] = {}
        item = [ordinals.setdefault((name, entry.passage.item_id), len(ordinals)) for name, entry in rows]
        lexical = [sum(factor * self._saturated(entry, term) for term, factor, _ in terms) for _, entry in rows]
        cosine = None
        if query.vector is not None:
            missing = np.full(len(query.vector), np.nan, np.float32)
            found = [searched[name].vectors.get(entry.passage.vector_key, missing) for name, entry in rows]
            cosine = np.array([float(np.vecdot(vector, query.vector)) for vector in found], np.float32)
        return Scores(
            lexical=np.array(lexical, np.float32),
            lexical_bound=sum(bound for _, _, bound in terms) or 1.0,
            cosine=cosine,
            cosine_floor=DEFAULT_FLOOR if query.vector is None else _floor(searched.values()),
            item=np.array(item, np.int64),
            passages=[entry.passage for _, entry in rows],
        )

    def _weighted(self, asked: QueryTerm) -> tuple[Term, float, float]:
        """The tokens that are looked for, the factor of their saturated frequency, and their share of the bound."""
        term = self._completed(asked.term[0]) if asked.prefix else asked.term
        count = self._count(term)
        factor = most = asked.weight * self._idf(count) * (K1 + 1)
        if not count and asked.expandable:
            for other, share in self._expansions(asked.term[0]):
                if count := self._count(other):
                    term, factor = other, share * asked.weight * self._idf(count) * (K1 + 1)
                    break
        return term, factor, most if asked.required or count else 0.0

    def _saturated(self, entry: _Entry, term: Term) -> float:
        weight = entry.weight(term)
        return weight / (weight + K1 * (1 - B + B * entry.length / self._average)) if weight else 0.0

    def _idf(self, count: int) -> float:
        return math.log(1 + (len(self._entries) - count + 0.5) / (count + 0.5))

    def _count(self, term: Term) -> int:
        return sum(entry.weight(term) > 0 for entry in self._entries)

    def _completed(self, character: str) -> Term:
        return (character, *(token for token in self._lexicon if token.startswith(character) and token != character))

    def _expansions(self, word: str) -> Iterator[tuple[Term, float]]:
        inside = sorted(
            (token for token in self._lexicon if word in token), key=lambda token: not token.startswith(word)
        )
        yield tuple(inside[:MOST_EXPANSIONS]), EXPANDED_WEIGHT
        stem = word[: max(SHORTEST_STEM, len(word) - LONGEST_ENDING)]
        akin = [token for token in self._lexicon if token.startswith(stem)][:MOST_EXPANSIONS]
        yield tuple(token for token in akin if len(token) <= len(word) + LONGEST_ENDING), STEM_WEIGHT

    def _holds(self, entry: _Entry, phrase: Phrase) -> bool:
        starts: set[int] | None = None
        for part in phrase:
            term = self._completed(part.term[0]) if part.prefix else part.term
            places = {position - part.offset for position in entry.positions(term)}
            starts = places if starts is None else starts & places
        return bool(starts)


def _is_in_scope(entry: _Entry, items: frozenset[str] | None) -> bool:
    return items is None or entry.passage.item_id in items


def _floor(bases: Iterable[_Base]) -> float:
    """The floor of each base, weighted by its passages."""
    weighted = []
    for base in bases:
        matrix = np.array(list(base.vectors.values()), np.float32)
        weighted.append((cosine_floor(packed(base.vectors), matrix), len(base.entries)))
    passages = sum(weight for _, weight in weighted)
    return sum(floor * weight for floor, weight in weighted) / passages if passages else DEFAULT_FLOOR
