from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import Kbgit, Published, push


def test_a_result_shows_title_citation_place_and_what_it_says(published: Published) -> None:
    shown = published.kbgit.run("search", "undo", "--mode", "lexical").stdout
    assert "Production deployment" in shown
    assert f"knowledge:item_deploy@{published.heads[1]}#L5-L7" in shown
    assert "handbook/deploy/production.md · lines 5–7 · Rollback · #deploy" in shown
    assert "Undo it with" in shown


def test_words_need_no_quotes_and_json_is_the_answer_of_the_api(published: Published) -> None:
    found = published.kbgit.json("search", "in", "the", "morning")
    assert found["type"] == "knowledge_search"
    assert found["mode_used"] == "hybrid"
    assert found["results"][0]["knowledge_item_id"] == "item_deploy"


def test_every_option_reaches_the_request(published: Published) -> None:
    search = published.kbgit.json
    assert search("search", "rollout", "--mode", "rrf", "--k", "10")["mode_used"] == "rrf"
    assert search("search", "rollout", "--metadata", "owner=platform", "--tag", "deploy")["results"]
    assert not search("search", "rollout", "--metadata", "owner=nobody", code=1)["results"]
    assert not search("search", "rollout", "--tag", "other", code=1)["results"]
    assert not search("search", "rollout", "--mode", "lexical", "--exclude", "kubectl", code=1)["results"]
    assert not search("search", "rollout", "--locator", "de/", "--mode", "lexical", code=1)["results"]
    assert not search("search", "rollout", "--space", "team:none", code=1)["results"]
    assert search("search", "rollout", "--base", "handbook", "--content", "none")["results"][0]["content"] is None
    assert "## Rollback" in search("search", "rollout", "--content", "full")["results"][0]["content"]
    assert search("search", "rollout", "--alpha", "1", "--min-score", "0.1", "--limit", "1")["results"]
    assert not search("search", "rollout", "--offset", "100", code=1)["results"]
    assert "explain" in search("search", "rollout", "--explain")["results"][0]
    assert search("search", "rollout", "--wait-for", published.heads[1])["results"]


def test_nothing_found_is_a_no(published: Published) -> None:
    result = published.kbgit.run("search", "velvet anchor", "--mode", "lexical", code=1)
    assert result.stdout == ""
    assert result.stderr == "kbgit: note: nothing was found\n"


def test_a_query_may_begin_with_a_dash_after_two_dashes(published: Published) -> None:
    found = published.kbgit.json("search", "--mode", "lexical", "--json", "--", "--previous")
    assert found["results"][0]["section"][-1] == "Rollback"


@pytest.mark.parametrize(
    "arguments", [("--limit", "1000"), ("--metadata", "owner"), ("--wait-for", "HEAD"), ("--alpha", "2")]
)
def test_values_out_of_range_are_wrong_usage(published: Published, arguments: tuple[str, ...]) -> None:
    published.kbgit.run("search", "x", *arguments, code=2)


def test_an_unknown_base_is_a_no(published: Published) -> None:
    assert "`kbgit base list`" in published.kbgit.run("search", "x", "--base", "nowhere", code=1).stderr


def test_snippets_are_cut_to_the_width_of_the_terminal(published: Published) -> None:
    shown = published.kbgit.run("search", "rollout", COLUMNS="44").stdout
    places = [line for line in shown.splitlines() if not line.startswith("knowledge:")]
    assert max(map(len, places)) <= 44


def test_without_vectors_the_fallback_is_said_until_they_are_made(kbgit: Kbgit, pages: Path) -> None:
    kbgit.run("base", "import", "--from", str(pages))
    result = kbgit.run("search", "rollout")
    assert "note: ranked by words only, because no passage searched has a vector yet" in result.stderr
    assert kbgit.run("search", "rollout", "--embed").stderr == ""


def test_what_was_pushed_a_moment_ago_is_found(kbgit: Kbgit, pages: Path, tmp_path: Path) -> None:
    repository = kbgit.json("base", "import", "--from", str(pages))["repository"]
    push(repository, tmp_path / "writer", {"birds.md": "---\nstatus: published\n---\n# Birds\n\nTwo herons.\n"})
    assert kbgit.json("search", "herons", "--mode", "lexical")["results"][0]["title"] == "Birds"
