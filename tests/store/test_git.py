"""Running Git: on the named repository and no other, within a time limit, with typed errors."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from kbgit.errors import GitFailure, TimedOut
from kbgit.store import Git, Repository
from kbgit.store.git import clean_environment
from tests.writing import Writer


def bytes_below(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_every_variable_of_git_is_cleared_and_the_quarantine_kept_where_wanted() -> None:
    dirty = {
        "GIT_DIR": "x",
        "GIT_INDEX_FILE": "y",
        "GIT_OBJECT_DIRECTORY": "q",
        "PATH": "/bin",
        "LC_ALL": "de_DE.UTF-8",
    }
    clean = clean_environment(dirty)
    assert not {"GIT_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"} & clean.keys()
    assert (clean["PATH"], clean["LC_ALL"]) == ("/bin", "C")
    assert clean_environment(dirty, keep_quarantine=True)["GIT_OBJECT_DIRECTORY"] == "q"


def test_a_decoy_named_by_the_environment_stays_untouched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoy = tmp_path / "decoy.git"
    Repository.create(decoy)
    before = bytes_below(decoy)
    for name in ("GIT_DIR", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_WORK_TREE"):
        monkeypatch.setenv(name, str(decoy))
    monkeypatch.setenv("GIT_INDEX_FILE", str(decoy / "index"))
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'core.bare'='false'")
    real = Repository.create(tmp_path / "real.git")
    commit = real.commit_files({"a.md": b"x"}, parent=None, message="m", author="A <a@x>")
    real.move_ref("refs/heads/main", commit, None)
    assert Repository.at(tmp_path / "real.git").head() == commit
    assert [entry.path for entry in real.tree(commit)] == [b"a.md"]
    assert bytes_below(decoy) == before


def test_a_failure_carries_gits_words_and_exit_code(base_repository: Repository) -> None:
    with pytest.raises(GitFailure, match="rev-parse failed") as caught:
        base_repository.git.run("rev-parse", "--verify", "nothing")
    assert caught.value.details["exit"] == 128


def test_git_that_is_not_there_is_a_typed_error(tmp_path: Path) -> None:
    with pytest.raises(GitFailure, match="cannot be run"):
        Git(tmp_path, environment={"PATH": str(tmp_path)}).run("version")


def test_a_command_that_hangs_is_ended_at_its_limit(tmp_path: Path) -> None:
    slow = tmp_path / "git"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    with pytest.raises(TimedOut):
        Git(tmp_path, 0.05, {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}).run("version")


def test_objects_come_in_the_order_asked_for_with_those_that_are_missing_named(
    base_repository: Repository, writer: Writer
) -> None:
    # More names than fit into a pipe's buffer, and contents larger than one.
    large = b"x" * 200_000
    names = [
        base_repository.git.run("hash-object", "-w", "--stdin", stdin=raw).decode().strip()
        for raw in (b"", b"one\n", large)
    ]
    asked = [*names, "0" * 40, "no such name", *([names[1]] * 3000), names[2]]
    answered = list(base_repository.git.objects(asked))
    assert [name for name, _, _ in answered] == asked
    assert [kind for _, kind, _ in answered[:5]] == ["blob", "blob", "blob", "missing", "missing"]
    assert [content for _, _, content in (answered[0], answered[2], answered[-1])] == [b"", large, large]
    assert base_repository.git.sizes([*names, "0" * 40]) == dict(zip(names, [0, 4, 200_000], strict=True))


def test_asking_for_nothing_starts_nothing(tmp_path: Path) -> None:
    assert list(Git(tmp_path / "nowhere").objects([])) == []


def test_leaving_objects_half_read_ends_their_process(base_repository: Repository) -> None:
    name = base_repository.git.run("hash-object", "-w", "--stdin", stdin=b"x" * 500_000).decode().strip()
    reading = base_repository.git.objects([name] * 10)
    next(reading)
    del reading  # as when a caller raises in between
    listed = subprocess.run(
        ["ps", "-ww", "--ppid", str(os.getpid()), "-o", "args="], capture_output=True, text=True, check=False
    ).stdout
    assert "cat-file --batch" not in listed
