"""Running one CGI program for one request: bodies stream both ways, and the program never outlives the request."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kbgit.errors import GitFailure, InvalidRequest, TimedOut, TooLarge
from kbgit.web.asgi import Receive, Send
from kbgit.web.bodies import ClientGone, Gunzip, too_large

_PIECE_BYTES = 64 * 1024
_STDERR_BYTES = 16 * 1024
_GRACE_SECONDS = 10.0  # Git, told to end, removes its lock files first; killed, it would leave them behind

Progress = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Program:
    """What to run, how modestly, and its limits.

    `body_limit` is in bytes after decompression. `stall_seconds` is how long nothing may move in either direction,
    `longest_seconds` how long all of it may take.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    directory: Path
    body_limit: int
    stall_seconds: float
    longest_seconds: float
    niceness: int = 0
    """How far it, and all that it starts, steps back behind this process."""


@dataclass
class Exchange:
    """One run. What goes wrong when the answer has begun is no error any more: the answer just stays incomplete."""

    program: Program
    receive: Receive
    send: Send
    gzip: bool
    started: bool = False
    """The answer's status and headers are sent."""
    whole: bool = False
    """Everything the program printed is sent; `finish` may say so to the client."""
    stderr: str = ""
    exit_code: int | None = None
    _progress: Progress = field(default=lambda: None, repr=False)

    async def run(self) -> None:
        """Run to the end.

        Raises `GitFailure` (no answer), `TooLarge`, `InvalidRequest` (a bad gzip body), `TimedOut`, and `ClientGone`.
        The program and everything it started have ended when this returns or raises.
        """
        process = await self._start()
        complaints = asyncio.create_task(_last_words(process))
        try:
            async with asyncio.timeout(self.program.longest_seconds):
                async with asyncio.timeout(self.program.stall_seconds) as patience:
                    clock = asyncio.get_running_loop().time
                    self._progress = lambda: patience.reschedule(clock() + self.program.stall_seconds)
                    await _until_answered(self._feed(process), self._relay(process))
        except TimeoutError:
            if not self.started:
                raise TimedOut("the exchange stood still, or took too long in all") from None
        except (GitFailure, TooLarge, InvalidRequest):
            if not self.started:
                raise
        finally:
            await _end(process, at_once=not self.whole)
            self.stderr = await complaints
            self.exit_code = process.returncode

    async def finish(self) -> None:
        """Tell the client that the answer is complete, if it is."""
        if self.whole:
            await self.send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _start(self) -> Process:
        try:
            process = await asyncio.create_subprocess_exec(
                *self.program.command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=dict(self.program.environment),
                cwd=self.program.directory,
                # So that it can be ended together with everything it started. Not a session: Linux gives each session the
                # same share of the processors (`man 7 sched`, "The autogroup feature"), however modest what runs in it.
                process_group=0,
            )
        except OSError as error:
            raise GitFailure(f"{self.program.command[0]} cannot be run: {error}") from error
        if self.program.niceness:
            modest = os.getpriority(os.PRIO_PROCESS, 0) + self.program.niceness
            # The whole group, which may have grown by now; or nobody any more.
            with suppress(ProcessLookupError, PermissionError):
                os.setpriority(os.PRIO_PGRP, process.pid, modest)
        return process

    async def _relay(self, process: Process) -> None:
        """Send on what the program prints: its header, then its body piece by piece."""
        assert process.stdout is not None
        try:
            head = await process.stdout.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            raise GitFailure("git gave no answer; the server's log says why") from None
        status, headers = _parsed_head(head)
        # Git prints its header before it has looked at anything. It is held back until there is something to go with it:
        # until then, a request that turns out to be too large can still be told so.
        piece = await process.stdout.read(_PIECE_BYTES)
        self.started = True
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        while piece:
            await self.send({"type": "http.response.body", "body": piece, "more_body": True})
            self._progress()
            piece = await process.stdout.read(_PIECE_BYTES)
        self.whole = True

    async def _feed(self, process: Process) -> None:
        """Give the program the request's body, then wait for the client to go: this always ends with an exception."""
        assert process.stdin is not None
        async for piece in self._body():
            # A program that has refused reads no more. The rest is taken from the client all the same, because it
            # looks at the answer only when it has sent everything.
            with suppress(BrokenPipeError, ConnectionResetError):
                process.stdin.write(piece)
                await process.stdin.drain()
        process.stdin.close()
        while (await self.receive())["type"] != "http.disconnect":
            continue
        raise ClientGone

    async def _body(self) -> AsyncIterator[bytes]:
        """The request's body, unpacked. Raises `ClientGone` where it is cut off, so that no half of it is believed."""
        limit = self.program.body_limit
        gunzip = Gunzip(limit) if self.gzip else None
        taken = 0
        more = True
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            self._progress()
            piece: bytes = message.get("body", b"")
            more = message.get("more_body", False)
            if gunzip and piece:
                piece = gunzip.expand(piece)
            taken += len(piece)
            if taken > limit:
                raise too_large(limit)
            if piece:
                yield piece
        if gunzip:
            gunzip.finish()


async def _until_answered(feeding: Coroutine[None, None, None], relaying: Coroutine[None, None, None]) -> None:
    """Run both until the answer is complete, or until one of them raises."""
    feeder, relay = asyncio.create_task(feeding), asyncio.create_task(relaying)
    try:
        await asyncio.wait((feeder, relay), return_when=asyncio.FIRST_COMPLETED)
        await (relay if relay.done() else feeder)
    finally:
        for task in (feeder, relay):
            task.cancel()
        await asyncio.gather(feeder, relay, return_exceptions=True)


def _parsed_head(head: bytes) -> tuple[int, list[tuple[bytes, bytes]]]:
    """A CGI header (RFC 3875, 6.3) as a status and HTTP headers. Raises `GitFailure`."""
    status = 200
    headers = []
    for line in head.removesuffix(b"\r\n\r\n").split(b"\r\n"):
        name, colon, value = line.partition(b":")
        if not colon:
            raise GitFailure("git answered with a malformed header")
        name, value = name.strip().lower(), value.strip()
        if name == b"status":
            status = int(value[:3])
        else:
            headers.append((name, value))
    return status, headers


async def _last_words(process: Process) -> str:
    """The end of what the program wrote to standard error, when it has ended."""
    assert process.stderr is not None
    kept = b""
    while piece := await process.stderr.read(_PIECE_BYTES):
        kept = (kept + piece)[-_STDERR_BYTES:]
    return kept.decode("utf-8", "replace").strip()


async def _end(process: Process, *, at_once: bool) -> None:
    """See the program out: asked to end, if need be, and made to if it does not."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    for number in (None, signal.SIGTERM, signal.SIGKILL)[at_once:]:
        if number is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_SECONDS):
                # asyncio notices the end of a process only when all it printed has been read.
                while await process.stdout.read(_PIECE_BYTES):
                    continue
                await process.wait()
                return
