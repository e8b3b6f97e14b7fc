"""Asking one process about objects for a whole piece of work: the same answers as from one for each question."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import pytest

from kbgit.errors import GitFailure, TimedOut
from kbgit.store import Git, Repository
from kbgit.store.git import clean_environment
from kbgit.store.repository import PUBLICATION_LOG

NOBODY = "0" * 40


@dataclass
class WatchedGit:
    """A `git` that notes how it is called, before `special` (shell) or Git itself runs."""

    directory: Path

    def of(self, repository: Repository, special: str = "") -> Repository:
        self.directory.mkdir(exist_ok=True)
        script = self.directory / "git"
        script.write_text(f'#!/bin/sh\necho "$*" >>"{self._log}"\n{special}\nexec "{shutil.which("git")}" "$@"\n')
        script.chmod(0o755)
        environment = clean_environment(os.environ) | {"PATH": f"{self.directory}:{os.environ['PATH']}"}
        return Repository(repository.path, Git(repository.path, environment=environment))

    @property
    def _log(self) -> Path:
        return self.directory / "log"

    def runs(self, what: str) -> int:
        return sum(f" {what}" in line for line in self._log.read_text().splitlines()) if self._log.exists() else 0


@pytest.fixture
def watched(tmp_path: Path) -> WatchedGit:
    return WatchedGit(tmp_path / "watched")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository without hooks."""
    return Repository.create(tmp_path / "plain.git")


def commit(repository: Repository, files: dict[str, bytes | None], parent: str | None = None) -> str:
    made = repository.commit_files(files, parent=parent, message="m", author="Ada <ada@x>", when=1_700_000_000)
    repository.move_ref("refs/heads/main", made, repository.head())
    return made


def cat_files() -> list[int]:
    """The processes of this kind that this process started."""
    listed = subprocess.run(
        ["ps", "-ww", "--ppid", str(os.getpid()), "-o", "pid=,args="], capture_output=True, text=True, check=False
    ).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if "cat-file" in line]


OLD = """case " $* " in
*" version "*) echo "git version 2.30.2"; exit 0 ;;
*" --batch-command "*) exit 129 ;;
esac"""


@pytest.mark.parametrize(("special", "processes"), [("", 1), (OLD, 2)])
def test_a_piece_of_work_asks_the_same_process_for_everything(
    repository: Repository, watched: WatchedGit, special: str, processes: int
) -> None:
    first = commit(repository, {"a.md": b"one"})
    second = commit(repository, {"b.md": b"two\n"}, first)
    with watched.of(repository, special).kept() as kept:
        blob = kept.changes(first, second)[0].new
        assert blob is not None
        for _ in range(3):
            assert kept.has_commit(first)
            assert not kept.has_commit(NOBODY)
            assert not kept.has_commit(blob.sha)
            assert kept.commit_of(second) == second
            assert (kept.has(f"{second}:b.md"), kept.has(f"{first}:b.md")) == (True, False)
            assert kept.git.sizes([blob.sha, NOBODY]) == {blob.sha: 4}
            assert kept.blob(blob.sha) == b"two\n"
            assert [content for _, _, content in kept.git.objects([f"{second}:a.md", NOBODY])] == [b"one", b""]
            assert [found.parents for found in kept.commits([first, second])] == [(), (first,)]
            assert kept.is_ancestor(first, second)
            assert kept.history(second, without=[first]) == [second]
            assert dict(kept.commit_changes([second])) == {second: kept.changes(first, second)}
    assert (watched.runs("cat-file"), watched.runs("diff-tree")) == (processes, 1)
    assert not any(watched.runs(what) for what in ("rev-list", "merge-base", "rev-parse"))
    assert cat_files() == []


def test_nothing_is_started_before_there_is_a_question(repository: Repository, watched: WatchedGit) -> None:
    with watched.of(repository).kept() as kept, kept.kept() as same:
        assert same is kept
    assert watched.runs("cat-file") == watched.runs("version") == 0


def test_what_is_written_later_and_packs_that_are_replaced_are_seen(repository: Repository) -> None:
    first = commit(repository, {"a.md": b"one"})
    with repository.kept() as kept:
        assert kept.has_commit(first)
        for packed in range(3):
            head = repository.head()
            later = commit(repository, {f"{packed}.md": b"more" * 1000 * packed}, head)
            repository.git.run("gc", "--quiet", "--prune=now")
            assert kept.is_ancestor(first, later)
            assert [change.path for change in kept.changes(head, later)] == [f"{packed}.md".encode()]
            assert [content for _, _, content in kept.git.objects([f"{first}:a.md"])] == [b"one"]


def test_answers_that_nobody_heard_are_not_taken_for_later_ones(repository: Repository) -> None:
    head = commit(repository, {"a.md": b"one" * 50_000, "b.md": b"two"})
    with repository.kept() as kept:
        half_heard = kept.git.objects([f"{head}:a.md"] * 10)
        next(half_heard)
        # Asked in between, as by a loop over answers or another thread: somebody else answers.
        assert [content for _, _, content in kept.git.objects([f"{head}:b.md"])] == [b"two"]
        assert next(half_heard)[2] == b"one" * 50_000
        del half_heard
        assert [content for _, _, content in kept.git.objects([f"{head}:b.md"])] == [b"two"]
    assert [content for _, _, content in kept.git.objects([f"{head}:b.md"])] == [b"two"], "late, but answered"
    assert cat_files() == []


def test_a_name_with_line_ends_is_one_question(repository: Repository) -> None:
    files = {"line\nend.md": b"one", "return\r": b"two", "line": b"three"}
    head = commit(repository, dict(files))
    asked = [f"{head}:{path}" for path in (*files, "no\nsuch")]
    with repository.kept() as kept:
        answered = list(kept.git.objects(asked))
        assert [name for name, _, _ in answered] == asked
        assert [content for _, _, content in answered] == [*files.values(), b""]
        assert kept.git.sizes(asked) == dict(zip(asked, (3, 3, 5), strict=False))


def test_many_long_names_do_not_stop_both_sides(repository: Repository) -> None:
    head = commit(repository, {"a.md": b"x" * 1000})
    names = [f"{head}:{'long/' * 700}{number}" for number in range(100)] + [f"{head}:a.md"] * 500
    with repository.kept() as kept:
        assert [kind for _, kind, _ in kept.git.objects(names)] == ["missing"] * 100 + ["blob"] * 500


def test_one_that_was_killed_is_a_typed_error_and_is_replaced(repository: Repository) -> None:
    head = commit(repository, {"a.md": b"one"})
    with repository.kept() as kept:
        assert kept.has_commit(head)
        (process,) = cat_files()
        os.kill(process, signal.SIGKILL)
        with pytest.raises(GitFailure, match="ended early"):
            kept.has_commit(head)
        assert kept.has_commit(head)


def test_one_that_says_nothing_is_ended_at_its_limit(repository: Repository, watched: WatchedGit) -> None:
    silent = watched.of(repository, 'case " $* " in *" cat-file "*) exec sleep 60 ;; esac').git
    silent.understands_commands()  # asked with patience
    hasty = replace(silent, timeout_seconds=0.05)
    with hasty.kept() as kept, pytest.raises(TimedOut):
        kept.fact("HEAD")
    with pytest.raises(TimedOut):
        hasty.sizes(["HEAD"])
    assert cat_files() == []


def test_what_is_found_out_without_a_process_is_what_git_says(repository: Repository) -> None:
    root = commit(repository, {"a.md": b"1"})
    left = commit(repository, {"left.md": b"1"}, root)
    right = repository.commit_files({"right.md": b"1"}, parent=root, message="m", author="Ada <ada@x>")
    tree = repository.git.run("rev-parse", f"{left}^{{tree}}").decode().strip()
    identity = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    merged = repository.git.run("commit-tree", tree, "-p", left, "-p", right, "-m", "m", extra=identity)
    merge = merged.decode().strip()
    last = repository.commit_files({"a.md": None}, parent=merge, message="m", author="Ada <ada@x>")
    entries: list[str] = []
    for number, head in enumerate((root, left, last)):
        previous = entries[-1] if entries else None
        entries.append(repository.append_to_log(f"entry {number}", head, previous, 1_700_000_000 + number))
    assert repository.ref(PUBLICATION_LOG) == entries[-1]
    with repository.kept() as kept:
        for old, new in product((root, left, right, merge, last), repeat=2):
            assert kept.is_ancestor(old, new) == repository.is_ancestor(old, new), (old, new)
            assert kept.history(new, without=[old]) == repository.history(new, without=[old]), (old, new)
            assert kept.changes(old, new) == repository.changes(old, new), (old, new)
            assert list(kept.commit_changes([new])) == list(repository.commit_changes([new]))
            assert list(kept.commit_changes([old, new])) == list(repository.commit_changes([old, new]))
        for after in (None, *entries):
            assert kept.log_entries(after) == repository.log_entries(after)
