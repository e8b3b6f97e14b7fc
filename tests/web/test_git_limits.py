"""What a client of Git can make a server do, at most: size, time, how many at once, and what is left when it goes."""

from __future__ import annotations

import gzip
import http.client
import logging
import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kbgit.home import Home
from kbgit.web.edge import Edge
from kbgit.web.git_http import GitHttp
from tests.web.git_serving import ADVERTISEMENT, GitServer, basic, noise, serving
from tests.web.serving import (
    SERVER_ENVIRONMENT,
    Answer,
    Client,
    People,
    WorkTree,
    git_children,
    git_url,
    running,
    until,
)


@pytest.fixture
def small_home(home: Home) -> Home:
    """Pushes of at most 4 MB, and no patience."""
    return replace(home, settings=replace(home.settings, push_max_mb=4, git_timeout_seconds=2.0))


@pytest.fixture
def server(home: Home, people: People) -> Iterator[GitServer]:
    yield from serving(home, people)


@pytest.fixture
def small_server(small_home: Home, people: People) -> Iterator[GitServer]:
    yield from serving(small_home, people)


def push_body(server: GitServer, people: People, body: object, headers: dict[str, str], *, chunked: bool) -> Answer:
    return Client(server.url).request(
        "POST",
        "/git/platform/runbooks.git/git-receive-pack",
        body,
        basic(people["ada"]) | {"Content-Type": "application/x-git-receive-pack-request"} | headers,
        chunked=chunked,
    )


def test_a_push_that_announces_too_much_is_refused_unread(small_server: GitServer, people: People) -> None:
    answer = push_body(small_server, people, b"", {"Content-Length": str(10 * 1024 * 1024)}, chunked=False)
    assert answer.status == 413


def test_a_pack_over_the_limit_is_refused_in_git_s_own_words(
    small_server: GitServer, people: People, work_tree: WorkTree, published_head: str
) -> None:
    work_tree.write({"picture.bin": noise(4_500_000)})
    pushed = work_tree.git("push", git_url(small_server.url, people["ada"]), "main", check=False)
    assert pushed.code != 0
    assert "maximum allowed size" in pushed.output
    assert small_server.head() == published_head


def test_a_chunked_push_far_over_the_limit_is_cut(
    small_server: GitServer, people: People, work_tree: WorkTree, published_head: str
) -> None:
    before = small_server.objects()
    work_tree.write({"picture.bin": noise(12_000_000)})
    pushed = work_tree.git("push", git_url(small_server.url, people["ada"]), "main", check=False)
    assert pushed.code != 0
    assert small_server.head() == published_head
    assert small_server.objects() == before


def test_a_push_without_end_is_cut(small_server: GitServer, people: People, published_head: str) -> None:
    command = b"0" * 40 + b" " + b"1" * 40 + b" refs/heads/main\0report-status side-band-64k"
    head = b"%04x%s0000PACK\0\0\0\2\0\0\0\1" % (len(command) + 4, command)
    zeros = (b"\0" * 65536 for _ in range(1000))
    answer = push_body(small_server, people, (piece for part in ([head], zeros) for piece in part), {}, chunked=True)
    assert answer.status in (200, 413)
    assert small_server.head() == published_head


@pytest.mark.parametrize("service", ["git-upload-pack", "git-receive-pack"])
def test_a_gzip_bomb_is_cut(service: str, small_server: GitServer, people: People) -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    assert len(bomb) < 100_000
    try:
        answer = Client(small_server.url).request(
            "POST",
            f"/git/platform/runbooks.git/{service}",
            bomb,
            basic(people["ada"]) | {"Content-Type": f"application/x-{service}-request", "Content-Encoding": "gzip"},
        )
    except http.client.IncompleteRead:
        return  # Git had begun to answer the first zeros when the rest went over the limit
    assert answer.status in (200, 413)


def test_an_unknown_encoding_is_refused(server: GitServer, people: People) -> None:
    for body, chunked in ((b"0000", False), (iter([b"0000"]), True)):
        assert push_body(server, people, body, {"Content-Encoding": "br"}, chunked=chunked).status == 415


def test_a_client_that_stands_still_is_ended(small_server: GitServer, people: People) -> None:
    address = urlsplit(small_server.url)
    with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
        connection.sendall(_open_push(address.netloc, people))
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 504")


def test_a_client_that_goes_away_takes_its_git_with_it(
    server: GitServer, people: People, caplog: pytest.LogCaptureFixture
) -> None:
    address = urlsplit(server.url)
    with caplog.at_level(logging.INFO, "kbgit.git"):
        with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
            connection.sendall(_open_push(address.netloc, people))
            until(lambda: bool(git_children()))
            environment = Path(f"/proc/{git_children()[0]}/environ").read_text().split("\0")
            modest = min(os.getpriority(os.PRIO_PROCESS, 0) + 5, 19)
            until(lambda: os.getpriority(os.PRIO_PROCESS, git_children()[0]) == modest)
            assert os.getsid(git_children()[0]) == os.getsid(0)  # in one of its own, niceness would not count
            assert os.getpgid(git_children()[0]) == git_children()[0]
        until(lambda: "the client went away" in caplog.messages)
    assert git_children() == []
    assert {"KBGIT_USER=ada", "KBGIT_VIA=push", "KBGIT_RIGHTS=administer delete"} < set(environment)
    for secret in ("for the server alone", "/another/", people["ada"], "HTTP_AUTHORIZATION"):
        assert secret not in "".join(environment)


def test_more_at_once_than_allowed_are_asked_to_come_back(home: Home, people: People) -> None:
    git = GitHttp(home, people.accounts, lambda _: None, SERVER_ENVIRONMENT, most_at_once=1)
    with running(Edge(git)) as url:
        address = urlsplit(url)
        with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
            connection.sendall(_open_push(address.netloc, people))
            until(lambda: bool(git_children()))
            answer = Client(url).get(ADVERTISEMENT, basic(people["ada"]))
            assert (answer.status, b"overloaded" in answer.body) == (503, True)
        until(lambda: Client(url).get(ADVERTISEMENT, basic(people["ada"])).status == 200)


def _open_push(host: str, people: People) -> bytes:
    """The beginning of a push whose body does not come."""
    return (
        f"POST /git/platform/runbooks.git/git-receive-pack HTTP/1.1\r\nHost: {host}\r\n"
        f"Authorization: {basic(people['ada'])['Authorization']}\r\nTransfer-Encoding: chunked\r\n"
        "Content-Type: application/x-git-receive-pack-request\r\n\r\n2\r\n00\r\n"
    ).encode()
