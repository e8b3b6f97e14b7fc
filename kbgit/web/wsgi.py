"""Serves Flask (WSGI) inside the ASGI process: each request goes to a thread once, and comes back once.

`a2wsgi` lets a thread ask the event loop for each piece of a body and for each part of an answer. While other threads
compute, each way costs a turn, and those took longer than the search between them. Here the thread is given the whole body,
which `Bodies` has read anyway, and gives back an answer that is whole unless it is large.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO
from threading import Lock
from types import TracebackType
from typing import Any, TypeVar

from a2wsgi.wsgi import build_environ

from kbgit.web.asgi import Receive, Scope, Send

WsgiApplication = Callable[..., Iterable[bytes]]
_ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None]
_AT_ONCE_BYTES = 1 << 20
_T = TypeVar("_T")

log = logging.getLogger("kbgit.web")


class Threads:
    """A WSGI application as an ASGI one, on `workers` threads. A body must come in one piece, as from `Bodies`."""

    def __init__(self, application: WsgiApplication, workers: int = 10) -> None:
        self._application = application
        self.executor = ThreadPoolExecutor(workers, thread_name_prefix="WSGI")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        run = _Run(self._application, build_environ(scope, BytesIO(await _body(receive))))
        try:
            answer = await self._in_thread(run.begin)
            await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
            body = answer.body
            if not run.is_over:
                async with _departure(receive) as gone:
                    while not run.is_over:
                        if gone.done():
                            return  # the server takes what nobody waits for, and would have all of it made
                        await send({"type": "http.response.body", "body": body, "more_body": True})
                        body = await self._in_thread(run.go_on)
            await send({"type": "http.response.body", "body": body})
        finally:
            if not run.is_over:
                # Not waited for: a thread may still be at it, and what ended the request is to be told at once.
                self.executor.submit(run.abandon)

    async def _in_thread(self, function: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self.executor, function)


@dataclass(frozen=True, slots=True)
class Answer:
    """How an answer begins: its head, and as much of its body as is sent at once."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class _Run:
    """The application at work on one request. Its methods are for threads; each waits until the one before has ended."""

    def __init__(self, application: WsgiApplication, environ: dict[str, Any]) -> None:
        self.is_over = False
        """The last piece of the body was given, or nobody wants it any more; nothing is left open."""
        self._application = application
        self._environ = environ
        # Of the request, for all of its threads; only one at a time can be in it.
        self._context = contextvars.copy_context()
        self._lock = Lock()
        self._head: tuple[str, Sequence[tuple[str, str]]] | None = None
        self._is_sent = False
        self._written: list[bytes] = []
        self._pieces: Iterator[bytes] = iter(())
        self._close: Callable[[], object] = lambda: None

    def begin(self) -> Answer:
        """Run the application."""
        with self._lock:
            return self._context.run(self._begin)

    def go_on(self) -> bytes:
        """The next piece of the body."""
        with self._lock:
            return self._context.run(self._next_piece)

    def abandon(self) -> None:
        """Close what is open, whatever is left."""
        with self._lock:
            self._context.run(self._give_up)

    def _begin(self) -> Answer:
        if self.is_over:
            raise asyncio.CancelledError  # which nobody is there to hear
        iterable = self._application(self._environ, self._start_response)
        self._close = getattr(iterable, "close", self._close)
        self._pieces = iter(iterable)
        body = self._next_piece()
        if self._head is None:
            raise RuntimeError("the application answered without a status")
        status, headers = self._head
        self._is_sent = True
        names = [(name.strip().encode("latin1").lower(), value.strip().encode("latin1")) for name, value in headers]
        return Answer(int(status.split(" ", 1)[0]), names, body)

    def _start_response(
        self, status: str, headers: Sequence[tuple[str, str]], exc_info: _ExceptionInfo | None = None
    ) -> Callable[[bytes], None]:
        if exc_info is not None and self._is_sent:
            raise exc_info[1].with_traceback(exc_info[2])  # PEP 3333: too late for another head
        self._head = (status, headers)
        return self._written.append

    def _next_piece(self) -> bytes:
        taken: list[bytes] = []
        size = 0
        for piece in self._pieces:
            taken += (*self._written, piece)
            self._written.clear()
            size += len(piece)
            if size >= _AT_ONCE_BYTES:
                return b"".join(taken)
        taken += self._written
        self._end()
        return b"".join(taken)

    def _give_up(self) -> None:
        try:
            self._end()
        except Exception:  # nobody waits for this, so the log alone can tell
            log.exception("what an answer had open could not be closed")

    def _end(self) -> None:
        self.is_over = True
        self._close()


async def _body(receive: Receive) -> bytes:
    """The request's body, which whoever passes the request on has read, so that a part of it is never taken for all."""
    message = await receive()
    assert message["type"] == "http.request"
    assert not message.get("more_body", False)
    body: bytes = message.get("body", b"")
    return body


@asynccontextmanager
async def _departure(receive: Receive) -> AsyncIterator[asyncio.Task[None]]:
    """A task that is done once the client has gone away."""

    async def gone() -> None:
        if (await receive())["type"] != "http.disconnect":
            await asyncio.Event().wait()  # a `receive` that tells of the body alone never tells

    task = asyncio.create_task(gone())
    try:
        yield task
    finally:
        task.cancel()
