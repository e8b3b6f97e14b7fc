"""Serves Flask (WSGI) inside the ASGI process: each request goes to a thread once, and comes back once.

`a2wsgi` lets a thread ask the event loop for each piece of a body and for each part of an answer. While other threads
compute, each way costs a turn, and those took longer than the search between them. Here the thread is given the whole body,
which `Bodies` has read anyway, and gives back an answer that is whole unless it is large.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, TypeVar

from a2wsgi import WSGIMiddleware
from a2wsgi.wsgi import build_environ

from kbgit.web.asgi import Receive, Scope, Send

WsgiApplication = Callable[..., Iterable[bytes]]
_AT_ONCE_BYTES = 1 << 20
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Answer:
    """What the application answers: the head, the first piece of the body, and what gives the rest (None: that is all)."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    rest: Iterator[bytes] | None
    close: Callable[[], object]


class Threads(WSGIMiddleware):  # type: ignore[misc]  # a2wsgi is read as untyped
    """A WSGI application as an ASGI one, on `workers` threads."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        environ = build_environ(scope, BytesIO(await _whole(receive)))
        context = contextvars.copy_context()
        answer = await self._in_thread(context.run, self._answer, environ)
        try:
            await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
            body, rest = answer.body, answer.rest
            while rest is not None:
                await send({"type": "http.response.body", "body": body, "more_body": True})
                body, rest = await self._in_thread(context.run, _next_piece, rest)
            await send({"type": "http.response.body", "body": body})
        finally:
            if answer.rest is not None:
                await self._in_thread(context.run, answer.close)

    async def _in_thread(self, run: Callable[..., _T], *arguments: object) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self.executor, run, *arguments)

    def _answer(self, environ: dict[str, Any]) -> Answer:
        """In a thread: run the application. An answer that is whole is closed."""
        head: list[tuple[str, Sequence[tuple[str, str]]]] = []
        written: list[bytes] = []

        def start_response(
            status: str, headers: Sequence[tuple[str, str]], _: object = None
        ) -> Callable[[bytes], None]:
            head[:] = [(status, headers)]
            return written.append

        iterable = self.app(environ, start_response)
        close: Callable[[], object] = getattr(iterable, "close", lambda: None)
        rest: Iterator[bytes] | None = None
        try:
            first, rest = _next_piece(iter(iterable))
            ((status, headers),) = head
        finally:
            if rest is None:
                close()
        names = [(name.strip().encode("latin1").lower(), value.strip().encode("latin1")) for name, value in headers]
        return Answer(int(status.split(" ", 1)[0]), names, b"".join([*written, first]), rest, close)


def _next_piece(pieces: Iterator[bytes]) -> tuple[bytes, Iterator[bytes] | None]:
    """As much as is sent at once, and what gives the rest: None if there is none."""
    taken = bytearray()
    for piece in pieces:
        taken += piece
        if len(taken) >= _AT_ONCE_BYTES:
            return bytes(taken), pieces
    return bytes(taken), None


async def _whole(receive: Receive) -> bytes:
    """The body, which has been bounded by whoever passes the request on."""
    body = bytearray()
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return bytes(body)
