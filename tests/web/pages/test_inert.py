"""Whatever a text says, no page runs it: public lists of payloads through everything that pages show."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from urllib.parse import quote, urlencode, urlsplit

import pytest

from kbgit.access import Principal
from kbgit.revision import Via
from tests.web.conftest import Library
from tests.web.pages.browsing import Browser, Element, parsed
from tests.web.pages.payloads import ALL

People = Callable[[str], Browser]
SLUG = "inert"
BASE = f"/bases/platform/{SLUG}"
ADDRESSES = ("href", "src", "action", "formaction", "data", "xlink:href", "poster", "srcset")
ELEMENTS = frozenset(
    "html head meta title link script body a header svg path circle nav div button details summary ul ol li form input main "
    "section article aside p h1 h2 h3 h4 h5 h6 span code pre em strong s sup sub mark table thead tbody tr th td caption "
    "noscript progress template output colgroup col dl dt dd time label select option textarea "
    "footer blockquote hr br del ins fieldset legend".split()
)
LINES = [payload for payload in ALL if payload.isprintable()]


def faults(dom: Element) -> Iterator[str]:
    """What could run or ask another host, in a page as it was parsed."""
    for one in dom:
        if one.tag not in ELEMENTS:
            yield f"<{one.tag}>"
        if one.tag == "script" and not one.get("src").startswith("/static/"):
            yield f"script {one.attributes} {one.text[:100]}"
        for name, value in one.attributes.items():
            if name.startswith("on") or name in ("style", "srcdoc", "http-equiv"):
                yield f"{one.tag} {name}={value}"
            if name in ADDRESSES and not _is_harmless(one, value or ""):
                yield f"{one.tag} {name}={value}"


def _is_harmless(element: Element, address: str) -> bool:
    """Our own addresses everywhere; those of other hosts only where somebody must follow them by hand."""
    parts = urlsplit(address.strip())
    if not parts.scheme and not parts.netloc:
        return address == address.strip() and not address.startswith(("//", "/\\", "\\"))
    return element.tag == "a" and parts.scheme in ("http", "https", "mailto") and "noopener" in element.get("rel")


def check(browser: Browser, path: str) -> str:
    page = browser.get(path)
    assert page.status < 500, (path, page.html)
    assert list(faults(page.dom)) == [], path
    return page.html


@pytest.fixture(scope="module")
def places(workshop: Library) -> list[str]:
    """Addresses of items that carry every payload in title, tags, description, metadata, text, file and original name."""
    ada = workshop.runtime.accounts.authenticate(workshop.people["ada"])
    browser = Browser(workshop.url, workshop.people["ada"])
    csrf = browser.get("/").dom.one("meta", name="csrf").get("content")
    settings = {"slug": SLUG, "name": LINES[0], "description": " ".join(LINES)[:450], "admission": "lenient"}
    assert browser.send("/spaces/platform/new-base", {"csrf": csrf, **settings}).status == 303
    chunks = [LINES[start : start + 8] for start in range(0, len(LINES), 8)]
    return [write(workshop, ada, number, chunk) for number, chunk in enumerate(chunks)]


def write(served: Library, ada: Principal, number: int, payloads: list[str]) -> str:
    fields = {
        "title": " ".join(payloads),
        "description": payloads[-1],
        "tags": payloads,
        "status": "published",
        "owner": payloads[0],
        "source_type": "file",
        "source": {"name": payloads[0], "media_type": payloads[1], "size": "12", "sha256": payloads[-1]},
    }
    header = "".join(f"{name}: {json.dumps(value)}\n" for name, value in fields.items())
    body = "\n\n".join(
        f"heron {payload}\n\n## {payload}\n\n- {payload}\n\n| {payload} |\n|---|\n" for payload in payloads
    )
    name = f"{number} ' onclick=alert(1) &lt;svg onload=alert(1)&gt; {{{{7+7}}}} javascript&colon;.md"
    text = f"---\n{header}---\n{body}"
    made = served.runtime.writing.create_text(f"team:platform/{SLUG}", ada, text, locator=name, via=Via.API)
    assert made.citation is not None
    changed = served.runtime.writing.replace_text(
        made.item_id,
        ada,
        text + "\n".join(payloads),
        base=f"team:platform/{SLUG}",
        expected_revision=str(made.citation.revision),
        via=Via.API,
    )
    assert changed.citation is not None
    old, new = made.citation.revision, changed.citation.revision
    return f"{quote(made.item_id)}?from={old}&to={new}&revision={old}"


def test_an_item_with_payloads_everywhere_is_inert(places: list[str], writing: People) -> None:
    browser = writing("ada")
    for place in places:
        item, _, query = place.partition("?")
        check(browser, f"{BASE}/items/{item}")
        check(browser, f"{BASE}/items/{item}?view=source")
        check(browser, f"{BASE}/items/{place}&lines=3-9")
        check(browser, f"{BASE}/history/{item}")
        assert "differs" in check(browser, f"{BASE}/compare/{item}?{query}")
        check(browser, f"{BASE}/edit/{item}")


def test_lists_of_such_items_are_inert(places: list[str], writing: People, workshop: Library) -> None:
    browser = writing("ada")
    for path in (BASE, "/", "/me", "/?space=platform", f"{BASE}/new", f"{BASE}/upload"):
        check(browser, path)
    csrf = browser.get("/").dom.one("meta", name="csrf").get("content")
    head = browser.api("GET", f"/api/v1{BASE}").json["freshness"]["published"]
    waiting = json.dumps({"query": "heron", "wait_for": head})
    assert browser.api("POST", "/api/v1/knowledge/search", waiting, {"X-CSRF-Token": csrf}).status == 200
    assert "<mark>heron</mark>" in check(browser, f"/?q=heron&mode=lexical&base=team:platform/{SLUG}")
    check(browser, f"/?q=heron&mode=lexical&base=team:platform/{SLUG}&offset=10")


def test_highlighting_what_a_payload_says_makes_nothing_of_it(places: list[str], writing: People) -> None:
    for word in ("script alert 1", "onerror", '"img src"', "javascript", "svg onload", "href style"):
        shown = check(writing("ada"), "/?" + urlencode({"q": word, "mode": "lexical", "base": f"team:platform/{SLUG}"}))
        assert "<mark>" in shown


@pytest.mark.parametrize("payload", ALL)
def test_what_is_asked_comes_back_as_text(payload: str, reading: People, library: Library) -> None:
    browser = reading("ada")
    for fields in (
        {"q": payload, "mode": "lexical", "tag": payload, "locator": payload, "exclude": payload},
        {"q": "x", "mode": payload},
        {"q": "x", "base": payload},
        {"space": payload},
    ):
        check(browser, "/?" + urlencode(fields))
    check(browser, "/cite?" + urlencode({"reference": payload}))
    check(browser, f"/bases/platform/runbooks?{urlencode({'prefix': payload, 'status': payload, 'after': payload})}")
    check(
        browser, f"/bases/platform/runbooks/items/{quote(payload)}?{urlencode({'revision': payload, 'lines': payload})}"
    )
    check(browser, f"/bases/platform/runbooks/history/runbooks/deploy?{urlencode({'after': payload})}")
    check(browser, f"/bases/{quote(payload, safe='')}/{quote(payload, safe='')}")
    check(browser, f"/{quote(payload)}")
    stranger = Browser(library.url)
    check(stranger, "/sign-in?" + urlencode({"next": payload}))
    refused = stranger.send("/sign-in", {"token": payload, "next": payload})
    assert list(faults(refused.dom)) == []


def test_the_check_can_fail() -> None:
    for bad in (
        "<script>x</script>",
        "<p onclick=x>",
        '<a href="javascript:x">',
        '<a href=" javascript:x">',
        '<a href="https://a.example">',
        '<img src="/x">',
        "<p style=x>",
        '<script src="https://a.example"></script>',
        '<a href="//a.example">',
    ):
        assert list(faults(parsed(bad))), bad
