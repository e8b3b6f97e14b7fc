"""Uploads of documents: asked about first, then spooled to disk, never held in memory.

The application is asked twice. First without the body, whether this caller may send it here: what it refuses, a signed-out
caller or a file that says it is too large, is answered before a byte is read. Then, when the body is in a file, to take it
in. So who may do what is decided in one place, and a slow or endless client keeps neither a thread nor memory.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kbgit.documents.service import Arrived, document_too_large
from kbgit.errors import KbgitError, StorageFull
from kbgit.web.asgi import Application, Message, Receive, Scope, Send, header
from kbgit.web.bodies import ClientGone, announced_length
from kbgit.web.errors import Overloaded, RequestTimeout, UnsupportedMediaType

TICKET = "kbgit.upload"
_ADDRESS = re.compile(r"/api/v1/bases/[^/]+/[^/]+/documents")
_OF_THE_BODY = frozenset({b"content-length", b"content-encoding", b"transfer-encoding", b"expect"})
_PIECE_BYTES = 256 << 10


@dataclass
class Ticket:
    """What this layer and the application tell each other about one upload.

    `size` is what the client announced. The application sets `is_admitted`; then comes `arrived`. `refusal` is what is wrong
    with the body, to be raised once the caller is known to be one who may hear it.
    """

    size: int | None = None
    is_admitted: bool = False
    refusal: KbgitError | None = None
    arrived: Arrived | None = None


def ticket_of(scope: Mapping[str, Any]) -> Ticket | None:
    """The ticket of a request; None for one that did not come through this layer."""
    found = scope.get(TICKET)
    return found if isinstance(found, Ticket) else None


class Desk(Protocol):
    """Where uploads go: `kbgit.documents.service.Documents`."""

    @property
    def most_bytes(self) -> int:
        """The largest document."""
        ...

    def new_incoming(self) -> Path:
        """A new, empty file."""
        ...


class Uploads:
    """An ASGI application for uploads, before `application`, which answers them.

    `stall_seconds` is how long nothing may arrive, `longest_seconds` how long a whole body may take; more than
    `most_at_once` uploads are refused with `overloaded`.
    """

    def __init__(
        self,
        application: Application,
        desk: Desk,
        *,
        stall_seconds: float = 30.0,
        longest_seconds: float = 900.0,
        most_at_once: int = 64,
    ) -> None:
        self._application = application
        self._desk = desk
        self._stall_seconds = stall_seconds
        self._longest_seconds = longest_seconds
        self._most_at_once = most_at_once
        self._running = 0

    def serves(self, scope: Scope) -> bool:
        """Whether this request is an upload."""
        return scope["method"] == "POST" and _ADDRESS.fullmatch(scope["path"]) is not None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one upload."""
        ticket = Ticket(size=announced_length(scope))
        headers = [row for row in scope["headers"] if row[0] not in _OF_THE_BODY]
        bare: Scope = {**scope, "headers": headers, TICKET: ticket}
        ticket.refusal = self._wrong_with_headers(scope, ticket)
        answer = _Kept()
        await self._application(bare, _no_body, answer)
        if not ticket.is_admitted:
            await answer.replay(send)
            return
        path = await asyncio.to_thread(self._desk.new_incoming)
        try:
            try:
                ticket.arrived = await self._within_bounds(receive, path)
            except KbgitError as error:
                ticket.refusal = error
            await self._application(bare, _no_body, send)
        except ClientGone:
            pass
        finally:
            path.unlink(missing_ok=True)  # where it was taken in, it is somewhere else by now

    def _wrong_with_headers(self, scope: Scope, ticket: Ticket) -> KbgitError | None:
        encoding = (header(scope, b"content-encoding") or "identity").strip().lower()
        if encoding != "identity":
            # The bytes as they are, are what the SHA-256 of the source is of.
            return UnsupportedMediaType(
                "send a document as it is, without Content-Encoding", {"content_encoding": encoding[:100]}
            )
        if (ticket.size or 0) > self._desk.most_bytes:
            return document_too_large(self._desk.most_bytes)
        return None

    async def _within_bounds(self, receive: Receive, path: Path) -> Arrived:
        """The body, in the file `path`, unless too many are arriving already."""
        if self._running >= self._most_at_once:
            raise Overloaded(f"{self._running} files are being uploaded; try again in a moment")
        self._running += 1
        try:
            return await self._spool(receive, path)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StorageFull("the server's disk is full; its operator has to make room") from None
            raise
        finally:
            self._running -= 1

    async def _spool(self, receive: Receive, path: Path) -> Arrived:
        """The body, in the file `path`. Raises `TooLarge`, `RequestTimeout`, `ClientGone`."""
        most, digest, size = self._desk.most_bytes, hashlib.sha256(), 0
        gathered = bytearray()
        with path.open("wb") as file:

            def put(piece: bytes) -> None:
                digest.update(piece)
                file.write(piece)

            def settle() -> None:
                file.flush()
                os.fsync(file.fileno())

            try:
                async with asyncio.timeout(self._longest_seconds):
                    more = True
                    while more:
                        async with asyncio.timeout(self._stall_seconds):
                            message = await receive()
                        if message["type"] == "http.disconnect":
                            raise ClientGone
                        gathered += message.get("body", b"")
                        more = message.get("more_body", False)
                        size_now = size + len(gathered)
                        if size_now > most:
                            raise document_too_large(most)
                        if len(gathered) >= _PIECE_BYTES or not more:
                            await asyncio.to_thread(put, bytes(gathered))
                            size = size_now
                            gathered.clear()
            except TimeoutError:
                raise RequestTimeout("the file did not arrive in time") from None
            await asyncio.to_thread(settle)
        return Arrived(path, size, digest.hexdigest())


class _Kept:
    """A `send` that keeps an answer instead of sending it: those to the first question are short."""

    def __init__(self) -> None:
        self._messages: list[Message] = []

    async def __call__(self, message: Message) -> None:
        self._messages.append(message)

    async def replay(self, send: Callable[[Message], Awaitable[None]]) -> None:
        """Send it after all."""
        for message in self._messages:
            await send(message)


async def _no_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}
