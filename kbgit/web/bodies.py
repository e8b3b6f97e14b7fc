"""Request bodies: whole, bounded and unpacked, before a thread is spent on the request.

What lies behind this layer runs on a pool of threads, so a client that sends slowly, or never ends, must not get that
far. Behind it every body has a Content-Length and no encoding: the limit holds for chunked and for compressed bodies
alike, and none arrives empty for want of a length (WSGI reads nothing from a chunked body unless told otherwise).
"""

from __future__ import annotations

import asyncio
import zlib

from kbgit.errors import InvalidRequest, KbgitError, TooLarge
from kbgit.web.asgi import Application, Message, Receive, Scope, Send, header, respond_error
from kbgit.web.errors import RequestTimeout, UnsupportedMediaType

_GZIP = 16 + zlib.MAX_WBITS
_REPLACED = frozenset({b"content-length", b"content-encoding", b"transfer-encoding"})


class ClientGone(Exception):
    """The connection closed before the request was complete: there is nobody to answer."""


class Gunzip:
    """A gzip stream, unpacked piece by piece; `expand` never holds more than `limit` bytes beyond what it returned."""

    def __init__(self, limit: int) -> None:
        self._stream = zlib.decompressobj(_GZIP)
        self._left = limit
        self._limit = limit

    def expand(self, packed: bytes) -> bytes:
        """What `packed` adds. Raises `InvalidRequest` if it is no gzip, `TooLarge` beyond the limit."""
        try:
            plain = self._stream.decompress(packed, self._left + 1)
        except zlib.error:
            raise InvalidRequest("the body is not in the gzip format that its Content-Encoding names") from None
        if self._stream.unused_data:
            raise InvalidRequest("the gzip body has bytes after its end")
        self._left -= len(plain)
        if self._left < 0:
            raise too_large(self._limit)
        return plain

    def finish(self) -> None:
        """Raises `InvalidRequest` if the stream is incomplete."""
        if not self._stream.eof:
            raise InvalidRequest("the gzip body ends too early")


def too_large(limit: int) -> TooLarge:
    """The error for a body of more than `limit` bytes."""
    return TooLarge(f"the body is larger than {limit} bytes after decompression", {"limit": limit})


def is_gzip(scope: Scope) -> bool:
    """Whether the body is compressed with gzip. Raises `UnsupportedMediaType` for any other encoding."""
    encoding = (header(scope, b"content-encoding") or "identity").strip().lower()
    if encoding not in ("identity", "gzip", "x-gzip"):
        raise UnsupportedMediaType("a body may be plain or in gzip", {"content_encoding": encoding[:100]})
    return encoding != "identity"


def announced_length(scope: Scope) -> int | None:
    """The Content-Length, which the server has checked; None where there is none."""
    length = header(scope, b"content-length")
    return int(length) if length is not None and length.isdecimal() else None


class Bodies:
    """Wraps an ASGI application. `limit` is in bytes, `seconds` is how long a body may take to arrive."""

    def __init__(self, application: Application, limit: int, seconds: float = 30.0) -> None:
        self._application = application
        self._limit = limit
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body, then pass the request on."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        try:
            body = await self._whole_body(scope, receive)
        except KbgitError as error:
            await respond_error(send, error)
            return
        except ClientGone:
            return
        headers = [row for row in scope["headers"] if row[0] not in _REPLACED]
        if body:
            headers.append((b"content-length", str(len(body)).encode()))
        await self._application({**scope, "headers": headers}, _Replay(body, receive), send)

    async def _whole_body(self, scope: Scope, receive: Receive) -> bytes:
        gunzip = Gunzip(self._limit) if is_gzip(scope) else None
        if (announced_length(scope) or 0) > self._limit:
            raise too_large(self._limit)
        body = bytearray()
        more = True
        try:
            async with asyncio.timeout(self._seconds):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGone
                    piece = message.get("body", b"")
                    body += gunzip.expand(piece) if gunzip else piece
                    if len(body) > self._limit:
                        raise too_large(self._limit)
                    more = message.get("more_body", False)
        except TimeoutError:
            raise RequestTimeout(f"the body did not arrive within {self._seconds:g} s") from None
        if gunzip:
            gunzip.finish()
        return bytes(body)


class _Replay:
    """A `receive` that hands out a body already read, then whatever comes next (the client's going away)."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}
