"""Git itself talks to a real server."""

from __future__ import annotations

import base64
import gzip
import http.client
import logging
import os
import random
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kbgit.base import BaseKey
from kbgit.home import Home
from kbgit.web.asgi import Receive, Scope, Send, header
from kbgit.web.edge import Edge
from kbgit.web.git_http import GitHttp
from tests.web.serving import (
    NOTES,
    RUNBOOKS,
    SERVER_ENVIRONMENT,
    Answer,
    Client,
    People,
    WorkTree,
    git_children,
    git_url,
    published,
    running,
    until,
)


@dataclass
class GitServer:
    """A server of Git alone."""

    url: str
    home: Home
    noticed: list[BaseKey]
    encodings: set[str | None]

    def head(self, key: BaseKey = RUNBOOKS) -> str | None:
        return self.home.repository(key).head()

    def objects(self) -> int:
        """How many files of objects the runbooks have, quarantined ones included."""
        return sum(path.is_file() for path in (RUNBOOKS.repository_path(self.home.repositories) / "objects").rglob("*"))


@pytest.fixture
def small_home(home: Home) -> Home:
    """Pushes of at most 4 MB, and no patience."""
    return replace(home, settings=replace(home.settings, push_max_mb=4, git_timeout_seconds=2.0))


def serving(home: Home, people: People) -> Iterator[GitServer]:
    noticed: list[BaseKey] = []
    encodings: set[str | None] = set()
    git = GitHttp(home, people.accounts, noticed.append, SERVER_ENVIRONMENT)

    async def noted(scope: Scope, receive: Receive, send: Send) -> None:
        encodings.update(header(scope, name) for name in (b"content-encoding", b"transfer-encoding"))
        await git(scope, receive, send)

    with running(Edge(noted)) as url:
        yield GitServer(url, home, noticed, encodings)


@pytest.fixture
def server(home: Home, people: People) -> Iterator[GitServer]:
    yield from serving(home, people)


@pytest.fixture
def small_server(small_home: Home, people: People) -> Iterator[GitServer]:
    yield from serving(small_home, people)


def noise(count: int, seed: int = 1) -> bytes:
    """Bytes that do not compress."""
    return random.Random(seed).randbytes(count)


def basic(token: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"anyone:{token}".encode()).decode()}


ADVERTISEMENT = "/git/platform/runbooks.git/info/refs?service=git-upload-pack"


# What works


def test_a_push_is_published_and_its_receipt_is_shown(server: GitServer, people: People, work_tree: WorkTree) -> None:
    head = work_tree.write({"rollback.md": published("Rollback")})
    pushed = work_tree.git("push", git_url(server.url, people["max"]), "main")
    assert server.head() == head
    assert f"knowledge:runbooks/rollback@{head}" in pushed.output
    assert server.noticed == [RUNBOOKS]
    publications = server.home.repository(RUNBOOKS).log_entries()
    assert "Kbgit-Pushed-By: max\nKbgit-Via: push\n" in publications[-1].message


def test_a_clone_gives_what_was_pushed(
    server: GitServer, people: People, work_tree: WorkTree, published_head: str
) -> None:
    copy = work_tree.path.parent / "copy"
    work_tree.git("clone", "--quiet", git_url(server.url, people["ada"]), str(copy))
    assert WorkTree(copy).git("rev-parse", "HEAD").output.strip() == published_head
    assert (copy / "deploy.md").read_text() == published("Deploy")


@pytest.mark.parametrize("version", ["0", "1", "2"])
def test_every_version_of_the_protocol_fetches(
    version: str, server: GitServer, people: People, work_tree: WorkTree, published_head: str
) -> None:
    listed = work_tree.git("-c", f"protocol.version={version}", "ls-remote", git_url(server.url, people["ada"]))
    assert f"{published_head}\trefs/heads/main" in listed.output
    assert "refs/kbgit" not in listed.output


def test_version_2_is_really_spoken(server: GitServer, people: People, published_head: str) -> None:
    answer = Client(server.url).get(ADVERTISEMENT, basic(people["ada"]) | {"Git-Protocol": "version=2"})
    assert answer.status == 200
    assert b"version 2" in answer.body
    assert answer.headers["cache-control"].startswith("no-cache")


def test_a_chunked_push_of_megabytes_arrives_whole(server: GitServer, people: People, work_tree: WorkTree) -> None:
    head = work_tree.write({"deploy.md": published("Deploy"), "picture.bin": noise(5_000_000)})
    work_tree.git("push", "--quiet", git_url(server.url, people["ada"]), "main")
    assert server.head() == head
    assert "chunked" in server.encodings
    copy = work_tree.path.parent / "copy"
    work_tree.git("clone", "--quiet", git_url(server.url, people["ada"]), str(copy))
    assert (copy / "picture.bin").read_bytes() == noise(5_000_000)


def test_a_fetch_whose_request_is_compressed_is_answered(
    server: GitServer, people: People, work_tree: WorkTree, published_head: str
) -> None:
    # Git compresses a request of more than a kilobyte: here, what it says of a hundred branches of its own,
    # newer than what it has in common with the server.
    copy = WorkTree(work_tree.path.parent / "copy")
    work_tree.git("clone", "--quiet", git_url(server.url, people["ada"]), str(copy.path))
    branches = [f"commit refs/heads/b{n}\ncommitter x <x@x> {2**31 + n} +0000\ndata 0\n\n" for n in range(100)]
    copy.git("fast-import", "--quiet", stdin="".join(branches))
    newer = work_tree.write({"second.md": published("Second")})
    work_tree.git("push", "--quiet", git_url(server.url, people["ada"]), "main")
    fetched = copy.git("-c", "protocol.version=0", "fetch", "--quiet", "origin")
    assert fetched.code == 0
    assert copy.git("rev-parse", "origin/main").output.strip() == newer
    assert "gzip" in server.encodings


def test_a_compressed_request_is_unpacked(server: GitServer, people: People, published_head: str) -> None:
    want = f"0032want {published_head}\n00000009done\n".encode()
    headers = basic(people["ada"]) | {"Content-Type": "application/x-git-upload-pack-request"}
    plain = Client(server.url).request("POST", "/git/platform/runbooks.git/git-upload-pack", want, headers)
    packed = Client(server.url).request(
        "POST",
        "/git/platform/runbooks.git/git-upload-pack",
        gzip.compress(want),
        headers | {"Content-Encoding": "gzip"},
    )
    assert plain.status == packed.status == 200
    assert plain.body.startswith(b"0008NAK\nPACK")
    assert packed.body == plain.body


def test_a_personal_space_is_addressed_with_a_tilde(server: GitServer, people: People, work_tree: WorkTree) -> None:
    work_tree.write({"idea.md": published("Idea")})
    work_tree.git("push", "--quiet", git_url(server.url, people["ada"], "~ada/notes.git"), "main")
    assert server.head(NOTES) is not None


def test_a_bearer_token_works_too(server: GitServer, people: People, published_head: str) -> None:
    assert Client(server.url, people["ada"]).get(ADVERTISEMENT).status == 200


# Refusals by the hook


def test_a_refused_push_shows_every_problem_and_leaves_nothing(
    server: GitServer, people: People, work_tree: WorkTree, published_head: str
) -> None:
    before = server.objects()
    work_tree.write({"a.md": "---\ntitle: One: two\n---\n", "b.md": "---\nstatus: maybe\n---\n"})
    pushed = work_tree.git("push", git_url(server.url, people["max"]), "main", check=False)
    assert pushed.code != 0
    assert "a.md:2" in pushed.output
    assert "b.md:2" in pushed.output
    assert server.head() == published_head
    assert server.objects() == before


def test_published_history_cannot_be_rewritten(
    server: GitServer, people: People, work_tree: WorkTree, published_head: str
) -> None:
    work_tree.git("commit", "--quiet", "--amend", "--message", "other")
    pushed = work_tree.git("push", "--force", git_url(server.url, people["ada"]), "main", check=False)
    assert "published history cannot be rewritten" in pushed.output
    deleted = work_tree.git("push", git_url(server.url, people["ada"]), ":main", check=False)
    assert deleted.code != 0
    assert server.head() == published_head


def test_rights_reach_the_hook(server: GitServer, people: People, work_tree: WorkTree, published_head: str) -> None:
    work_tree.write({"base.yaml": "name: Mine\n"})
    by_member = work_tree.git("push", git_url(server.url, people["max"]), "main", check=False)
    assert by_member.code != 0
    assert "base:admin" in by_member.output
    assert work_tree.git("push", git_url(server.url, people["ada"]), "main").code == 0


def test_the_server_is_closed_to_pushes_when_a_hook_would_be_skipped(
    server: GitServer, people: People, work_tree: WorkTree, published_head: str
) -> None:
    (server.home.hooks / "pre-receive").chmod(0o644)
    work_tree.write({"a.md": "---\ntitle: One: two\n---\n"})
    pushed = work_tree.git("push", git_url(server.url, people["ada"]), "main", check=False)
    assert pushed.code != 0
    assert "not executable" in pushed.output
    assert server.head() == published_head


def test_a_repository_that_names_other_hooks_gets_ours(
    server: GitServer, people: People, work_tree: WorkTree, published_head: str
) -> None:
    server.home.repository(RUNBOOKS).configure({"core.hooksPath": "/nowhere"})
    work_tree.write({"a.md": "---\ntitle: One: two\n---\n"})
    pushed = work_tree.git("push", git_url(server.url, people["ada"]), "main", check=False)
    assert "a.md:2" in pushed.output
    assert server.head() == published_head


def test_hooks_judge_by_the_settings_of_the_server(home: Home, people: People, work_tree: WorkTree) -> None:
    strict = replace(home, settings=replace(home.settings, item_max_kb=2))
    for server in serving(strict, people):
        work_tree.write({"long.md": published("Long", "word " * 1000)})
        pushed = work_tree.git("push", git_url(server.url, people["ada"]), "main", check=False)
        assert pushed.code != 0
        assert "long.md" in pushed.output


# Who may


def test_without_a_token_git_is_asked_for_one(server: GitServer) -> None:
    answer = Client(server.url).get(ADVERTISEMENT)
    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith('Basic realm="kbgit"')


@pytest.mark.parametrize("value", ["Basic !!!", "Basic", "Digest x", "Bearer", "Bearer kbgit_000000000000_" + "A" * 43])
def test_a_wrong_credential_is_refused(value: str, server: GitServer) -> None:
    assert Client(server.url).get(ADVERTISEMENT, {"Authorization": value}).status == 401


def test_git_says_that_the_token_is_wrong(server: GitServer, work_tree: WorkTree) -> None:
    ran = work_tree.git("ls-remote", git_url(server.url, "wrong"), check=False)
    assert ran.code != 0
    assert "the token is missing, malformed, expired, revoked or unknown" in ran.output


def test_a_revoked_token_ends_at_once(server: GitServer, people: People, published_head: str) -> None:
    assert Client(server.url).get(ADVERTISEMENT, basic(people["max"])).status == 200
    people.accounts.revoke_token(people.ids["max"], "test")
    assert Client(server.url).get(ADVERTISEMENT, basic(people["max"])).status == 401


def test_a_token_in_the_address_is_refused(server: GitServer, people: People) -> None:
    answer = Client(server.url, people["ada"]).get(f"{ADVERTISEMENT}&access_token={people['ada']}")
    assert answer.status == 401
    assert b"addresses are logged" in answer.body


@pytest.mark.parametrize("who", ["vera", "reader"])
def test_who_may_read_but_not_fetch_is_told_why(
    who: str, server: GitServer, people: People, published_head: str
) -> None:
    answer = Client(server.url).get(ADVERTISEMENT, basic(people[who]))
    assert answer.status == 403
    assert answer.headers["content-type"].startswith("text/plain")
    assert {"vera": b"viewer", "reader": b"item:write"}[who] in answer.body


def test_git_shows_a_viewer_why(server: GitServer, people: People, work_tree: WorkTree, published_head: str) -> None:
    ran = work_tree.git("clone", git_url(server.url, people["vera"]), "copy", check=False)
    assert "you may read team:platform/runbooks, but not fetch it: the role viewer" in ran.output


def test_a_viewer_cannot_push(server: GitServer, people: People, work_tree: WorkTree, published_head: str) -> None:
    work_tree.write({"more.md": published("More")})
    pushed = work_tree.git("push", git_url(server.url, people["vera"]), "main", check=False)
    assert "you may read team:platform/runbooks, but not push to it" in pushed.output
    assert server.head() == published_head


def test_a_hidden_base_is_not_told_from_one_that_is_not_there(
    server: GitServer, people: People, published_head: str
) -> None:
    hidden = [
        ("olga", "platform/runbooks.git"),
        ("memory", "platform/runbooks.git"),
        ("elsewhere", "platform/runbooks.git"),
        ("max", "~ada/notes.git"),
    ]
    for service in ("git-upload-pack", "git-receive-pack"):
        for who, path in hidden:
            answers = [
                Client(server.url).get(f"/git/{address}/info/refs?service={service}", basic(people[who]))
                for address in (path, path.replace(".git", "x.git"))
            ]
            assert answers[0].status == answers[1].status == 404
            name = path.removesuffix(".git").rpartition("/")[2].encode()
            assert answers[0].body == answers[1].body.replace(name + b"x", name)


# What is not served


@pytest.mark.parametrize(
    "path",
    [
        "HEAD",
        "config",
        "description",
        "info/refs",
        "info/refs?service=git-upload-archive",
        "info/refs?service=",
        "info/refs?service=git-upload-pack&service=git-upload-pack",
        "objects/info/packs",
        "objects/info/alternates",
        "packed-refs",
        "refs/heads/main",
        "git-upload-archive",
        "git-upload-pack/",
        "",
    ],
)
def test_no_file_of_a_repository_is_served(path: str, server: GitServer, people: People, published_head: str) -> None:
    answer = Client(server.url).get(f"/git/platform/runbooks.git/{path}", basic(people["ada"]))
    assert answer.status == 404
    assert published_head.encode() not in answer.body


@pytest.mark.parametrize(
    "address",
    [
        "../platform/runbooks.git",
        "platform/../platform/runbooks.git",
        "platform/%2e%2e%2fplatform%2frunbooks.git",
        "..%2f..%2f/runbooks.git",
        "platform/runbooks",
        "platform/RUNBOOKS.git",
        "platform/runbooks.git.git",
        "~~ada/notes.git",
        "team:platform/runbooks.git",
        "platform/run%00books.git",
        "platform/runbooks.git%0a",
        "%ff/runbooks.git",
    ],
)
def test_odd_addresses_lead_nowhere(address: str, server: GitServer, people: People, published_head: str) -> None:
    answer = Client(server.url).get(f"/git/{address}/info/refs?service=git-upload-pack", basic(people["ada"]))
    assert answer.status == 404


def test_a_wrong_method_is_told_the_right_one(server: GitServer, people: People) -> None:
    answer = Client(server.url).request("DELETE", ADVERTISEMENT, headers=basic(people["ada"]))
    assert (answer.status, answer.headers["allow"]) == (405, "GET")
    answer = Client(server.url).get("/git/platform/runbooks.git/git-receive-pack", basic(people["ada"]))
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


def test_a_wrong_content_type_is_refused(server: GitServer, people: People, published_head: str) -> None:
    answer = Client(server.url).request(
        "POST", "/git/platform/runbooks.git/git-upload-pack", b"0000", basic(people["ada"])
    )
    assert answer.status == 415


# Limits


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
