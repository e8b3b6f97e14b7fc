"""A base's page: what is in it, for whom, and what is done with it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.web.conftest import Library
from tests.web.pages.browsing import Browser, Element, item_path

People = Callable[[str], Browser]
RUNBOOKS = "/bases/platform/runbooks"


@pytest.fixture
def page_of_base(base: str) -> str:
    return base.removeprefix("/api/v1")


def add(browser: Browser, base: str, **fields: str) -> str:
    csrf = browser.get("/").dom.one("meta", name="csrf").get("content")
    answer = browser.api("POST", f"/api/v1{base}/items", json.dumps(fields), {"X-CSRF-Token": csrf})
    assert answer.status == 201, answer.body
    return str(answer.json["knowledge_item_id"])


def items(page: Element) -> list[str]:
    return [one.one("a").text for one in page.all("div", class_="item-title")]


def test_a_member_sees_items_in_every_state(reading: People) -> None:
    page = reading("max").get(RUNBOOKS).main
    assert sorted(items(page)) == ["Deployment", "How to read revisions", "Odd", "Old", "Unfinished"]
    tabs = page.one("nav", aria_label="Items by state")
    assert [one.text for one in tabs.all("a")] == ["All 5", "Draft 1", "Published 3", "Archived 1"]
    assert items(reading("max").get(tabs.link("Draft 1")).main) == ["Unfinished"]
    assert items(reading("max").get(tabs.link("Archived 1")).main) == ["Old"]
    assert page.link("Unfinished") == item_path("runbooks/draft")


def test_a_viewer_sees_what_is_published_and_no_trace_of_the_rest(reading: People) -> None:
    for address in (RUNBOOKS, f"{RUNBOOKS}?status=draft", f"{RUNBOOKS}?prefix=draft"):
        answer = reading("vera").get(address)
        assert answer.status == 200
        assert not {"Unfinished", "Old"} & set(items(answer.main))
        for word in ("Unfinished", "archived", "runbooks/draft"):
            assert word not in answer.html
    page = reading("vera").get(RUNBOOKS).main
    assert not page.all("h2", id="problems-heading")
    assert "git clone" not in page.text
    assert not page.has_link("New item")
    assert not page.has_link("Upload files")
    assert not page.has_button("Archive base")


def test_a_member_writes_and_clones_but_does_not_administer(reading: People, library: Library) -> None:
    page = reading("max").get(RUNBOOKS).main
    assert page.link("New item") == f"{RUNBOOKS}/new"
    assert page.link("Upload files") == f"{RUNBOOKS}/upload"
    assert f"git clone {library.url}/git/platform/runbooks.git" in page.text
    assert not page.has_button("Archive base")


def test_a_reading_token_of_a_member_offers_no_writing(reading: People) -> None:
    page = reading("reader").get(RUNBOOKS).main
    assert not page.has_link("New item")
    assert "git clone" not in page.text


def test_a_base_of_others_is_not_there(reading: People) -> None:
    hidden = reading("olga").get("/bases/platform/runbooks")
    absent = reading("olga").get("/bases/platform/nothings")
    assert hidden.status == absent.status == 404
    assert hidden.html.replace("runbooks", "nothings") == absent.html


@pytest.mark.parametrize("path", ["/bases/x/..%2f..", "/bases/~/x", "/bases/a:b:c/d", "/bases/%00/x", "/bases/x/%FF"])
def test_an_address_that_cannot_be_is_an_error_and_no_fault(path: str, reading: People) -> None:
    page = reading("ada").get(path)
    assert page.status in (400, 404)
    assert page.code


def test_items_are_filtered_by_path_and_come_in_pages(writing: People, page_of_base: str) -> None:
    browser = writing("ada")
    for number in range(3):
        add(browser, page_of_base, title=f"Deep {number}", locator=f"deep/{number}.md")
    for number in range(50):
        add(browser, page_of_base, title=f"Flat {number}", locator=f"flat-{number:02}.md")
    page = browser.get(page_of_base).main
    assert len(items(page)) == 50
    rest = browser.get(page.link("More items")).main
    assert len(items(rest)) == 3
    assert not rest.has_link("More items")
    assert items(browser.get(rest.link("First items")).main) == items(page)
    filtered = browser.submit(page.one("form", class_="inline-form"), prefix="deep/")
    assert sorted(items(filtered.main)) == ["Deep 0", "Deep 1", "Deep 2"]
    assert filtered.main.link("Show all paths") == page_of_base


def test_an_empty_base_says_how_to_begin(writing: People, page_of_base: str) -> None:
    page = writing("ada").get(page_of_base).main
    assert "Nothing here yet." in page.text
    assert page.link("Write the first item") == f"{page_of_base}/new"
    assert "Nothing is published here yet." in writing("vera").get(page_of_base).main.text


def test_archiving_suspends_a_base_and_restoring_brings_it_back(writing: People, page_of_base: str) -> None:
    browser = writing("kim")
    item = add(browser, page_of_base, title="Kept", status="published")
    form = browser.get(page_of_base).main.button("Archive base")
    unmeant = browser.submit(form)
    assert (unmeant.status, unmeant.code) == (400, "invalid_request")
    done = browser.follow(browser.submit(form, confirmed="yes"))
    assert "search and unpinned reads are suspended" in done.main.one("p", role="status").text
    assert not done.main.has_link("New item")
    assert browser.get(f"{page_of_base}/items/{item}").code == "base_archived"
    pinned = browser.get(done.main.link("Kept"))
    assert (pinned.status, pinned.main.one("h1").text) == (200, "Kept")
    back = browser.follow(browser.submit(done.main.button("Restore base")))
    assert "active again" in back.main.one("p", role="status").text
    assert browser.get(f"{page_of_base}/items/{item}").status == 200


@pytest.mark.parametrize("who", ["max", "vera"])
@pytest.mark.parametrize("verb", ["archive", "restore"])
def test_who_may_not_administer_is_told_the_rule(who: str, verb: str, writing: People, page_of_base: str) -> None:
    browser = writing(who)
    csrf = browser.get("/").dom.one("meta", name="csrf").get("content")
    for form in ({}, {"confirmed": "yes"}):
        page = browser.send(f"{page_of_base}/{verb}", {"csrf": csrf, **form})
        assert (page.status, page.code) == (403, "forbidden")
        assert "does not include" in page.main.text


def test_a_base_is_made_from_its_form(writing: People) -> None:
    browser = writing("ada")
    form = browser.get(browser.get("/").main.link("New base in platform")).main.one("form")
    made = browser.submit(form, slug="made-here", name="Made <here>", description="For a & b", admission="lenient")
    assert made.location == "/bases/platform/made-here?done=base-created"
    page = browser.follow(made).main
    assert page.one("h1").text == "Made <here>"
    assert "For a & b" in page.text
    assert "publishes the rest" in page.text
    again = browser.submit(form, slug="made-here", name="Another")
    assert (again.status, again.code) == (409, "already_exists")
    assert again.main.one("input", name="name").get("value") == "Another"


@pytest.mark.parametrize("slug", ["", "UPPER", "a/b", "..", "a b", "é", "x" * 200])
def test_a_name_that_cannot_be_is_said_in_the_form(slug: str, writing: People) -> None:
    browser = writing("ada")
    form = browser.get("/spaces/platform/new-base").main.one("form")
    page = browser.submit(form, slug=slug, description="kept")
    assert (page.status, page.code) == (400, "invalid_name")
    assert page.main.one("input", name="description").get("value") == "kept"


@pytest.mark.parametrize("field", ["default_status", "admission"])
def test_a_word_that_is_none_is_refused(field: str, writing: People) -> None:
    browser = writing("ada")
    form = browser.get("/spaces/platform/new-base").main.one("form")
    assert browser.submit(form, slug="odd-word", **{field: "nonsense"}).code == "invalid_request"
    assert browser.get("/bases/platform/odd-word").status == 404


def test_new_bases_are_for_those_who_may(writing: People) -> None:
    assert writing("max").get("/spaces/platform/new-base").code == "forbidden"
    assert writing("olga").get("/spaces/platform/new-base").code == "space_not_found"
    assert writing("olga").get("/spaces/~ada/new-base").code == "space_not_found"
    assert writing("max").get("/spaces/~max/new-base").status == 200
