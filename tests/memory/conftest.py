"""A memory store with a clock that tests turn, and the people around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kbgit.access import Principal, Role, Scope, personal_space
from kbgit.assemble import Runtime, open_runtime
from kbgit.base import BaseKey
from kbgit.embedding.cache import VectorCache
from kbgit.embedding.contract import Embedder
from kbgit.embedding.hashing import HashingEmbedder
from kbgit.home import Home
from kbgit.importing import BaseOptions, Importer
from kbgit.index.memory import MemoryIndex
from kbgit.memory import MemoryLimits, MemorySearch, MemoryStore
from tests.writing import text

TEAM = "team:harbour"
MEMORY_SCOPES = frozenset({Scope.MEMORY_READ, Scope.MEMORY_WRITE})
START = 1_796_040_000  # 2026-11-30T12:00:00Z


def member(user: str, role: Role | None = None, scopes: frozenset[Scope] = MEMORY_SCOPES) -> Principal:
    """`user` with a personal space, and `role` in the team."""
    roles = {personal_space(user): Role.OWNER}
    return Principal(user, roles if role is None else {**roles, TEAM: role}, scopes)


ADA = member("ada", Role.OWNER)
BEN = member("ben", Role.MEMBER)
CY = member("cy", Role.ADMIN)
VERA = member("vera", Role.VIEWER)
EVE = member("eve")


@dataclass
class Clock:
    """Seconds since the epoch, as tests want them."""

    now: float = START

    def __call__(self) -> float:
        return self.now


@dataclass
class Memory:
    """A store, and what it is made of."""

    directory: Path
    index: MemoryIndex
    cache: VectorCache
    search: MemorySearch
    store: MemoryStore
    clock: Clock
    events: list[tuple[str, str, dict[str, object]]]

    @property
    def files(self) -> list[str]:
        """Every file below the store's directory, by path."""
        return sorted(str(path.relative_to(self.directory)) for path in self.directory.rglob("*") if path.is_file())


class Opener:
    """Opens stores on one directory."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self.opened: list[Memory] = []

    def __call__(self, embedder: Embedder | None = None, limits: MemoryLimits | None = None) -> Memory:
        cache = VectorCache(self._path / "memory-vectors.sqlite")
        index = MemoryIndex(None if embedder is None else embedder.dimension)
        search = MemorySearch(index, embedder, cache)
        directory, events = self._path / "memory", []  # type: tuple[Path, list[tuple[str, str, dict[str, object]]]]
        store = MemoryStore(
            directory,
            search,
            clock=self._clock,
            limits=limits,
            audit=lambda actor, event, details: events.append((actor, event, dict(details))),
        )
        self.opened.append(Memory(directory, index, cache, search, store, self._clock, events))
        return self.opened[-1]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def open_memory(tmp_path: Path, clock: Clock) -> Iterator[Opener]:
    """Opens one more store on the test's directory."""
    opener = Opener(tmp_path, clock)
    yield opener
    for memory in opener.opened:
        memory.cache.close()


@pytest.fixture
def memory(open_memory: Opener) -> Memory:
    """A store with the embedder that needs no model."""
    return open_memory(HashingEmbedder())


FILES = {
    "crane.md": text("Crane", body="# Crane\n\nThe crane on quay seven lifts forty tonnes.\n", id="crane"),
    "tide.md": text("Tide", body="The tide table hangs in the office.\n", id="tide"),
    "draft.md": text("Draft", status="draft", body="The crane will be sold.\n", id="draft"),
}
BASE = BaseKey(TEAM, "runbooks")


@pytest.fixture(scope="session")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """A home with one indexed base of the team; nothing runs in the background, and no test changes it."""
    home = Home.create(tmp_path_factory.mktemp("knowledge") / "home")
    source = tmp_path_factory.mktemp("source")
    for name, content in FILES.items():
        (source / name).write_text(content)
    opened = open_runtime(Home.at(home.path, {"embedder": "hashing", "watch": "off"}))
    Importer(opened.home, opened.catalogue, "ada").from_directory(BASE, source, BaseOptions())
    opened.indexer.synchronise(BASE)
    while opened.indexer.embed_some():
        pass
    yield opened
    opened.stop()
