"""axe, the accessibility checker, finds no serious fault on any page, in light and in dark, on a phone and on a desk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import Visit
from tests.browser.site import BASE, Site

AXE = Path(__file__).with_name("node_modules") / "axe-core" / "axe.min.js"
BAD = ("serious", "critical")
ITEM = "item_runbook_disk_full"
PAGES = {
    "search": "/",
    "results": "/?q=disk+full&mode=hybrid",
    "nothing found": "/?q=zzzzzz&mode=lexical",
    "a personal space": "/me",
    "a team's space": "/?space=harbour",
    "all spaces": "/spaces",
    "a base": "{base}",
    "drafts of a base": "{base}?status=draft",
    "an item": "{base}/items/{item}",
    "an item by lines": "{base}/items/{item}?view=source",
    "its history": "{base}/history/{item}",
    "a new item": "{base}/new",
    "the editor": "{base}/edit/{item}",
    "uploads": "{base}/upload",
    "documents": "{base}/documents",
    "a new base": "/spaces/harbour/new-base",
    "members": "/spaces/harbour/members",
    "tokens": "/tokens",
    "the audit log": "/audit",
    "a citation": "/cite",
    "an error": "/bases/harbour/nothing-here",
}


@pytest.fixture(scope="module")
def axe() -> str:
    if not AXE.is_file():
        pytest.skip("axe-core is not installed (npm install --prefix tests/browser)")
    return AXE.read_text("utf-8")


def faults(page: Page, axe: str) -> list[str]:
    """What axe calls serious or worse, each with where it is."""
    page.evaluate(axe)  # through the browser's own door: the pages' policy lets no such script in
    found: dict[str, Any] = page.evaluate("axe.run({resultTypes: ['violations']})")
    return [
        f"{one['id']} ({one['impact']}): {node['html'][:200]}"
        for one in found["violations"]
        if one["impact"] in BAD
        for node in one["nodes"][:3]
    ]


def address(name: str, site: Site) -> str:
    return PAGES[name].format(base=site.base_address(BASE), item=ITEM)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_serious_fault(visit: Visit, site: Site, axe: str, scheme: str) -> None:
    page = visit("olivia", color_scheme=scheme)
    found = {}
    for name in PAGES:
        page.goto(address(name, site))
        if problems := faults(page, axe):
            found[name] = problems
    visit.faults.clear()  # type: ignore[attr-defined]  # the browser reports the page that is not there
    assert not found


def test_the_way_in_has_no_serious_fault(visit: Visit, axe: str) -> None:
    page = visit(None)
    page.goto("/sign-in")
    assert faults(page, axe) == []


def test_a_phone_gets_pages_without_serious_faults(visit: Visit, site: Site, axe: str) -> None:
    page = visit("victor", viewport={"width": 360, "height": 700})
    found = {}
    for name in ("search", "results", "a base", "an item", "its history"):
        page.goto(address(name, site))
        if problems := faults(page, axe):
            found[name] = problems
    assert not found
