"""The search page and the bases below it."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbgit.library.highlight import highlight
from kbgit.web.pages.search import excerpt
from tests.web.conftest import Library
from tests.web.pages.browsing import Browser, Element, item_path

People = Callable[[str], Browser]


def titles(page: Element) -> list[str]:
    return [one.text for article in page.all("article") for one in article.all("h3")]


def test_a_search_shows_cited_passages_with_what_matched(reading: People, library: Library) -> None:
    page = reading("ada").get("/?q=kubectl+rollout&mode=lexical&space=platform").main
    (result,) = page.all("article", class_="result")
    assert result.one("h3").text == "Deployment"
    assert {mark.text for mark in result.all("mark")} == {"kubectl", "rollout"}
    citation = f"knowledge:runbooks/deploy@{library.heads[1]}#L1-L3"
    assert result.one("button", class_="copy").get("data-copy") == citation
    assert result.one("code", class_="citation-text").text == citation
    assert result.link("Deployment") == item_path("runbooks/deploy") + "?lines=1-3#cited"
    assert result.link("runbooks") == "/bases/platform/runbooks"
    assert "lines 1–3" in result.text
    assert "revision 2" in result.text


def test_scores_are_explained(reading: People) -> None:
    (article, *_) = reading("ada").get("/?q=rollout&space=platform").main.all("article")
    facts = article.one("dl", class_="facts").text
    assert "Words" in facts
    assert "BM25" in facts
    assert "Meaning" in facts
    assert "rank 1" in facts


def test_the_other_passages_of_an_item_are_there(reading: People, library: Library) -> None:
    page = reading("ada").get("/?q=Deployment+ERR-1234&mode=lexical&space=platform").main
    (article,) = [one for one in page.all("article") if one.one("h3").text == "Deployment"]
    more = article.one("details", class_="more-passages")
    assert "1 more passage of this item" in more.text
    assert f"@{library.heads[1]}#L" in more.one("code").text


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("q=deployment&space=platform&mode=lexical", {"Deployment"}),
        ("q=deployment&space=~ada&mode=lexical", {"Diary"}),
        ("q=deployment&mode=lexical", {"Deployment", "Diary"}),
        ("q=deployment&mode=lexical&base=team:platform/runbooks", {"Deployment"}),
        ("q=words&mode=lexical&locator=deploy/", {"How to read revisions"}),
        ("q=deployment&mode=lexical&exclude=nobody", {"Deployment"}),
        ("q=deployment&mode=lexical&tag=none,such", set()),
    ],
)
def test_filters_hold(query: str, found: set[str], reading: People) -> None:
    assert set(titles(reading("ada").get(f"/?{query}").main)) == found


def test_the_form_keeps_what_was_asked(reading: People) -> None:
    page = reading("ada").get("/?q=a+%22b%22&mode=lexical&space=platform&tag=x&locator=y/&exclude=z").main
    form = page.one("form", role="search")
    assert {one.get("name"): one.get("value") for one in form.all("input")} == {
        "q": 'a "b"',
        "tag": "x",
        "locator": "y/",
        "exclude": "z",
    }
    chosen = {
        s.get("name"): [o.get("value") for o in s.all("option") if "selected" in o.attributes]
        for s in form.all("select")
    }
    assert chosen == {"mode": ["lexical"], "space": ["platform"], "base": []}


def test_nothing_found_says_what_to_try(reading: People) -> None:
    page = reading("ada").get('/?q="no+such+phrase"&mode=lexical&tag=x').main
    assert "Nothing found" in page.text
    assert page.link("Search everywhere, without filters") == "/?q=%22no+such+phrase%22"
    assert page.link("Search by meaning too")
    assert page.link("try without them")


def test_a_refusal_is_shown_in_the_page(reading: People) -> None:
    page = reading("ada").get("/?q=x&mode=psychic")
    assert page.status == 200
    assert page.code == "invalid_request"
    assert "mode" in page.main.one("div", role="alert").text
    assert reading("ada").get("/?q=x&base=nothing").code == "base_not_found"


def test_results_come_in_pages(writing: People, base: str) -> None:
    slug = base.rpartition("/")[2]
    browser = writing("ada")
    csrf = browser.get("/").dom.one("meta", name="csrf").get("content")
    for number in range(12):
        body = f'{{"title": "Heron {number}", "content": "heron {slug}", "status": "published"}}'
        assert browser.api("POST", f"{base}/items", body, {"X-CSRF-Token": csrf}).status == 201
    url = f"/?q=heron&mode=lexical&base=team:platform/{slug}"
    head = browser.api("GET", base).json["freshness"]["published"]
    waiting = f'{{"query": "heron", "wait_for": "{head}"}}'
    assert browser.api("POST", "/api/v1/knowledge/search", waiting, {"X-CSRF-Token": csrf}).status == 200
    first = browser.get(url).main
    second = browser.get(first.link("More results")).main
    assert (len(titles(first)), len(titles(second))) == (10, 2)
    assert len({*titles(first), *titles(second)}) == 12
    assert second.one("ol", class_="results").get("start") == "11"
    assert titles(browser.get(second.link("Previous results")).main) == titles(first)
    assert not second.has_link("More results")


def test_no_embedder_is_said(writing: People) -> None:
    page = writing("ada").get("/?q=deploy").main
    assert "Searched by exact words only: no embedder is configured." in page.text


@pytest.mark.parametrize("offset", ["-1", "x", "²", "9" * 30, "1.5"])
def test_an_odd_offset_is_the_beginning(offset: str, reading: People) -> None:
    page = reading("ada").get(f"/?q=deployment&mode=lexical&offset={quote(offset)}")
    assert page.status == 200
    assert titles(page.main)


# Below: the bases


def test_the_bases_one_may_see_are_listed_by_space(reading: People) -> None:
    section = reading("ada").get("/").main.one("section", id="knowledge")
    assert [one.text for one in section.all("h3")] == ["Personal space", "platform"]
    assert [one.text for one in section.all("h4")] == ["notes", "runbooks"]
    assert "3 published · 1 draft · 1 archived" in section.text
    assert section.has_link("New base in platform")


def test_a_viewer_sees_no_counts_of_what_they_may_not_read(reading: People) -> None:
    section = reading("vera").get("/").main.one("section", id="knowledge")
    assert "3 published" in section.text
    assert "draft" not in section.text
    assert "archived" not in section.text
    assert not section.has_link("New base in platform")


def test_a_space_has_an_address(reading: People) -> None:
    page = reading("ada").get("/?space=platform").main
    assert page.one("h1").text == "platform"
    assert [one.text for one in page.one("section", id="knowledge").all("h4")] == ["runbooks"]
    own = reading("ada").get("/me").main
    assert own.one("h1").text == "Personal space"
    assert [one.text for one in own.one("section", id="knowledge").all("h4")] == ["notes"]


def test_whoever_is_in_no_team_is_told_what_to_do(reading: People) -> None:
    section = reading("olga").get("/").main.one("section", id="knowledge")
    assert [one.text for one in section.all("h3")] == ["Personal space"]
    assert "No base yet" in section.text


@pytest.mark.parametrize("space", ["platform", "nothing", "~ada", "team:platform", "personal:ada"])
def test_a_space_of_others_is_not_there(space: str, reading: People) -> None:
    page = reading("olga").get(f"/?space={space}")
    assert (page.status, page.code) == (404, "space_not_found")


@pytest.mark.parametrize("space", ["../x", "~", "a b", ":", "\x00", "é"])
def test_a_space_that_cannot_be_is_an_error_and_no_fault(space: str, reading: People) -> None:
    assert reading("ada").get(f"/?space={quote(space)}").status in (400, 404)


# Excerpts


@given(st.text("ab é漢\n", max_size=2000), st.text("abé漢", max_size=5))
def test_an_excerpt_is_a_short_part_of_the_text(text: str, query: str) -> None:
    shown = "".join(piece for piece, _ in excerpt(text, query))
    assert len(shown) <= 425
    assert shown.removeprefix("… ").removesuffix(" …") in " ".join(text.split())


@given(st.text(max_size=1000), st.text(max_size=30))
def test_every_text_has_an_excerpt(text: str, query: str) -> None:
    assert len("".join(piece for piece, _ in excerpt(text, query))) <= 425


def test_an_excerpt_begins_near_the_first_hit() -> None:
    text = "filler words here " * 60 + "the heron stands " + "more filler words " * 60
    pieces = excerpt(text, "heron")
    assert pieces[0] == ("… ", False)
    assert ("heron", True) in pieces
    assert pieces[-1] == (" …", False)
    assert len("".join(piece for piece, _ in pieces)) > 300


def test_an_excerpt_leaves_out_marks_that_mean_nothing_there() -> None:
    text = "## Heron\n<!-- page: 3 -->\n\n```sh\nheron warm\n```\n"
    assert "".join(piece for piece, _ in excerpt(text, "warm")) == "Heron · heron warm"
    assert highlight("heron warm", "warm") == [("heron ", False), ("warm", True)]
