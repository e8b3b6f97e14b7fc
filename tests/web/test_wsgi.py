"""Flask on threads: what goes in and comes out is what the application reads and says, whole or piece by piece."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from kbgit.web.asgi import Message
from kbgit.web.wsgi import Threads

Start = Callable[..., object]
Environ = dict[str, Any]
PIECE = b"x" * 300_000


def scope(path: str = "/a b", query: bytes = b"q=1") -> dict[str, Any]:
    return {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": query,
        "http_version": "1.1",
        "headers": [(b"content-type", b"text/plain"), (b"x-one", b"two")],
        "client": ("192.0.2.1", 5),
    }


def ask(application: Callable[[Environ, Start], Iterable[bytes]], *body: bytes, fails: bool = False) -> list[Message]:
    """The messages of one answer. `fails`: the client is gone when the second is sent."""
    sent: list[Message] = []
    pieces = list(body or (b"",))

    async def receive() -> Message:
        piece = pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    async def send(message: Message) -> None:
        if fails and sent:
            raise ConnectionResetError
        sent.append(message)

    threads = Threads(application, workers=2)
    try:
        asyncio.run(threads(scope(), receive, send))
    finally:
        threads.executor.shutdown()
    return sent


def test_an_application_sees_the_request_and_its_whole_body() -> None:
    seen: Environ = {}

    def application(environ: Environ, start: Start) -> list[bytes]:
        seen.update(environ, body=environ["wsgi.input"].read(), thread=threading.current_thread())
        start("200 OK", [("Content-Type", "text/plain"), ("X-Two", "three")])
        return [b"one ", b"two"]

    head, body = ask(application, b"first ", b"second")
    assert (seen["REQUEST_METHOD"], seen["PATH_INFO"], seen["QUERY_STRING"]) == ("POST", "/a b", "q=1")
    assert (seen["CONTENT_TYPE"], seen["HTTP_X_ONE"], seen["REMOTE_ADDR"]) == ("text/plain", "two", "192.0.2.1")
    assert seen["body"] == b"first second"
    assert seen["thread"] is not threading.main_thread()
    assert head == {
        "type": "http.response.start",
        "status": 200,
        "headers": [(b"content-type", b"text/plain"), (b"x-two", b"three")],
    }
    assert body == {"type": "http.response.body", "body": b"one two"}


def test_a_small_answer_is_one_piece_and_closed() -> None:
    closed: list[str] = []

    class Pieces:
        def __iter__(self) -> Iterator[bytes]:
            return iter([b"a"] * 100)

        def close(self) -> None:
            closed.append("yes")

    def application(_: Environ, start: Start) -> Pieces:
        start("200 OK", [])
        return Pieces()

    assert [message.get("body") for message in ask(application)] == [None, b"a" * 100]
    assert closed == ["yes"]


def large(closed: list[str], pieces: int) -> Callable[[Environ, Start], Iterable[bytes]]:
    def application(_: Environ, start: Start) -> Iterator[bytes]:
        start("200 OK", [])

        def body() -> Iterator[bytes]:
            try:
                yield from [PIECE] * pieces
            finally:
                closed.append("yes")

        return body()

    return application


def test_a_large_answer_is_sent_piece_by_piece_and_never_whole_in_memory() -> None:
    closed: list[str] = []
    head, *bodies = ask(large(closed, 20))
    assert head["status"] == 200
    assert b"".join(message["body"] for message in bodies) == PIECE * 20
    assert max(len(message["body"]) for message in bodies) < 5 * len(PIECE)
    assert [message.get("more_body", False) for message in bodies] == [True] * (len(bodies) - 1) + [False]
    assert closed == ["yes"]


def test_an_answer_that_nobody_waits_for_any_more_is_closed() -> None:
    closed: list[str] = []
    with pytest.raises(ConnectionResetError):
        ask(large(closed, 20), fails=True)
    assert closed == ["yes"]


def test_an_answer_that_fails_before_its_head_is_closed_and_the_failure_told() -> None:
    closed: list[str] = []

    def application(_: Environ, start: Start) -> Iterator[bytes]:
        def body() -> Iterator[bytes]:
            try:
                yield b"something"
                raise RuntimeError("broken")
            finally:
                closed.append("yes")

        return body()

    with pytest.raises(RuntimeError, match="broken"):
        ask(application)
    assert closed == ["yes"]


def test_what_is_written_the_old_way_comes_first() -> None:
    def application(_: Environ, start: Start) -> list[bytes]:
        write = start("200 OK", [])
        assert callable(write)
        write(b"first ")
        return [b"second"]

    assert ask(application)[-1]["body"] == b"first second"


def test_an_empty_answer_is_an_answer() -> None:
    def application(_: Environ, start: Start) -> list[bytes]:
        start("204 NO CONTENT", [])
        return []

    assert [(m.get("status"), m.get("body")) for m in ask(application)] == [(204, None), (None, b"")]
