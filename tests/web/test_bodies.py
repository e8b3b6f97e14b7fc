"""Bodies that do not come, or not whole."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbgit.errors import InvalidRequest, TooLarge
from kbgit.web.asgi import Receive, Scope, Send, header, respond
from kbgit.web.bodies import Bodies, Gunzip
from tests.web.serving import Answer, Client, running


@pytest.fixture
def reached() -> list[bytes]:
    """The bodies that came through."""
    return []


@pytest.fixture(params=["h11", "httptools"])
def url(reached: list[bytes], request: pytest.FixtureRequest) -> Iterator[str]:
    """A server, with each of the parsers of HTTP that it may find installed."""
    pytest.importorskip(request.param)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        assert message["more_body"] is False
        assert header(scope, b"content-encoding") is None
        assert header(scope, b"transfer-encoding") is None
        assert int(header(scope, b"content-length") or 0) == len(message["body"])
        reached.append(message["body"])
        await respond(send, 200, b"", "text/plain")

    with running(Bodies(application, limit=1000, seconds=0.3), request.param) as url:
        yield url


def raw(url: str, request: bytes) -> Answer:
    """What is answered to bytes sent by hand."""
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), timeout=20) as connection:
        connection.sendall(request)
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        return Answer(answer.status, dict(answer.getheaders()), answer.read())


@pytest.mark.parametrize("head", [b"Content-Length: 10", b"Transfer-Encoding: chunked"])
def test_a_body_that_does_not_come_is_not_waited_for(head: bytes, url: str, reached: list[bytes]) -> None:
    answer = raw(url, b"POST / HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n\r\n")
    assert (answer.status, answer.error) == (408, "request_timeout")
    assert reached == []


def test_a_body_that_breaks_off_goes_nowhere(url: str, reached: list[bytes]) -> None:
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), timeout=20) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
    assert Client(url).request("POST", "/", b"whole").status == 200
    assert reached == [b"whole"]


@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001, 70_000])
def test_the_limit_is_exact(size: int, url: str, reached: list[bytes]) -> None:
    body = b"a" * size
    pieces = [body[start : start + 300] for start in range(0, size, 300)]
    packed = {"Content-Encoding": "gzip"}
    answers = [
        Client(url).request("POST", "/", body),
        Client(url).request("POST", "/", iter(pieces), chunked=True),
        Client(url).request("POST", "/", gzip.compress(body), packed),
    ]
    assert [answer.status for answer in answers] == [200 if size <= 1000 else 413] * 3
    assert reached == ([body] * 3 if size <= 1000 else [])
    if size > 1000:
        assert all(json.loads(answer.body)["error"]["details"] == {"limit": 1000} for answer in answers)


@given(st.binary(max_size=5000), st.integers(1, 6000), st.lists(st.integers(0, 200), max_size=50))
def test_a_gzip_stream_in_any_pieces_is_what_it_was_or_too_large(plain: bytes, limit: int, cuts: list[int]) -> None:
    packed = gzip.compress(plain)
    gunzip = Gunzip(limit)
    expanded = b""
    try:
        for cut in (*cuts, len(packed)):
            piece, packed = packed[:cut], packed[cut:]
            expanded += gunzip.expand(piece)
        gunzip.finish()
    except TooLarge:
        assert len(plain) > limit
        assert len(expanded) <= limit
    else:
        assert expanded == plain
        assert len(plain) <= limit


@given(st.binary(max_size=200))
def test_any_bytes_are_a_gzip_stream_or_refused(packed: bytes) -> None:
    gunzip = Gunzip(1000)
    try:
        gunzip.expand(packed)
        gunzip.finish()
    except (InvalidRequest, TooLarge):
        return
    assert packed.startswith(b"\x1f\x8b")
