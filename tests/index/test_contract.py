"""One suite for every index backend: what `kbgit.index.contract` promises, on `MemoryIndex` and on `EmbeddedIndex`, which
writes in this process or in another. `test_agreement.py` holds the one against the other.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kbgit.errors import EmbeddingFailure
from kbgit.index.apart import Apart
from kbgit.index.contract import BaseState, Floats, Index, IndexedPassage, IndexUpdate, Query, Scope
from kbgit.index.memory import MemoryIndex
from kbgit.index.vector_table import DEFAULT_FLOOR
from tests.index.backends import (
    ADA,
    DIMENSION,
    EVERYTHING,
    ONE,
    QUERY_VECTOR,
    TWO,
    WEB,
    add,
    ask,
    embed,
    embedded,
    passage,
    places,
    remove,
    vector_of,
)

Open = Callable[..., Index]


class _ForAll(Apart):
    """Outlives each index that writes with it: starting it takes longer than most of these tests."""

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apart]:
    """The process for all tests, as a server has one for all bases."""
    writer = _ForAll(tmp_path_factory.mktemp("apart"), os.environ)
    yield writer
    super(_ForAll, writer).close()


@pytest.fixture(params=["memory", "embedded", "apart"])
def open_index(request: pytest.FixtureRequest, tmp_path: Path, apart: Apart) -> Iterator[Open]:
    opened: list[Index] = []

    def open_index(dimension: int | None = DIMENSION) -> Index:
        index: Index
        match request.param:
            case "memory":
                index = MemoryIndex(dimension)
            case "embedded":
                index = embedded(tmp_path / "index", dimension)
            case _:
                index = embedded(tmp_path / "index", dimension, apart)
        opened.append(index)
        return index

    yield open_index
    for index in opened:
        index.close()


@pytest.fixture
def index(open_index: Open) -> Index:
    return open_index()


# --- state -----------------------------------------------------------------------------------------------------------


def test_an_unknown_base_is_empty_and_asking_for_it_leaves_no_trace(index: Index) -> None:
    assert index.state(ADA) == BaseState(None, 0, 0, 0)
    assert index.items(ADA) == {}
    assert index.pending_vectors(ADA, 10).texts == {}
    assert ask(index, "anything").lexical == {}
    index.add_vectors(ADA, {"0" * 64: vector_of("0" * 64)})
    index.drop(ADA)
    assert list(index.bases()) == []


def test_an_update_is_counted_and_stamped(index: Index) -> None:
    add(index, passage("a", "disk"), passage("a", "fan", ordinal=1), passage("b", "disk"))
    assert index.state(ADA) == BaseState(ONE, 2, 3, 0)
    assert index.items(ADA) == {"a": ONE, "b": ONE}
    assert list(index.bases()) == [ADA]


def test_steps_without_a_head_leave_the_stamp_as_it_is(index: Index) -> None:
    add(index, passage("a", "disk"), head=None)
    assert index.state(ADA) == BaseState(None, 1, 1, 0)
    add(index, passage("b", "disk"), head=ONE)
    add(index, passage("c", "disk"), head=None)
    assert index.state(ADA) == BaseState(ONE, 3, 3, 0)
    assert ask(index, "disk").items == {"a", "b", "c"}


def test_an_update_that_changes_nothing_still_moves_the_head(index: Index) -> None:
    add(index, passage("a", "disk"))
    index.update(ADA, IndexUpdate(TWO, frozenset(), ()))
    assert index.state(ADA) == BaseState(TWO, 1, 1, 0)


def test_the_same_update_twice_is_as_once(index: Index) -> None:
    passages = [passage("a", "disk full"), passage("b", "fan loud")]
    add(index, *passages, removed=["a", "b"])
    once = ask(index, "disk")
    add(index, *passages, removed=["a", "b"])
    assert index.state(ADA) == BaseState(ONE, 2, 2, 0)
    assert ask(index, "disk").close_to(once)


# --- building anew ---------------------------------------------------------------------------------------------------


def test_a_rebuild_replaces_everything_at_once_and_keeps_known_vectors(index: Index) -> None:
    add(index, passage("a", "disk"), passage("b", "fan"))
    embed(index)
    before = ask(index, "disk fan")

    def updates() -> Iterator[IndexUpdate]:
        yield IndexUpdate(None, frozenset(), [passage("a", "disk", revision=TWO)])
        assert ask(index, "disk fan").close_to(before)
        assert index.state(ADA) == BaseState(ONE, 2, 2, 2)
        assert index.items(ADA) == {"a": ONE, "b": ONE}
        yield IndexUpdate(TWO, frozenset(), [passage("c", "cable", revision=TWO)])

    index.rebuild(ADA, updates())
    assert index.state(ADA) == BaseState(TWO, 2, 2, 1)
    assert index.items(ADA) == {"a": TWO, "c": TWO}
    assert ask(index, "fan").items == set()
    assert list(index.pending_vectors(ADA, 10).texts.values()) == ["About c\ncable"]


def test_a_rebuild_that_fails_changes_nothing(index: Index) -> None:
    add(index, passage("a", "disk"))
    before = ask(index, "disk")

    def updates() -> Iterator[IndexUpdate]:
        yield IndexUpdate(None, frozenset(), [passage("b", "fan")])
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        index.rebuild(ADA, updates())
    assert index.state(ADA) == BaseState(ONE, 1, 1, 0)
    assert ask(index, "disk").close_to(before)


def test_a_base_that_is_not_there_can_be_built(index: Index) -> None:
    index.rebuild(ADA, [IndexUpdate(ONE, frozenset(), [passage("a", "disk")])])
    assert index.state(ADA) == BaseState(ONE, 1, 1, 0)


# --- changes ---------------------------------------------------------------------------------------------------------


def test_a_changed_item_leaves_no_stale_twin(index: Index) -> None:
    add(index, passage("a", "disk"), passage("b", "other"))
    for number in range(3, 8):
        add(index, passage("a", "fan", revision=str(number) * 40), removed=["a"], head=str(number) * 40)
    assert index.items(ADA) == {"a": "7" * 40, "b": ONE}
    assert ask(index, "disk").items == set()
    assert ask(index, "fan").items == {"a"}
    remove(index, ADA, "a")
    assert ask(index, "fan").items == set()
    assert index.items(ADA) == {"b": ONE}


def test_of_two_revisions_of_an_item_in_one_update_the_last_counts(index: Index) -> None:
    add(index, passage("a", "disk"), passage("a", "fan", revision=TWO), passage("b", "x"), passage("b", "y", ordinal=1))
    assert index.items(ADA) == {"a": TWO, "b": ONE}
    assert index.state(ADA).passages == 3
    assert ask(index, "disk").items == set()


def test_an_item_that_becomes_shorter_loses_its_last_passages(index: Index) -> None:
    add(index, *(passage("a", f"part number{ordinal}", ordinal=ordinal) for ordinal in range(5)))
    add(index, passage("a", "part number0", revision=TWO), removed=["a"])
    assert index.state(ADA).passages == 1
    assert ask(index, "number4").items == set()


def test_removing_what_is_not_there_is_no_error(index: Index) -> None:
    add(index, passage("a", "disk"))
    remove(index, ADA, "zebra")
    remove(index, WEB, "zebra")
    assert index.items(ADA) == {"a": ONE}


def test_a_removed_tag_is_found_no_more(index: Index) -> None:
    tagged = replace(passage("a", "disk"), tags=("urgent",))
    add(index, tagged, passage("b", "fan"))
    assert ask(index, "urgent").items == {"a"}
    add(index, replace(tagged, tags=(), revision=TWO), removed=["a"], head=TWO)
    assert ask(index, "urgent").items == set()


def test_everything_a_passage_has_comes_back(index: Index) -> None:
    whole = IndexedPassage(
        base=ADA,
        item_id="runbooks/Größe – 測試 \U0001f680",
        revision=ONE,
        ordinal=3,
        title='A "title": with signs',
        section=("One", "Zwei", "三"),
        lines=(7, 12),
        text="Text with\nline ends,\ttabs and é\n",
        locator="runbooks/größe.md",
        description="what it is",
        tags=("a", "b c"),
    )
    add(index, whole)
    scores = index.score(Query("title"), EVERYTHING)
    assert scores.passage(0) == whole


# --- scope -----------------------------------------------------------------------------------------------------------


def test_a_base_outside_the_scope_changes_nothing(index: Index) -> None:
    add(index, *(passage(f"item{number}", f"disk number{number} of many") for number in range(40)))
    embed(index)
    scope = Scope({ADA: None})
    before = ask(index, "disk number7 nowhere", scope)
    add(index, *(passage(f"item{number}", "disk disk nowhere " * number, base=WEB) for number in range(40)))
    embed(index, WEB)
    after = ask(index, "disk number7 nowhere", scope)
    assert after == before
    assert {place[0] for place in ask(index, "disk").lexical} == {ADA, WEB}
    assert ask(index, "disk", Scope({})).lexical == {}


def test_items_outside_the_scope_are_not_scored(index: Index) -> None:
    add(index, passage("a", "disk"), passage("b", "disk"), passage("c", "fan"))
    embed(index)
    for wanted in (frozenset({"b"}), frozenset({"b", "c", "unknown"}), frozenset[str]()):
        answer = ask(index, "disk", Scope({ADA: wanted}))
        assert {place[1] for place in answer.lexical} == wanted - {"unknown"}


def test_fewer_passages_than_anyone_would_ask_for_are_no_error(index: Index) -> None:
    add(index, passage("a", "disk"), passage("b", "disk"))
    embed(index)
    answer = ask(index, "disk", Scope({ADA: frozenset({"a"}), WEB: None}))
    assert list(answer.lexical) == [(ADA, "a", ONE, 0)]
    assert answer.cosine is not None
    assert answer.cosine[(ADA, "a", ONE, 0)] == pytest.approx(
        float(vector_of(passage("a", "disk").vector_key) @ QUERY_VECTOR), abs=1e-5
    )


def test_passages_share_an_ordinal_when_and_only_when_they_are_of_one_item(index: Index) -> None:
    add(index, passage("a", "disk"), passage("a", "fan", ordinal=1), passage("b", "disk"))
    add(index, passage("a", "disk", base=WEB))
    scores = index.score(Query("disk"), EVERYTHING)
    by_item: dict[tuple[str, str], set[int]] = {}
    for (base, item, _, _), ordinal in zip(places(scores), scores.item.tolist(), strict=True):
        by_item.setdefault((base, item), set()).add(ordinal)
    assert all(len(ordinals) == 1 for ordinals in by_item.values())
    assert len(set.union(*by_item.values())) == len(by_item) == 3


# --- the lexical leg -------------------------------------------------------------------------------------------------


def test_phrases_must_and_exclusions_must_not_occur(index: Index) -> None:
    add(index, passage("a", "the disk is full"), passage("b", "full disk"), passage("c", "nothing"))
    assert {place[1] for place in ask(index, '"full disk"').lexical} == {"b"}
    assert {place[1] for place in ask(index, "disk", exclude=["full disk"]).lexical} == {"a", "c"}
    assert {place[1] for place in ask(index, '"full disk"', exclude=["disk"]).lexical} == set()


def test_a_better_passage_scores_higher_and_none_exceeds_the_bound(index: Index) -> None:
    add(
        index, passage("a", "disk disk full"), passage("b", "disk and words that are of no matter"), passage("c", "fan")
    )
    answer = ask(index, "disk full")
    scores = {place[1]: score for place, score in answer.lexical.items()}
    assert scores["a"] > scores["b"] > scores["c"] == 0
    assert max(scores.values()) <= answer.bound


@pytest.mark.parametrize(
    "text",
    ["", " ", "*", '"', '""', "NOT NOT }", "a:b", "[a TO", "\\", "\0", "\ud800", "-", "--", "x" * 5000, "?" * 5000],
)
def test_any_text_is_a_query(index: Index, text: str) -> None:
    add(index, passage("x1", "disk"), passage("x2", "fan"))
    answer = ask(index, text, exclude=["[", "*"])
    assert answer.bound > 0
    assert answer.items == set()


# --- the semantic leg ------------------------------------------------------------------------------------------------


def test_cosines_are_exact_and_missing_until_there_is_a_vector(index: Index) -> None:
    add(index, passage("a", "disk"), passage("b", "fan"), passage("c", "cable"))
    keys = {item: passage(item, text).vector_key for item, text in (("a", "disk"), ("b", "fan"), ("c", "cable"))}
    index.add_vectors(ADA, {keys["a"]: vector_of(keys["a"]), keys["b"]: vector_of(keys["b"])})
    assert index.state(ADA).vectors == 2
    answer = ask(index, "disk")
    assert answer.cosine is not None
    for item in "ab":
        expected = float(vector_of(keys[item]) @ QUERY_VECTOR)
        assert answer.cosine[(ADA, item, ONE, 0)] == pytest.approx(expected, abs=1e-5)
    assert np.isnan(answer.cosine[(ADA, "c", ONE, 0)])


def test_the_semantic_leg_is_left_out_unless_asked_for(index: Index) -> None:
    add(index, passage("a", "disk"))
    assert index.score(Query("disk"), EVERYTHING).cosine is None


def test_equal_texts_share_one_vector_for_as_long_as_one_of_them_is_there(index: Index) -> None:
    twin = replace(passage("b", "disk"), title="About a")
    add(index, passage("a", "disk"), twin)
    pending = index.pending_vectors(ADA, 10).texts
    assert list(pending.values()) == ["About a\ndisk"]
    embed(index)
    assert index.state(ADA).vectors == 2
    remove(index, ADA, "a")
    assert index.state(ADA) == BaseState(TWO, 1, 1, 1)
    answer = ask(index, "disk")
    assert answer.cosine is not None
    assert not np.isnan(answer.cosine[(ADA, "b", ONE, 0)])


def test_a_new_revision_with_the_same_text_keeps_its_vector(index: Index) -> None:
    add(index, passage("a", "disk"))
    embed(index)
    add(index, passage("a", "disk", revision=TWO), removed=["a"], head=TWO)
    assert index.state(ADA) == BaseState(TWO, 1, 1, 1)
    assert index.pending_vectors(ADA, 10).texts == {}


def test_the_vector_of_a_text_that_has_gone_is_not_kept(index: Index) -> None:
    add(index, passage("a", "disk"))
    embed(index)
    remove(index, ADA, "a")
    add(index, passage("a", "disk"))
    assert index.state(ADA).vectors == 0
    assert len(index.pending_vectors(ADA, 10).texts) == 1


def test_pending_vectors_come_newest_first_and_within_the_limit(index: Index) -> None:
    for number in range(6):
        add(index, passage(f"item{number}", f"text{number}"))
    texts = [text.split("\n")[1] for text in index.pending_vectors(ADA, 4).texts.values()]
    assert texts == ["text5", "text4", "text3", "text2"]
    assert index.pending_vectors(ADA, 0).texts == {}
    add(index, passage("item1", "text1", revision=TWO))
    assert [*index.pending_vectors(ADA, 1).texts.values()] == ["About item1\ntext1"]


def test_vectors_that_no_passage_wants_are_ignored(index: Index) -> None:
    add(index, passage("a", "disk"))
    stranger = hashlib.sha256(b"stranger").hexdigest()
    index.add_vectors(ADA, {stranger: vector_of(stranger)})
    assert index.state(ADA).vectors == 0
    index.add_vectors(ADA, {})
    assert len(index.pending_vectors(ADA, 10).texts) == 1


@pytest.mark.parametrize("vector", [np.ones(3), np.zeros(DIMENSION), np.full(DIMENSION, np.nan)])
def test_what_is_no_unit_vector_is_refused(index: Index, vector: Floats) -> None:
    add(index, passage("a", "disk"))
    with pytest.raises(EmbeddingFailure):
        index.add_vectors(ADA, {passage("a", "disk").vector_key: vector.astype(np.float32)})
    embed(index)
    assert index.state(ADA).vectors == 1


def median_of_pairs(passages: Sequence[IndexedPassage]) -> float:
    matrix = np.array([vector_of(one.vector_key) for one in passages])
    return float(np.median((matrix @ matrix.T)[np.triu_indices(len(matrix), 1)]))


def test_the_floor_is_the_median_cosine_of_pairs_and_a_constant_where_there_are_none(index: Index) -> None:
    passages = [passage(f"item{number}", f"text{number}") for number in range(60)]
    add(index, *passages[:1])
    embed(index)
    assert ask(index, "x").floor == DEFAULT_FLOOR
    add(index, *passages)
    embed(index)
    assert ask(index, "x").floor == pytest.approx(median_of_pairs(passages), abs=1e-5)


def test_the_floor_of_several_bases_is_weighted_by_their_passages(index: Index) -> None:
    many = [passage(f"item{number}", f"text{number}") for number in range(60)]
    few = [passage(f"item{number}", "few", base=WEB) for number in range(20)]
    add(index, *many)
    add(index, *few)
    embed(index)
    embed(index, WEB)
    expected = (60 * median_of_pairs(many) + 20 * median_of_pairs(few)) / 80
    assert ask(index, "x").floor == pytest.approx(expected, abs=1e-5)


def test_without_an_embedder_nothing_is_pending_and_every_cosine_is_missing(open_index: Open) -> None:
    index = open_index(None)
    add(index, passage("a", "disk"))
    assert index.pending_vectors(ADA, 10).texts == {}
    index.add_vectors(ADA, {passage("a", "disk").vector_key: vector_of("0" * 64)})
    assert index.state(ADA) == BaseState(ONE, 1, 1, 0)
    scores = index.score(Query("disk", vector=QUERY_VECTOR), EVERYTHING)
    assert scores.cosine is not None
    assert np.isnan(scores.cosine).all()


# --- bases -----------------------------------------------------------------------------------------------------------


def test_a_dropped_base_is_gone_and_others_stay(index: Index) -> None:
    add(index, passage("a", "disk"))
    add(index, passage("a", "disk", base=WEB))
    embed(index)
    embed(index, WEB)
    index.drop(ADA)
    assert list(index.bases()) == [WEB]
    assert index.state(ADA) == BaseState(None, 0, 0, 0)
    assert index.state(WEB) == BaseState(ONE, 1, 1, 1)
    assert {place[0] for place in ask(index, "disk").lexical} == {WEB}


def test_a_dropped_base_can_be_indexed_again(index: Index) -> None:
    add(index, passage("a", "disk"))
    embed(index)
    index.drop(ADA)
    add(index, passage("b", "disk"))
    assert index.state(ADA) == BaseState(ONE, 1, 1, 0)
    assert ask(index, "disk").items == {"b"}


def test_scores_that_were_handed_out_outlive_an_update(index: Index) -> None:
    add(index, passage("a", "disk"), passage("b", "fan"))
    scores = index.score(Query("disk"), EVERYTHING)
    before = places(scores)
    add(index, passage("a", "cable", revision=TWO), removed=["a", "b"])
    assert places(scores) == before
