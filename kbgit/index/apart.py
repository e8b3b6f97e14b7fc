"""The writer beside this process: what it writes costs searches here nothing.

    writer = Apart(directory, environment, holding=[lock])      # for `EmbeddedIndex(..., writer=writer)`
    writer.close()

Building postings and Chroma's graph is computing, and of a Python process only one thread computes at a time: a server that
indexes a push answers late. So `kbgit.index.apart_process` does it, one process for all bases, started when something is
first written. It is told over a socket, in one conversation for each step and each opened collection, each of which has a
thread of its own there. What it writes is read here from the files, as after a restart.

It ends when this process does, however that ends: its socket says so. Until it has, it keeps open what it was given
(`holding`), so that a lock on the directory frees when nobody writes in it any more. Should it end before, killed perhaps,
nothing is lost: every state has a stamp, and what has none is written again.
"""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from kbgit.config import INHERITED
from kbgit.errors import IndexDamaged, IndexFailure, WriterEnded
from kbgit.index.apart_process import CONVERSE
from kbgit.index.channel import Channel
from kbgit.index.contract import Floats, IndexedPassage
from kbgit.index.writer import Failed, VectorFiles

log = logging.getLogger(__name__)

_STOP_SECONDS = 5.0


class Apart:
    """The writer that is a process of its own."""

    def __init__(self, directory: Path, environment: Mapping[str, str], holding: Sequence[int] = ()) -> None:
        """`directory` tells whose process it is, `environment` is its maker's, of which it is given what it needs.

        `holding` are descriptors that it keeps open as long as it lives.
        """
        self._directory = directory
        self._environment = {name: environment[name] for name in INHERITED if name in environment}
        self._holding = tuple(holding)
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def write_state(
        self, directory: Path, generation: int, gone: Sequence[int], added: Sequence[IndexedPassage], head: str | None
    ) -> None:
        """Write the next state of a lexical index. Raises `IndexFailure`, `WriterEnded`."""
        conversation = self._conversation()
        try:
            conversation.ask("write_state", directory, generation, gone, added, head)
        finally:
            conversation.close()

    def open_vectors(self, directory: Path) -> VectorFiles:
        """Open Chroma's files in `directory`. Raises `IndexDamaged`, `IndexFailure`."""
        try:
            return self._opened(directory)
        except WriterEnded:  # before anything was changed: the next one opens them
            return self._opened(directory)

    def _opened(self, directory: Path) -> VectorFiles:
        conversation = self._conversation()
        try:
            conversation.ask("open_vectors", directory)
        except BaseException:
            conversation.close()
            raise
        return _VectorsApart(directory, conversation)

    def close(self) -> None:
        """End the process, which has nothing to do any more. Another request would start one anew."""
        with self._lock:
            self._end()

    @property
    def pid(self) -> int | None:
        """The process, if it was started and nobody has noticed that it ended."""
        process = self._process
        return process.pid if process is not None else None

    def _conversation(self) -> _Conversation:
        """Begin one. A process that has ended is replaced. Raises `IndexFailure`."""
        try:
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    self._hand_over(theirs)
                except BaseException:
                    ours.close()
                    raise
        except OSError as error:
            raise IndexFailure(f"there is no process to write the index: {error}") from error
        return _Conversation(Channel(ours))

    def _hand_over(self, theirs: socket.socket) -> None:
        with self._lock:
            if self._process is not None and self._process.poll() is not None:
                self._end()
            try:
                self._send(theirs)
            except ConnectionError:  # it ends at this moment; whatever else is refused is no reason to end it
                self._end()
                self._send(theirs)

    def _send(self, theirs: socket.socket) -> None:
        control = self._control or self._start()
        socket.send_fds(control, [CONVERSE], [theirs.fileno()])

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-m", "kbgit.index.apart_process", str(self._directory)],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    env=self._environment,
                    pass_fds=self._holding,
                )
            except OSError:
                ours.close()
                raise
        self._control = ours
        return ours

    def _end(self) -> None:
        control, process = self._control, self._process
        self._control = self._process = None
        if control is not None:
            control.close()
        if process is None:
            return
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.returncode:
            log.warning("the process that writes the index ended with %s", process.returncode)


class _Conversation:
    """Questions and answers in turn. Thread-safe."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._lock = Lock()
        self._is_over = False

    def ask(self, request: str, *arguments: object) -> Any:  # noqa: ANN401 - what the request answers
        """What the other side answers. Raises what it raised, or `WriterEnded`."""
        with self._lock:
            if self._is_over:
                raise WriterEnded("the process that writes the index was asked after a question without an answer")
            try:
                self._channel.send((request, arguments))
                answer = self._channel.receive()
            except (EOFError, OSError) as problem:
                self._end()
                raise WriterEnded("the process that writes the index ended before it was done") from problem
            except BaseException:
                self._end()  # or the next question would be given the answer to this one
                raise
        if isinstance(answer, Failed):
            raise (IndexDamaged if answer.is_damage else IndexFailure)(answer.message)
        return answer

    def close(self) -> None:
        with self._lock:
            self._end()

    def _end(self) -> None:
        self._is_over = True
        with suppress(OSError):  # what was not delivered is nobody's any more
            self._channel.close()


class _VectorsApart:
    """Chroma's files, opened in the other process. If that ends, they are damaged as far as anybody knows."""

    def __init__(self, directory: Path, conversation: _Conversation) -> None:
        self._directory = directory
        self._conversation = conversation

    def keys(self) -> list[str]:
        return list(self._ask("keys"))

    def count(self) -> int:
        return int(self._ask("count"))

    def fetch(self, keys: Sequence[str]) -> dict[str, Floats]:
        return dict(self._ask("fetch", list(keys)))

    def nearest(self, query: Floats, count: int) -> dict[str, float]:
        return dict(self._ask("nearest", query, count))

    def add(self, keys: Sequence[str], matrix: Floats) -> None:
        self._ask("add", list(keys), matrix)

    def delete(self, keys: Sequence[str]) -> None:
        self._ask("delete", list(keys))

    def close(self) -> None:
        try:
            self._ask("close")
        finally:
            self._conversation.close()

    def _ask(self, request: str, *arguments: object) -> Any:  # noqa: ANN401 - what the request answers
        try:
            return self._conversation.ask(request, *arguments)
        except WriterEnded as problem:
            raise IndexDamaged(f"vectors in {self._directory}: {problem.message}") from problem
