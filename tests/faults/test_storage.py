"""Storage that refuses: a full disk, a read-only index, and a second server on the same home."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.nursery import Nursery
from tests.faults.site import Site

LEFT_KB = (0, 8, 64, 300)
"""Free space at which something is written: each ends the work at another step."""


def mounted(*arguments: str) -> bool:
    return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0


def unmount(path: Path) -> None:
    subprocess.run(["umount", "--lazy", str(path)], capture_output=True, check=False)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, in memory."""
    path = tmp_path / "disk"
    path.mkdir()
    if os.getuid() != 0 or not mounted("-t", "tmpfs", "-o", "size=48m", "tmpfs", str(path)):
        pytest.skip("only root may mount a file system that can be filled")
    yield path
    unmount(path)


@contextmanager
def filled(disk: Path, left_kb: int) -> Iterator[None]:
    """All of the space but `left_kb` taken."""
    file = disk / "filler"
    state = os.statvfs(disk)
    with file.open("wb") as filler:
        os.posix_fallocate(filler.fileno(), 0, max(1, state.f_bavail * state.f_frsize - left_kb * 1024))
    try:
        yield
    finally:
        file.unlink()


def test_on_a_full_disk_a_push_is_refused_or_kept_and_the_old_state_answers(nursery: Nursery, small_disk: Path) -> None:
    site = Site(small_disk / "site", nursery)
    try:
        assert site.start()
        site.settle()
        refused = 0
        for left in LEFT_KB:
            before = site.answers()
            head = (site.repository() / "refs/heads/main").read_text()
            commit = site.next_commit()
            with filled(small_disk, left):
                if not site.push_commit(commit):
                    refused += 1
                    if head == (site.repository() / "refs/heads/main").read_text():
                        assert site.answers() == before
                written = site.ask("PATCH", "/api/v1/knowledge/item?id=shelf-3", {"expected_revision": "0" * 40})
                assert written is not None, "an answer, whatever it is"
                assert written.status in (409, 500), written.body
                assert site.is_alive()
            assert site.push(), site.said
            assert site.differences() == [], f"{left} KB were left"
        assert refused, "the disk was never full enough"
    finally:
        site.close()


def test_a_read_only_index_answers_as_it_was_and_catches_up_when_it_can(site: Site) -> None:
    if os.getuid() != 0:
        pytest.skip("only root may make a directory read-only for root")
    assert site.start()
    site.settle()
    index = site.path / "index"
    if not mounted("--bind", str(index), str(index)):
        pytest.skip("nothing can be mounted here")
    try:
        assert mounted("-o", "remount,bind,ro", str(index))
        assert site.push(), site.said
        told = site.ask("POST", "/api/v1/knowledge/search", {"query": "shelf", "mode": "lexical"})
        assert told is not None
        assert told.status == 200
        assert len(told.json["results"]) == 5
        assert not site.is_fresh()
        assert site.is_alive()
    finally:
        unmount(index)
    assert site.differences() == []


def test_a_second_server_on_a_home_is_refused_and_the_first_goes_on(site: Site) -> None:
    assert site.start()
    second = site.run("serve")
    assert second.has_ended(30)
    second.close()
    assert "HomeLocked: process" in site.log()
    assert site.push(), site.said
    assert site.differences() == []


def test_a_second_writer_of_the_index_is_refused_while_a_server_runs(site: Site) -> None:
    assert site.start()
    second = site.run("reindex")
    assert second.has_ended(30)
    second.close()
    assert "HomeLocked: process" in site.log()
    assert site.differences() == []
