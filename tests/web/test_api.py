"""The JSON interface on a running server. Every answer is held to the OpenAPI document by the client."""

from __future__ import annotations

import gzip
import json
import logging
import socket
import sqlite3
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from kbgit.assemble import open_runtime
from kbgit.home import Home
from kbgit.web.server import application
from tests.web.conftest import Library, Template, copied_home
from tests.web.described import DescribedClient
from tests.web.serving import SERVER_ENVIRONMENT, Client, running, until

ITEMS = "/api/v1/knowledge/items"
SEARCH = "/api/v1/knowledge/search"
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def ada(library: Library) -> DescribedClient:
    return library.client("ada")


# What is answered


def test_a_search_finds_and_cites(library: Library) -> None:
    found = library.client("max").post(SEARCH, {"query": "ERR-1234"}).json
    first = found["results"][0]
    assert first["title"] == "Deployment"
    assert first["reference"] == f"knowledge:runbooks/deploy@{library.heads[1]}"
    assert found["freshness"]["runbooks"]["indexed"] == library.heads[1]


@pytest.mark.parametrize("mode", ["hybrid", "rrf", "semantic", "lexical"])
def test_every_mode_answers_as_described(mode: str, ada: DescribedClient) -> None:
    words = "deployment: roll back with kubectl rollout undo"
    found = ada.post(SEARCH, {"query": words, "mode": mode, "explain": True, "content": "full"}).json
    assert found["mode"] == mode
    assert found["results"]


def test_an_item_is_read_as_it_is_and_as_it_was(library: Library, ada: DescribedClient) -> None:
    now = ada.get(f"{ITEMS}/runbooks/deploy").json
    assert (now["title"], now["is_current"], now["revision_number"]) == ("Deployment", True, 2)
    then = ada.get(f"{ITEMS}/runbooks/deploy?revision={library.heads[0]}").json
    assert (then["title"], then["is_current"], then["revision_number"]) == ("Deploy", False, 1)


def test_a_history_is_paged(library: Library, ada: DescribedClient) -> None:
    first = ada.get(f"{ITEMS}/runbooks/deploy/revisions?limit=1").json
    second = ada.get(f"{ITEMS}/runbooks/deploy/revisions?limit=1&cursor={quote(first['cursor'])}").json
    listed = [page["revisions"][0]["knowledge_revision_id"] for page in (first, second)]
    assert listed == list(reversed(library.heads))
    assert second["cursor"] is None


def test_a_difference_is_shown(library: Library, ada: DescribedClient) -> None:
    old, new = library.heads
    found = ada.get(f"{ITEMS}/runbooks/deploy/diff?from={old}&to={new}").json
    assert "-title: Deploy\n+title: Deployment" in found["diff"]


def test_a_citation_resolves_to_its_lines(library: Library, ada: DescribedClient) -> None:
    reference = quote(f"knowledge:runbooks/deploy@{library.heads[1]}#L1-L1")
    found = ada.get(f"/api/v1/knowledge/resolve?reference={reference}").json
    assert found["excerpt"] == "# Deployment"


def test_bases_are_listed_and_shown(ada: DescribedClient) -> None:
    listed = ada.get("/api/v1/bases").json["bases"]
    assert [base["key"] for base in listed] == ["personal:ada/notes", "team:platform/runbooks"]
    for address in ("platform", "team:platform", "team%3Aplatform"):
        assert ada.get(f"/api/v1/bases/{address}/runbooks").json == listed[1]
    assert ada.get("/api/v1/bases/~ada/notes").json == listed[0]


def test_items_are_listed_by_page_and_status(ada: DescribedClient) -> None:
    items = "/api/v1/bases/platform/runbooks/items"
    seen: list[str] = []
    cursor = ""
    while True:
        page = ada.get(f"{items}?limit=2{cursor}").json
        seen += [item["locator"] for item in page["items"]]
        if page["cursor"] is None:
            break
        cursor = f"&cursor={quote(page['cursor'], safe='')}"
    assert sorted(seen) == ["deploy.md", "deploy/revisions.md", "draft.md", "odd/100% über & co +.md", "old.md"]
    assert [item["title"] for item in ada.get(f"{items}?status=draft").json["items"]] == ["Unfinished"]
    assert [item["title"] for item in ada.get(f"{items}?prefix=odd/").json["items"]] == ["Odd"]


def test_status_tells_each_caller_of_their_bases_only(library: Library) -> None:
    assert len(library.client("ada").get("/api/v1/status").json["bases"]) == 2
    assert len(library.client("max").get("/api/v1/status").json["bases"]) == 1
    assert library.client(None).get("/api/v1/status").json["bases"] == []


def test_health_and_the_description_need_no_token(library: Library) -> None:
    assert library.client(None).get("/healthz").json == {"status": "ok"}
    assert library.client(None).get("/api/v1/openapi.json").json["openapi"] == "3.1.0"


# Ids in addresses


@pytest.mark.parametrize(
    "written", ["runbooks/odd/100%25%20%C3%BCber%20&%20co%20+", quote("runbooks/odd/100% über & co +", safe="")]
)
def test_an_id_may_hold_anything(written: str, ada: DescribedClient) -> None:
    assert ada.get(f"{ITEMS}/{written}").json["title"] == "Odd"
    assert ada.get(f"{ITEMS}/{written}/revisions").json["knowledge_item_id"] == "runbooks/odd/100% über & co +"


def test_an_id_that_ends_like_an_address_is_reached_by_parameter(library: Library, ada: DescribedClient) -> None:
    assert ada.get(f"{ITEMS}/runbooks/deploy/revisions").json["type"] == "knowledge_revisions"
    found = ada.get("/api/v1/knowledge/item?id=runbooks/deploy/revisions").json
    assert (found["type"], found["title"]) == ("knowledge_item", "How to read revisions")
    history = ada.get("/api/v1/knowledge/item/revisions?id=runbooks%2Fdeploy%2Frevisions").json
    assert history["knowledge_item_id"] == "runbooks/deploy/revisions"
    newest = library.heads[1]
    compared = ada.get(f"/api/v1/knowledge/item/diff?id=runbooks/deploy/revisions&from={newest}&to={newest}").json
    assert compared["diff"] == ""


@pytest.mark.parametrize(
    "path",
    ["..%2f..%2fetc%2fpasswd", "%00", "a%0ab", "runbooks//deploy", "%ff%fe", "runbooks/deploy/", "x" * 5000, "%"],
)
def test_odd_ids_are_only_not_found(path: str, ada: DescribedClient) -> None:
    assert ada.get(f"{ITEMS}/{path}").status == 404


# Who may


def test_without_a_token_the_caller_is_asked_for_one(library: Library) -> None:
    answer = library.client(None).get("/api/v1/bases")
    assert (answer.status, answer.error) == (401, "unauthenticated")
    assert answer.headers["www-authenticate"] == 'Bearer realm="kbgit"'


@pytest.mark.parametrize("value", ["Bearer x", "Bearer", "bearer ", "Basic eDp4", "kbgit_000000000000_x", ""])
def test_a_wrong_credential_is_refused(value: str, library: Library) -> None:
    for path in ("/api/v1/bases", "/api/v1/status"):
        answer = library.client(None).get(path, {"Authorization": value})
        assert answer.error == "unauthenticated"
        assert "kbgit_0" not in answer.body.decode()


def test_a_token_in_the_address_or_in_a_cookie_is_refused(library: Library) -> None:
    token = library.people["ada"]
    for who in ("ada", None):
        for name in ("access_token", "token", "base"):
            answer = library.client(who).get(f"/api/v1/bases?{name}={token}")
            assert answer.error == "unauthenticated"
            assert "address" in answer.json["error"]["message"]
        answer = library.client(who).get("/api/v1/bases", {"Cookie": f"session={token}"})
        assert answer.error == "unauthenticated"
        assert "cookie" in answer.json["error"]["message"]


def test_what_a_caller_may_not_see_is_not_there(library: Library) -> None:
    olga = library.client("olga")
    assert olga.get("/api/v1/bases").json == {"bases": []}
    for space, slug in (("platform", "runbooks"), ("platform", "nothing"), ("~ada", "notes")):
        for below in ("", "/items"):
            assert olga.get(f"/api/v1/bases/{space}/{slug}{below}").error == "base_not_found"
    for item in ("runbooks/deploy", "runbooks/nothing", "notes/diary"):
        assert olga.get(f"{ITEMS}/{item}").error == "item_not_found"
        assert olga.get(f"{ITEMS}/{item}?revision={library.heads[1]}").error == "item_not_found"
    assert olga.post(SEARCH, {"query": "deployment"}).json["results"] == []
    assert library.client("max").get(f"{ITEMS}/notes/diary").error == "item_not_found"


def test_a_viewer_reads_no_drafts(library: Library) -> None:
    vera = library.client("vera")
    listed = vera.get("/api/v1/bases/platform/runbooks/items").json["items"]
    assert "draft.md" not in [item["locator"] for item in listed]
    assert vera.get(f"{ITEMS}/runbooks/draft?revision={library.heads[1]}").status == 404


# Typed errors of the library


def test_errors_of_the_library_keep_their_status(library: Library, ada: DescribedClient) -> None:
    expected = {
        f"{ITEMS}/runbooks/none": (404, "item_not_found"),
        f"{ITEMS}/runbooks/draft": (409, "item_not_published"),
        f"{ITEMS}/runbooks/deploy?revision=abc": (400, "invalid_citation"),
        f"{ITEMS}/runbooks/deploy?revision={'0' * 40}": (404, "revision_not_found"),
        f"{ITEMS}/runbooks/deploy?base=none": (404, "base_not_found"),
        f"{ITEMS}/runbooks/deploy/revisions?limit=0": (400, "invalid_request"),
        f"{ITEMS}/runbooks/deploy/revisions?limit=1000000000000": (400, "invalid_request"),
        f"{ITEMS}/runbooks/deploy/revisions?limit=ten": (400, "invalid_request"),
        f"{ITEMS}/runbooks/deploy/revisions?cursor=x": (400, "invalid_request"),
        f"{ITEMS}/runbooks/deploy/diff?from={library.heads[0]}": (400, "invalid_request"),
        "/api/v1/knowledge/item": (400, "invalid_request"),
        "/api/v1/knowledge/resolve?reference=nonsense": (400, "invalid_citation"),
        "/api/v1/bases/~/x": (400, "invalid_name"),
        "/api/v1/bases/platform/none": (404, "base_not_found"),
        "/api/v1/bases/platform/runbooks/items?status=lost": (400, "invalid_request"),
    }
    answers = {path: ada.get(path) for path in expected}
    assert {path: (answer.status, answer.error) for path, answer in answers.items()} == expected


def test_a_wait_that_is_in_vain_is_timed_out(ada: DescribedClient) -> None:
    answer = ada.post(SEARCH, {"query": "x", "wait_for": "0" * 40, "wait_seconds": 0})
    assert (answer.status, answer.error) == (504, "timed_out")


# Requests that cannot be understood


def test_parameters_are_read_strictly(ada: DescribedClient) -> None:
    unknown = ada.get(f"{ITEMS}/runbooks/deploy?revison=abc")
    assert unknown.error == "invalid_request"
    assert unknown.json["error"]["details"] == {"parameter": "revison", "known": ["base", "revision"]}
    assert "2 times" in ada.get(f"{ITEMS}/runbooks/deploy?base=a&base=b").json["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"query"',
        b'{"query": NaN}',
        b'{"query": "a", "alpha": Infinity}',
        b'{"query": "a", "query": "b"}',
        b'{"query": "\xff"}',
        '{"query": "a"}'.encode("utf-16"),
        b"[" * 100_000,
        b'{"limit": ' + b"1" * 5000 + b"}",
        b'{"query": "a", "limit": 1e999}',
        b'{"query": "a", "limit": "10"}',
        b'{"query": ["a"]}',
        b'{"query": "a", "unknown": 1}',
        b'{"limit": 5}',
    ],
)
def test_a_body_that_is_no_search_is_refused(body: bytes, ada: DescribedClient) -> None:
    answer = ada.request("POST", SEARCH, body, JSON)
    assert (answer.status, answer.error) == (400, "invalid_request")


def test_a_lone_surrogate_is_a_query_like_another(ada: DescribedClient) -> None:
    assert ada.request("POST", SEARCH, b'{"query": "\\ud800 deployment"}', JSON).status == 200
    assert ada.request("POST", SEARCH, b'{"query": "a", "\\ud800": 1}', JSON).error == "invalid_request"


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/x-www-form-urlencoded", "application/xml"])
def test_another_content_type_is_refused(content_type: str | None, ada: DescribedClient) -> None:
    answer = ada.request("POST", SEARCH, b'{"query": "a"}', {"Content-Type": content_type} if content_type else {})
    assert (answer.status, answer.error) == (415, "unsupported_media_type")


def test_json_with_a_charset_is_json(ada: DescribedClient) -> None:
    headers = {"Content-Type": "application/json; charset=UTF-8"}
    assert ada.request("POST", SEARCH, b'{"query": "a"}', headers).status == 200


@pytest.mark.parametrize(
    "path", ["/api", "/api/v1", "/api/v1/", "/api/v1/knowledge", "/api/v2/bases", "/api/v1/bases/", "/x"]
)
def test_an_unknown_address_is_an_error_like_others(path: str, library: Library) -> None:
    answer = library.client(None).get(path)
    assert (answer.status, answer.error) == (404, "not_found")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_a_wrong_method_is_told_the_right_ones(method: str, ada: DescribedClient) -> None:
    answer = ada.request(method, SEARCH)
    assert (answer.status, answer.error) == (405, "method_not_allowed")
    assert answer.headers["allow"] == "POST"


# Limits of bodies


def test_a_chunked_body_arrives(ada: DescribedClient) -> None:
    pieces = iter([b'{"query": ', b'"ERR-1234"}'])
    found = ada.request("POST", SEARCH, pieces, JSON, chunked=True).json
    assert found["results"][0]["title"] == "Deployment"


def test_a_compressed_body_arrives(ada: DescribedClient) -> None:
    body = gzip.compress(b'{"query": "ERR-1234"}')
    for chunked in (False, True):
        sent = iter([body[:5], body[5:]]) if chunked else body
        found = ada.request("POST", SEARCH, sent, JSON | {"Content-Encoding": "gzip"}, chunked=chunked).json
        assert found["results"][0]["title"] == "Deployment"


def test_clients_that_send_slowly_keep_nobody_from_being_answered(library: Library, ada: DescribedClient) -> None:
    address = urlsplit(library.url)
    head = f"POST {SEARCH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"
    with ExitStack() as connections:
        for _ in range(100):
            slow = connections.enter_context(socket.create_connection((address.hostname, address.port), timeout=30))
            slow.sendall(head.encode())
        assert ada.post(SEARCH, {"query": "ERR-1234"}).status == 200


PACKED = gzip.compress(b"{}", mtime=0)  # the same whenever tests are collected
BIG = b'{"query": "' + b"a" * 3_000_000 + b'"}'


def test_a_body_over_the_limit_is_refused_however_it_comes(ada: DescribedClient) -> None:
    in_pieces = (BIG[start : start + 50_000] for start in range(0, len(BIG), 50_000))
    answers = [
        ada.request("POST", SEARCH, BIG, JSON),
        ada.request("POST", SEARCH, in_pieces, JSON, chunked=True),
        ada.request("POST", SEARCH, gzip.compress(BIG), JSON | {"Content-Encoding": "gzip"}),
        ada.request("POST", SEARCH, gzip.compress(b"\0" * 100_000_000), JSON | {"Content-Encoding": "gzip"}),
    ]
    for answer in answers:
        assert (answer.status, answer.error) == (413, "too_large")
        assert answer.json["error"]["details"] == {"limit": 2048 * 1024}


@pytest.mark.parametrize("body", [b"not gzip", PACKED[:-4], PACKED + b"more", b""])
def test_a_broken_compressed_body_is_refused(body: bytes, ada: DescribedClient) -> None:
    answer = ada.request("POST", SEARCH, body, JSON | {"Content-Encoding": "gzip"})
    assert (answer.status, answer.error) == (400, "invalid_request")


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, gzip", "zstd"])
def test_another_encoding_is_refused(encoding: str, ada: DescribedClient) -> None:
    answer = ada.request("POST", SEARCH, b"{}", JSON | {"Content-Encoding": encoding})
    assert (answer.status, answer.error) == (415, "unsupported_media_type")


def test_a_query_over_the_limit_is_refused(ada: DescribedClient) -> None:
    assert ada.post(SEARCH, {"query": "a" * 8192}).status == 200
    answer = ada.post(SEARCH, {"query": "a" * 8193})
    assert (answer.status, answer.json["error"]["details"]["field"]) == (400, "query")


# When the server cannot answer


def test_knowledge_that_is_switched_off_says_so(library: Library) -> None:
    runtime = library.runtime
    home = replace(runtime.home, settings=replace(runtime.home.settings, knowledge_enabled=False))
    with running(application(replace(runtime, home=home), SERVER_ENVIRONMENT)) as url:
        ada = DescribedClient(url, library.people["ada"])
        answers = [
            ada.request("POST", SEARCH, b"{", JSON),
            ada.get(f"{ITEMS}/runbooks/deploy"),
            ada.get(f"{ITEMS}/runbooks/deploy?stray=1"),
            ada.get("/api/v1/bases"),
            ada.request("POST", "/api/v1/bases", b"{", JSON),
            ada.request("DELETE", "/api/v1/knowledge/item?id=runbooks/deploy"),
            ada.get("/api/v1/bases/platform/runbooks/bundle"),
        ]
        for answer in answers:
            assert (answer.status, answer.error) == (503, "knowledge_runtime_disabled")
        for path in ("me", "spaces", "tokens", "audit"):
            assert ada.get(f"/api/v1/{path}").status == 200
        assert DescribedClient(url).get("/api/v1/bases").error == "unauthenticated"
        assert ada.get("/healthz").status == 200


def test_an_unexpected_failure_tells_nothing_but_where_to_look(
    template: Template, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = open_runtime(copied_home(template, tmp_path, embedder="none"))
    try:
        with running(application(runtime, SERVER_ENVIRONMENT)) as url, closing(_database(runtime.home)) as accounts:
            accounts.execute("DROP TABLE tokens")
            for path in ("/api/v1/bases", "/git/platform/runbooks.git/info/refs?service=git-upload-pack"):
                answer = Client(url, template.people["ada"]).get(path, {"X-Request-Id": "failing-request"})
                assert (answer.status, answer.error) == (500, "internal_error")
                assert answer.json["error"]["details"] == {"request_id": "failing-request"}
                assert b"tokens" not in answer.body
    finally:
        runtime.stop()
    failures = [vars(record) for record in caplog.records if record.levelno >= logging.ERROR]
    assert [line["request_id"] for line in failures] == ["failing-request"] * 2
    assert all("no such table" in str(line["exc_info"]) for line in failures)


def _database(home: Home) -> sqlite3.Connection:
    return sqlite3.connect(home.path / "accounts.sqlite", isolation_level=None)


# Log


def test_a_request_is_one_line_in_the_log_without_token_or_query(
    library: Library, caplog: pytest.LogCaptureFixture
) -> None:
    this = {"X-Request-Id": "logged-request"}

    def lines() -> list[dict[str, Any]]:
        return [vars(record) for record in caplog.records if vars(record).get("request_id") == this["X-Request-Id"]]

    max_ = library.client("max")
    with caplog.at_level(logging.INFO, "kbgit.access"):
        max_.request("POST", SEARCH, b'{"query": "confidential words"}', JSON | this)
        until(lambda: len(lines()) == 1)
        max_.get(f"{ITEMS}/runbooks/deploy?base=confidential", this)
        until(lambda: len(lines()) == 2)
        max_.get(f"/api/v1/bases?token={library.people['max']}", this)
        until(lambda: len(lines()) == 3)
    assert [(line["method"], line["path"], line["status"], line["user"]) for line in lines()] == [
        ("POST", SEARCH, 200, "max"),
        ("GET", f"{ITEMS}/runbooks/deploy", 404, "max"),
        ("GET", "/api/v1/bases", 401, ""),
    ]
    written = json.dumps(lines(), default=str)
    assert "confidential" not in written
    assert library.people["max"] not in written


def test_a_request_id_is_given_or_kept(ada: DescribedClient) -> None:
    given = [ada.get("/healthz").headers["x-request-id"] for _ in range(2)]
    assert given[0] != given[1]
    assert ada.get("/healthz", {"X-Request-Id": "proxy-4711.a"}).headers["x-request-id"] == "proxy-4711.a"
    assert ada.get("/healthz", {"X-Request-Id": 'x"\t' * 9}).headers["x-request-id"] != 'x"\t' * 9
