"""A home with the sample bases, indexed with the small embedder; shared by tests that only read."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kbgit.access import Principal, Role, Scope, personal_space
from kbgit.assemble import Runtime, open_runtime
from kbgit.base import BaseKey
from kbgit.home import Home
from kbgit.importing import BaseOptions, Importer

SAMPLES = ("engineering-runbooks", "product-specifications", "handbook")
OPERATOR = Principal("ada", operator=True)


def reader_of(*spaces: str, scopes: frozenset[Scope] = frozenset({Scope.KNOWLEDGE_READ})) -> Principal:
    """A viewer of `spaces`."""
    return Principal("vera", dict.fromkeys(spaces, Role.VIEWER), scopes)


def embed_all(runtime: Runtime) -> None:
    """Every passage gets its vector."""
    while runtime.indexer.embed_some():
        pass


@pytest.fixture(scope="session")
def sampled(tmp_path_factory: pytest.TempPathFactory, bases_directory: Path) -> Iterator[Runtime]:
    """The sample bases in the space of team `harbour`, indexed and embedded. Read only."""
    home = Home.create(tmp_path_factory.mktemp("sampled") / "home")
    home = Home.at(home.path, {"embedder": "hashing", "watch": "off"})
    catalogue = home.catalogue()
    for name in SAMPLES:
        key = BaseKey("team:harbour", name)
        Importer(home, catalogue, "ada").from_directory(key, bases_directory / name, BaseOptions())
    catalogue.close()
    runtime = open_runtime(home)
    runtime.indexer.sweep()
    embed_all(runtime)
    yield runtime
    runtime.stop()


@pytest.fixture
def runtime_of(tmp_path: Path) -> Iterator[Callable[..., Runtime]]:
    """Opens the test's home with settings, closing what it opened before."""
    opened: list[Runtime] = []

    def open_again(home: Home, **settings: object) -> Runtime:
        close_all()
        overlay = {"embedder": "hashing", "watch": "off", **settings}
        opened.append(open_runtime(Home.at(home.path, overlay)))
        return opened[-1]

    def close_all() -> None:
        while opened:
            opened.pop().stop()

    yield open_again
    close_all()


@pytest.fixture
def runtime(home: Home, runtime_of: Callable[..., Runtime]) -> Runtime:
    """The test's own home, opened; nothing runs in the background."""
    return runtime_of(home)


@pytest.fixture
def imported(runtime: Runtime, tmp_path: Path) -> Callable[..., BaseKey]:
    """Makes a base from files, indexed and embedded."""

    def make(files: dict[str, str], slug: str = "notes", space: str = personal_space("ada")) -> BaseKey:
        source = tmp_path / f"source-{space.partition(':')[2]}-{slug}"
        shutil.rmtree(source, ignore_errors=True)
        for name, text in files.items():
            path = source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        key = BaseKey(space, slug)
        Importer(runtime.home, runtime.catalogue, "ada").from_directory(key, source, BaseOptions())
        runtime.indexer.synchronise(key)
        embed_all(runtime)
        return key

    return make
