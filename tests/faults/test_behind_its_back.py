"""Repositories that change without the server: what is published stays, what is wrong is said, and putting it right heals."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.nursery import Nursery
from tests.faults.site import NOTES, SHELF, Answers, Site
from tests.web.serving import WorkTree, until

Ask = dict[tuple[str, str], Answers]
SECONDS = 20.0


@pytest.fixture
def served(site: Site) -> Site:
    """A site that is served, with a third publication on top, its notes packed by nobody yet."""
    assert site.start()
    assert site.push(), site.said
    site.settle()
    return site


def alarm(site: Site, key: str = str(NOTES)) -> str:
    """What the status says is wrong with a base; empty for nothing."""
    told = site.ask("GET", "/api/v1/status")
    assert told is not None
    base: dict[str, Any] = next(one for one in told.json["bases"] if one["key"] == key)
    return str(base["alarm"])


def head(site: Site) -> str:
    return WorkTree(site.repository()).git("rev-parse", "main").output.strip()


def swap(site: Site, change: Callable[[Path], None]) -> Path:
    """Put another repository in the place of the notes; gives where the right one is kept."""
    right = site.repository()
    kept = site.directory / "kept.git"
    right.rename(kept)
    change(right)
    return kept


def put_back(site: Site, kept: Path) -> None:
    shutil.rmtree(site.repository(), ignore_errors=True)
    kept.rename(site.repository())


def bare(path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", str(path)], check=True)


def another(path: Path) -> None:
    bare(path)
    git = WorkTree(path)
    tree = git.git("mktree").output.strip()
    git.git("update-ref", "refs/heads/main", git.git("commit-tree", tree, "-m", "another").output.strip())


def forgotten(path: Path) -> None:
    assert not path.exists()


@pytest.mark.parametrize("wrong", [bare, another, forgotten], ids=["empty", "another", "absent"])
@pytest.mark.parametrize("while_running", [True, False], ids=["running", "stopped"])
def test_a_wrong_repository_sweeps_nothing_away_and_is_an_alarm_until_the_right_one_is_back(
    served: Site, wrong: Callable[[Path], None], while_running: bool
) -> None:
    before = served.answers()
    if not while_running:
        served.stop()
    kept = swap(served, wrong)
    if not while_running and not served.start():
        # Pushes to it would go unchecked, so nothing is served before an operator has looked.
        assert "`kbgit hooks install --server` restores it" in served.log()
        served.home.install_hooks()
        assert served.start(), served.log()
    until(lambda: bool(alarm(served)), SECONDS)
    assert not served.is_fresh()
    assert served.answers() == before
    put_back(served, kept)
    until(lambda: not alarm(served), SECONDS)
    assert served.differences() == []


def test_an_alarm_outlives_a_restart_and_other_bases_are_served(served: Site) -> None:
    kept = swap(served, bare)
    until(lambda: bool(alarm(served)), SECONDS)
    served.kill_everything()
    served.home.install_hooks()
    assert served.start()
    until(lambda: bool(alarm(served)), SECONDS)
    assert alarm(served, str(SHELF)) == ""
    assert served.change()
    put_back(served, kept)
    assert served.differences() == []


def test_a_branch_that_was_moved_back_publishes_nothing_until_it_is_put_forward(served: Site) -> None:
    before, newest = served.answers(), head(served)
    assert served.git("update-ref", "refs/heads/main", f"{newest}~1")
    until(lambda: bool(alarm(served)), SECONDS)
    assert served.answers() == before
    assert served.git("update-ref", "refs/heads/main", newest)
    until(lambda: not alarm(served), SECONDS)
    assert served.differences() == []


def test_a_branch_that_was_deleted_is_no_deletion_of_its_items(served: Site) -> None:
    before, newest = served.answers(), head(served)
    assert served.git("update-ref", "-d", "refs/heads/main")
    until(lambda: bool(alarm(served)), SECONDS)
    assert served.answers() == before
    assert served.git("update-ref", "refs/heads/main", newest)
    assert served.differences() == []


def test_a_head_that_names_another_branch_changes_nothing_that_is_published(served: Site) -> None:
    before = served.answers()
    assert served.git("symbolic-ref", "HEAD", "refs/heads/trunk")
    until(lambda: bool(alarm(served)), SECONDS)
    assert served.answers() == before
    assert served.git("symbolic-ref", "HEAD", "refs/heads/main")
    assert served.differences() == []


def test_gc_and_packed_refs_change_nothing_and_the_next_push_is_found(served: Site) -> None:
    before = served.answers()
    for command in (["pack-refs", "--all"], ["gc", "--quiet", "--prune=now"], ["repack", "-adq"]):
        assert served.git(*command)
        assert served.answers() == before
        assert alarm(served) == ""
        assert served.push(), served.said
        assert served.differences() == []
        before = served.answers()


def test_objects_that_are_missing_are_an_alarm_or_do_not_matter_and_come_back_with_their_files(served: Site) -> None:
    before = served.answers()
    objects = served.repository() / "objects"
    kept = served.directory / "objects"
    objects.rename(kept)
    objects.mkdir()
    served.work.git("fetch", "--quiet", str(served.repository()), "main", check=False)
    assert served.answers() == before  # the index knows them
    served.forget_server()
    assert served.start(), served.log()
    told = served.ask("POST", "/api/v1/knowledge/search", {"query": "shelf", "mode": "lexical"})
    assert told is not None
    assert told.status == 200
    read = served.ask("GET", "/api/v1/knowledge/item?id=notes-1")
    assert read is not None
    assert read.json["error"]["code"] == "git_failure"
    shutil.rmtree(objects)
    kept.rename(objects)
    read = served.ask("GET", "/api/v1/knowledge/item?id=notes-1")
    assert read is not None
    assert read.status == 200
    assert served.differences() == []


# File events


@pytest.fixture
def unwatched(nursery: Nursery, tmp_path: Path) -> Iterator[Site]:
    """A site whose server sees no file event, so that only sweeps tell it anything."""
    made = Site(tmp_path / "unwatched", nursery, watch="off", sweep_seconds=0.2)
    yield made
    made.close()


def test_events_that_are_missed_are_made_good_by_the_next_sweep(unwatched: Site) -> None:
    assert unwatched.start()
    unwatched.settle()
    assert unwatched.move_by_hand()
    moved = head(unwatched)

    def is_indexed() -> bool:
        told = unwatched.ask("GET", "/api/v1/bases/~ada/notes")
        return told is not None and told.json["freshness"]["indexed"] == moved

    until(is_indexed, SECONDS)
    assert unwatched.git("gc", "--quiet")
    assert unwatched.push(), unwatched.said
    assert unwatched.differences() == []


def test_twenty_thousand_events_are_digested_and_then_nothing_runs(served: Site) -> None:
    ref = served.repository() / "refs" / "heads" / "main"
    for _ in range(20_000):
        ref.touch()
    assert served.push(), served.said
    assert served.differences() == []
    assert served.server is not None
    pid = served.server.pid
    until(lambda: cpu_in(pid, 1.0) < 0.12, SECONDS)  # of one processor, sweeps every half second included


def cpu_in(pid: int, seconds: float) -> float:
    """The share of one processor that a process uses, measured over some seconds."""

    def used() -> float:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    before, began = used(), time.monotonic()
    until(lambda: time.monotonic() - began >= seconds, 2 * seconds)
    return (used() - before) / (time.monotonic() - began)
