"""From two legs' scores to a ranking of items.

Fusion is linear, after Bruch, Gai and Ingber (2023, "An Analysis of Fusion Functions for Hybrid Retrieval"): each leg is
brought to [0, 1] by its theoretical range, not by the best hit of the day, so that a leg that found nothing good stays
small and scores compare between queries. Lexical scores are divided by the query's own upper bound; cosines are measured
from the level of unrelated texts. RRF is Cormack, Clarke and Büttcher (2009).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from kbgit.index.contract import Floats, Integers, Scores

_DECIMALS = 5
"""Of a score: closer ones are equal."""


class Mode(StrEnum):
    """How results are ranked."""

    HYBRID = "hybrid"
    RRF = "rrf"
    SEMANTIC = "semantic"
    LEXICAL = "lexical"


@dataclass(frozen=True, slots=True)
class RankedItem:
    """An item's place in a ranking: `rows` are its hits among the scored passages, best first."""

    score: float
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Legs:
    """Both legs in [0, 1], per passage; `semantic` is None when the leg was not asked."""

    lexical: Floats
    semantic: Floats | None


def normalised(scores: Scores) -> Legs:
    """Bring both legs to [0, 1]. A passage without a vector has a semantic score of 0."""
    lexical = np.clip(scores.lexical / np.float32(scores.lexical_bound), 0.0, 1.0)
    if scores.cosine is None:
        return Legs(lexical, None)
    above = (np.nan_to_num(scores.cosine, nan=-1.0) - scores.cosine_floor) / max(1e-6, 1.0 - scores.cosine_floor)
    return Legs(lexical, np.clip(above, 0.0, 1.0).astype(np.float32))


def fused(legs: Legs, item: Integers, mode: Mode, *, alpha: float, k: int) -> Floats:
    """One score per passage; 0 is no hit. In RRF every passage has its item's score."""
    if mode is Mode.LEXICAL or legs.semantic is None:
        return legs.lexical
    if mode is Mode.SEMANTIC:
        return legs.semantic
    if mode is Mode.HYBRID:
        return np.float32(alpha) * legs.lexical + np.float32(1.0 - alpha) * legs.semantic
    return reciprocal_rank(legs, item, k)


def reciprocal_rank(legs: Legs, item: Integers, k: int) -> Floats:
    """RRF over items: the sum over legs of 1 / (k + rank), where a leg that did not find the item adds nothing."""
    total = np.zeros(len(item), np.float32)
    for leg in (legs.lexical, legs.semantic):
        if leg is not None:
            ranks = item_ranks(leg, item)
            total += np.where(ranks > 0, 1.0 / (k + ranks), 0.0).astype(np.float32)
    return total


def item_ranks(leg: Floats, item: Integers) -> Integers:
    """Per passage, its item's 1-based rank in one leg by the item's best passage; 0 where the item has no hit.

    Ties share the better rank.
    """
    if not len(item):
        return np.zeros(0, np.int64)
    names, inverse = np.unique(item, return_inverse=True)
    best = np.zeros(len(names), np.float32)
    np.maximum.at(best, inverse, leg)
    ordered = np.sort(best)
    ranks = len(best) - np.searchsorted(ordered, best, side="right") + 1
    return np.where(best > 0, ranks, 0)[inverse].astype(np.int64)


def ranked(
    score: Floats, tiebreak: Floats, item: Integers, order: Callable[[Integers], Integers], min_score: float
) -> Iterator[RankedItem]:
    """Items by their best passage, best first, lazily.

    Equal scores are ordered by `tiebreak`, then by `order` (see `Scores.order`), so that an index and its rebuild agree.
    """
    hits = np.flatnonzero(score > 0)
    # The last bits of a sum depend on the order in which an index happens to hold its passages.
    hit_scores = np.around(score[hits], _DECIMALS).astype(np.float64)
    if min_score > 0:
        kept = hit_scores >= min_score
        hits, hit_scores = hits[kept], hit_scores[kept]
    position = 0
    done: set[int] = set()
    size = 24
    while position < len(hits):
        ordered, ordered_scores = _best(hits, hit_scores, tiebreak, order, size)
        rows_of: dict[int, list[int]] = {}
        best_of: dict[int, float] = {}
        for row, ordinal, value in zip(ordered.tolist(), item[ordered].tolist(), ordered_scores.tolist(), strict=True):
            rows_of.setdefault(ordinal, []).append(row)
            best_of.setdefault(ordinal, value)
        # A later row of an item may lie beyond this window: show only what is certain, its best ones.
        for ordinal, rows in rows_of.items():
            if ordinal not in done:
                done.add(ordinal)
                yield RankedItem(best_of[ordinal], tuple(rows))
        position, size = len(ordered), size * 4


def _best(
    hits: Integers,
    scores: npt.NDArray[np.float64],
    tiebreak: Floats,
    order: Callable[[Integers], Integers],
    size: int,
) -> tuple[Integers, npt.NDArray[np.float64]]:
    """The `size` best of `hits` (and all that tie with the last) in order, and their scores."""
    if size < len(hits):
        threshold = np.partition(scores, len(hits) - size)[len(hits) - size]
        kept = scores >= threshold
        hits, scores = hits[kept], scores[kept]
    ties = np.round(tiebreak[hits].astype(np.float64), _DECIMALS)
    placed = np.lexsort((order(hits), -ties, -scores))
    return hits[placed], scores[placed]
