"""Writing on a page: nothing that somebody typed is lost, and what is wrong is said with its line."""

from __future__ import annotations

import json

import pytest

from kbgit.library import Draft
from kbgit.revision import Via
from tests.web.conftest import Library
from tests.web.pages.browsing import Browser, Element, Page
from tests.web.pages.payloads import ALL
from tests.web.serving import Answer

TEXT = "---\ntitle: First steps\nstatus: draft\n---\n# First steps\n\nheron\n"


@pytest.fixture
def here(base: str) -> str:
    """The page of a base of the test's own."""
    return base.removeprefix("/api/v1")


@pytest.fixture
def max_(workshop: Library) -> Browser:
    return Browser(workshop.url, workshop.people["max"])


def form_text() -> str:
    """What a new item's text begins as."""
    return "---\ntitle:\nstatus: draft\ntags: []\n---\n"


def form_of(page: Page) -> Element:
    return page.main.one("form", id="editor")


def text_in(page: Page) -> str:
    """What a browser has in the text field: an HTML parser drops the line end right after its tag."""
    inside = form_of(page).one("textarea").inside
    return "".join(str(part) for part in inside).removeprefix("\n")


def created(browser: Browser, here: str, text: str = TEXT) -> str:
    """The address of an item's editor, once it is made."""
    made = browser.submit(form_of(browser.get(f"{here}/new")), text=text)
    assert made.status == 303, made.html
    return made.location.partition("?")[0].replace("/items/", "/edit/")


def preview(browser: Browser, here: str, text: str, **more: str) -> Answer:
    csrf = browser.get(f"{here}/new").dom.one("meta", name="csrf").get("content")
    return browser.api("POST", f"{here}/preview", json.dumps({"text": text, **more}), {"X-CSRF-Token": csrf})


def raw_of(workshop: Library, address: str) -> bytes:
    space, slug, _, item = address.removeprefix("/bases/").split("/", 3)
    text = workshop.runtime.writing.text_of(
        item, workshop.runtime.accounts.principal("max"), base=f"team:{space}/{slug}"
    )
    repository = workshop.runtime.home.repository(text.base.key)
    return repository.git.run("cat-file", "blob", f"HEAD:{text.locator}")


def test_a_new_item_is_what_was_typed_and_its_page_follows(max_: Browser, here: str, workshop: Library) -> None:
    form = max_.get(f"{here}/new")
    assert text_in(form).startswith("---\ntitle:\nstatus: draft\n")
    made = max_.submit(form_of(form), text=TEXT.replace("\n", "\r\n"))
    shown = max_.follow(made)
    assert shown.status == 200
    assert "First steps" in shown.main.one("h1").text
    assert raw_of(workshop, made.location.partition("?")[0]) == TEXT.encode()
    item = workshop.runtime.library.items(
        f"team:{here.removeprefix('/bases/')}", workshop.runtime.accounts.principal("max")
    )
    assert [one.locator for one in item.items] == ["first-steps.md"]


def test_a_new_item_goes_to_the_path_that_was_asked_for(max_: Browser, here: str) -> None:
    made = max_.submit(form_of(max_.get(f"{here}/new")), text=TEXT, path="guides/one")
    assert made.location.startswith(f"{here}/items/")
    taken = max_.submit(form_of(max_.get(f"{here}/new")), text="# Other\n", path="guides/one.md")
    assert (taken.status, taken.code) == (409, "already_exists")
    assert text_in(taken) == "# Other\n"
    assert form_of(taken).one("input", name="path").get("value") == "guides/one.md"


def test_an_edit_shows_the_file_as_it_is_and_saves_exactly_what_is_sent(
    max_: Browser, here: str, workshop: Library
) -> None:
    text = '---\ntitle: "A: b"   # kept\ntags: [a,  b]\n---\n\n\n  <b>body</b> &amp; </textarea>\n\n\n'
    address = created(max_, here, text)
    form = max_.get(address)
    assert text_in(form) == text
    edited = text + "\t more"
    saved = max_.submit(form_of(form), text=edited)
    assert saved.status == 303
    assert raw_of(workshop, address) == edited.encode()
    assert text_in(max_.get(address)) == edited


def test_what_is_wrong_with_the_front_matter_is_said_with_its_line_while_typing_and_on_saving(
    max_: Browser, here: str
) -> None:
    for text, line, words in (
        ("---\ntitle: a: b\n---\n", 2, "a colon inside an unquoted value"),
        ("---\ntitle: x\nstatus: nonsense\n---\n", 3, "unknown status"),
        ("---\ntitle: x\n", 1, "is not closed"),
        ("---\nid: a\ntitle: x\nid: b\n---\n", 4, "duplicate key"),
    ):
        found = preview(max_, here, text).json["problems"]
        assert [(one["kind"], one["line"]) for one in found] == [("problem", line)]
        assert words in found[0]["what"]
        refused = max_.submit(form_of(max_.get(f"{here}/new")), text=text, path="x.md")
        assert refused.status == 422
        assert text_in(refused) == text
        shown = refused.main.one(id="problems").text
        assert f"Line {line}" in shown
        assert words in shown
        assert form_of(refused).one("textarea").get("aria-invalid") == "true"


def test_everything_that_admission_refuses_is_listed_beside_the_text(max_: Browser, here: str) -> None:
    created(max_, here, "---\nid: same\ntitle: One\n---\n")
    text = "---\nid: same\ntitle: Two\n---\nbody\n"
    refused = max_.submit(form_of(max_.get(f"{here}/new")), text=text)
    assert (refused.status, refused.code) == (422, "push_refused")
    assert "one.md" in refused.main.one(role="alert").text
    assert text_in(refused) == text


def test_the_preview_is_safe_and_counts_words(max_: Browser, here: str) -> None:
    created(max_, here)
    answer = preview(max_, here, TEXT + "[first](first-steps.md) <script>alert(1)</script> [gone](gone.md)\n")
    assert answer.status == 200
    found = answer.json
    assert (found["title"], found["status"], found["problems"]) == ("First steps", "draft", [])
    assert found["words"] == 14
    assert "<script" not in found["html"]
    assert f'href="{here}/items/' in found["html"]
    assert 'class="broken"' in found["html"]


def test_a_preview_says_what_may_not_be_meant(max_: Browser, here: str) -> None:
    assert [one["kind"] for one in preview(max_, here, "words").json["problems"]] == ["note"]
    other = preview(max_, here, "---\ntitle: x\nid: other\n---\n", item_id="one").json["problems"]
    assert [(one["kind"], one["line"]) for one in other] == [("note", 3)]


def test_a_preview_needs_the_word_of_one_of_our_pages(max_: Browser, here: str) -> None:
    assert max_.api("POST", f"{here}/preview", '{"text": "x"}').status == 403


def test_without_scripts_the_preview_is_a_button_and_nothing_is_saved(max_: Browser, here: str) -> None:
    shown = max_.submit(form_of(max_.get(f"{here}/new")), text=TEXT, action="preview")
    assert shown.status == 200
    assert shown.main.one(id="preview").one("h2").text == "First steps"
    assert text_in(shown) == TEXT
    assert max_.get(f"{here}").main.all(class_="item-row") == []


def test_the_fields_change_their_lines_of_the_text_and_no_other(max_: Browser, here: str) -> None:
    text = "---\n# ours\ntitle: 'One'   # keep\ntags: [a,  b]\nowner: me\n---\nbody\n"
    form = max_.submit(form_of(max_.get(f"{here}/new")), text=text, action="preview")
    assert form_of(form).one("input", name="title").get("value") == "One"
    assert form_of(form).one("input", name="tags").get("value") == "a, b"
    assert max_.submit(form_of(form), text=text, action="fields").html.count("keep")
    changed = max_.submit(form_of(form), text=text, action="fields", status="published", description="What: it is")
    assert text_in(changed) == text.replace(
        "---\nbody", 'status: published\ndescription: "What: it is"\n---\nbody'
    ).replace('status: published\ndescription: "What: it is"\n', 'description: "What: it is"\nstatus: published\n')
    emptied = max_.submit(form_of(changed), text=text_in(changed), action="fields", tags="", title="Two")
    assert "tags" not in text_in(emptied)
    assert "title: Two" in text_in(emptied).replace("'", "").replace('"', "")
    assert "owner: me\n" in text_in(emptied)


def test_fields_that_were_filled_in_count_when_saving_and_those_left_alone_undo_nothing(
    max_: Browser, here: str, workshop: Library
) -> None:
    form = form_of(max_.get(f"{here}/new"))
    made = max_.submit(form, text=form_text() + "body\n", title="From: the field", tags="a, b")
    assert raw_of(workshop, made.location.partition("?")[0]) == (
        b'---\ntitle: "From: the field"\nstatus: draft\ntags: [a, b]\n---\nbody\n'
    )
    edit = form_of(max_.get(made.location.partition("?")[0].replace("/items/", "/edit/")))
    typed = "---\ntitle: Typed\n---\nbody\n"
    assert max_.submit(edit, text=typed).status == 303
    assert raw_of(workshop, made.location.partition("?")[0]) == typed.encode()


def test_a_preview_puts_fields_into_the_text(max_: Browser, here: str) -> None:
    csrf = max_.get(f"{here}/new").dom.one("meta", name="csrf").get("content")
    for text, expected in (
        (TEXT, TEXT.replace("First steps\nstatus", "Other\nstatus", 1)),
        ("---\ntitle: a: b\n---\n", None),
    ):
        body = {"text": text, "fields": {"title": "Other", "was_title": "First steps", "tags": "", "was_tags": ""}}
        answer = max_.api("POST", f"{here}/preview", json.dumps(body), {"X-CSRF-Token": csrf})
        assert answer.status == 200
        assert answer.json["text"] == expected
    assert preview(max_, here, TEXT).json["text"] is None


def test_a_stale_edit_is_shown_beside_theirs_and_can_take_over_without_losing_a_byte(
    max_: Browser, here: str, workshop: Library
) -> None:
    address = created(max_, here)
    opened = max_.get(address)
    ada = Browser(workshop.url, workshop.people["ada"])
    theirs = TEXT.replace("heron", "stork")
    assert ada.submit(form_of(ada.get(address)), text=theirs).status == 303
    mine = TEXT.replace("heron", "crane") + "\n  mine  \n"
    stale = max_.submit(form_of(opened), text=mine)
    assert (stale.status, stale.code) == (409, "stale_revision")
    assert text_in(stale) == mine
    difference = stale.main.one("table", class_="difference").text
    assert "stork" in difference
    assert "crane" in difference
    assert raw_of(workshop, address) == theirs.encode()
    taken = max_.submit(form_of(stale), text=text_in(stale))
    assert taken.status == 303
    assert raw_of(workshop, address) == mine.encode()


def test_a_stale_edit_of_two_long_texts_that_share_nothing_is_answered_in_time(
    max_: Browser, here: str, workshop: Library
) -> None:
    address = created(max_, here)
    opened = max_.get(address)
    ada = Browser(workshop.url, workshop.people["ada"])
    ada.submit(form_of(ada.get(address)), text="".join(f"{n}\n" for n in range(9000)))
    mine = "".join(f"x{n % 7}\n" for n in range(9000))
    stale = max_.submit(form_of(opened), text=mine)
    assert stale.status == 409
    assert text_in(stale) == mine


def test_the_text_of_an_item_that_was_removed_meanwhile_becomes_a_new_one(
    max_: Browser, here: str, workshop: Library
) -> None:
    address = created(max_, here, "---\nid: gone\ntitle: Gone\n---\n")
    opened = max_.get(address)
    ada = workshop.runtime.accounts.principal("ada")
    workshop.runtime.writing.delete(
        "gone", ada, base=f"team:{here.removeprefix('/bases/')}", expected_revision=None, via=Via.API
    )
    mine = "---\nid: gone\ntitle: Gone\n---\nmine\n"
    stale = max_.submit(form_of(opened), text=mine)
    assert (stale.status, stale.code) == (409, "stale_revision")
    assert text_in(stale) == mine
    assert form_of(stale).get("action") == f"{here}/new"
    assert max_.submit(form_of(stale), text=mine).status == 303
    assert raw_of(workshop, address) == mine.encode()


def test_readers_and_strangers_are_offered_nothing_and_refused_all_the_same(
    workshop: Library, here: str, max_: Browser
) -> None:
    address = created(max_, here, TEXT.replace("draft", "published"))
    vera, olga = (Browser(workshop.url, workshop.people[who]) for who in ("vera", "olga"))
    assert not vera.get(here).main.has_link("New item")
    for path in (f"{here}/new", address, f"{here}/upload", f"{here}/documents"):
        assert vera.get(path).status == 403
        assert olga.get(path).status == 404
    csrf = form_of(max_.get(address)).one("input", name="csrf").get("value")
    assert max_.send(address, {"text": "x", "expected_revision": "y", "csrf": csrf + "x"}).status == 403


def safe(page: Page) -> None:
    assert not [script for script in page.dom.all("script") if not script.get("src").startswith("/static/")]
    for element in page.main:
        assert not [name for name in element.attributes if name.startswith("on") or name == "style"], element
        assert element.tag not in ("script", "iframe", "object", "embed", "style", "svg", "img", "base", "meta")
        assert not element.get("href").lower().startswith(("javascript:", "data:", "vbscript:", "file:", "//"))


def test_no_payload_runs_in_the_editor(workshop: Library, max_: Browser, here: str) -> None:
    plain = [one for one in ALL if one.isprintable()]
    writer, key = workshop.runtime.accounts.principal("max"), f"team:{here.removeprefix('/bases/')}"
    for number, payload in enumerate(plain[::8]):
        draft = Draft(title=payload, content=payload, tags=[payload.replace(",", "")], description=payload)
        workshop.runtime.writing.create(key, writer, draft, locator=f"{number}.md", item_id=f"x{number}", via=Via.API)
        page = max_.get(f"{here}/edit/x{number}")
        safe(page)
        assert page.main.one("h1").text == f"Edit {' '.join(payload.split())}"
    form = form_of(max_.get(f"{here}/new"))
    for payload in plain:
        text = "---\ntitle: |\n  " + payload + "\n---\n" + payload
        shown = max_.submit(form, text=text, path=payload, action="preview")
        safe(shown)
        assert text_in(shown) == text
