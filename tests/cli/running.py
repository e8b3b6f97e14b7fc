"""Homes made by the program itself, real Git, and the program run in this process or as one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from kbgit.cli.program import program
from kbgit.store.git import clean_environment

READY_SECONDS = 60.0
WRITER = {
    "GIT_AUTHOR_NAME": "Grace",
    "GIT_AUTHOR_EMAIL": "grace@example.org",
    "GIT_COMMITTER_NAME": "Grace",
    "GIT_COMMITTER_EMAIL": "grace@example.org",
}
DEPLOY = (
    "---\nid: item_deploy\ntitle: Production deployment\nstatus: published\ntags: [deploy]\nowner: platform\n---\n"
    "# Production deployment\n\nRun `kubectl rollout` at noon.\n\n## Rollback\n\nUndo it with `--previous`.\n"
)
PAGES = {
    "deploy/production.md": DEPLOY,
    "de/urlaub.md": "---\nid: urlaub\nstatus: published\n---\n# Urlaub für alle\n\nDreißig Tage im Jahr. 年假 auch.\n",
    "draft.md": "# A secret plan\n\nNobody knows the velvet anchor.\n",
}


@dataclass(frozen=True)
class Kbgit:
    """The program, in one home. `run` calls it in this process, `process` starts one."""

    home: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(self, *arguments: str, code: int | None = 0, **environment: str) -> Result:
        """The finished call, whose exit code is checked (None: any)."""
        result = CliRunner().invoke(program, arguments, env=self._variables(environment))
        assert code is None or result.exit_code == code, f"{arguments}: {result.exit_code}\n{result.output}"
        return result

    def json(self, *arguments: str, code: int = 0, **environment: str) -> Any:  # noqa: ANN401
        """The answer with --json."""
        return json.loads(self.run(*arguments, "--json", code=code, **environment).stdout)

    def process(
        self, *arguments: str, cwd: Path | None = None, stdin: bytes = b"", **environment: str
    ) -> subprocess.CompletedProcess[bytes]:
        """The finished process, given `stdin` to read."""
        return subprocess.run(
            [sys.executable, "-m", "kbgit.cli", *arguments],
            env=self.process_environment(environment),
            cwd=cwd,
            input=stdin,
            capture_output=True,
            timeout=120,
            check=False,
        )

    @contextmanager
    def server(self) -> Iterator[str]:
        """Its server, for as long as it is needed. Yields the URL."""
        log_file = self.home.with_name("server.log")
        with (
            open(log_file, "wb") as log,
            subprocess.Popen(
                [sys.executable, "-m", "kbgit.cli", "serve", "--port", "0"],
                env=self.process_environment({}),
                stdout=subprocess.PIPE,
                stderr=log,
            ) as process,
        ):
            assert process.stdout is not None
            try:
                told = process.stdout.readline().decode()
                assert told.startswith("kbgit answers at "), f"{told}{log_file.read_text()}"
                wait_until(lambda: (self.home / "server.json").is_file())
                yield told.split()[-1]
            finally:
                process.terminate()

    def _variables(self, more: Mapping[str, str]) -> dict[str, str | None]:
        """What is set, and what is unset (None): nothing of whoever runs the tests."""
        unset = dict.fromkeys(name for name in os.environ if name.startswith("KBGIT_") or name == "NO_COLOR")
        return {**unset, "KBGIT_HOME": str(self.home), **self.environment, **more}

    def process_environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """The environment of a process of the program."""
        found = {**clean_environment(os.environ), **self._variables(more)}
        return {name: value for name, value in found.items() if value is not None}


def wait_until(condition: Callable[[], bool]) -> None:
    """Look again and again, with an end."""
    give_up = time.monotonic() + READY_SECONDS
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def git(directory: Path, *arguments: str) -> str:
    """`git -C directory …`, as the writer Grace."""
    done = subprocess.run(
        ["git", "-C", str(directory), *arguments],
        env={**clean_environment(os.environ), **WRITER},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip()


def write(directory: Path, files: Mapping[str, str]) -> Path:
    """Write files below a directory, which is made."""
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return directory


def push(repository: str, writer: Path, files: Mapping[str, str]) -> str:
    """Clone a base to `writer`, commit files there, push. Returns the new head."""
    git(writer.parent, "clone", "--quiet", repository, writer.name)
    write(writer, files)
    git(writer, "add", "--all")
    git(writer, "commit", "--quiet", "--message", "Write")
    git(writer, "push", "--quiet", "origin", "main")
    return git(writer, "rev-parse", "HEAD")


def new_home(path: Path) -> Kbgit:
    """An initialised home of Ada's, with the embedder that needs no model."""
    kbgit = Kbgit(path)
    kbgit.run("init", str(path), "--owner", "ada")
    (path / "kbgit.yaml").write_text("embedder: hashing\nsweep_seconds: 0.2\n")
    return kbgit


@dataclass(frozen=True)
class Published:
    """A home with one base of two publications, and the two heads."""

    kbgit: Kbgit
    heads: tuple[str, str]
