"""Running the `git` command: clean environment, time limit, errors translated here and nowhere else."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kbgit.errors import GitFailure, TimedOut

# Inside a hook Git names its quarantine in these; every other GIT_* variable may point at another repository.
_QUARANTINE = ("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_QUARANTINE_PATH")
_BATCH = 256  # object names written before reading: 256 × 41 bytes stay below a pipe's buffer, so neither side waits


def clean_environment(environment: Mapping[str, str], *, keep_quarantine: bool = False) -> dict[str, str]:
    """`environment` without Git's variables, so that a child acts on the repository it is told and on no other.

    Output is made independent of the user's locale and configuration; repositories of other owners are trusted, since
    the caller named the path itself.
    """
    kept = {name: value for name, value in environment.items() if not name.startswith("GIT_")}
    if keep_quarantine:
        kept |= {name: environment[name] for name in _QUARANTINE if name in environment}
    return kept | {
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ADVICE": "0",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
    }


@dataclass(frozen=True, slots=True)
class Git:
    """The `git` command on one repository (`directory`: a bare repository or a work tree)."""

    directory: Path
    timeout_seconds: float = 120.0
    environment: Mapping[str, str] = field(default_factory=lambda: clean_environment(os.environ), repr=False)

    def run(
        self, *arguments: str, stdin: bytes = b"", allow: Sequence[int] = (0,), extra: Mapping[str, str] | None = None
    ) -> bytes:
        """Standard output of `git <arguments>`. Raises `GitFailure` unless the exit code is in `allow`."""
        return self.complete(*arguments, stdin=stdin, allow=allow, extra=extra).stdout

    def succeeds(self, *arguments: str) -> bool:
        """True for exit code 0, false for 1; anything else raises `GitFailure`."""
        return self.complete(*arguments, allow=(0, 1)).returncode == 0

    def succeeds_quietly(self, *arguments: str) -> bool:
        """Whether the command ends with exit code 0; for questions to which Git answers "no" with 128."""
        return self.complete(*arguments, allow=(0, 1, 128)).returncode == 0

    def complete(
        self, *arguments: str, stdin: bytes = b"", allow: Sequence[int] = (0,), extra: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """The finished process."""
        command = ["git", "-C", str(self.directory), *arguments]
        try:
            done = subprocess.run(
                command,
                input=stdin,
                capture_output=True,
                timeout=self.timeout_seconds,
                env={**self.environment, **(extra or {})},
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise TimedOut(f"git {arguments[0]} took longer than {self.timeout_seconds:g} s") from None
        except OSError as error:
            raise GitFailure(f"git cannot be run: {error}") from error
        if done.returncode not in allow:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise GitFailure(f"git {arguments[0]} failed: {said[-2000:] or done.returncode}", {"exit": done.returncode})
        return done

    def objects(self, names: Iterable[str]) -> Iterator[tuple[str, str, bytes]]:
        """(name, kind, content) of each object in turn; kind is `missing` for what is not there.

        One `cat-file --batch` serves all of them.
        """
        pending = list(names)
        if not pending:
            return
        with subprocess.Popen(
            ["git", "-C", str(self.directory), "cat-file", "--batch"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(self.environment),
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                for start in range(0, len(pending), _BATCH):
                    batch = pending[start : start + _BATCH]
                    process.stdin.write("".join(f"{name}\n" for name in batch).encode())
                    process.stdin.flush()
                    for name in batch:
                        header = process.stdout.readline().split()
                        if len(header) < 2:
                            raise GitFailure("git cat-file ended early")
                        if len(header) < 3 or header[-1] == b"missing":  # newer ones say "submodule" of one
                            yield name, "missing", b""
                            continue
                        content = process.stdout.read(int(header[2]))
                        process.stdout.read(1)
                        yield name, header[1].decode(), content
            finally:
                process.kill()

    def sizes(self, names: Iterable[str]) -> dict[str, int]:
        """Size in bytes of each object that exists."""
        listing = self.run("cat-file", "--batch-check", stdin="".join(f"{name}\n" for name in names).encode())
        rows = (line.split() for line in listing.decode().splitlines())
        return {row[0]: int(row[2]) for row in rows if len(row) == 3}
