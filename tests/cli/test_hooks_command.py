from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kbgit.home import Home
from kbgit.store.git import clean_environment
from tests.cli.running import WRITER, Kbgit, git, write

BROKEN = "---\ntitle: a: b\n---\n"


@pytest.fixture
def work_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "pages"
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch=main")
    monkeypatch.chdir(root)
    return root


def commit(root: Path, path: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """`git commit`, with a PATH of our own."""
    return subprocess.run(
        ["git", "-C", str(root), "commit", "--quiet", "--message", "Pages", *arguments],
        env={**clean_environment(os.environ), **WRITER, "PATH": path},
        capture_output=True,
        check=False,
    )


@pytest.fixture
def with_kbgit(tmp_path: Path) -> str:
    """A PATH on which `kbgit` is this checkout's."""
    directory = tmp_path / "bin"
    directory.mkdir()
    program = directory / "kbgit"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kbgit.cli "$@"\n')
    program.chmod(0o755)
    return f"{directory}:{os.environ['PATH']}"


@pytest.fixture
def without_kbgit(tmp_path: Path) -> str:
    """A PATH with Git and a shell, and nothing else."""
    directory = tmp_path / "bare"
    directory.mkdir()
    for name in ("git", "sh"):
        found = shutil.which(name)
        assert found is not None
        (directory / name).symlink_to(found)
    return str(directory)


def test_a_broken_item_is_not_committed_and_the_reason_is_said(kbgit: Kbgit, work_tree: Path, with_kbgit: str) -> None:
    kbgit.run("hooks", "install")
    write(work_tree, {"bad.md": BROKEN})
    git(work_tree, "add", "--all")
    refused = commit(work_tree, with_kbgit)
    assert refused.returncode == 1
    assert b"bad.md:2: " in refused.stderr
    assert b"--no-verify" in refused.stderr
    assert commit(work_tree, with_kbgit, "--no-verify").returncode == 0


def test_a_sound_item_is_committed_without_a_word(kbgit: Kbgit, work_tree: Path, with_kbgit: str) -> None:
    kbgit.run("hooks", "install")
    write(work_tree, {"good.md": "# Good\n"})
    git(work_tree, "add", "--all")
    done = commit(work_tree, with_kbgit)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_commit_all_checks_what_it_commits(kbgit: Kbgit, work_tree: Path, with_kbgit: str) -> None:
    write(work_tree, {"page.md": "# Page\n"})
    git(work_tree, "add", "--all")
    git(work_tree, "commit", "--quiet", "--message", "Page")
    kbgit.run("hooks", "install")
    write(work_tree, {"page.md": BROKEN})
    assert commit(work_tree, with_kbgit, "--all").returncode == 1
    assert commit(work_tree, with_kbgit, "--", "page.md").returncode == 1


def test_where_kbgit_is_missing_the_hook_warns_and_lets_the_commit_through(
    kbgit: Kbgit, work_tree: Path, without_kbgit: str
) -> None:
    kbgit.run("hooks", "install")
    write(work_tree, {"bad.md": BROKEN})
    git(work_tree, "add", "--all")
    done = commit(work_tree, without_kbgit)
    assert done.returncode == 0, done.stderr
    assert b"kbgit: warning: kbgit is not on the PATH" in done.stderr


def test_a_foreign_hook_is_replaced_only_by_force(kbgit: Kbgit, work_tree: Path) -> None:
    foreign = work_tree / ".git" / "hooks" / "pre-commit"
    foreign.parent.mkdir(exist_ok=True)
    foreign.write_text("#!/bin/sh\nexit 0\n")
    assert "--force" in kbgit.run("hooks", "install", code=1).stderr
    assert foreign.read_text() == "#!/bin/sh\nexit 0\n"
    kbgit.run("hooks", "install", "--force")
    kbgit.run("hooks", "install")  # ours is simply renewed
    assert os.access(foreign, os.X_OK)


def test_the_hooks_path_of_git_is_respected(kbgit: Kbgit, work_tree: Path) -> None:
    git(work_tree, "config", "core.hooksPath", ".githooks")
    result = kbgit.run("hooks", "install")
    assert (work_tree / ".githooks" / "pre-commit").is_file()
    assert "core.hooksPath" in result.stderr
    assert not (work_tree / ".git" / "hooks" / "pre-commit").exists()


def test_outside_a_work_tree_nothing_is_installed(
    kbgit: Kbgit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kbgit.run("hooks", "install", code=2)


def test_the_hooks_of_a_home_are_restored(kbgit: Kbgit) -> None:
    kbgit.run("base", "create", "notes")
    home = Home.at(kbgit.home)
    (home.hooks / "pre-receive").unlink()
    (home.hooks / "post-receive").write_text("#!/bin/sh\n")
    repository = kbgit.home / "repositories" / "~ada" / "notes.git"
    git(repository, "config", "core.hooksPath", "/nowhere")
    assert "pre-receive" in kbgit.run("hooks", "install", "--server").stdout
    home.check_hooks()
    assert (repository / git(repository, "config", "core.hooksPath")).resolve() == home.hooks.resolve()


def test_a_server_with_a_missing_hook_refuses_to_start(kbgit: Kbgit) -> None:
    (kbgit.home / "hooks" / "pre-receive").unlink()
    done = kbgit.process("serve", "--port", "0")
    assert done.returncode == 3
    assert b"`kbgit hooks install --server`" in done.stderr
