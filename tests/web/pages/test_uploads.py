"""The page that takes files, and the list of documents. What the scripts do is tested in a browser."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from kbgit.documents.contract import Reason, State
from kbgit.web.pages.uploads import REASONS, STATES
from tests.web.conftest import Library
from tests.web.pages.browsing import Browser
from tests.web.serving import until

STATIC = Path(__file__).resolve().parents[3] / "kbgit" / "web" / "static"


@pytest.fixture
def here(base: str) -> str:
    return base.removeprefix("/api/v1")


@pytest.fixture
def max_(workshop: Library) -> Browser:
    return Browser(workshop.url, workshop.people["max"])


def uploaded(browser: Browser, here: str, name: str, content: str) -> str:
    csrf = browser.get(f"{here}/upload").dom.one("meta", name="csrf").get("content")
    headers = {"X-CSRF-Token": csrf, "Content-Type": "application/octet-stream"}
    answer = browser.api("POST", f"/api/v1{here}/documents?name={name}", content, headers)
    assert answer.status == 202, answer.body
    return str(answer.json["id"])


def test_there_are_words_for_every_state_and_a_way_out_of_every_failure() -> None:
    assert set(STATES) == set(State)
    assert set(REASONS) == set(Reason)
    assert all(why and way_out for why, way_out in REASONS.values())


def test_the_page_tells_its_script_all_that_it_needs(max_: Browser, here: str) -> None:
    page = max_.get(f"{here}/upload")
    form = page.main.one("form", id="upload")
    words = json.loads(form.get("data-words"))
    assert set(words["states"]) == {state.value for state in State}
    assert set(words["reasons"]) == {reason.value for reason in Reason}
    kinds = max_.api("GET", "/api/v1/file-types").json
    assert {"suffix", "max_bytes"} <= set(kinds["texts"][0]) & set(kinds["documents"][0])
    assert max_.api("GET", f"{form.get('data-api').replace('%3A', ':')}/items").status == 200
    assert form.one("input", id="files").get("type") == "file"
    assert page.main.one("noscript")


def test_a_document_that_failed_says_why_and_what_to_do_and_can_be_tried_again(
    workshop: Library, max_: Browser, here: str
) -> None:
    document = uploaded(max_, here, "no.pdf", "not a PDF at all")
    member = workshop.runtime.accounts.principal("max")
    until(lambda: workshop.runtime.documents.document(document, member).state.is_final)
    page = max_.get(f"{here}/documents")
    row = page.main.one("li", id=f"document-{document}")
    assert row.get("data-state") == "failed"
    assert row.one(class_="upload-name").text == "no.pdf"
    assert "Could not be read." in row.text
    assert REASONS[Reason.CORRUPT][1] in row.text
    again = max_.submit(page.main.button("Try again: no.pdf"), action="retry")
    assert (again.status, again.location) == (303, f"{here}/documents")
    until(lambda: workshop.runtime.documents.document(document, member).state.is_final)
    late = max_.submit(max_.get(f"{here}/documents").main.button("Try again: no.pdf"), action="cancel")
    assert late.status in (303, 409)


def test_a_document_of_another_base_is_not_there(max_: Browser, here: str) -> None:
    document = uploaded(max_, here, "x.pdf", "no")
    csrf = max_.get(f"{here}/documents").dom.one("meta", name="csrf").get("content")
    elsewhere = max_.send(f"/bases/platform/runbooks/documents/{document}", {"action": "cancel", "csrf": csrf})
    assert (elsewhere.status, elsewhere.code) == (404, "not_found")
    odd = max_.send(f"{here}/documents/{document}", {"action": "publish", "csrf": csrf})
    assert (odd.status, odd.code) == (400, "invalid_request")


def test_a_name_with_markup_is_text(max_: Browser, here: str) -> None:
    uploaded(max_, here, "%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E.pdf", "no")
    page = max_.get(f"{here}/documents")
    assert page.main.one(class_="upload-name").text == "<img src=x onerror=alert(1)>.pdf"
    assert not page.main.all("img")


@pytest.mark.parametrize("name", ["editor.js", "upload.js", "documents.js"])
def test_a_script_is_one_that_an_engine_can_read_and_asks_no_other_host(name: str) -> None:
    text = (STATIC / name).read_text("utf-8")
    assert "http://" not in text
    assert "https://" not in text
    assert ".innerHTML = found.html" in text or "innerHTML = " not in text
    if engine := shutil.which("node"):
        checked = subprocess.run([engine, "--check", "--input-type=module"], input=text, text=True, capture_output=True)
        assert checked.returncode == 0, checked.stderr
