"""The MCP server on standard input and output, until the client closes them or the process is told to stop."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, BinaryIO, TextIO, cast

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from kbgit.mcp.wire import standard_output

_READ_AHEAD = 32
_LAST_ANSWERS_SECONDS = 30.0

log = logging.getLogger(__name__)


def serve_stdio(server: Server[Any]) -> None:
    """Serve one client. Returns when standard input has ended and what was asked is answered, at SIGTERM and SIGINT, and when
    the client is gone."""
    with standard_output() as output:
        try:
            asyncio.run(_serve(server, output))
        except* BrokenPipeError:
            log.info("the client is gone")


async def _serve(server: Server[Any], output: TextIO) -> None:
    # A descriptor of its own: Python would wait for the lock of sys.stdin at its end, which the reading thread holds.
    client = _Client(os.fdopen(os.dup(0), "rb"), output)
    pipe = cast("anyio.AsyncFile[str]", client)  # of which the SDK uses iteration, `write` and `flush`
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_stop_when_told, tasks.cancel_scope)
        async with stdio_server(pipe, pipe) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
        tasks.cancel_scope.cancel()


async def _stop_when_told(everything: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            everything.cancel()


class _Client:
    """The two pipes to the client, as lines.

    Lines are read by a thread that does not keep the process alive, because a read cannot be interrupted. The end of input is
    held back until what was asked before it is answered: the SDK drops what is under way when it sees the end.
    """

    def __init__(self, incoming: BinaryIO, outgoing: TextIO) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue(_READ_AHEAD)
        self._output = anyio.wrap_file(outgoing)
        self._unanswered = 0
        self._answered = asyncio.Condition()
        threading.Thread(target=self._read, args=(incoming,), name="standard input", daemon=True).start()

    def _read(self, stream: BinaryIO) -> None:
        with suppress(RuntimeError):  # the loop has ended, and the reading with it
            for line in stream:
                self._put(line.decode("utf-8", "replace"))
            self._put(None)

    def _put(self, line: str | None) -> None:
        asyncio.run_coroutine_threadsafe(self._lines.put(line), self._loop).result()

    async def __aiter__(self) -> AsyncIterator[str]:
        while (line := await self._lines.get()) is not None:
            self._unanswered += _answers_due(line)
            yield line
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_ANSWERS_SECONDS), self._answered:
                await self._answered.wait_for(lambda: self._unanswered <= 0)

    async def write(self, line: str) -> None:
        """Write one message, which is an answer: this server asks and tells nothing by itself."""
        await self._output.write(line)
        await self._output.flush()
        async with self._answered:
            self._unanswered -= 1
            self._answered.notify_all()

    async def flush(self) -> None:
        """Every message is flushed as it is written."""


def _answers_due(line: str) -> int:
    """How many more answers a message brings about: one for a request, one fewer for a request that is cancelled."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return 0
    if not isinstance(message, dict) or "method" not in message:
        return 0
    if message["method"] == "notifications/cancelled":
        return -1
    return 1 if "id" in message else 0
