"""What many tests start from: an empty home, a base in it, and somebody who writes to it."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kbgit.base import BaseKey
from kbgit.catalogue import Catalogue
from kbgit.home import Home
from kbgit.store import Repository
from tests.writing import Writer, clone


@pytest.fixture(autouse=True, scope="session")
def _git_of_nobody() -> Iterator[None]:
    """No user's Git settings, locale or kbgit settings take part in any test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        yield


@pytest.fixture(autouse=True, scope="session")
def _garbage_of_tests_alone() -> None:
    """Looking for garbage passes over the thousands of collected tests, which took a fourteenth of all their time."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An empty home."""
    return Home.create(tmp_path / "home")


@pytest.fixture
def key() -> BaseKey:
    """The base that most tests write to."""
    return BaseKey("team:platform", "runbooks")


@pytest.fixture
def base_repository(home: Home, key: BaseKey) -> Iterator[Repository]:
    """An empty base's repository."""
    made = home.create_repository(key)
    yield made
    made.close()


@pytest.fixture
def catalogue(home: Home) -> Iterator[Catalogue]:
    """The home's catalogue, as another process than the hooks sees it."""
    opened = home.catalogue()
    yield opened
    opened.close()


@pytest.fixture
def new_writer(base_repository: Repository, tmp_path: Path) -> Callable[[str], Writer]:
    """Makes one more writer of the base, by name."""
    return lambda name: clone(base_repository.path, tmp_path / name)


@pytest.fixture
def writer(new_writer: Callable[[str], Writer]) -> Writer:
    """Somebody with a clone of the empty base, on the branch main."""
    return new_writer("writer")


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The directory of real corpora; without one, a test of them is skipped."""
    named = os.environ.get("KBGIT_CORPORA")
    if not named:
        pytest.skip("KBGIT_CORPORA names no directory of real corpora")
    return Path(named)


@pytest.fixture(scope="session")
def bases_directory() -> Path:
    """The sample bases that the project ships."""
    return Path(__file__).resolve().parent.parent / "bases"
