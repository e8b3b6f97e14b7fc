"""Checking a citation on its page."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import pytest

from kbgit.library.verdict import Reason, State
from kbgit.web.pages.citations import REASONS, WORDS
from tests.web.conftest import Library
from tests.web.pages.browsing import Browser

People = Callable[[str], Browser]


def test_every_verdict_has_its_words() -> None:
    assert set(WORDS) == set(State)
    assert set(REASONS) == set(Reason)


def test_the_page_begins_with_an_empty_box(reading: People) -> None:
    page = reading("ada").get("/cite").main
    assert page.one("input", name="reference").get("value") == ""
    assert not page.all("section", role="status")


def test_a_citation_that_stands_is_confirmed_with_its_lines(reading: People, library: Library) -> None:
    browser = reading("vera")
    reference = f"knowledge:runbooks/deploy@{library.heads[1]}#L3-L3"
    page = browser.submit(browser.get("/cite").main.one("form"), reference=f" {reference} ").main
    assert page.one("section", role="status").one("h2").text == "Exact"
    (row,) = page.one("table", class_="lines").all("tr")
    assert (row.one("th").text, row.one("td").text) == ("3", "Roll back with `kubectl rollout undo`.")
    assert page.link("Deployment").endswith(f"?revision={library.heads[1]}&lines=3-3#cited")


def test_a_citation_of_what_changed_shows_the_change_and_what_to_cite_now(reading: People, library: Library) -> None:
    old, new = library.heads
    page = reading("ada").get(f"/cite?reference={quote(f'knowledge:runbooks/deploy@{old}#L1-L3')}").main
    verdict = page.one("section", role="status")
    assert verdict.one("h2").text == "Changed"
    assert verdict.one("button").get("data-copy").startswith(f"knowledge:runbooks/deploy@{new}#L")
    assert "# Deploy" in page.one("table", class_="lines").text
    tables = page.all("table", class_="difference")
    assert {one.text for table in tables for one in table.all("ins")} >= {"# Deployment"}


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("knowledge:runbooks/deploy", "not of the form"),
        ("nonsense", "not of the form"),
        ("x" * 5000, "not of the form"),
        ("knowledge:runbooks/deploy@" + "0" * 40, "No such item or revision"),
        ("knowledge:runbooks/deploy@{head}#L900-L901", "does not have these lines"),
        ("knowledge:\x00@x", "not of the form"),
    ],
)
def test_a_citation_of_nothing_says_why(reference: str, says: str, reading: People, library: Library) -> None:
    text = quote(reference.replace("{head}", library.heads[1]))
    page = reading("ada").get(f"/cite?reference={text}")
    assert page.status == 200
    assert page.main.one("section", role="status").one("h2").text == "Unknown"
    assert says in page.main.text


def test_hidden_and_absent_cannot_be_told_apart(reading: People, library: Library) -> None:
    for who, item in (("olga", "runbooks/deploy"), ("vera", "runbooks/draft")):
        pages = [
            reading(who).get(f"/cite?reference={quote(f'knowledge:{one}@{library.heads[1]}')}")
            for one in (item, "runbooks/never1")
        ]
        assert pages[0].main.text == pages[1].main.text
