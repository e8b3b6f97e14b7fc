"""A browser, where there is one; each test has a page of its own, which may neither fail silently nor ask another host."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, sync_playwright

from tests.browser.site import Site, serving

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# A browser that looks up nothing and nobody of its own.
QUIET = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-domain-reliability", "--disable-dev-shm-usage"),
]


# A module's, because the driver keeps an event loop running in this thread, where other tests start their own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed (Debian: chromium)")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield started
        started.close()


@pytest.fixture(scope="module")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory, bases_directory: Path) -> Iterator[Site]:
    with serving(tmp_path_factory.mktemp("site"), bases_directory) as made:
        yield made


Visit = Callable[..., Page]


@pytest.fixture
def visit(browser: Browser, site: Site) -> Iterator[Visit]:
    """Opens a page as somebody (None: nobody), signed in through the form; options are those of a browser context.

    At the end of the test, nothing may have gone wrong in its console, and nothing may have been asked of another host.
    """
    contexts: list[BrowserContext] = []
    faults: list[str] = []
    host = urlsplit(site.url).netloc

    def open_page(user: str | None = "olivia", **options: Any) -> Page:  # noqa: ANN401
        context = browser.new_context(base_url=site.url, **options)
        context.set_default_timeout(15_000)
        context.grant_permissions(["clipboard-read", "clipboard-write"], origin=site.url)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: faults.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: faults.append(str(error)))

        def see(request: Request) -> None:
            if urlsplit(request.url).scheme in ("http", "https", "ws") and urlsplit(request.url).netloc != host:
                faults.append(f"asked {request.url}")

        page.on("request", see)
        if user is not None:
            sign_in(page, site.tokens[user])
        return page

    open_page.faults = faults  # type: ignore[attr-defined]
    yield open_page
    for context in contexts:
        context.close()
    assert not faults


def sign_in(page: Page, token: str) -> None:
    """Through the form, as people do."""
    page.goto("/sign-in")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/")
