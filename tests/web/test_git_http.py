"""Git itself talks to a real server."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import replace

import pytest

from kbgit.home import Home
from tests.web.git_serving import ADVERTISEMENT, GitServer, basic, noise, serving
from tests.web.serving import (
    NOTES,
    RUNBOOKS,
    Client,
    People,
    WorkTree,
    git_url,
    published,
)


@pytest.fixture
def server(home: Home, people: People) -> Iterator[GitServer]:
    yield from serving(home, people)


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
