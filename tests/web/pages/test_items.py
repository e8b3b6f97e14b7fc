"""An item's pages: as it is, as it was, what changed, and its state."""

from __future__ import annotations

import json
from collections.abc import Callable
from urllib.parse import quote

import pytest

from kbgit.revision import Via
from tests.web.conftest import Library
from tests.web.pages.browsing import Browser, Element, item_path
from tests.web.pages.test_bases import add

People = Callable[[str], Browser]
DEPLOY = "runbooks/deploy"


@pytest.fixture
def page_of_base(base: str) -> str:
    return base.removeprefix("/api/v1")


def read(browser: Browser, base: str, item: str) -> dict[str, str]:
    answer = browser.api("GET", f"/api/v1/knowledge/item?id={quote(item)}&base={base.rpartition('/')[2]}")
    found: dict[str, str] = answer.json
    return found


def change(browser: Browser, item: str, **fields: str) -> str:
    csrf = browser.get("/").dom.one("meta", name="csrf").get("content")
    answer = browser.api(
        "PATCH", f"/api/v1/knowledge/item?id={quote(item)}", json.dumps(fields), {"X-CSRF-Token": csrf}
    )
    assert answer.status == 200, answer.body
    return str(answer.json["knowledge_revision_id"])


def facts(page: Element) -> dict[str, str]:
    (about,) = [one for one in page.all("section") if [h.text for h in one.all("h2")] == ["About"]]
    names, values = about.all("dt"), about.all("dd")
    return {name.text: value.text for name, value in zip(names, values, strict=True)}


# As it is


def test_an_item_is_shown_with_what_is_known_of_it(reading: People, library: Library) -> None:
    page = reading("max").get(item_path(DEPLOY)).main
    assert page.one("h1").text == "Deployment"
    assert page.one("div", class_="prose").one("code").text == "kubectl rollout undo"
    known = facts(page)
    assert known["State"] == "published"
    assert known["Revision"] == f"2 {library.heads[1][:12]}"
    assert known["Path"] == "deploy.md"
    assert known["Id"] == DEPLOY
    assert known["Message"] == "change"
    assert known["Content"].startswith("sha256:")
    assert page.one("button", class_="copy").get("data-copy") == f"knowledge:{DEPLOY}@{library.heads[1]}"
    assert page.link("Edit") == item_path(DEPLOY, "edit")


@pytest.mark.parametrize("item", ["runbooks/odd/100% über & co +", "runbooks/deploy/revisions"])
def test_odd_ids_have_addresses_that_lead_back(item: str, reading: People) -> None:
    browser = reading("max")
    listed = browser.get("/bases/platform/runbooks").main
    title = "Odd" if "odd" in item else "How to read revisions"
    page = browser.get(listed.link(title))
    assert (page.status, facts(page.main)["Id"]) == (200, item)
    history = browser.get(page.main.link("History"))
    assert item in history.main.text
    assert browser.get(history.main.link("Revision 1")).status == 200


def test_a_draft_is_shown_to_its_writers_alone(reading: People) -> None:
    page = reading("max").get(item_path("runbooks/draft"))
    assert page.status == 200
    assert "Secret plans." in page.main.text
    assert facts(page.main)["State"] == "draft"
    assert page.main.has_button("Publish")
    for who in ("vera", "reader", "olga"):
        hidden = reading(who).get(item_path("runbooks/draft"))
        absent = reading(who).get(item_path("runbooks/never"))
        assert hidden.status == absent.status == 404
        assert hidden.html.replace("draft", "never") == absent.html
        assert "Secret" not in hidden.html


@pytest.mark.parametrize("view", ["history", "compare"])
def test_nothing_of_a_draft_is_shown_elsewhere(view: str, reading: People, library: Library) -> None:
    for head in library.heads:
        page = reading("vera").get(f"{item_path('runbooks/draft', view)}?from={head}&to={head}")
        assert (page.status, page.code) == (404, "item_not_found")


def test_a_viewer_is_offered_nothing_to_change(reading: People) -> None:
    page = reading("vera").get(item_path(DEPLOY)).main
    assert not page.has_link("Edit")
    assert not page.all("form")


def test_an_item_of_a_hidden_base_is_not_there(reading: People) -> None:
    assert reading("olga").get(item_path(DEPLOY)).code == "base_not_found"
    assert reading("max").get(item_path("notes/diary", base="~ada/notes")).code == "base_not_found"
    assert reading("ada").get(item_path("notes/diary", base="~ada/notes")).status == 200


def test_links_between_files_lead_to_pages_as_far_as_one_may_see_them(writing: People, page_of_base: str) -> None:
    browser = writing("ada")
    target = add(browser, page_of_base, title="Target", locator="sub/target.md", status="published")
    secret = add(browser, page_of_base, title="Secret", locator="sub/secret.md")
    text = "[there](sub/target.md#more) [hidden](sub/secret.md) [gone](sub/gone.md) [out](https://a.example/)"
    item = add(browser, page_of_base, title="Source", locator="source.md", status="published", content=text)
    for who, leads in (("ada", True), ("vera", False)):
        body = writing(who).get(f"{page_of_base}/items/{item}").main.one("div", class_="prose")
        assert body.link("there") == f"{page_of_base}/items/{target}#md-more"
        assert body.has_link("hidden") == leads
        assert secret not in body.text
        assert not body.has_link("gone")
        assert body.link("out") == "https://a.example/"


def test_an_original_file_is_described(writing: People, page_of_base: str, workshop: Library) -> None:
    source = "source_type: file\nsource:\n  name: <b>Q3</b>.pdf\n  media_type: application/pdf\n  size: 1400000\n"
    address = written(workshop, page_of_base, f"---\ntitle: Report\nstatus: published\n{source}  sha256: abc\n---\nx\n")
    card = writing("ada").get(address).main.one("section", aria_labelledby="source-heading")
    assert [one.text for one in card.all("dd")] == ["<b>Q3</b>.pdf", "application/pdf", "1.4 MB", "abc"]


@pytest.mark.parametrize(
    "source",
    ["source: [a, b]", "source: x", "source:\n  size: -1", "source:\n  name: [x]\n  size: 9999999999999999999999"],
)
def test_a_source_that_is_none_is_no_reason_to_fail(
    source: str, writing: People, page_of_base: str, workshop: Library
) -> None:
    text = f"---\ntitle: Odd\nstatus: published\nsource_type: file\n{source}\n---\nx\n"
    assert writing("ada").get(written(workshop, page_of_base, text)).status == 200


def written(served: Library, page_of_base: str, text: str) -> str:
    """The address of a new item whose file is this text."""
    slug = page_of_base.rpartition("/")[2]
    ada = served.runtime.accounts.authenticate(served.people["ada"])
    made = served.runtime.writing.create_text(f"team:platform/{slug}", ada, text, locator=None, via=Via.API)
    return f"{page_of_base}/items/{quote(made.item_id)}"


# Lines


def test_cited_lines_are_marked_and_cited(reading: People, library: Library) -> None:
    page = reading("max").get(f"{item_path(DEPLOY)}?lines=3-3").main
    (marked,) = page.all(class_="cited")
    assert "Roll back" in marked.text
    assert marked.get("id") == "cited"
    assert page.one("button", class_="copy").get("data-copy") == f"knowledge:{DEPLOY}@{library.heads[1]}#L3-L3"


def test_lines_are_shown_with_numbers_to_cite_them_by(reading: People) -> None:
    page = reading("max").get(f"{item_path(DEPLOY)}?view=source&lines=1-3").main
    rows = page.one("table", class_="lines").all("tr")
    assert [row.get("id") for row in rows] == [f"L{number}" for number in range(1, len(rows) + 1)]
    assert rows[0].one("td").text == "# Deployment"
    assert [row.get("class") for row in rows[:4]] == ["cited", "cited", "cited", ""]
    assert page.one(id="cited").text == "1"
    assert rows[4].one("a").get("aria-label") == "Line 5"


@pytest.mark.parametrize("lines", ["0-1", "5-2", "900-901", "x", "1-", "-1", "1-2-3", "٣", "9" * 20, ""])
def test_lines_that_are_none_are_passed_over(lines: str, reading: People, library: Library) -> None:
    page = reading("max").get(f"{item_path(DEPLOY)}?lines={quote(lines)}")
    assert page.status == 200
    assert page.main.one("button", class_="copy").get("data-copy") == f"knowledge:{DEPLOY}@{library.heads[1]}"


# As it was


def test_a_pinned_revision_is_shown_as_it_was_and_says_so(reading: People, library: Library) -> None:
    page = reading("vera").get(f"{item_path(DEPLOY)}?revision={library.heads[0]}").main
    assert page.one("h1").text == "Deploy"
    assert "Revision 1, as it was." in page.one("div", role="note").text
    assert page.link("Show the item as it is now") == item_path(DEPLOY)
    assert not page.has_link("Edit")
    current = reading("vera").get(f"{item_path(DEPLOY)}?revision={library.heads[1]}").main
    assert "which is the latest one" in current.one("p", role="note").text


@pytest.mark.parametrize(
    ("revision", "code"),
    [
        ("0" * 40, "revision_not_found"),
        ("abc", "invalid_citation"),
        ("HEAD", "invalid_citation"),
        ("é", "invalid_citation"),
    ],
)
def test_a_revision_that_is_none_is_an_error(revision: str, code: str, reading: People) -> None:
    assert reading("max").get(f"{item_path(DEPLOY)}?revision={quote(revision)}").code == code


def test_history_lists_revisions_newest_first(reading: People, library: Library) -> None:
    page = reading("max").get(item_path(DEPLOY, "history")).main
    rows = page.all("li", class_="revision")
    assert [row.one("p", class_="revision-title").text for row in rows] == [
        "Revision 2 published current",
        "Revision 1 published",
    ]
    assert rows[1].link("Revision 1") == f"{item_path(DEPLOY)}?revision={library.heads[0]}"
    chosen = {one.get("name"): one.get("value") for one in page.all("input") if "checked" in one.attributes}
    assert chosen == {"from": library.heads[0], "to": library.heads[1]}


def test_history_comes_in_pages(writing: People, page_of_base: str) -> None:
    browser = writing("ada")
    item = add(browser, page_of_base, title="Changing", status="published", content="0\n")
    revision = read(browser, page_of_base, item)["knowledge_revision_id"]
    for number in range(1, 32):
        revision = change(browser, item, content=f"{number}\n", expected_revision=revision)
    page = browser.get(f"{page_of_base}/history/{item}").main
    older = browser.get(page.link("Older revisions")).main
    assert len(page.all("li", class_="revision")) == 30
    assert [one.text for one in older.all("p", class_="revision-title")] == [
        "Revision 2 published",
        "Revision 1 published",
    ]
    assert older.link("Latest revisions") == f"{page_of_base}/history/{item}"


def test_two_revisions_stand_side_by_side(reading: People, library: Library) -> None:
    old, new = library.heads
    page = reading("max").submit(
        reading("max").get(item_path(DEPLOY, "history")).main.one("form"), **{"from": old, "to": new}
    )
    assert page.status == 200
    table = page.main.one("table", class_="difference")
    assert [one.text for one in table.one("thead").all("th")] == ["Revision 1", "Revision 2"]
    (title, *_) = [row for row in table.all("tr") if row.get("class") == "row-changed"]
    assert title.one("del").text == "title: Deploy"
    assert title.one("ins").text == "title: Deployment"
    assert title.one("ins").one("span", class_="differs").text == "Deployment"
    assert any(row.get("class") == "row-added" for row in table.all("tr"))
    other_way = reading("max").get(page.main.link("The other way round")).main
    assert [one.text for one in other_way.one("thead").all("th")] == ["Revision 2", "Revision 1"]


def test_a_revision_beside_itself_does_not_differ(reading: People, library: Library) -> None:
    page = reading("max").get(f"{item_path(DEPLOY, 'compare')}?from={library.heads[0]}&to={library.heads[0]}")
    assert "Nothing differs." in page.main.text
    assert reading("max").get(item_path(DEPLOY, "compare")).code == "invalid_citation"


# State


def test_an_item_goes_through_its_states(writing: People, page_of_base: str) -> None:
    browser = writing("max")
    address = f"{page_of_base}/items/{add(browser, page_of_base, title='Going')}"
    for button, state, said in (
        ("Publish", "published", "Published."),
        ("Back to draft", "draft", "Back to a draft"),
        ("Archive", "archived", "no longer found"),
        ("Restore", "published", "Restored and published."),
    ):
        page = browser.follow(browser.submit(browser.get(address).main.button(button)))
        assert said in page.main.one("p", role="status").text
        assert facts(page.main)["State"] == state
    history = browser.get(address.replace("/items/", "/history/")).main
    assert len(history.all("li", class_="revision")) == 5
    assert "max, web" in history.text


def test_a_stale_change_shows_what_happened_meanwhile_and_writes_nothing(writing: People, page_of_base: str) -> None:
    browser = writing("ada")
    item = add(browser, page_of_base, title="Fast", status="published", content="one\n")
    page = browser.get(f"{page_of_base}/items/{item}").main
    seen = read(browser, page_of_base, item)["knowledge_revision_id"]
    now = change(browser, item, content="two\n", expected_revision=seen)
    for form in (page.button("Archive"), page.button("Delete item")):
        stale = browser.submit(form, confirmed="yes")
        assert (stale.status, stale.code) == (409, "stale_revision")
        table = stale.main.one("table", class_="difference")
        assert (table.one("del").text, table.one("ins").text) == ("one", "two")
        assert stale.main.link("Show the item as it is now") == f"{page_of_base}/items/{item}"
    assert read(browser, page_of_base, item)["knowledge_revision_id"] == now


def test_deleting_needs_a_tick_and_leaves_the_pinned_revision(writing: People, page_of_base: str) -> None:
    browser = writing("kim")
    item = add(browser, page_of_base, title="Going", status="published")
    address = f"{page_of_base}/items/{item}"
    revision = read(browser, page_of_base, item)["knowledge_revision_id"]
    form = browser.get(address).main.button("Delete item")
    assert browser.submit(form).code == "invalid_request"
    assert browser.get(address).status == 200
    done = browser.submit(form, confirmed="yes")
    assert done.location == f"{page_of_base}?done=deleted"
    gone = browser.get(address)
    assert (gone.status, gone.code) == (410, "item_deleted")
    assert browser.get(gone.main.link("Show its history")).status == 200
    assert browser.get(f"{address}?revision={revision}").status == 200
    twice = browser.submit(form, confirmed="yes")
    assert twice.code == "item_not_found"


def test_who_may_not_is_told_whatever_the_form_says(writing: People, page_of_base: str) -> None:
    item = add(writing("ada"), page_of_base, title="Kept", status="published")
    for who, view in (("vera", "state"), ("vera", "delete"), ("max", "delete")):
        browser = writing(who)
        csrf = browser.get("/").dom.one("meta", name="csrf").get("content")
        for form in ({}, {"to": "archive", "confirmed": "yes"}, {"to": "nonsense", "expected_revision": "x"}):
            page = browser.send(f"{page_of_base}/{view}/{item}", {"csrf": csrf, **form})
            assert (page.status, page.code) == (403, "forbidden"), (who, view, form)
    assert facts(writing("ada").get(f"{page_of_base}/items/{item}").main)["State"] == "published"


@pytest.mark.parametrize("form", [{}, {"to": "publish"}, {"to": "nonsense", "expected_revision": "0" * 40}])
def test_a_form_that_says_too_little_is_refused(form: dict[str, str], writing: People, page_of_base: str) -> None:
    browser = writing("ada")
    item = add(browser, page_of_base, title="Kept")
    csrf = browser.get("/").dom.one("meta", name="csrf").get("content")
    page = browser.send(f"{page_of_base}/state/{item}", {"csrf": csrf, **form})
    assert (page.status, page.code) == (400, "invalid_request")
