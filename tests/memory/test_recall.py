from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbgit.access import Principal, Role, Scope, personal_space
from kbgit.assemble import Runtime
from kbgit.errors import (
    BaseNotFound,
    GitFailure,
    IndexFailure,
    InvalidRequest,
    KbgitError,
    SpaceNotFound,
    TimedOut,
)
from kbgit.home import Home
from kbgit.library import Library, SearchResponse
from kbgit.memory import MemoryHit, MemoryKind, NewRecord, Recall, RecallAnswer, RecallRequest
from kbgit.memory.recall import Recalled, RecalledRecord, _tokens, _within
from kbgit.memory.records import MemoryLimits, new_record
from kbgit.passage import estimated_tokens
from tests.memory.conftest import TEAM, Memory, member

EVERYTHING = frozenset(Scope)
ADA = member("ada", Role.OWNER, EVERYTHING)
ASKED = {"profile_allows_knowledge": True, "knowledge_configured": True}


@pytest.fixture
def recall(memory: Memory, runtime: Runtime) -> Recall:
    memory.store.remember(
        NewRecord("plan", "The crane needs oil every Monday.", title="Crane", client="cursor-plugin", space=TEAM), ADA
    )
    memory.store.remember(NewRecord("plan", "Lunch is at noon."), ADA)
    return Recall(memory.store, runtime.library)


def ask(recall: Recall, query: str = "crane", caller: Principal = ADA, **request: object) -> RecallAnswer:
    return recall.recall(RecallRequest(query, **request), caller, **ASKED)  # type: ignore[arg-type]


def test_memory_comes_first_and_knowledge_beside_it_each_with_where_it_is_from(recall: Recall) -> None:
    answer = json.loads(json.dumps(ask(recall).as_json()))
    assert list(answer) == [
        *("type", "sources", "memory", "knowledge", "token_budget", "estimated_tokens", "notes"),
    ]
    first = answer["memory"][0]
    assert (first["source"], first["content"]) == ("memory", "The crane needs oil every Monday.")
    assert (first["author"], first["client"], first["created_at"]) == ("ada", "cursor-plugin", "2026-11-30T12:00:00Z")
    assert (first["is_whole"], first["is_cut"], first["lines"]) == (True, False, [1, 1])
    assert "text" not in first
    item = answer["knowledge"][0]
    assert (item["source"], item["knowledge_item_id"]) == ("knowledge", "crane")
    assert item["citation"] == f"knowledge:crane@{item['knowledge_revision_id']}#L1-L3"
    assert "quay seven" in item["content"]
    assert "draft" not in {one["knowledge_item_id"] for one in answer["knowledge"]}
    for source in ("memory", "knowledge"):
        report = answer["sources"][source]
        assert (report["asked"], report["why_not"], report["mode_used"]) == (True, None, "hybrid")
        assert report["count"] == len(answer[source])
    assert list(answer["sources"]["knowledge"]["freshness"]) == ["runbooks"]


WHY = {
    "not asked for": ({"include_knowledge": False}, ASKED, EVERYTHING, "the request did not ask for it"),
    "not set": ({}, {**ASKED, "knowledge_configured": False}, EVERYTHING, "recall is not configured to search knowledge"),
    "profile": ({}, {**ASKED, "profile_allows_knowledge": False}, EVERYTHING, "the client's profile does not allow it"),
    "scope": ({}, ASKED, frozenset({Scope.MEMORY_READ}), "the token lacks the scope knowledge:read"),
}  # fmt: skip


@pytest.mark.parametrize(("request_fields", "conditions", "scopes", "why"), WHY.values(), ids=WHY)
def test_knowledge_that_is_not_asked_is_not_touched_and_the_answer_says_why(
    recall: Recall,
    runtime: Runtime,
    monkeypatch: pytest.MonkeyPatch,
    request_fields: dict[str, bool],
    conditions: dict[str, bool],
    scopes: frozenset[Scope],
    why: str,
) -> None:
    def never(*_: object) -> SearchResponse:
        raise AssertionError("knowledge was searched")

    monkeypatch.setattr(Library, "search", never)
    caller = replace(ADA, scopes=scopes)
    answer = recall.recall(RecallRequest("crane", **request_fields), caller, **conditions)  # type: ignore[arg-type]
    assert (answer.knowledge.asked, answer.knowledge.why_not, answer.knowledge.count) == (False, why, 0)
    assert answer.memory.asked
    assert answer.records


def test_with_the_runtime_off_memory_still_answers(memory: Memory, recall: Recall, runtime: Runtime) -> None:
    settings_off = Home.at(runtime.home.path, {"knowledge_enabled": False}).settings
    library = Library(settings_off, runtime.catalogue, runtime.index, runtime.embedder, runtime.indexer)
    answer = ask(Recall(memory.store, library))
    assert answer.records
    assert not answer.knowledge.asked
    assert "knowledge_enabled" in (answer.knowledge.why_not or "")


@pytest.mark.parametrize("failure", [GitFailure, IndexFailure, TimedOut])
def test_knowledge_that_fails_leaves_memory_whole(
    recall: Recall, monkeypatch: pytest.MonkeyPatch, failure: type[KbgitError]
) -> None:
    def fail(*_: object) -> SearchResponse:
        raise failure("no disk")

    monkeypatch.setattr(Library, "search", fail)
    answer = ask(recall)
    assert answer.records
    assert (answer.knowledge.asked, answer.knowledge.why_not) == (True, "it failed: no disk")


def test_without_the_scope_of_memory_knowledge_alone_answers(recall: Recall) -> None:
    answer = ask(recall, caller=replace(ADA, scopes=frozenset({Scope.KNOWLEDGE_READ})))
    assert (answer.memory.asked, answer.memory.why_not) == (False, "the token lacks the scope memory:read")
    assert (answer.records, bool(answer.items)) == ([], True)
    limited = ask(recall, caller=replace(ADA, bases=frozenset({"team:harbour/runbooks"})))
    assert (limited.memory.asked, bool(limited.items)) == (False, True)


def test_nobody_recalls_what_is_not_theirs(recall: Recall) -> None:
    eve = Principal("eve", {personal_space("eve"): Role.OWNER}, EVERYTHING)
    answer = ask(recall, caller=eve)
    assert (list(answer.records), list(answer.items)) == ([], [])
    with pytest.raises(SpaceNotFound):
        ask(recall, caller=eve, space=TEAM)
    with pytest.raises(BaseNotFound):
        ask(recall, caller=eve, bases=("runbooks",))


def test_space_project_and_kind_choose_records(recall: Recall, memory: Memory) -> None:
    assert [one.hit.record.title for one in ask(recall, "crane lunch", space=TEAM).records] == ["Crane"]
    assert not ask(recall, project="no-such-project").records
    assert not ask(recall, kind=MemoryKind.WORKING).records


def test_unreadable_memory_is_noted(recall: Recall, memory: Memory) -> None:
    (memory.directory / "harbour" / "plan" / f"mem_{'0' * 24}.md").write_text("?")
    assert ask(recall).notes == ("files of memory that cannot be read, and are left out: 1",)


@pytest.mark.parametrize(
    "wrong",
    [
        {"memory_limit": 0},
        {"knowledge_limit": 51},
        {"token_budget": 0},
        {"min_score": 2},
        {"min_score": math.nan},
    ],
)
def test_a_request_out_of_bounds_is_refused_by_its_field(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        RecallRequest("x", **wrong)  # type: ignore[arg-type]
    assert refusal.value.details["field"] in wrong


# The budget


def test_a_budget_keeps_the_most_relevant_of_both_sources(recall: Recall) -> None:
    whole = ask(recall, "crane quay seven tonnes")
    assert whole.items[0].score > whole.records[0].score  # so cutting by position would keep the wrong one
    best = math.ceil(_tokens(whole.items[0]))
    cut = ask(recall, "crane quay seven tonnes", token_budget=best)
    assert [one.result.item_id for one in cut.items] == ["crane"]
    assert list(cut.records) == []
    assert (cut.memory.count, cut.memory.left_out) == (0, len(whole.records))
    assert cut.estimated_tokens <= best


def found(score: float, words: int, title: str = "") -> RecalledRecord:
    record = new_record(NewRecord("plan", "word " * words, title=title), "ada", 0, MemoryLimits())
    return RecalledRecord(MemoryHit(record, score, record.text, (1, 1), True), record.text)


sizes = st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.5, 0.9]), st.integers(1, 60)), max_size=12)


@given(sizes, st.integers(1, 200))
@settings(max_examples=150, deadline=None)
def test_nothing_kept_is_less_relevant_than_what_is_left_out(rows: list[tuple[float, int]], budget: int) -> None:
    everything: list[Recalled] = [found(score, words) for score, words in rows]
    kept = _within(budget, everything)
    places = [next(i for i, one in enumerate(everything) if one.hit is each.hit) for each in kept]  # type: ignore[union-attr]
    assert places == sorted(places)
    assert sum(map(_tokens, kept)) <= budget
    left_out = [one for place, one in enumerate(everything) if place not in places]
    assert all(one.score >= other.score for one in kept for other in left_out)
    if left_out and not any(one.is_cut for one in kept):
        next_best = max(left_out, key=lambda one: one.score)
        ties = [one for one in left_out if one.score == next_best.score]
        assert sum(map(_tokens, kept)) + _tokens(ties[0]) > budget
    assert bool(kept) == bool(everything)


def test_a_text_is_cut_only_where_it_alone_is_over_the_budget_and_says_so() -> None:
    (one,) = _within(20, [found(0.5, 100, "Title")])
    assert one.is_cut
    assert one.content == " ".join(["word"] * len(one.content.split()))
    assert 15 < estimated_tokens("Title") + estimated_tokens(one.content) <= 20
    assert one.as_json()["is_whole"] is False
    (tight,) = _within(1, [found(0.5, 100, "A title that is over the budget by itself")])
    assert (tight.content, tight.is_cut) == ("", True)


def test_without_a_budget_everything_is_kept() -> None:
    assert len(_within(None, [found(0.5, 1000), found(0.4, 1000)])) == 2
