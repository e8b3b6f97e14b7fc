"""Scripts and styles; templates; the package that carries them; errors as pages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import kbgit.web
from kbgit.assemble import open_runtime
from kbgit.web.pages.files import static_address
from kbgit.web.server import application
from tests.web.conftest import Library, Template, copied_home
from tests.web.pages.browsing import Browser
from tests.web.serving import SERVER_ENVIRONMENT, Client, running

People = Callable[[str], Browser]
WEB = Path(kbgit.web.__file__).parent
TEMPLATES = sorted((WEB / "templates").glob("*.html"))
STATIC = sorted((WEB / "static").iterdir())
# What is HTML already: the server's own rendering of Markdown, whose tests show that it is harmless.
RENDERED = {"editor.html": {"preview.html|safe"}, "editor.js": {"preview.innerHTML = found.html"}}
POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "connect-src": "'self'",
    "form-action": "'self'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
}


@pytest.mark.parametrize("file", STATIC, ids=lambda file: file.name)
def test_a_file_is_served_as_it_is_and_kept(file: Path, library: Library) -> None:
    client = Client(library.url)
    answer = client.get(static_address(file.name))
    assert (answer.status, answer.body) == (200, file.read_bytes())
    is_imported = any(f'from "./{file.name}"' in one.read_text("utf-8") for one in STATIC if one.suffix == ".js")
    assert ("immutable" in answer.headers["cache-control"]) != is_imported
    assert answer.headers["x-content-type-options"] == "nosniff"
    again = client.get(f"/static/{file.name}", {"If-None-Match": answer.headers["etag"]})
    assert (again.status, again.body) == (304, b"")


def test_a_script_has_one_address_or_it_would_run_twice(reading: People) -> None:
    imported = {
        f"/static/{name}"
        for script in STATIC
        if script.suffix == ".js"
        for name in re.findall(r'from "\./([\w.-]+)"', script.read_text("utf-8"))
    }
    assert "/static/kbgit.js" in imported
    loaded = {one.get("src") for one in reading("ada").get("/").dom.all("script")}
    assert {one for one in loaded if one.partition("?")[0] in imported} <= imported


def test_a_file_asked_for_without_its_hash_is_asked_for_again(library: Library) -> None:
    for address in ("/static/kbgit.js", "/static/kbgit.js?v=0123456789abcdef"):
        assert Client(library.url).get(address).headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    "name", ["..%2fapp.py", "nothing.js", ".", "..", "kbgit.css%00", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "KBGIT.CSS", ""]
)
def test_other_files_are_not_there(name: str, library: Library) -> None:
    assert Browser(library.url).get(f"/static/{name}").status == 404


@pytest.mark.parametrize("file", [*TEMPLATES, *STATIC], ids=lambda file: file.name)
def test_nothing_is_asked_of_another_host(file: Path) -> None:
    text = file.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|@import|url\(|//[a-z0-9-]+\.[a-z]", text)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda file: file.name)
def test_templates_have_no_inline_script_or_style_and_trust_nothing(template: Path) -> None:
    text = template.read_text("utf-8")
    markup = re.sub(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}", "", text, flags=re.DOTALL)
    assert not re.search(r"\son\w+\s*=|\sstyle\s*=|<style|javascript:", markup)
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))
    assert set(re.findall(r"\S+\s*\|\s*safe\b", text)) <= RENDERED.get(template.name, set())
    assert "autoescape" not in text
    # An attribute that holds something must be quoted, or a space in it would begin the next one.
    assert not re.search(r"\s[\w-]+=\{\{", text)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda file: file.name)
def test_every_form_that_changes_something_carries_the_secret(template: Path) -> None:
    for form in re.findall(r"<form\b.*?</form>", template.read_text("utf-8"), re.DOTALL):
        if 'method="post"' in form:
            assert "csrf_field()" in form


@pytest.mark.parametrize("script", [file for file in STATIC if file.suffix == ".js"], ids=lambda file: file.name)
def test_scripts_make_no_html_of_text(script: Path) -> None:
    text = script.read_text("utf-8")
    made = set(re.findall(r"\w+\.(?:inner|outer)HTML\s*\+?=(?!=)\s*[\w.]+", text))
    assert made <= RENDERED.get(script.name, set())
    assert not re.search(r"insertAdjacentHTML|document\.write|\beval\b|new Function|setHTMLUnsafe", text)


@pytest.mark.parametrize("path", ["/", "/me", "/cite", "/sign-in", "/bases/platform/runbooks", "/nothing", "/?q=x"])
@pytest.mark.parametrize("who", ["ada", None])
def test_every_page_states_the_strict_policy(path: str, who: str | None, reading: People, library: Library) -> None:
    page = (reading(who) if who else Browser(library.url)).get(path)
    stated = dict(part.strip().split(" ", 1) for part in page.headers["content-security-policy"].split(";"))
    assert stated == POLICY
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["referrer-policy"] == "same-origin"


@pytest.mark.parametrize(
    "path", ["/", "/me", "/cite", "/bases/platform/runbooks", "/bases/platform/runbooks/items/runbooks/deploy"]
)
def test_pages_have_landmarks_one_heading_and_names_for_their_fields(path: str, reading: People) -> None:
    dom = reading("ada").get(path).dom
    assert dom.one("html").get("lang") == "en"
    for landmark in ("header", "main", "footer"):
        assert len([one for one in dom.all(landmark) if landmark != "header" or one.get("class") == "top"]) == 1
    assert dom.one("a", class_="skip").get("href") == "#main"
    assert len(dom.one("main").all("h1")) == 1
    assert dom.one(id="announcements").get("aria-live") == "polite"
    labelled = {one.get("for") for one in dom.all("label")}
    ids = [one.get("id") for one in dom if one.get("id")]
    assert len(ids) == len(set(ids))
    for field in [*dom.all("input"), *dom.all("select"), *dom.all("textarea")]:
        is_wrapped = any(field in list(label) for label in dom.all("label"))
        is_named = field.get("id") in labelled or field.get("aria-label") or is_wrapped
        assert is_named or field.get("type") == "hidden", field.attributes
    for button in dom.all("button"):
        assert button.text or button.get("aria-label")


# Errors


def test_errors_of_pages_are_pages_and_those_of_the_interface_are_not(reading: People, library: Library) -> None:
    browser = reading("ada")
    page = browser.get("/bases/platform/nothing")
    assert (page.status, page.code) == (404, "base_not_found")
    assert page.main.one("h1").text == "Nothing here"
    assert page.main.link("Search") == "/"
    answer = browser.api("GET", "/api/v1/bases/platform/nothing", headers={"Accept": "text/html"})
    assert answer.error == "base_not_found"
    assert json.loads(Client(library.url).get("/nothing").body)["error"]["code"] == "not_found"
    assert Browser(library.url).get("/nothing").code == "not_found"


def test_a_refusal_names_its_rule(writing: People) -> None:
    page = writing("max").get("/spaces/platform/new-base")
    assert (page.status, page.code) == (403, "forbidden")
    assert "the role member does not include" in page.main.text


def test_without_the_knowledge_runtime_pages_say_so(template: Template, tmp_path: Path) -> None:
    runtime = open_runtime(copied_home(template, tmp_path, embedder="none", watch="off", knowledge_enabled=False))
    try:
        with running(application(runtime, SERVER_ENVIRONMENT)) as url:
            browser = Browser(url, template.people["ada"])
            for path in ("/", "/me", "/bases/platform/runbooks", "/bases/platform/runbooks/items/runbooks/deploy"):
                page = browser.get(path)
                assert (page.status, page.code) == (503, "knowledge_runtime_disabled")
    finally:
        runtime.stop()


def test_a_form_beyond_the_limit_is_refused_as_a_page(writing: People) -> None:
    page = writing("ada").send("/sign-out", {"csrf": "x" * (3 << 20)})
    assert page.status == 413


def test_a_wrong_method_is_told_the_right_ones(reading: People, library: Library) -> None:
    answer = Client(library.url).request("PUT", "/sign-in")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, POST")
    assert b"method_not_allowed" in answer.body
