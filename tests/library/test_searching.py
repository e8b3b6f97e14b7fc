"""Search through the whole stack below the surfaces: real Git, catalogue, Whoosh, Chroma."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kbgit.access import Principal, Scope
from kbgit.assemble import Runtime
from kbgit.base import BaseKey
from kbgit.config import Settings
from kbgit.errors import BaseArchived, BaseNotFound, Forbidden, GitFailure, KnowledgeRuntimeDisabled, TimedOut
from kbgit.home import Home
from kbgit.library import SearchRequest, SearchResponse
from kbgit.ranking import Mode
from tests.library.conftest import OPERATOR, embed_all, reader_of
from tests.writing import text

PUBLISHED = 64  # items of the sample bases
FIXED = ("knowledge_item_id", "knowledge_revision_id", "title", "content", "reference", "score")


def search(runtime: Runtime, query: str, caller: Principal | None = OPERATOR, **fields: object) -> SearchResponse:
    request = SearchRequest.from_json({"query": query, **fields}, Settings())
    return runtime.library.search(request, caller)


def ids(answer: SearchResponse) -> list[str]:
    return [result.item_id for result in answer.results]


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(
    "phrase",
    [
        "velvet anchor",
        "ERR-5107",
        "marching-band problem",
        "opération marée basse",
        "harbour clock ran backwards",
        "punch-card parade",
    ],
)
def test_text_of_drafts_and_archived_items_is_in_no_answer(sampled: Runtime, mode: Mode, phrase: str) -> None:
    answer = search(sampled, phrase, mode=mode.value, limit=100, content="full")
    assert not [result for result in answer.results if phrase in (result.content or "")]
    assert not search(sampled, f'"{phrase}"', mode="lexical").results


@pytest.mark.parametrize("mode", Mode)
def test_a_result_has_the_fields_of_the_contract_in_every_mode(sampled: Runtime, mode: Mode) -> None:
    answer = search(sampled, "kubectl logs --previous", mode=mode.value).as_json()
    assert answer["type"] == "knowledge_search"
    assert answer["mode"] == answer["mode_used"] == mode.value
    assert answer["results"]
    for result in answer["results"]:
        assert all(result[field] is not None for field in FIXED)
        assert result["reference"] == f"knowledge:{result['knowledge_item_id']}@{result['knowledge_revision_id']}"
        assert result["citation"] == "{}#L{}-L{}".format(result["reference"], *result["lines"])
        assert 0 < result["score"] <= 1


def test_cited_lines_are_the_passage_of_the_pinned_content(sampled: Runtime) -> None:
    for result in search(sampled, "rollback production", mode="lexical").results:
        view = sampled.library.resolve(str(result.citation), OPERATOR)
        assert view.excerpt == result.content
        assert view.is_current


def test_scores_fall_and_items_are_not_repeated(sampled: Runtime) -> None:
    for mode in Mode:
        answer = search(sampled, "database backup restore", mode=mode.value, limit=50)
        scores = [result.score for result in answer.results]
        assert scores == sorted(scores, reverse=True)
        assert len(set(ids(answer))) == len(answer.results)


def test_pages_follow_each_other_without_gap_or_repetition(sampled: Runtime) -> None:
    whole = search(sampled, "service", limit=12)
    pages = [search(sampled, "service", limit=4, offset=offset) for offset in (0, 4, 8)]
    assert [item for page in pages for item in ids(page)] == ids(whole)
    assert all(page.has_more for page in pages[:2])


def test_alpha_1_ranks_as_the_lexical_mode_and_alpha_0_as_the_semantic(sampled: Runtime) -> None:
    for alpha, mode in ((1.0, "lexical"), (0.0, "semantic")):
        assert ids(search(sampled, "disk is full", alpha=alpha)) == ids(search(sampled, "disk is full", mode=mode))


def test_min_score_compares_with_the_score_that_is_returned(sampled: Runtime) -> None:
    scores = [result.score for result in search(sampled, "certificate renewal", limit=20).results]
    bar = scores[2]
    kept = search(sampled, "certificate renewal", limit=20, min_score=bar)
    assert [result.score for result in kept.results] == [score for score in scores if score >= bar]


def test_filters_are_applied_before_the_page_is_cut(sampled: Runtime) -> None:
    found = search(sampled, "the", mode="lexical", locator="database/", limit=100)
    assert found.results
    assert all(result.locator.startswith("database/") for result in found.results)
    only = search(sampled, "the", mode="lexical", bases=["handbook"], limit=5)
    assert {result.base.key.slug for result in only.results} <= {"handbook"}
    tagged = search(sampled, "deployment", tags=["deploy"], limit=100)
    assert tagged.results
    assert all("deploy" in result.tags for result in tagged.results)


def test_metadata_is_compared_as_typed(runtime: Runtime, imported: Callable[..., BaseKey]) -> None:
    imported({"a.md": text("A", owner="platform", reviewed="2026-05-01"), "b.md": text("B", owner="data")})
    assert ids(search(runtime, "words", metadata={"owner": "platform"})) == ["notes/a"]
    assert ids(search(runtime, "words", metadata={"reviewed": "2026-05-01", "owner": "platform"})) == ["notes/a"]
    assert not ids(search(runtime, "words", metadata={"owner": "nobody"}))


def test_what_is_excluded_does_not_occur(sampled: Runtime) -> None:
    found = search(sampled, "deployment", exclude=["rollback"], limit=100, content="passage", mode="lexical")
    assert found.results
    assert not [result for result in found.results if "rollback" in (result.content or "").lower()]


def test_an_unknown_or_foreign_base_does_not_exist(sampled: Runtime) -> None:
    stranger = reader_of("team:other")
    for caller, name in ((OPERATOR, "nowhere"), (stranger, "handbook"), (stranger, "team:harbour/handbook")):
        with pytest.raises(BaseNotFound) as refusal:
            search(sampled, "x", caller, bases=[name])
        assert refusal.value.message == f"there is no base {name!r}"


def test_whoever_may_see_nothing_finds_nothing(sampled: Runtime) -> None:
    nobody: list[Principal | None] = [
        None,
        reader_of("team:other"),
        Principal("vera", {"team:harbour": reader_of("x").roles["x"]}, bases=frozenset({"team:other/x"})),
    ]
    for caller in nobody:
        answer = search(sampled, "deployment", caller)
        assert not answer.results
        assert not answer.freshness


def test_a_token_that_is_not_for_reading_is_refused_with_the_scope_it_lacks(sampled: Runtime) -> None:
    with pytest.raises(Forbidden) as refusal:
        search(sampled, "deployment", reader_of("team:harbour", scopes=frozenset({Scope.MEMORY_READ})))
    assert refusal.value.details["scope"] == "knowledge:read"


def test_a_base_out_of_sight_changes_no_score(runtime: Runtime, imported: Callable[..., BaseKey]) -> None:
    mine = {f"{n}.md": text(f"Page {n}", body=f"heron number {n} and some words\n") for n in range(5)}
    imported(mine, "mine", "team:a")
    viewer = reader_of("team:a")
    before = search(runtime, "heron words", viewer, limit=50).as_json()["results"]
    imported({f"{n}.md": text(f"Heron {n}", body="heron heron words\n") for n in range(50)}, "theirs", "team:b")
    after = search(runtime, "heron words", viewer, limit=50).as_json()["results"]
    assert [(r["reference"], r["score"]) for r in before] == [(r["reference"], r["score"]) for r in after]


@pytest.mark.parametrize("mode", ["hybrid", "rrf", "semantic"])
def test_without_an_embedder_every_mode_falls_back_to_lexical_and_says_so(
    home: Home, runtime_of: Callable[..., Runtime], mode: str
) -> None:
    runtime = runtime_of(home, embedder="none")
    answer = search(runtime, "anything", mode=mode)
    assert answer.mode_used is Mode.LEXICAL
    assert answer.fallback_reason == "no embedder is configured"
    assert answer.as_json()["mode"] == mode


def test_an_embedder_that_cannot_be_opened_leaves_search_by_words_and_says_why(
    home: Home, runtime_of: Callable[..., Runtime]
) -> None:
    runtime = runtime_of(home, embedder="openai:http://127.0.0.1:9/v1#none")
    answer = search(runtime, "anything")
    assert answer.mode_used is Mode.LEXICAL
    assert answer.fallback_reason
    assert runtime.library.status(OPERATOR).embedding_problem == answer.fallback_reason


def test_what_has_no_vector_yet_is_found_by_its_words(runtime: Runtime, imported: Callable[..., BaseKey]) -> None:
    key = imported({"a.md": text("Old", body="heron\n")})
    repository = runtime.home.repository(key)
    head = repository.head()
    commit = repository.commit_files(
        {"b.md": text("New", body="egret\n").encode()}, parent=head, message="m", author="A <a@b>"
    )
    repository.move_ref("refs/heads/main", commit, head)
    runtime.indexer.synchronise(key)
    answer = search(runtime, "egret")
    assert ids(answer)[0] == "notes/b"
    assert answer.freshness["notes"].vectors < answer.freshness["notes"].passages


def test_replaced_text_is_not_found_even_before_the_index_knows(
    runtime: Runtime, imported: Callable[..., BaseKey]
) -> None:
    key = imported({"a.md": text("Page", body="the old heron\n"), "b.md": text("Other", body="heron too\n")})
    repository = runtime.home.repository(key)
    head = repository.head()
    changed = {"a.md": text("Page", body="the new egret\n").encode(), "b.md": None}
    commit = repository.commit_files(changed, parent=head, message="m", author="A <a@b>")
    repository.move_ref("refs/heads/main", commit, head)  # no hook, no event, no sweep: only the branch moved
    for mode in Mode:
        answer = search(runtime, "heron", mode=mode.value)
        assert not answer.results
        assert answer.freshness["notes"].published == commit
        assert answer.freshness["notes"].indexed == head


def test_wait_for_holds_until_the_commit_is_indexed_and_no_longer_than_allowed(
    runtime: Runtime, imported: Callable[..., BaseKey]
) -> None:
    key = imported({"a.md": text("Page", body="heron\n")})
    runtime.start()
    repository = runtime.home.repository(key)
    head = repository.head()
    changed = {"a.md": text("Page", body="egret\n").encode()}
    commit = repository.commit_files(changed, parent=head, message="m", author="A <a@b>")
    repository.move_ref("refs/heads/main", commit, head)
    assert ids(search(runtime, "egret", wait_for=commit)) == ["notes/a"]
    with pytest.raises(TimedOut):
        search(runtime, "egret", wait_for="0" * 40, wait_seconds=0.05)


def test_an_archived_base_is_left_out_and_says_so_when_it_is_named(
    runtime: Runtime, imported: Callable[..., BaseKey]
) -> None:
    imported({"base.yaml": "status: archived\n", "a.md": text("Page", body="heron\n")})
    assert not search(runtime, "heron").results
    with pytest.raises(BaseArchived):
        search(runtime, "heron", bases=["notes"])


def test_two_bases_with_one_name_are_told_apart(runtime: Runtime, imported: Callable[..., BaseKey]) -> None:
    for space in ("team:a", "team:b"):
        imported({"a.md": text("Page", body="heron\n")}, "same", space)
    answer = search(runtime, "heron")
    assert set(answer.freshness) == {"team:a/same", "team:b/same"}
    assert [result.base.key.space for result in search(runtime, "heron", spaces=["team:b"]).results] == ["team:b"]


def test_content_is_what_was_asked_for(sampled: Runtime) -> None:
    best = search(sampled, "kubectl logs --previous", mode="lexical", limit=1)
    full = search(sampled, "kubectl logs --previous", mode="lexical", limit=1, content="full").results[0]
    assert full.content == sampled.library.read(full.item_id, OPERATOR).content
    assert (best.results[0].content or "-") in (full.content or "")
    assert search(sampled, "kubectl logs --previous", content="none").results[0].content is None


def test_explanations_show_both_legs(sampled: Runtime) -> None:
    answer = search(sampled, "disk full", explain=True)
    assert answer.explanation is not None
    assert answer.explanation["lexical"]["hits"] > 0
    first = answer.results[0].explanation
    assert first is not None
    assert first["lexical"]["rank"] is not None
    assert -1 <= first["semantic"]["cosine"] <= 1


def test_an_answer_stays_below_its_size_limit(
    home: Home, runtime_of: Callable[..., Runtime], imported: Callable[..., BaseKey]
) -> None:
    pages = {f"{n}.md": text(f"Page {n}", body=f"heron {n}\n\n" + "many words\n" * 3000) for n in range(5)}
    imported(pages)
    small = runtime_of(home, response_max_kb=64)
    answer = search(small, "heron", content="full", mode="lexical")
    assert len(answer.results) == 5
    assert sum(len(result.content or "") for result in answer.results) <= 64 * 1024
    assert answer.notes


def test_a_disabled_runtime_answers_nothing(home: Home, runtime_of: Callable[..., Runtime]) -> None:
    runtime = runtime_of(home, knowledge_enabled=False)
    with pytest.raises(KnowledgeRuntimeDisabled):
        search(runtime, "x")
    assert runtime.library.status(OPERATOR).bases == []


@pytest.mark.parametrize(
    "query", ["", " ", "*", "?", '"', '""', "NOT NOT }", "a:b", "[a TO", "\\", "\x00", "\ud800", "~" * 5000]
)
@pytest.mark.parametrize("mode", Mode)
def test_any_text_is_a_query_and_none_returns_everything(sampled: Runtime, query: str, mode: Mode) -> None:
    answer = search(sampled, query, mode=mode.value, limit=100)
    assert len(answer.results) < PUBLISHED
    if mode is Mode.LEXICAL and not any(character.isalnum() for character in query):
        assert not answer.results


def test_one_repository_that_cannot_be_read_spoils_no_search_of_the_others(
    runtime: Runtime, imported: Callable[..., BaseKey]
) -> None:
    broken = imported({"a.md": text("Page", body="heron\n")}, "broken", "team:a")
    imported({"b.md": text("Page", body="heron\n")}, "sound", "team:b")
    (runtime.home.repository(broken).path / "HEAD").write_text("garbage\n")
    answer = search(runtime, "heron")
    assert "sound/b" in ids(answer)
    assert answer.freshness["broken"].alarm
    embed_all(runtime)


def test_a_passage_of_a_document_says_on_which_page_it_stood(
    runtime: Runtime, imported: Callable[..., BaseKey]
) -> None:
    header = "---\nstatus: published\nsource_type: file\n---\n"
    pages = "<!-- page: 1 -->\n\n# Pumps\n\nA pump lifts.\n\n<!-- page: 2 -->\n\n# Valves\n\nA valve closes.\n"
    imported(
        {"plant.pdf.md": header + pages, "notes.md": "---\nstatus: published\n---\n" + pages.replace("valve", "tap")}
    )
    found = runtime.library.search(SearchRequest("valve closes", mode=Mode.LEXICAL), OPERATOR).results
    assert found[0].as_json()["place"] == {"kind": "page", "from": "2", "to": "2", "label": "page 2"}
    assert "place" not in found[1].as_json(), "its writer typed those marks; it is no document's text"


def test_a_document_whose_text_git_has_lost_is_found_without_its_page(
    runtime: Runtime, imported: Callable[..., BaseKey]
) -> None:
    key = imported(
        {"plant.pdf.md": "---\nstatus: published\nsource_type: file\n---\n<!-- page: 1 -->\n\nA pump lifts.\n"}
    )
    item = runtime.catalogue.items(str(key), statuses=["published"])[0]
    repository = runtime.indexer.repository(key)
    repository.git.run("repack", "-q", "-a", "-d")
    repository.close()
    for pack in (repository.path / "objects" / "pack").glob("*"):
        pack.unlink()
    with pytest.raises(GitFailure):
        repository.blob(item.blob)
    found = runtime.library.search(SearchRequest("pump", mode=Mode.LEXICAL), OPERATOR).results
    assert [result.item_id for result in found] == [item.item_id]
    assert "place" not in found[0].as_json()
