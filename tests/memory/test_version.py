"""The version of memory's files: stamped, brought forward with a copy, refused where it is newer."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbgit.errors import HomeProblem, StoreTooNew
from kbgit.memory.version import FILE_NAME, bring_to_version


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """Memory as the first version left it: without a stamp."""
    project = tmp_path / "memory" / "~ada" / "harbour"
    project.mkdir(parents=True)
    (project / "mem_1.md").write_text("kept\n")
    return tmp_path / "memory"


def shout(directory: Path) -> None:
    """An invented step: texts in capitals."""
    for file in directory.rglob("*.md"):
        file.write_text(file.read_text().upper())


def fail(directory: Path) -> None:
    shout(directory)
    raise OSError(28, "No space left on device")


def texts(directory: Path) -> list[str]:
    return [file.read_text() for file in directory.rglob("*.md")]


def test_memory_without_a_stamp_is_of_the_first_version_and_gets_one(memory: Path) -> None:
    bring_to_version(memory)
    assert (memory / FILE_NAME).read_text() == "1\n"
    assert texts(memory) == ["kept\n"]
    bring_to_version(memory)
    assert not list(memory.parent.glob("memory.version-*"))


def test_memory_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    bring_to_version(tmp_path / "memory")
    assert not (tmp_path / "memory").exists()


def test_older_memory_is_brought_forward_and_a_copy_stays(memory: Path) -> None:
    bring_to_version(memory, 2, (shout,))
    assert texts(memory) == ["KEPT\n"]
    assert (memory / FILE_NAME).read_text() == "2\n"
    assert texts(memory.parent / "memory.version-1") == ["kept\n"]


def test_a_step_that_failed_is_done_again_and_the_copy_is_of_before_it(memory: Path) -> None:
    with pytest.raises(HomeProblem, match="No space left"):
        bring_to_version(memory, 2, (fail,))
    bring_to_version(memory, 2, (shout,))
    assert texts(memory) == ["KEPT\n"]
    assert texts(memory.parent / "memory.version-1") == ["kept\n"]


def test_newer_memory_is_refused_and_left_as_it_is(memory: Path) -> None:
    (memory / FILE_NAME).write_text("2\n")
    with pytest.raises(StoreTooNew, match="version 2"):
        bring_to_version(memory)
    assert texts(memory) == ["kept\n"]


@pytest.mark.parametrize("stamp", ["", "0", "one", "-1", "1.5", "\u0661"])
def test_a_stamp_that_says_nothing_is_a_problem_with_a_name(memory: Path, stamp: str) -> None:
    (memory / FILE_NAME).write_text(stamp)
    with pytest.raises(HomeProblem, match="holds no version"):
        bring_to_version(memory)
