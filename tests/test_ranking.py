"""Rankings: fusion by its formulas, items by their best passage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from kbgit.ranking import Legs, Mode, fused, item_ranks, ranked, reciprocal_rank

SCORES = arrays.arrays(np.float32, st.integers(0, 300), elements=st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0]))


@given(SCORES, st.integers(1, 40), st.sampled_from([0.0, 0.25, 0.5]))
def test_items_come_once_each_by_their_best_passage(score: np.ndarray, items: int, bar: float) -> None:
    item = np.arange(len(score), dtype=np.int64) % items
    found = list(ranked(score, score, item, lambda rows: rows, bar))
    best = {ordinal: score[item == ordinal].max() for ordinal in set(item.tolist())}
    expected = {ordinal: value for ordinal, value in best.items() if value > 0 and value >= bar}
    assert [entry.score for entry in found] == pytest.approx(sorted(expected.values(), reverse=True))
    assert {int(item[entry.rows[0]]) for entry in found} == set(expected)
    assert all(score[entry.rows[0]] == pytest.approx(entry.score) for entry in found)


def test_linear_fusion_is_the_weighted_sum() -> None:
    legs = Legs(np.array([1.0, 0.0], np.float32), np.array([0.0, 0.5], np.float32))
    item = np.array([0, 1])
    assert fused(legs, item, Mode.HYBRID, alpha=0.25, k=60).tolist() == pytest.approx([0.25, 0.375])


def test_reciprocal_rank_is_computed_over_items_and_misses_add_nothing() -> None:
    lexical = np.array([0.9, 0.5, 0.0, 0.3], np.float32)
    semantic = np.array([0.0, 0.2, 0.8, 0.1], np.float32)
    item = np.array([0, 0, 1, 2])
    scores = reciprocal_rank(Legs(lexical, semantic), item, 60)
    assert scores[0] == scores[1] == pytest.approx(1 / 61 + 1 / 62)
    assert scores[2] == pytest.approx(1 / 61)
    assert scores[3] == pytest.approx(1 / 62 + 1 / 63)


def test_ties_share_the_better_rank() -> None:
    leg = np.array([0.5, 0.5, 0.1, 0.0], np.float32)
    assert item_ranks(leg, np.array([0, 1, 2, 3])).tolist() == [1, 1, 3, 0]


def test_equal_scores_are_ordered_by_what_the_passages_are_and_not_by_where_they_stand() -> None:
    numbers = np.array([30, 10, 20])
    for places in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        placed = numbers[places]
        score = np.ones(3, np.float32)
        found = ranked(score, score, np.arange(3), placed.__getitem__, 0.0)
        assert [int(placed[entry.rows[0]]) for entry in found] == [10, 20, 30]


def test_nothing_ranks_nothing() -> None:
    empty = np.zeros(0, np.float32)
    assert not list(ranked(empty, empty, np.zeros(0, np.int64), lambda rows: rows, 0.0))
    assert item_ranks(empty, np.zeros(0, np.int64)).tolist() == []
