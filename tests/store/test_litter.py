"""What a killed Git leaves is removed, and nothing that a living one may still need."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbgit.base import BaseKey
from kbgit.home import Home
from kbgit.store.litter import LOCK_SECONDS, OBJECT_SECONDS, Litter
from tests.writing import clone, text

KEY = BaseKey("team:platform", "runbooks")
LEFT = (
    "HEAD.lock",
    "packed-refs.lock",
    "refs/heads/main.lock",
    "refs/heads/topic/deep.lock",
    "refs/kbgit/log.lock",
    "objects/tmp_objdir-incoming-abcdef/pack/tmp_pack_1",
    "objects/pack/tmp_pack_abcdef",
    "objects/3f/tmp_obj_abcdef",
    "fast_import_crash_123",
    "objects/info/commit-graph.lock",
)


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def repository(home: Home) -> Path:
    return home.create_repository(KEY).path


@pytest.mark.parametrize("name", LEFT)
def test_what_has_stood_unchanged_for_long_is_removed(home: Home, repository: Path, name: str) -> None:
    left = repository / name
    left.parent.mkdir(parents=True, exist_ok=True)
    left.write_text("x")
    clock = Clock()
    litter = Litter(home.repositories, clock)
    seconds = LOCK_SECONDS if name.endswith(".lock") and not name.startswith("objects") else OBJECT_SECONDS
    assert litter.sweep() == []
    clock.now += seconds / 2
    assert litter.sweep() == []
    clock.now += seconds / 2
    assert len(litter.sweep()) == 1
    assert not left.exists()


def test_what_is_written_to_meanwhile_stays(home: Home, repository: Path) -> None:
    left = repository / "objects" / "tmp_objdir-incoming-abcdef"
    left.mkdir()
    clock = Clock()
    litter = Litter(home.repositories, clock)
    for number in range(3):
        (left / f"{number}").write_text("x")
        assert litter.sweep() == []
        clock.now += OBJECT_SECONDS
    assert litter.sweep() == [left]


def test_a_push_that_a_dead_lock_refuses_goes_through_afterwards(home: Home, repository: Path, tmp_path: Path) -> None:
    writer = clone(repository, tmp_path / "writer")
    writer.publish({"a.md": text()})
    (repository / "refs/heads/main.lock").write_text("")
    writer.commit({"a.md": text("B")})
    assert not writer.push().ok
    clock = Clock()
    litter = Litter(home.repositories, clock)
    litter.sweep()
    clock.now += LOCK_SECONDS
    litter.sweep()
    assert writer.push().ok


def test_nothing_else_is_touched(home: Home, repository: Path, tmp_path: Path) -> None:
    clone(repository, tmp_path / "writer").publish({"a.md": text()})
    before = {path: path.read_bytes() for path in home.path.rglob("*") if path.is_file()}
    clock = Clock()
    litter = Litter(home.repositories, clock)
    litter.sweep()
    clock.now += 10 * OBJECT_SECONDS
    assert litter.sweep() == []
    assert {path: path.read_bytes() for path in home.path.rglob("*") if path.is_file()} == before
