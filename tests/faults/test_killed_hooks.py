"""Hooks that are killed at any step: what was admitted is published all the same, and what was not leaves nothing.

The hooks run under a tracer that ends the process with SIGKILL at the n-th line it runs in the modules that publish.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from kbgit.base import BaseKey
from kbgit.home import Home
from kbgit.publish import catch_up, rebuild
from kbgit.store import Repository
from kbgit.store.git import clean_environment
from tests.writing import Writer, clone, tables, text

KEY = BaseKey("team:platform", "runbooks")
TRACER = """
import os, signal, sys
from kbgit import hook

last = int(open(os.path.join(os.path.dirname(__file__), "last-line")).read())
watched = {"hook.py", "publish.py", "history.py", "catalogue.py", "sqlite.py"}
seen = 0

def trace(frame, event, argument):
    global seen
    if os.path.basename(frame.f_code.co_filename) not in watched:
        return None
    if event == "line":
        seen += 1
        if seen == last:
            os.kill(os.getpid(), signal.SIGKILL)
    return trace

sys.settrace(trace)
code = hook.main(sys.argv[1:])
sys.settrace(None)
with open(os.path.join(os.path.dirname(__file__), "lines-seen"), "w") as file:
    file.write(str(seen))
raise SystemExit(code)
"""


@dataclass
class Bed:
    """A home in `directory`, and a tracer under which hooks run there."""

    directory: Path

    @property
    def home(self) -> Home:
        return Home.at(self.directory / "home")

    @property
    def repository(self) -> Repository:
        return self.home.repository(KEY)

    def copy(self, directory: Path) -> Bed:
        shutil.copytree(self.directory, directory, symlinks=True)
        return Bed(directory)

    def run_hook(self, name: str, line: str, last: int) -> int | None:
        """Run a hook as Git would, killed at its `last`-th line. How many lines there were, if it came to its end."""
        (self.directory / "tracer.py").write_text(TRACER)
        (self.directory / "last-line").write_text(str(last))
        done = subprocess.run(
            [sys.executable, "-I", self.directory / "tracer.py", name, self.home.path],
            cwd=self.repository.path,
            input=f"{line}\n",
            env=clean_environment(os.environ) | {"GIT_DIR": ".", "KBGIT_USER": "max"},
            text=True,
            capture_output=True,
            check=False,
        )
        assert done.returncode in (0, -9), done.stderr
        return int((self.directory / "lines-seen").read_text()) if done.returncode == 0 else None

    def catch_up(self) -> None:
        catalogue = self.home.catalogue()
        catalogue.add_base(KEY)
        catch_up(self.repository, catalogue, catalogue.base(str(KEY)), self.home.limits)
        catalogue.close()


def stalled(directory: Path, branch: str, earlier: int) -> tuple[Bed, str]:
    """A base whose last push Git accepted and nobody published, after `earlier` that were; and its hooks' input line."""
    home = Home.create(directory / "home")
    repository = home.create_repository(KEY)
    writer = clone(repository.path, directory / "writer")
    writer.git("symbolic-ref", "HEAD", f"refs/heads/{branch}")
    old = "0" * 40
    for number in range(earlier):
        old = writer.publish({"a.md": text(f"T{number}", id="a"), f"{number}.md": text(f"N{number}")})
    (home.hooks / "post-receive").write_text("#!/bin/sh\nexit 0\n")
    new = writer.commit(
        {"a.md": None, "moved.md": text("Moved", id="a"), "new.md": text(tags="[x, y]"), "bad.txt": ""}
        if earlier
        else {"a.md": text(id="a"), "new.md": text()}
    )
    assert writer.push(environment={"KBGIT_USER": "max"}).ok
    home.install_hooks()
    return Bed(directory), f"{old} {new} refs/heads/{branch}"


@pytest.mark.parametrize(("branch", "earlier"), [("main", 2), ("master", 0)])
def test_a_post_receive_killed_at_any_line_loses_neither_the_publication_nor_its_pusher(
    tmp_path: Path, branch: str, earlier: int
) -> None:
    (tmp_path / "start").mkdir()
    start, line = stalled(tmp_path / "start", branch, earlier)
    whole = start.copy(tmp_path / "whole")
    lines = whole.run_hook("post-receive", line, 0)
    assert lines is not None
    assert lines > 150
    expected = tables(whole.home)
    assert expected["publications"][-1][4] == "max"
    assert not list((whole.repository.path / "kbgit-outbox").iterdir())
    for last in range(5, lines, lines // 9):
        bed = start.copy(tmp_path / f"killed-{last}")
        assert bed.run_hook("post-receive", line, last) is None
        if last % 2:  # whoever comes next: the server, or the hook of another push
            bed.catch_up()
        else:
            assert bed.run_hook("post-receive", line, 0)
        assert tables(bed.home) == expected, f"killed at line {last}"
        catalogue = bed.home.catalogue()
        rebuild(bed.repository, catalogue, catalogue.base(str(KEY)), bed.home.limits)
        catalogue.close()
        assert tables(bed.home) == expected, f"rebuilt after a kill at line {last}"
        shutil.rmtree(bed.directory)


def test_a_pre_receive_killed_at_any_line_refuses_the_push_and_the_next_one_works(
    home: Home, base_repository: Repository, new_writer: Callable[[str], Writer], tmp_path: Path
) -> None:
    writer = new_writer("writer")
    old = writer.publish({"a.md": text()})
    (tmp_path / "tracer.py").write_text(TRACER)
    traced = tmp_path / "python"
    traced.write_text(f'#!/bin/sh\nshift 3\nexec "{sys.executable}" -I "{tmp_path}/tracer.py" "$@"\n')
    traced.chmod(0o755)
    python = home.hooks / "python"
    real = python.read_text()
    commit = writer.commit({"b.md": text("B")})
    for last in (3, 30, 60, 90):
        python.write_text(f"{traced}\n")
        (tmp_path / "last-line").write_text(str(last))
        assert not writer.push().ok, last
        assert base_repository.head() == old
        assert not base_repository.has_commit(commit)
        assert list((base_repository.path / "objects").glob("tmp_objdir*")) == []
    python.write_text(real)
    assert writer.push().ok
    assert base_repository.head() == commit
