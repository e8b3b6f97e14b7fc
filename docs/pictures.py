"""Takes the pictures of the documentation, from a real server with the sample base.

    python -m docs.pictures [--into docs/pictures]

Needs Chromium and the packages that the browser tests need (`pip install -e '.[dev]'`).
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.browser.conftest import CHROMIUM, QUIET, sign_in
from tests.browser.site import Site, serving

HERE = Path(__file__).resolve().parent
SAMPLES = HERE.parent / "bases"
ITEM = "item_runbook_disk_full"
PICTURES = {
    "search": "/?q=the+disk+is+full",
    "item": "{base}/items/" + ITEM,
    "editor": "{base}/edit/" + ITEM,
    "base": "{base}",
    "upload": "{base}/upload",
}


def take(page: Page, site: Site, into: Path, suffix: str = "") -> None:
    """One picture of each page, as much of it as the window shows."""
    for name, address in PICTURES.items():
        page.goto(address.format(base=site.base_address()))
        page.wait_for_load_state("networkidle")
        page.mouse.move(0, 0)
        page.screenshot(path=into / f"{name}{suffix}.png", animations="disabled", caret="hide")
        print(into / f"{name}{suffix}.png", flush=True)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=HERE / "pictures")
    into: Path = parser.parse_args().into
    into.mkdir(exist_ok=True)
    if CHROMIUM is None:
        raise SystemExit("no Chromium is installed")
    with tempfile.TemporaryDirectory() as scratch, serving(Path(scratch), SAMPLES) as site, sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        kinds = (("", "light", (1200, 800)), ("-dark", "dark", (1200, 800)), ("-phone", "light", (390, 780)))
        for suffix, scheme, (width, height) in kinds:
            context = browser.new_context(
                base_url=site.url,
                color_scheme=scheme,  # type: ignore[arg-type]
                viewport={"width": width, "height": height},
            )
            page = context.new_page()
            sign_in(page, site.tokens["olivia"])
            take(page, site, into, suffix)
            context.close()
        browser.close()


if __name__ == "__main__":
    main()
