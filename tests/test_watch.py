"""The watcher, on real repositories and a real file system."""

from __future__ import annotations

import logging
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Condition

import pytest

from kbgit.base import BaseKey
from kbgit.watch import Watcher

ADA = BaseKey("personal:ada", "notes")
RUNBOOKS = BaseKey("team:platform", "runbooks")
SECONDS = 20.0
"""A limit, not a duration: every wait ends with what it waits for."""


class Calls:
    """What a watcher called, to be waited for."""

    def __init__(self) -> None:
        self.noticed: list[BaseKey] = []
        self.sweeps = 0
        self._changed = Condition()

    def notice(self, key: BaseKey) -> None:
        with self._changed:
            self.noticed.append(key)
            self._changed.notify_all()

    def sweep(self) -> None:
        with self._changed:
            self.sweeps += 1
            self._changed.notify_all()

    def wait(self, condition: Callable[[], bool]) -> bool:
        with self._changed:
            return self._changed.wait_for(condition, SECONDS)

    def wait_for(self, key: BaseKey) -> bool:
        return self.wait(lambda: key in self.noticed)

    def forget(self) -> None:
        with self._changed:
            self.noticed.clear()


def git(directory: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=ada", "-c", "user.email=ada@example.org"]
    return subprocess.run(
        ["git", *identity, *arguments], cwd=directory, check=True, capture_output=True, text=True
    ).stdout.strip()


def make_base(repositories: Path, key: BaseKey) -> Path:
    path = key.repository_path(repositories)
    path.mkdir(parents=True)
    git(path, "init", "--quiet", "--bare", "--initial-branch=main")
    return path


def commit(base: Path, message: str = "one") -> None:
    tree = git(base, "mktree")
    git(base, "update-ref", "refs/heads/main", git(base, "commit-tree", tree, "-m", message))


@pytest.fixture
def repositories(tmp_path: Path) -> Path:
    repositories = tmp_path / "repositories"
    commit(make_base(repositories, ADA))
    commit(make_base(repositories, RUNBOOKS))
    return repositories


Start = Callable[..., tuple[Watcher, Calls]]


@pytest.fixture
def start(repositories: Path) -> Iterator[Start]:
    started: list[Watcher] = []

    def start(mode: str = "auto", sweep_seconds: float = 3600.0, **options: int) -> tuple[Watcher, Calls]:
        calls = Calls()
        watcher = Watcher(repositories, calls.notice, calls.sweep, mode, sweep_seconds, **options)
        watcher.start()
        started.append(watcher)
        return watcher, calls

    yield start
    for watcher in started:
        watcher.stop()


@pytest.mark.parametrize("mode", ["auto", "poll"])
def test_a_push_is_noticed_and_no_other_base(mode: str, start: Start, repositories: Path, tmp_path: Path) -> None:
    _, calls = start(mode)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(ADA.repository_path(repositories)), str(clone))
    (clone / "a.md").write_text("# A\n")
    git(clone, "add", "a.md")
    git(clone, "commit", "--quiet", "-m", "a")
    git(clone, "push", "--quiet", "origin", "HEAD:main")
    assert calls.wait_for(ADA)
    assert set(calls.noticed) == {ADA}


@pytest.mark.parametrize("mode", ["auto", "poll"])
def test_what_was_there_before_the_start_is_not_noticed(mode: str, start: Start, repositories: Path) -> None:
    _, calls = start(mode)
    commit(RUNBOOKS.repository_path(repositories), "two")
    assert calls.wait_for(RUNBOOKS)
    assert set(calls.noticed) == {RUNBOOKS}


@pytest.mark.parametrize("mode", ["auto", "poll"])
def test_reading_a_repository_is_not_noticed(mode: str, start: Start, repositories: Path) -> None:
    _, calls = start(mode)
    base = ADA.repository_path(repositories)
    for command in (["log", "--raw"], ["for-each-ref"], ["fsck"], ["rev-parse", "HEAD"], ["status"]):
        subprocess.run(["git", *command], cwd=base, capture_output=True, check=False)
    subprocess.run(["grep", "-r", "nothing", str(base)], capture_output=True, check=False)
    commit(RUNBOOKS.repository_path(repositories), "a change that comes after all that reading")
    assert calls.wait_for(RUNBOOKS)
    assert ADA not in calls.noticed


@pytest.mark.parametrize("mode", ["auto", "poll"])
def test_new_spaces_and_bases_are_picked_up(mode: str, start: Start, repositories: Path) -> None:
    _, calls = start(mode)
    key = BaseKey("team:web", "handbook")
    base = make_base(repositories, key)
    assert calls.wait_for(key)
    for message in ("one", "two"):
        calls.forget()
        commit(base, message)
        assert calls.wait_for(key)
    second = BaseKey("team:web", "styles")
    commit(make_base(repositories, second))
    assert calls.wait_for(second)


@pytest.mark.parametrize("mode", ["auto", "poll"])
def test_a_base_that_was_removed_and_made_again_is_watched_again(mode: str, start: Start, repositories: Path) -> None:
    _, calls = start(mode)
    path = ADA.repository_path(repositories)
    shutil.rmtree(path)
    base = make_base(repositories, ADA)
    assert calls.wait_for(ADA)
    commit(RUNBOOKS.repository_path(repositories), "after what there is to say about the other base")
    assert calls.wait_for(RUNBOOKS)
    calls.forget()
    commit(base)
    assert calls.wait_for(ADA)


def test_a_branch_that_is_packed_by_gc_is_a_hint_like_others(start: Start, repositories: Path) -> None:
    _, calls = start()
    git(ADA.repository_path(repositories), "pack-refs", "--all")
    assert calls.wait_for(ADA)
    assert git(ADA.repository_path(repositories), "rev-parse", "refs/heads/main")


def test_a_changed_HEAD_is_noticed(start: Start, repositories: Path) -> None:
    _, calls = start()
    git(ADA.repository_path(repositories), "symbolic-ref", "HEAD", "refs/heads/trunk")
    assert calls.wait_for(ADA)


def test_a_burst_becomes_a_few_notices(start: Start, repositories: Path) -> None:
    _, calls = start()
    heads = ADA.repository_path(repositories) / "refs" / "heads"
    sha = (heads / "main").read_text()
    for number in range(500):
        (heads / f"branch-{number}").write_text(sha)
    commit(RUNBOOKS.repository_path(repositories), "last")
    assert calls.wait_for(RUNBOOKS)
    assert 1 <= calls.noticed.count(ADA) <= 50


@pytest.mark.parametrize("mode", ["auto", "poll", "off"])
def test_sweeps_come_whatever_happens(mode: str, start: Start) -> None:
    _, calls = start(mode, sweep_seconds=0.05)
    assert calls.wait(lambda: calls.sweeps >= 3)


def test_off_notices_nothing(start: Start, repositories: Path) -> None:
    _, calls = start("off", sweep_seconds=0.05)
    commit(ADA.repository_path(repositories), "two")
    before = calls.sweeps
    assert calls.wait(lambda: calls.sweeps >= before + 2)
    assert not calls.noticed


@pytest.mark.parametrize("mode", ["auto", "poll"])
def test_a_space_that_is_moved_into_place_is_picked_up(
    mode: str, start: Start, repositories: Path, tmp_path: Path
) -> None:
    _, calls = start(mode)
    elsewhere = tmp_path / "elsewhere"
    key = BaseKey("team:web", "handbook")
    base = make_base(elsewhere, key)
    commit(base)
    (elsewhere / "web").rename(repositories / "web")
    assert calls.wait_for(key)


def test_where_the_system_refuses_to_watch_refs_are_polled(
    start: Start, repositories: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="kbgit.watch"):
        watcher, calls = start(most_watches=3)
    assert watcher.is_polling
    assert "polled" in caplog.text
    commit(ADA.repository_path(repositories), "two")
    assert calls.wait_for(ADA)


def test_bases_beyond_what_can_be_watched_make_it_poll(start: Start, repositories: Path) -> None:
    watcher, calls = start(most_watches=8)
    assert not watcher.is_polling
    key = BaseKey("team:platform", "more")
    commit(make_base(repositories, key))
    assert calls.wait_for(key)
    assert calls.wait(lambda: watcher.is_polling)
    calls.forget()
    commit(key.repository_path(repositories), "two")
    assert calls.wait_for(key)


def test_directories_that_are_no_bases_are_left_alone(start: Start, repositories: Path) -> None:
    _, calls = start()
    (repositories / "platform" / "Not A Base.git").mkdir()
    (repositories / "platform" / "tmp").mkdir()
    (repositories / "stray file").write_text("x")
    commit(RUNBOOKS.repository_path(repositories), "two")
    assert calls.wait_for(RUNBOOKS)
    assert set(calls.noticed) == {RUNBOOKS}


@pytest.mark.parametrize("mode", ["auto", "poll"])
def test_an_idle_watcher_costs_no_processor_time(mode: str, start: Start) -> None:
    _, calls = start(mode, sweep_seconds=0.5)
    assert calls.wait(lambda: calls.sweeps >= 1)

    def cost_of_two_sweeps() -> float:
        before, sweeps = time.process_time(), calls.sweeps
        assert calls.wait(lambda: calls.sweeps >= sweeps + 2)
        return time.process_time() - before

    # One of a few, because whatever else runs in this process is counted too.
    assert any(cost_of_two_sweeps() < 0.1 for _ in range(5))


def test_a_watcher_that_was_never_started_can_be_stopped(repositories: Path) -> None:
    calls = Calls()
    Watcher(repositories, calls.notice, calls.sweep, "auto", 1.0).stop()


@pytest.mark.parametrize("mode", ["auto", "poll"])
def test_a_watcher_that_cannot_look_goes_on_sweeping(
    mode: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    calls = Calls()
    watcher = Watcher(tmp_path / ("x" * 300), calls.notice, calls.sweep, mode, 0.05)  # longer than a name can be
    with caplog.at_level(logging.WARNING, logger="kbgit.watch"):
        watcher.start()
        assert calls.wait(lambda: calls.sweeps >= 2)
        watcher.stop()
    assert "cannot be looked at" in caplog.text


def test_repositories_that_are_not_there_yet_are_no_problem(tmp_path: Path) -> None:
    calls = Calls()
    watcher = Watcher(tmp_path / "absent", calls.notice, calls.sweep, "auto", 0.05)
    watcher.start()
    key = BaseKey("team:web", "handbook")
    commit(make_base(tmp_path / "absent", key))
    assert calls.wait_for(key)
    watcher.stop()
