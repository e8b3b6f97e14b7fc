"""Single objects, read within this process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kbgit.errors import GitFailure
from kbgit.store import Repository
from kbgit.store.objects import Objects


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.create(tmp_path / "plain.git")


def test_a_blob_is_read_loose_and_packed_and_after_closing(repository: Repository) -> None:
    head = repository.commit_files({"a.md": b"\xff\x00"}, parent=None, message="m", author="Ada <ada@x>")
    repository.move_ref("refs/heads/main", head, None)
    sha = repository.tree(head)[0].sha
    objects = Objects(repository.path)
    assert objects.blob(sha) == b"\xff\x00"
    repository.git.run("gc", "--quiet", "--prune=now")
    assert objects.blob(sha) in (b"\xff\x00", None), "what was replaced under it may be missed once"
    assert objects.blob(sha) == b"\xff\x00"
    objects.close()
    objects.close()
    assert objects.blob(sha) == b"\xff\x00"
    with pytest.raises(GitFailure, match="no blob"):
        objects.blob(head)
    objects.close()


def test_what_is_not_found_is_for_git_to_say(repository: Repository, tmp_path: Path) -> None:
    assert Objects(repository.path).blob("0" * 40) is None
    assert Objects(tmp_path / "nowhere").blob("0" * 40) is None


def test_hooks_load_nothing_of_it() -> None:
    script = "import sys, kbgit.hook; print([name for name in sys.modules if name.startswith('dulwich')])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, timeout=60)
    assert done.stdout == b"[]\n"
