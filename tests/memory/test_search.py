from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbgit.embedding.contract import Vectors
from kbgit.embedding.hashing import HashingEmbedder
from kbgit.errors import EmbeddingFailure
from kbgit.index.memory import MemoryIndex
from kbgit.memory import MemoryKind, MemoryRecord, MemorySearch, NewRecord, ProjectKey
from kbgit.memory.records import MemoryLimits, new_record, parse_record, record_file
from kbgit.memory.search import passages_of
from kbgit.ranking import Mode
from tests.memory.conftest import ADA, BEN, TEAM, Memory, Opener

PLAN = ProjectKey("personal:ada", "plan")


def remember(memory: Memory, text: str, **fields: object) -> MemoryRecord:
    return memory.store.remember(NewRecord("plan", text, **fields), ADA)  # type: ignore[arg-type]


def found(memory: Memory, query: str, **filters: object) -> list[str]:
    return [hit.record.id for hit in memory.store.search(query, ADA, **filters).hits]  # type: ignore[arg-type]


def indexed(memory: Memory) -> dict[str, set[str]]:
    return {base: set(memory.index.items(base)) for base in memory.index.bases()}


class SynonymEmbedder(HashingEmbedder):
    """Knows that a ship is a vessel, and nothing else of meaning."""

    fingerprint = "synonyms/1"

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        return super().embed_passages([text.replace("ship", "vessel") for text in texts])


class FailingEmbedder(HashingEmbedder):
    """Cannot be used while `fails` says so, or for a text with the word `poison`."""

    fails = False

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        if self.fails or any("poison" in text for text in texts):
            raise EmbeddingFailure("no answer")
        return super().embed_passages(texts)


def test_a_record_is_found_by_words_and_by_meaning_as_soon_as_it_is_remembered(open_memory: Opener) -> None:
    memory = open_memory(SynonymEmbedder())
    vessel = remember(memory, "The vessel leaves at six.")
    remember(memory, "Lunch is at noon.")
    hits = memory.store.search("ship", ADA)
    assert (hits.mode_used, hits.fallback_reason) == (Mode.HYBRID, None)
    assert hits.hits[0].record == vessel
    assert found(memory, "vessel leaves")[0] == vessel.id


def test_without_an_embedder_words_are_searched_and_it_says_so(open_memory: Opener) -> None:
    memory = open_memory()
    record = remember(memory, "The vessel leaves at six.")
    hits = memory.store.search("vessel", ADA)
    assert [hit.record.id for hit in hits.hits] == [record.id]
    assert (hits.mode_used, hits.fallback_reason) == (Mode.LEXICAL, "no embedder is configured")


def test_titles_and_tags_are_searched_and_kinds_filtered(memory: Memory) -> None:
    first = remember(memory, "Ask ben.", title="Quay crane", kind=MemoryKind.WORKING)
    second = remember(memory, "Ask cy.", tags=["crane"])
    assert set(found(memory, "crane")) == {first.id, second.id}
    assert found(memory, "crane", kind=MemoryKind.WORKING) == [first.id]
    assert found(memory, "crane", project="other") == []


def test_only_the_passage_that_answers_is_shown_with_its_lines(memory: Memory) -> None:
    text = "".join(f"# Part {number}\n\n{'plain words ' * 100}\n\n" for number in range(3)) + "# Crane\n\nAsk ben.\n"
    remember(memory, text)
    (hit,) = memory.store.search("crane ben", ADA).hits
    assert (hit.content, hit.is_whole) == ("# Crane\n\nAsk ben.", False)
    start, end = hit.lines
    assert "\n".join(text.split("\n")[start - 1 : end]) == hit.content
    whole = remember(memory, "Short quay.\n")
    assert memory.store.search("quay", ADA).hits[0].content == whole.text
    assert memory.store.search("quay", ADA).hits[0].is_whole


def test_what_has_expired_is_never_found_and_leaves_the_index_with_the_next_search(memory: Memory) -> None:
    record = remember(memory, "The crane stands still.", kind=MemoryKind.WORKING, lifetime_seconds=60)
    other = remember(memory, "The crane moves.")
    assert set(found(memory, "crane")) == {record.id, other.id}
    memory.clock.now += 60
    assert found(memory, "crane") == [other.id]
    assert indexed(memory) == {str(PLAN): {other.id}}


def test_forgetting_leaves_no_index_entry_and_no_vector(memory: Memory) -> None:
    kept = remember(memory, "The crane moves.")
    record = remember(memory, "A secret about the crane.")
    fingerprint = HashingEmbedder.fingerprint
    assert memory.cache.count(fingerprint) == 2
    secret = memory.cache.get_many(fingerprint, [passage.vector_key for passage in passages_of(record)])
    memory.store.forget(record.id, ADA)
    assert indexed(memory) == {str(PLAN): {kept.id}}
    assert found(memory, "secret crane") == [kept.id]
    assert memory.cache.count(fingerprint) == 1
    memory.cache.close()
    for path in memory.directory.parent.rglob("*"):
        if path.is_file():
            raw = path.read_bytes()
            assert b"secret" not in raw
            assert all(vector.tobytes() not in raw for vector in secret.values())
    memory.store.forget(kept.id, ADA)
    assert indexed(memory) == {}


def test_what_nobody_may_see_has_no_influence_on_a_score(memory: Memory) -> None:
    remember(memory, "The crane moves.")
    before = [hit.score for hit in memory.store.search("crane moves", ADA).hits]
    for number in range(20):
        memory.store.remember(NewRecord("plan", f"A crane of ben, {number}."), BEN)
    assert [hit.score for hit in memory.store.search("crane moves", ADA).hits] == before
    remember(memory, "Another crane of ada.")
    assert [hit.score for hit in memory.store.search("crane moves", ADA).hits] != before


def test_a_store_opened_again_finds_the_same_without_embedding_again(open_memory: Opener) -> None:
    first = open_memory(HashingEmbedder())
    for text in ("The crane moves.", "The ship leaves.", "Lunch is at noon."):
        remember(first, text)
    second = open_memory(HashingEmbedder())
    for query in ("crane", "ship", "noon lunch", "unheard of"):
        assert first_hits(first, query) == first_hits(second, query)
    assert second.index.state(str(PLAN)).vectors == 3
    assert not second.store.embed_some()


def first_hits(memory: Memory, query: str) -> dict[str, float]:
    return {hit.record.id: hit.score for hit in memory.store.search(query, ADA).hits}


def test_an_embedder_that_fails_costs_no_record_and_is_made_up_for(open_memory: Opener) -> None:
    embedder = FailingEmbedder()
    memory = open_memory(embedder)
    embedder.fails = True
    record = remember(memory, "The crane moves.")
    hits = memory.store.search("crane", ADA)
    assert [hit.record.id for hit in hits.hits] == [record.id]
    assert hits.fallback_reason == "no record searched has a vector yet"
    with pytest.raises(EmbeddingFailure):
        memory.store.embed_some()
    embedder.fails = False
    assert memory.store.embed_some()
    assert not memory.store.embed_some()
    assert memory.store.search("crane", ADA).mode_used is Mode.HYBRID
    embedder.fails = True
    assert memory.store.search("crane", ADA).fallback_reason == "the embedder cannot be used: no answer"


def test_records_of_another_embedder_are_embedded_again(open_memory: Opener) -> None:
    remember(open_memory(HashingEmbedder()), "The crane moves.")
    memory = open_memory(SynonymEmbedder())
    assert memory.store.search("crane", ADA).fallback_reason == "no record searched has a vector yet"
    assert memory.store.embed_some()
    assert not memory.store.embed_some()
    assert memory.store.search("crane", ADA).mode_used is Mode.HYBRID
    assert not open_memory().store.embed_some(), "without an embedder there is nothing to do"


def test_a_text_that_cannot_be_embedded_holds_up_no_other(open_memory: Opener) -> None:
    embedder = FailingEmbedder()
    memory = open_memory(embedder)
    embedder.fails = True
    for text in ("The crane moves.", "A poison pill.", "The ship leaves."):
        remember(memory, text)
    embedder.fails = False
    while memory.store.embed_some():
        pass
    assert memory.index.state(str(PLAN)).vectors == 2
    assert len(found(memory, "poison")) >= 1


def test_a_sweep_erases_vectors_of_records_that_are_gone(memory: Memory) -> None:
    remember(memory, "The crane moves.")
    record = remember(memory, "The ship leaves.")
    (memory.directory / "~ada" / "plan" / f"{record.id}.md").unlink()  # by hand: nobody is told
    assert memory.cache.count(HashingEmbedder.fingerprint) == 2
    memory.store.sweep()
    assert memory.cache.count(HashingEmbedder.fingerprint) == 1


def test_a_vector_made_for_what_was_forgotten_meanwhile_is_not_kept(open_memory: Opener) -> None:
    forgotten: list[str] = []

    class SlowEmbedder(HashingEmbedder):
        def embed_passages(self, texts: Sequence[str]) -> Vectors:
            if any("secret" in text for text in texts):
                (record,) = memory.store.records(ADA, query="secret").records
                memory.store.forget(record.id, ADA)
                forgotten.append(record.id)
            return super().embed_passages(texts)

    memory = open_memory(SlowEmbedder())
    remember(memory, "The crane moves.")
    record = remember(memory, "A secret.")
    assert forgotten == [record.id]
    assert memory.cache.count(HashingEmbedder.fingerprint) == 1
    assert not any(record.id in ids for ids in indexed(memory).values())


def test_spaces_are_searched_together_and_apart(memory: Memory) -> None:
    mine = remember(memory, "The crane moves.")
    ours = memory.store.remember(NewRecord("plan", "The crane stands.", space=TEAM), BEN)
    assert set(found(memory, "crane")) == {mine.id, ours.id}
    assert found(memory, "crane", space=TEAM) == [ours.id]
    assert set(found(memory, "crane", project="plan")) == {mine.id, ours.id}


@given(st.text(max_size=60) | st.text(st.characters(categories=["Cs", "Lu"]), max_size=9))
@settings(max_examples=60, deadline=None)
def test_any_query_is_answered_with_scores_from_0_to_1(query: str) -> None:
    search = MemorySearch(MemoryIndex(64), HashingEmbedder(), None)
    made = [new_record(NewRecord("plan", text), "ada", 0, MemoryLimits()) for text in ("A crane.", 'Say "no" – 東京')]
    records = {one.id: parse_record(record_file(one), PLAN, one.id) for one in made}
    search.synchronise(PLAN, records)
    search.keep(PLAN, search.embedded(search.pending(PLAN)))
    hits = search.search(query, {PLAN: records}, limit=10, min_score=0.0).hits
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert all(math.isfinite(score) and 0 < score <= 1 + np.finfo(np.float32).eps for score in scores)
