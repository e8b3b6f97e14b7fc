"""BM25 over whole arrays: every passage of the bases in scope is scored, by one scatter-add per term and segment.

    scorer = Bm25(PostingsCache(limit_bytes))
    scores = scorer.score(parse_query(text, exclude), [Searched(base, snapshot, allowed_items), …])
    scores.lexical, scores.bound, scores.item, scores.passage(row)

The score of passage d for a query is, after Robertson and Zaragoza (2009) with Lucene's never negative idf,

    Σ over terms t of  weight(t) · idf(t) · f · (k1 + 1) / (f + k1 · (1 − b + b · |d| / average length))
    idf(t) = ln(1 + (N − n(t) + ½) / (n(t) + ½))

where f is the term's weight in d (`kbgit.index.terms`), n(t) the passages that hold it, and N, n(t) and the average are
taken over the passages of the searched bases that are not deleted, and over nothing else: what a caller may not read has
no influence, and an index that was built step by step ranks like one that was rebuilt.

The upper bound of a query is Σ weight(t) · idf(t) · (k1 + 1), the limit for f → ∞, over the terms it asks for (with
idf at n = 0 for a word that occurs nowhere) and those of its further forms that occur. No score exceeds it, and a query
whose words are missing cannot reach it: this is what makes scores comparable between queries.

A word of five letters or more that occurs nowhere in scope stands, at half its weight, for the words it is part of
(Donaudampfschiff, restart → restarting); failing that, at a third, for those that share its stem. Other queries are not
touched by this.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock

import numpy as np
import numpy.typing as npt

from kbgit.index.contract import Floats, IndexedPassage, Integers
from kbgit.index.lexical import Segment, Snapshot
from kbgit.index.phrase import phrase_rows
from kbgit.index.postings import Postings, PostingsCache, Term
from kbgit.index.query import ParsedQuery, Phrase, QueryTerm

K1 = 1.2
B = 0.75

EXPANDED_WEIGHT = 0.5
STEM_WEIGHT = 0.35
MOST_EXPANSIONS = 32
"""Tokens of one segment that a word which occurs nowhere may stand for."""
SHORTEST_STEM = 5
LONGEST_ENDING = 3

_COLLECTIONS_KEPT = 16

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Searched:
    """A base to search: its key, the state of its index, and the items that count (None: all)."""

    base: str
    snapshot: Snapshot
    items: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """A segment within a collection: its rows are `start` to `end`."""

    segment: Segment
    live: Mask | None
    start: int
    end: int
    base: int
    """Index of its base in the collection."""


class Collection:
    """The passages of several snapshots as one range of rows: snapshot by snapshot, segment by segment."""

    def __init__(self, snapshots: Sequence[Snapshot]) -> None:
        self.snapshots = tuple(snapshots)
        self.segments: list[Placed] = []
        self.starts: list[int] = []
        """The first row of each snapshot."""
        end = 0
        for base, snapshot in enumerate(snapshots):
            self.starts.append(end)
            for live_segment in snapshot.segments:
                start, end = end, end + live_segment.segment.size
                self.segments.append(Placed(live_segment.segment, live_segment.live, start, end, base))
        self.size = end
        self.rows: Integers = np.arange(end, dtype=np.int64)
        self.live: Mask | None = None
        if any(placed.live is not None for placed in self.segments):
            self.live = np.ones(end, dtype=np.bool_)
            for placed in self.segments:
                if placed.live is not None:
                    self.live[placed.start : placed.end] = placed.live
        self.passages = end if self.live is None else int(np.count_nonzero(self.live))
        self.norms = self._norms()
        """k1 · (1 − b + b · |d| / average length) of each row, shape (size,)."""

    def _norms(self) -> Floats:
        if not self.size:
            return np.empty(0, np.float32)
        lengths = np.concatenate([placed.segment.lengths for placed in self.segments])
        counted = lengths if self.live is None else lengths[self.live]
        average = float(counted.mean(dtype=np.float64)) if counted.size else 1.0
        return (K1 * (1 - B + B * lengths / average)).astype(np.float32)

    @cached_property
    def item(self) -> Integers:
        """The item of each row as an ordinal of the collection, shape (size,)."""
        ordinals: list[Integers] = []
        start = 0
        for placed in self.segments:
            ordinals.append(placed.segment.item + start)
            start += len(placed.segment.items)
        return np.concatenate(ordinals) if ordinals else np.empty(0, np.int64)

    @cached_property
    def order(self) -> Integers:
        """The `Segment.order` of each row, shape (size,)."""
        return np.concatenate([placed.segment.order for placed in self.segments] or [np.empty(0, np.int64)])


@dataclass(frozen=True, slots=True, eq=False)
class LexicalScores:
    """Scores of the n passages that are in scope and not ruled out, as parallel arrays in the order of their rows."""

    lexical: Floats
    """Shape (n,); 0 where no term of the query occurs."""
    bound: float
    """What no query of these terms can exceed; > 0."""
    rows: Integers
    """The row of each in `collection`, shape (n,), ascending."""
    item: Integers
    """An ordinal of each one's item, shape (n,): equal for passages of one item, different for others."""
    collection: Collection
    bases: tuple[str, ...]

    def passage(self, index: int) -> IndexedPassage:
        """The passage that `lexical[index]` is the score of."""
        row = int(self.rows[index])
        placed = next(placed for placed in self.collection.segments if row < placed.end)
        return placed.segment.passage(row - placed.start, self.bases[placed.base])


class Bm25:
    """Scores queries over snapshots. Thread-safe; keeps the arrays of the collections it was asked about last."""

    def __init__(self, cache: PostingsCache) -> None:
        self._cache = cache
        self._collections: OrderedDict[tuple[int, ...], Collection] = OrderedDict()
        self._lock = Lock()

    def score(self, query: ParsedQuery, searched: Sequence[Searched]) -> LexicalScores:
        """Score every passage of `searched` that neither a phrase nor an exclusion rules out."""
        collection = self.collection([one.snapshot for one in searched])
        scores = np.zeros(collection.size, dtype=np.float32)
        bound = 0.0
        for term in query.terms:
            bound += self._add(term, collection, scores)
        kept = self._kept(query, collection, searched)
        rows = collection.rows
        item = collection.item
        if kept is not None:
            rows, item, scores = rows[kept], item[kept], scores[kept]
        return LexicalScores(
            lexical=scores,
            bound=bound or 1.0,
            rows=rows,
            item=item,
            collection=collection,
            bases=tuple(one.base for one in searched),
        )

    def collection(self, snapshots: Sequence[Snapshot]) -> Collection:
        """The collection of `snapshots`, the same object while it is remembered."""
        key = tuple(map(id, snapshots))
        with self._lock:
            if key in self._collections:
                self._collections.move_to_end(key)
                return self._collections[key]
        made = Collection(snapshots)
        with self._lock:
            made = self._collections.setdefault(key, made)  # it holds the snapshots, so their ids stay theirs
            while len(self._collections) > _COLLECTIONS_KEPT:
                self._collections.popitem(last=False)
        return made

    def _add(self, asked: QueryTerm, collection: Collection, scores: Floats) -> float:
        """Add the contributions of `asked` to `scores`; answer what it adds to the bound."""
        found, count = self._find(asked, collection)
        most = weight = asked.weight * _idf(count, collection.passages) * (K1 + 1)
        if not count and asked.expandable:
            found, count, share = self._expand(asked.term[0], collection)
            weight = share * asked.weight * _idf(count, collection.passages) * (K1 + 1)
        for placed, postings in found:
            rows, frequencies = postings.rows, postings.weights
            norms = collection.norms[placed.start : placed.end][rows]
            scores[placed.start : placed.end][rows] += np.float32(weight) * frequencies / (frequencies + norms)
        return most if asked.required or count else 0.0

    def _find(self, asked: QueryTerm, collection: Collection) -> tuple[list[tuple[Placed, Postings]], int]:
        """The postings of `asked` in each segment without deleted rows, and how many there are in all."""
        found = []
        for placed in collection.segments:
            term = self._cache.completed(placed.segment, asked.term[0]) if asked.prefix else asked.term
            found.append((placed, self._live_postings(placed, term)))
        return found, sum(postings.rows.size for _, postings in found)

    def _live_postings(self, placed: Placed, term: Term) -> Postings:
        postings = self._cache.postings(placed.segment, term)
        if placed.live is None:
            return postings
        live = placed.live[postings.rows]
        return Postings(postings.rows[live], postings.weights[live])

    def _expand(self, word: str, collection: Collection) -> tuple[list[tuple[Placed, Postings]], int, float]:
        """Postings of the words that contain `word` or share its stem, their number, and their share of its weight."""
        stem = word[: max(SHORTEST_STEM, len(word) - LONGEST_ENDING)]
        longest = len(word) + LONGEST_ENDING
        for part, share in ((word, EXPANDED_WEIGHT), (stem, STEM_WEIGHT)):
            found = []
            for placed in collection.segments:
                lexicon = self._cache.lexicon(placed.segment)
                tokens = lexicon.starting_with(part, MOST_EXPANSIONS)
                if share is STEM_WEIGHT:
                    tokens = [token for token in tokens if len(token) <= longest]
                else:
                    tokens += lexicon.containing(part, MOST_EXPANSIONS - len(tokens))
                if tokens:
                    found.append((placed, self._live_postings(placed, tuple(dict.fromkeys(tokens)))))
            if count := sum(postings.rows.size for _, postings in found):
                return found, count, share
        return [], 0, 0.0

    def _kept(self, query: ParsedQuery, collection: Collection, searched: Sequence[Searched]) -> Mask | None:
        """Which rows are in scope and not ruled out; None for all of them."""
        unfiltered = all(one.items is None for one in searched)
        if collection.live is None and unfiltered and not query.phrases and not query.exclusions:
            return None
        kept = np.ones(collection.size, np.bool_) if collection.live is None else collection.live.copy()
        for placed in collection.segments:
            part = kept[placed.start : placed.end]
            items = searched[placed.base].items
            if items is not None:
                part &= _allowed(placed.segment, items)
            for phrase in query.phrases:
                part &= self._holds(phrase, placed.segment)
            for phrase in query.exclusions:
                part &= ~self._holds(phrase, placed.segment)
        return kept

    def _holds(self, phrase: Phrase, segment: Segment) -> Mask:
        holds = np.zeros(segment.size, dtype=np.bool_)
        holds[phrase_rows(phrase, segment, self._cache)] = True
        return holds


def _allowed(segment: Segment, items: frozenset[str]) -> Mask:
    allowed = np.zeros(len(segment.items), dtype=np.bool_)
    ordinal_of = segment.ordinal_of
    common = items if len(items) < len(ordinal_of) else ordinal_of.keys()
    allowed[[ordinal_of[item] for item in common if item in ordinal_of and item in items]] = True
    return allowed[segment.item]


def _idf(count: int, passages: int) -> float:
    return math.log(1 + (passages - count + 0.5) / (count + 0.5))
