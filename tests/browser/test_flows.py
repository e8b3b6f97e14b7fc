"""What people do on the page, in a real browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect
from reportlab.pdfgen import canvas

from tests.browser.conftest import Visit, sign_in
from tests.browser.site import BASE, Site, is_indexed
from tests.web.serving import until

CITATION = re.compile(r"knowledge:[^@\s]+@[0-9a-f]{40}#L\d+-L\d+")


def search(page: Page, words: str) -> None:
    page.goto("/")
    page.get_by_label("Search for").fill(words)
    page.get_by_label("Search for").press("Enter")
    page.wait_for_url("**/?*q=*")


def results(page: Page) -> Locator:
    return page.locator("ol.results > li")


def find(page: Page, site: Site, words: str, title: str) -> None:
    """Search, and expect this title first, as soon as it is indexed."""
    until(lambda: is_indexed(site), 30)
    search(page, words)
    expect(results(page).first.get_by_role("heading")).to_have_text(title)


def write(page: Page, site: Site, path: str, text: str) -> None:
    """Create an item on the page."""
    page.goto(f"{site.base_address()}/new")
    page.get_by_role("textbox", name="Text, with its front matter").fill(text)
    page.get_by_label("Path in the base").fill(path)
    page.get_by_role("button", name="Create").click()
    page.wait_for_url("**/items/**")


def test_somebody_signs_in_searches_copies_a_citation_and_signs_out(visit: Visit, site: Site) -> None:
    page = visit(None)
    page.goto("/?q=pod")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.get_by_label("Token").fill(site.tokens["olivia"])
    page.get_by_role("button", name="Sign in").click()
    expect(results(page).first).to_be_visible()
    assert results(page).first.locator("mark").count() > 0
    page.get_by_role("button", name="Copy citation").first.click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert CITATION.fullmatch(copied)
    page.goto("/cite")
    page.get_by_label("Citation").fill(copied)
    page.get_by_role("button", name="Check").click()
    expect(page.locator("main")).to_contain_text(re.compile("exact", re.IGNORECASE))
    page.get_by_label("Account of olivia").click()
    page.get_by_role("button", name="Sign out").click()
    page.goto("/")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_wrong_token_is_refused_with_words_and_no_session(visit: Visit) -> None:
    page = visit(None)
    page.goto("/sign-in")
    page.get_by_label("Token").fill("kbgit_000000000000_" + "a" * 43)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("token")
    assert page.context.cookies() == [] or all("session" not in one["name"] for one in page.context.cookies())
    visit.faults.clear()  # type: ignore[attr-defined]  # the browser reports a refusal as an error


def test_an_item_is_created_previewed_published_and_found(visit: Visit, site: Site) -> None:
    page = visit("mia")
    page.goto(site.base_address())
    page.get_by_role("link", name="New item").click()
    text = page.get_by_role("textbox", name="Text, with its front matter")
    text.fill("---\ntitle: Quay inspection\ntitle: twice\n---\n# Quay inspection\n")
    expect(page.locator("#problems")).to_contain_text("title")
    text.fill(
        "---\ntitle: Quay inspection\nstatus: draft\n---\n# Quay inspection\n\nCheck the **zinc anodes** of the quay.\n"
    )
    expect(page.locator("#preview strong")).to_have_text("zinc anodes")
    expect(page.locator("#problems li.problem")).to_have_count(0)
    page.get_by_label("Path in the base").fill("quay/inspection.md")
    text.press("Control+s")
    page.wait_for_url("**/items/**")
    expect(page.get_by_role("heading", level=1)).to_contain_text("draft")
    search(page, "zinc anodes")
    assert "Quay inspection" not in page.locator("#results").inner_text()
    page.goto(f"{site.base_address()}/items/engineering-runbooks/quay/inspection")
    page.get_by_role("button", name="Publish").click()
    expect(page.locator("main")).to_contain_text("published")
    find(page, site, "zinc anodes", "Quay inspection")


def test_an_edit_shows_in_the_history_with_its_difference(visit: Visit, site: Site) -> None:
    page = visit("mia")
    write(page, site, "history/one.md", "---\ntitle: Bollards\nstatus: published\n---\nPaint them yellow.\n")
    page.get_by_role("link", name="Edit").click()
    text = page.get_by_role("textbox", name="Text, with its front matter")
    text.fill(text.input_value().replace("yellow", "orange"))
    page.get_by_role("button", name="Save").click()
    page.wait_for_url("**/items/**")
    expect(page.locator("#content")).to_contain_text("orange")
    page.get_by_role("link", name="History").click()
    page.get_by_role("button", name="Compare the two that are chosen").click()
    expect(page.locator("main table")).to_contain_text("yellow")
    expect(page.locator("main table")).to_contain_text("orange")


def test_a_text_and_a_pdf_are_uploaded_and_both_are_found(visit: Visit, site: Site, tmp_path: Path) -> None:
    (tmp_path / "tides.txt").write_text("Spring tides raise the gangway by seven handbreadths.\n")
    document = canvas.Canvas(str(tmp_path / "dredging.pdf"))
    for number in range(50):
        document.drawString(
            72, 760 - 14 * number, f"{number}. The cover page lists dredged berth {number} and its depth."
        )
    document.showPage()
    document.drawString(72, 720, "The dredger Kormoran empties its hopper at buoy nine.")
    document.showPage()
    document.save()
    page = visit("mia")
    page.goto(site.base_address())
    page.get_by_role("link", name="Upload files").click()
    page.locator("#status").select_option("published")
    page.locator("#files").set_input_files([tmp_path / "tides.txt", tmp_path / "dredging.pdf"])
    expect(page.locator("#summary")).to_contain_text("2 of 2 files are items", timeout=60_000)
    find(page, site, "gangway handbreadths", "tides.txt")
    page.goto(f"{site.base_address()}/documents")
    page.get_by_role("link", name=re.compile("Show the item")).first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("draft")
    page.get_by_role("button", name="Publish").click()
    until(lambda: is_indexed(site), 30)
    search(page, "Kormoran hopper")
    first = results(page).first
    expect(first).to_contain_text("Kormoran")
    expect(first).to_contain_text("page 2")


def test_a_document_that_cannot_be_read_says_why_and_offers_a_way(visit: Visit, site: Site, tmp_path: Path) -> None:
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7\nthis is not all of it")
    page = visit("mia")
    page.goto(f"{site.base_address()}/upload")
    page.locator("#files").set_input_files(tmp_path / "broken.pdf")
    row = page.locator("#uploads li")
    expect(row).to_have_class(re.compile("is-failed"), timeout=60_000)
    expect(row.get_by_role("button", name=re.compile("Try again"))).to_be_visible()


def test_items_and_bases_are_archived_and_restored(visit: Visit, site: Site) -> None:
    page = visit("olivia")
    write(
        page,
        site,
        "archive/me.md",
        "---\ntitle: Fog horn\nstatus: published\n---\nThe diaphragm is brittle below frost.\n",
    )
    find(page, site, "diaphragm brittle", "Fog horn")
    results(page).first.get_by_role("heading").get_by_role("link").click()
    page.get_by_role("button", name="Archive", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("archived")
    search(page, "diaphragm brittle")
    assert "Fog horn" not in page.locator("#results").inner_text()
    page.goto(f"{site.base_address()}/items/engineering-runbooks/archive/me")
    page.get_by_role("button", name=re.compile("Restore|Publish")).click()
    find(page, site, "diaphragm brittle", "Fog horn")

    page.goto(site.base_address())
    page.get_by_text("Archive this base").click()
    page.get_by_label(re.compile("Yes, archive")).check()
    page.get_by_role("button", name="Archive base").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("archived")
    search(page, "diaphragm brittle")
    expect(page.locator("#results")).to_contain_text("Nothing found")
    page.goto(site.base_address())
    page.get_by_role("button", name="Restore base").click()
    find(page, site, "diaphragm brittle", "Fog horn")


def test_a_viewer_is_offered_nothing_that_they_may_not_do(visit: Visit, site: Site) -> None:
    page = visit("victor")
    page.goto(site.base_address())
    for name in ("New item", "Upload files"):
        expect(page.get_by_role("link", name=name)).to_have_count(0)
    expect(page.get_by_text("Archive this base")).to_have_count(0)
    expect(page.get_by_text("git clone")).to_have_count(0)
    expect(page.locator(".badge-draft")).to_have_count(0)
    page.locator(".item-title a").first.click()
    expect(page.locator("#content")).to_be_visible()
    for name in ("Edit", "Archive", "Unpublish", "Delete item"):
        expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)
        expect(page.get_by_role("link", name=name, exact=True)).to_have_count(0)
    answer = page.goto(f"{site.base_address()}/new")
    assert answer is not None
    assert answer.status == 403
    visit.faults.clear()  # type: ignore[attr-defined]  # the browser reports the refusal as an error


def test_of_two_edits_the_later_one_is_shown_the_difference_and_loses_no_word(visit: Visit, site: Site) -> None:
    first, second = visit("mia"), visit("olivia")
    write(first, site, "stale/one.md", "---\ntitle: Crane limits\nstatus: published\n---\nForty tonnes.\n")
    for page in (first, second):
        page.goto(f"{site.base_address()}/edit/engineering-runbooks/stale/one")
    for page, words in ((first, "Thirty tonnes."), (second, "Fifty tonnes.")):
        text = page.get_by_role("textbox", name="Text, with its front matter")
        text.fill(text.input_value().replace("Forty tonnes.", words))
        page.get_by_role("button", name="Save").click()
    expect(second.locator("#stale")).to_be_visible()
    expect(second.locator("table").first).to_contain_text("Thirty")
    assert "Fifty tonnes." in second.get_by_role("textbox", name="Text, with its front matter").input_value()
    second.get_by_role("button", name="Save mine over theirs").click()
    second.wait_for_url("**/items/**")
    expect(second.locator("#content")).to_contain_text("Fifty tonnes.")
    visit.faults.clear()  # type: ignore[attr-defined]  # the browser reports the conflict, 409, as an error


def test_everything_can_be_done_with_the_keyboard_alone(visit: Visit, site: Site) -> None:
    page = visit(None)
    page.goto("/sign-in")
    page.keyboard.type(site.tokens["mia"])  # the field has the focus
    page.keyboard.press("Enter")
    page.wait_for_url("**/")
    page.keyboard.type("disk full")  # and so has the search
    page.keyboard.press("Enter")
    expect(results(page).first).to_be_visible()
    link = results(page).first.get_by_role("heading").get_by_role("link")
    focus_by_tab(page, link)
    page.keyboard.press("Enter")
    page.wait_for_url("**/items/**")
    focus_by_tab(page, page.get_by_role("link", name="Edit", exact=True))
    page.keyboard.press("Enter")
    text = page.get_by_role("textbox", name="Text, with its front matter")
    focus_by_tab(page, text)
    page.keyboard.press("Control+End")
    page.keyboard.type("\nWritten without a mouse.")
    page.keyboard.press("Control+s")
    page.wait_for_url("**/items/**")
    expect(page.locator("#content")).to_contain_text("Written without a mouse.")


def focus_by_tab(page: Page, wanted: Locator) -> None:
    """Press Tab until the control has the focus, as long as a page of this size may take."""
    for _ in range(80):
        if wanted.evaluate("element => element === document.activeElement"):
            outline = wanted.evaluate("element => getComputedStyle(element).outlineStyle")
            assert outline != "none", "the focus cannot be seen"
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not lead to {wanted}")


@pytest.mark.parametrize("width", [320, 390])
def test_no_page_is_wider_than_a_phone(visit: Visit, site: Site, width: int) -> None:
    page = visit("olivia", viewport={"width": width, "height": 700})
    item = f"{site.base_address()}/items/{first_item(site)}"
    for address in (
        "/",
        "/?q=disk",
        "/me",
        site.base_address(),
        item,
        f"{site.base_address()}/new",
        "/tokens",
        "/cite",
    ):
        page.goto(address)
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{address} is {wide} px wider than {width}"
    page.goto("/")
    expect(page.get_by_role("button", name="Search")).to_be_in_viewport()


def first_item(site: Site) -> str:
    space, _, slug = str(BASE.relative_path).partition("/")
    listed = site.client("olivia").get(f"/api/v1/bases/{space}/{slug}/items?status=published&limit=1").json
    return str(listed["items"][0]["knowledge_item_id"])


def test_signing_out_in_one_tab_ends_the_session_in_all(visit: Visit, site: Site) -> None:
    page = visit("mia")
    other = page.context.new_page()
    other.goto("/me")
    page.get_by_label("Account of mia").click()
    page.get_by_role("button", name="Sign out").click()
    other.reload()
    expect(other.get_by_role("heading", name="Sign in")).to_be_visible()
    sign_in(other, site.tokens["mia"])
