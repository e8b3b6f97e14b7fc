"""A running `git cat-file`, which is asked one batch of names after another and never has to be started again."""

from __future__ import annotations

import os
import select
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kbgit.errors import GitFailure, TimedOut

BATCH_COMMAND = "--batch-command"
"""The mode that answers both kinds of question; Git has it since 2.36."""
CONTENTS, FACTS = "--batch", "--batch-check"
_PIECE = 1 << 16
# What is asked before reading stays far below a pipe's buffer, so neither side waits for the other.
_BATCH_BYTES = 1 << 14


@dataclass(frozen=True, slots=True)
class Found:
    """An answer: the object that a name means. `kind` is `missing` where there is none; `content` is empty unless asked."""

    name: str
    sha: str
    kind: str
    size: int
    content: bytes


class CatFile:
    """One `git cat-file` on the repository in `directory`. To be closed.

    `seconds` is how long it may take until it says more. Raises `GitFailure` and `TimedOut`; one that did is of no more use.
    """

    def __init__(self, directory: Path, mode: str, environment: Mapping[str, str], seconds: float) -> None:
        self._mode = mode
        self._seconds = seconds
        self._awaited = 0
        self._said = bytearray()
        try:
            self._process = subprocess.Popen(
                ["git", "-C", str(directory), "cat-file", mode],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=dict(environment),
                bufsize=0,
            )
        except OSError as error:
            raise GitFailure(f"git cannot be run: {error}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._questions, self._answers = self._process.stdin, self._process.stdout
        self._ready = select.poll()
        self._ready.register(self._answers, select.POLLIN)

    @property
    def is_idle(self) -> bool:
        """Everything that was asked is answered and read."""
        return self._awaited == 0

    def ask(self, names: Sequence[str], *, contents: bool) -> Iterator[Found]:
        """What each name means, in turn. A name must be one line."""
        word = ("contents " if contents else "info ") if self._mode == BATCH_COMMAND else ""
        start = 0
        while start < len(names):
            question = bytearray()
            end = start
            while end < len(names) and (end == start or len(question) < _BATCH_BYTES):
                question += f"{word}{names[end]}\n".encode()
                end += 1
            self._awaited = end - start
            self._ask(question)
            for name in names[start:end]:
                found = self._found(name, contents=contents)
                self._awaited -= 1
                yield found
            start = end

    def _ask(self, question: bytearray) -> None:
        rest = memoryview(question)
        try:
            while rest:
                rest = rest[self._questions.write(rest) :]
        except BrokenPipeError:
            raise GitFailure("git cat-file ended early") from None

    def _found(self, name: str, *, contents: bool) -> Found:
        while (end := self._said.find(b"\n")) < 0:
            self._hear()
        header = self._taken(end + 1).split()
        if len(header) != 3 or header[-1] == b"missing":  # newer ones say "submodule" of one
            return Found(name, "", "missing", 0, b"")
        size = int(header[2])
        content = b""
        if contents:
            while len(self._said) <= size:
                self._hear()
            content = self._taken(size)
            self._taken(1)
        return Found(name, header[0].decode(), header[1].decode(), size, content)

    def _hear(self) -> None:
        if not self._ready.poll(self._seconds * 1000):
            raise TimedOut(f"git cat-file took longer than {self._seconds:g} s")
        piece = os.read(self._answers.fileno(), _PIECE)
        if not piece:
            raise GitFailure("git cat-file ended early")
        self._said += piece

    def _taken(self, count: int) -> bytes:
        taken = bytes(self._said[:count])
        del self._said[:count]
        return taken

    def close(self) -> None:
        """End it, and see it out."""
        self._process.kill()
        self._questions.close()
        self._answers.close()
        self._process.wait()


class Kept:
    """The processes of one piece of work, by mode; each starts when it is first needed.

    One question at a time: whoever asks in between (another thread, or a loop over answers) is told so, and asks elsewhere.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: dict[str, CatFile] = {}
        self._is_open = True

    def taken(self) -> bool:
        """Take it, to `give_back`, unless somebody else has it."""
        return self._is_open and self._lock.acquire(blocking=False)

    def give_back(self) -> None:
        """Let others have it. A process of which somebody did not want to hear everything is ended."""
        for mode, process in list(self._processes.items()):
            if not process.is_idle:
                del self._processes[mode]
                process.close()
        self._lock.release()

    def process(self, directory: Path, mode: str, environment: Mapping[str, str], seconds: float) -> CatFile:
        """The process of this mode, to whoever has taken this."""
        found = self._processes.get(mode)
        if found is None:
            found = self._processes[mode] = CatFile(directory, mode, environment, seconds)
        return found

    def close(self) -> None:
        """End all processes."""
        self._is_open = False
        while self._processes:
            self._processes.popitem()[1].close()
