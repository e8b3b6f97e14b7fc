"""Browsers of the people of `tests.web.conftest`, signed in."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.web.conftest import Library, Template, opened_workshop
from tests.web.pages.browsing import Browser


@pytest.fixture(scope="session")
def workshop(template: Template, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """The pages' own: here teams are made of people whose spaces are counted elsewhere."""
    with opened_workshop(template, tmp_path_factory.mktemp("pages")) as made:
        yield made


@pytest.fixture(scope="session")
def reading(library: Library) -> Callable[[str], Browser]:
    """Somebody's browser at the server of which tests only read; sign-in happens once for each."""
    return _signed_in(library)


@pytest.fixture(scope="session")
def writing(workshop: Library) -> Callable[[str], Browser]:
    """The same at the server where tests write, each in a base of its own."""
    return _signed_in(workshop)


def _signed_in(served: Library) -> Callable[[str], Browser]:
    browsers: dict[str, Browser] = {}

    def browser(who: str) -> Browser:
        if who not in browsers:
            browsers[who] = Browser(served.url, served.people[who])
        return browsers[who]

    return browser
