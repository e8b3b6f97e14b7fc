"""Running the `git` command: clean environment, time limit, errors translated here and nowhere else."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from kbgit.errors import GitFailure, TimedOut
from kbgit.store.cat_file import BATCH_COMMAND, CONTENTS, FACTS, CatFile, Found, Kept

# Inside a hook Git names its quarantine in these; every other GIT_* variable may point at another repository.
_QUARANTINE = ("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_QUARANTINE_PATH")
_BATCH_COMMAND_SINCE = (2, 36)
_able: dict[str | None, bool] = {}


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
    _kept: Kept | None = field(default=None, repr=False, compare=False)

    def run(self, *arguments: str, stdin: bytes = b"", extra: Mapping[str, str] | None = None) -> bytes:
        """Standard output of `git <arguments>`. Raises `GitFailure` unless it succeeds."""
        return self.complete(*arguments, stdin=stdin, extra=extra).stdout

    def succeeds(self, *arguments: str) -> bool:
        """True for exit code 0, false for 1; anything else raises `GitFailure`."""
        return self.complete(*arguments, allow=(0, 1)).returncode == 0

    def succeeds_quietly(self, *arguments: str) -> bool:
        """Whether the command ends with exit code 0; for questions to which Git answers "no" with 128."""
        return self.complete(*arguments, allow=(0, 1, 128)).returncode == 0

    def complete(
        self, *arguments: str, stdin: bytes = b"", allow: Sequence[int] = (0,), extra: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """The finished process. Raises `GitFailure` unless the exit code is in `allow`, `TimedOut`."""
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

    @contextmanager
    def kept(self) -> Iterator[Git]:
        """This, for one piece of work: one process is asked about objects, and ends with the context."""
        if self._kept is not None:
            yield self
            return
        kept = Kept()
        try:
            yield replace(self, _kept=kept)
        finally:
            kept.close()

    @property
    def is_kept(self) -> bool:
        """Whether a question about objects costs no process of its own."""
        return self._kept is not None

    def objects(self, names: Iterable[str]) -> Iterator[tuple[str, str, bytes]]:
        """(name, kind, content) of each object in turn; kind is `missing` for what is not there.

        One `cat-file` serves all of them.
        """
        for name, found in self._found(list(names), contents=True):
            yield name, found.kind, found.content

    def sizes(self, names: Iterable[str]) -> dict[str, int]:
        """Size in bytes of each object that exists."""
        found = self._found(list(names), contents=False)
        return {name: fact.size for name, fact in found if fact.kind != "missing"}

    def fact(self, name: str) -> Found:
        """What a name means, without its content."""
        ((_, found),) = self._found([name], contents=False)
        return found

    def _found(self, names: Sequence[str], *, contents: bool) -> Iterator[tuple[str, Found]]:
        if names:
            with self._cat_file(contents=contents) as process:
                asked = [self._in_one_line(name) for name in names]
                yield from zip(names, process.ask(asked, contents=contents), strict=True)

    @contextmanager
    def _cat_file(self, *, contents: bool) -> Iterator[CatFile]:
        """The kept process, if one is and nobody is being answered by it; else one for these questions alone."""
        mode = CONTENTS if contents else FACTS
        if self._kept is None or not self._kept.taken():
            with closing(CatFile(self.directory, mode, self.environment, self.timeout_seconds)) as process:
                yield process
            return
        try:
            mode = BATCH_COMMAND if self.understands_commands() else mode
            yield self._kept.process(self.directory, mode, self.environment, self.timeout_seconds)
        finally:
            self._kept.give_back()

    def _in_one_line(self, name: str) -> str:
        """`name`, or the object that it means where a path in it has line ends, which would be two questions."""
        if "\n" not in name and "\r" not in name:
            return name
        named = self.complete("rev-parse", "--verify", "--quiet", name, allow=(0, 1, 128))
        return named.stdout.decode().strip() or "0" * 40

    def understands_commands(self) -> bool:
        """Whether one `cat-file` answers every kind of question. Asked once for all that find the same `git`."""
        path = self.environment.get("PATH")
        if path not in _able:
            version = re.search(rb"(\d+)\.(\d+)", self.run("version"))
            _able[path] = version is not None and (int(version[1]), int(version[2])) >= _BATCH_COMMAND_SINCE
        return _able[path]
