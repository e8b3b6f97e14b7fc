"""Flask on threads: what goes in and comes out is what the application reads and says, whole or piece by piece."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest

from kbgit.web.asgi import Message
from kbgit.web.bodies import Bodies
from kbgit.web.wsgi import Threads
from tests.web.serving import running

Start = Callable[..., object]
Environ = dict[str, Any]
PIECE = b"x" * 300_000


def scope() -> dict[str, Any]:
    return {
        "type": "http",
        "method": "POST",
        "path": "/a b",
        "query_string": b"q=1",
        "http_version": "1.1",
        "headers": [(b"content-type", b"text/plain"), (b"x-one", b"two")],
        "client": ("192.0.2.1", 5),
    }


def ask(
    application: Callable[[Environ, Start], Iterable[bytes]],
    body: bytes = b"",
    *,
    fails: bool = False,
    leaves: bool = False,
    more: bool = False,
) -> list[Message]:
    """The messages of one answer.

    `fails`: the second cannot be sent. `leaves`: the client goes away when it has the head, which the server tells to nobody
    who does not ask. `more`: the body is not all there.
    """
    sent: list[Message] = []

    async def scene() -> None:
        left = asyncio.Event()
        coming: list[Message] = [{"type": "http.request", "body": body, "more_body": more}]

        async def receive() -> Message:
            if coming:
                return coming.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if fails and sent:
                raise ConnectionResetError
            sent.append(message)
            if leaves:
                left.set()

        await threads(scope(), receive, send)

    threads = Threads(application, workers=2)
    try:
        asyncio.run(scene())
    finally:
        threads.executor.shutdown()
    return sent


def test_an_application_sees_the_request_and_its_whole_body() -> None:
    seen: Environ = {}

    def application(environ: Environ, start: Start) -> list[bytes]:
        seen.update(environ, body=environ["wsgi.input"].read(), thread=threading.current_thread())
        start("200 OK", [("Content-Type", "text/plain"), ("X-Two", "three")])
        return [b"one ", b"two"]

    head, body = ask(application, b"first second")
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


def test_an_answer_that_cannot_be_sent_is_closed() -> None:
    closed: list[str] = []
    with pytest.raises(ConnectionResetError):
        ask(large(closed, 20), fails=True)
    assert closed == ["yes"]


def test_of_an_answer_that_nobody_waits_for_any_more_no_more_is_made() -> None:
    closed: list[str] = []
    head, *bodies = ask(large(closed, 20), leaves=True)
    assert head["status"] == 200
    assert len(bodies) <= 1
    assert closed == ["yes"]


@pytest.mark.parametrize("http", ["h11", "httptools"])
def test_an_answer_without_end_ends_when_its_client_goes_away(http: Literal["h11", "httptools"]) -> None:
    closed = threading.Event()

    def application(_: Environ, start: Start) -> Iterator[bytes]:
        start("200 OK", [])

        def body() -> Iterator[bytes]:
            try:
                while True:
                    yield PIECE
            finally:
                closed.set()

        return body()

    threads = Threads(application, workers=2)
    with running(Bodies(threads, limit=1000), http) as url:
        address = urlsplit(url)
        connection = socket.create_connection((address.hostname, address.port), timeout=20)
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
        assert not closed.is_set()
        connection.close()
        assert closed.wait(20)
    threads.executor.shutdown()


def test_an_answer_that_a_thread_is_at_when_its_request_is_called_off_is_closed_when_the_thread_is_done() -> None:
    closed: list[str] = []
    working, finish = threading.Event(), threading.Event()

    def application(_: Environ, start: Start) -> Iterator[bytes]:
        start("200 OK", [])

        def body() -> Iterator[bytes]:
            try:
                yield PIECE * 4
                working.set()
                assert finish.wait(20)
                yield PIECE * 4
                closed.append("never")
            finally:
                closed.append("yes")

        return body()

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(_: Message) -> None:
        pass

    async def scene() -> None:
        request = asyncio.create_task(threads(scope(), receive, send))
        assert await asyncio.to_thread(working.wait, 20)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        assert not closed
        finish.set()

    threads = Threads(application, workers=2)
    asyncio.run(scene())
    threads.executor.shutdown()
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


def test_that_an_abandoned_answer_cannot_be_closed_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    class Pieces:
        def __iter__(self) -> Iterator[bytes]:
            return iter([PIECE] * 20)

        def close(self) -> None:
            raise OSError

    def application(_: Environ, start: Start) -> Pieces:
        start("200 OK", [])
        return Pieces()

    with pytest.raises(ConnectionResetError):
        ask(application, fails=True)
    assert "could not be closed" in caplog.text


def test_what_is_written_the_old_way_comes_where_it_is_written() -> None:
    def application(_: Environ, start: Start) -> Iterator[bytes]:
        write = start("200 OK", [])
        assert callable(write)
        write(b"first ")

        def body() -> Iterator[bytes]:
            yield b"second "
            write(b"third ")
            yield b"fourth "
            write(b"last")

        return body()

    assert ask(application)[-1]["body"] == b"first second third fourth last"


def test_a_head_can_be_taken_back_until_it_is_sent() -> None:
    def application(_: Environ, start: Start) -> Iterator[bytes]:
        start("200 OK", [])

        def body() -> Iterator[bytes]:
            try:
                raise RuntimeError("broken")
            except RuntimeError:
                start("500 OH NO", [("X-Two", "three")], sys.exc_info())
                yield b"sorry"

        return body()

    head, body = ask(application)
    assert (head["status"], head["headers"], body["body"]) == (500, [(b"x-two", b"three")], b"sorry")


def test_a_failure_that_comes_too_late_for_another_head_breaks_the_answer_off() -> None:
    closed: list[str] = []

    def application(_: Environ, start: Start) -> Iterator[bytes]:
        start("200 OK", [])

        def body() -> Iterator[bytes]:
            try:
                yield PIECE * 4
                try:
                    raise RuntimeError("broken")
                except RuntimeError:
                    start("500 OH NO", [], sys.exc_info())
                    yield b"as if it were whole"
            finally:
                closed.append("yes")

        return body()

    with pytest.raises(RuntimeError, match="broken"):
        ask(application)
    assert closed == ["yes"]


def test_a_part_of_a_body_is_never_taken_for_all_of_it() -> None:
    called: list[Environ] = []

    def application(environ: Environ, start: Start) -> list[bytes]:
        called.append(environ)
        start("200 OK", [])
        return []

    with pytest.raises(AssertionError):
        ask(application, b"half", more=True)
    assert not called


def test_what_the_request_carries_along_is_there_in_every_thread_that_works_for_it() -> None:
    note: ContextVar[str] = ContextVar("note", default="")
    seen: list[str] = []

    def application(_: Environ, start: Start) -> Iterator[bytes]:
        start("200 OK", [])
        seen.append(note.get())
        note.set("changed")

        def body() -> Iterator[bytes]:
            for _ in range(3):
                seen.append(note.get())
                yield PIECE * 4

        return body()

    note.set("of the request")
    ask(application)
    assert seen == ["of the request", "changed", "changed", "changed"]
    assert note.get() == "of the request"


def test_an_empty_answer_is_an_answer() -> None:
    def application(_: Environ, start: Start) -> list[bytes]:
        start("204 NO CONTENT", [])
        return []

    assert [(m.get("status"), m.get("body")) for m in ask(application)] == [(204, None), (None, b"")]
