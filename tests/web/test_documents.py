"""Documents over HTTP: bodies that stream to disk, limits before they are read, events that are followed, and sessions."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import pytest

from kbgit.assemble import open_runtime
from kbgit.documents.placing import Placing
from kbgit.documents.service import Documents
from kbgit.web.app import create_app
from kbgit.web.server import application
from kbgit.web.uploads import Uploads
from kbgit.web.wsgi import Threads
from tests.documents.queueing import WORKER
from tests.web.conftest import Library, Template, copied_home
from tests.web.described import DescribedClient
from tests.web.serving import SERVER_ENVIRONMENT, Answer, People, running, until

API = "/api/v1"
RUNBOOKS = f"{API}/bases/platform/runbooks/documents"
MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def desk(template: Template, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """A server whose documents are read by the odd worker, and may have at most 1 MB."""
    home = copied_home(template, tmp_path_factory.mktemp("desk"), embedder="none", watch="off", document_max_mb=1)
    runtime = open_runtime(home)
    runtime.documents.stop()
    placing = Placing(runtime.accounts, runtime.catalogue, runtime.indexer, runtime.writing)
    settings = replace(home.settings, document_memory_mb=192)
    runtime.documents = Documents(home.path / "documents", settings, runtime.catalogue, placing, command=WORKER)
    runtime.start()
    try:
        with running(application(runtime, SERVER_ENVIRONMENT)) as url:
            yield Library(runtime, url, People(runtime.accounts, template.people.tokens), (template.head,))
    finally:
        runtime.stop()


@pytest.fixture
def ada(desk: Library) -> DescribedClient:
    return desk.client("ada")


def upload(
    client: DescribedClient,
    content: Any,  # noqa: ANN401 - whatever http.client sends
    name: str,
    *,
    headers: dict[str, str] | None = None,
    chunked: bool = False,
    **parameters: str,
) -> Answer:
    """POST a file."""
    query = urlencode({"name": name, **parameters})
    return client.request("POST", f"{RUNBOOKS}?{query}", content, headers, chunked=chunked)


def final(client: DescribedClient, document: str) -> Any:  # noqa: ANN401
    """The document, when nothing more happens to it."""
    until(lambda: client.get(f"{API}/documents/{document}").json["state"] not in ("queued", "extracting"), 30)
    return client.get(f"{API}/documents/{document}").json


def spooled(desk: Library) -> list[Path]:
    """What is being uploaded."""
    return list((desk.runtime.home.path / "documents" / "incoming").iterdir())


def test_an_upload_becomes_an_item_that_is_read_at_its_citation(desk: Library, ada: DescribedClient) -> None:
    raw = "text Größe".encode()
    name = "<b>Größe</b> & 大小.pdf"
    answer = upload(ada, raw, name, folder="made/here", headers={"Content-Type": "application/pdf"})
    assert answer.status == 202
    assert answer.json["state"] == "queued"
    done = final(ada, answer.json["id"])
    assert (done["state"], done["name"], done["sha256"]) == ("ready", name, hashlib.sha256(raw).hexdigest())
    item = ada.get(
        f"{API}/knowledge/item?id={quote(done['knowledge_item_id'])}&revision={done['knowledge_revision_id']}"
    ).json
    assert item["title"] == "Größe"
    assert item["status"] == "draft"
    assert item["provenance"]["pushed_by"] == "ada"
    assert item["provenance"]["via"] == "api"
    assert item["locator"].startswith("made/here/")
    assert spooled(desk) == []


@pytest.mark.parametrize("size", [0, 1, 65_536, 262_144, MEGABYTE])
@pytest.mark.parametrize("chunked", [False, True], ids=["announced", "chunked"])
def test_a_file_of_any_allowed_size_arrives_whole(size: int, chunked: bool, ada: DescribedClient) -> None:
    raw = (b"text Some\n" + os.urandom(size))[:size] if size > 20 else b"t" * size
    pieces = (raw[start : start + 10_000] for start in range(0, size, 10_000))
    answer = upload(ada, pieces if chunked else raw, f"{size}-{chunked}.pdf", chunked=chunked)
    assert answer.status == 202, answer.body
    assert (answer.json["size"], answer.json["sha256"]) == (size, hashlib.sha256(raw).hexdigest())
    final(ada, answer.json["id"])


@pytest.fixture(params=["httptools", "h11"])
def served(request: pytest.FixtureRequest, desk: Library) -> Iterator[Library]:
    """The desk behind each of the two parsers of HTTP that uvicorn has."""
    with running(application(desk.runtime, SERVER_ENVIRONMENT), http=request.param) as url:
        yield replace(desk, url=url)


def test_a_huge_announced_upload_is_refused_before_a_byte_of_it_is_read(served: Library, desk: Library) -> None:
    with connection(served, f"{RUNBOOKS}?name=x.pdf", {"Content-Length": str(300 * MEGABYTE)}) as sent:
        status, body = answer_of(sent)
    assert status == 413
    assert body["error"]["code"] == "too_large"
    assert body["error"]["details"] == {"limit": MEGABYTE}
    assert spooled(desk) == []


def test_a_huge_chunked_upload_is_refused_when_it_passes_the_limit(served: Library, desk: Library) -> None:
    largest = 0
    with connection(served, f"{RUNBOOKS}?name=x.pdf", {"Transfer-Encoding": "chunked"}) as sent:
        piece = b"x" * 65_536
        chunk = f"{len(piece):x}\r\n".encode() + piece + b"\r\n"
        try:
            for _ in range(300 * MEGABYTE // len(piece)):
                sent.sendall(chunk)
                largest = max([largest, *sizes(spooled(desk))])
                sent.setblocking(False)
                try:
                    if sent.recv(1, socket.MSG_PEEK):
                        break
                except BlockingIOError:
                    continue
                finally:
                    sent.setblocking(True)
        except (BrokenPipeError, ConnectionResetError):
            pass
        status, body = answer_of(sent)
    assert status == 413
    assert body["error"]["code"] == "too_large"
    assert largest <= MEGABYTE
    until(lambda: spooled(desk) == [])


def sizes(paths: list[Path]) -> Iterator[int]:
    """The sizes in bytes of those that are still there."""
    for path in paths:
        with suppress(FileNotFoundError):
            yield path.stat().st_size


def test_whoever_may_not_upload_is_told_before_the_body(desk: Library) -> None:
    for who, status, code in (
        (None, 401, "unauthenticated"),
        ("vera", 403, "forbidden"),
        ("olga", 404, "base_not_found"),
        ("reader", 403, "forbidden"),
        ("elsewhere", 404, "base_not_found"),
    ):
        for length in (10, 300 * MEGABYTE):
            with connection(desk, f"{RUNBOOKS}?name=x.pdf", {"Content-Length": str(length)}, who) as sent:
                given, body = answer_of(sent)
            assert (given, body["error"]["code"]) == (status, code), (who, length)


def test_a_browser_uploads_with_its_session_and_what_only_our_pages_know(desk: Library, ada: DescribedClient) -> None:
    text = desk.runtime.sessions.begin(desk.runtime.accounts.authenticate(desk.people["ada"]).token_id or "")
    session = desk.runtime.sessions.find(text)
    assert session is not None
    cookie = {"Cookie": f"kbgit_session={text}"}
    browser = desk.client(None)
    forged = upload(browser, b"text One", "browsed.pdf", headers=cookie)
    assert (forged.status, forged.error) == (403, "cross_site_request")
    with connection(desk, f"{RUNBOOKS}?name=x.pdf", {"Content-Length": str(300 * MEGABYTE), **cookie}, None) as sent:
        assert answer_of(sent)[0] == 403, "before a byte of it is read"
    answer = upload(browser, b"text One", "browsed.pdf", headers={**cookie, "X-CSRF-Token": session.csrf})
    assert answer.status == 202, answer.body
    done = final(ada, answer.json["id"])
    item = ada.get(
        f"{API}/knowledge/item?id={quote(done['knowledge_item_id'])}&revision={done['knowledge_revision_id']}"
    ).json
    assert item["provenance"]["via"] == "web"


def test_a_client_that_asks_first_is_told_to_go_on_or_why_not(served: Library, desk: Library) -> None:
    asked = {"Content-Length": "8", "Expect": "100-continue"}
    with connection(served, f"{RUNBOOKS}?name=asked.pdf", asked) as sent:
        assert sent.recv(65_536).startswith(b"HTTP/1.1 100 ")
        sent.sendall(b"text One")
        status, body = answer_of(sent)
        assert (status, body["size"]) == (202, 8)
    with connection(served, f"{RUNBOOKS}?name=asked.exe", asked) as sent:
        assert answer_of(sent)[0] == 400
    final(desk.client("ada"), body["id"])


def test_an_encoded_body_is_refused_because_the_digest_is_of_the_file(ada: DescribedClient) -> None:
    answer = upload(ada, b"x", "x.pdf", headers={"Content-Encoding": "gzip"})
    assert (answer.status, answer.error) == (415, "unsupported_media_type")
    assert upload(ada, b"text One", "identity.pdf", headers={"Content-Encoding": "identity"}).status == 202


def test_an_upload_that_breaks_off_leaves_nothing(desk: Library, ada: DescribedClient) -> None:
    before = len(ada.get(f"{API}/documents?limit=200").json["documents"])
    with connection(desk, f"{RUNBOOKS}?name=x.pdf", {"Content-Length": "100000"}) as sent:
        sent.sendall(b"half")
        until(lambda: len(spooled(desk)) == 1)
    until(lambda: spooled(desk) == [])
    assert len(ada.get(f"{API}/documents?limit=200").json["documents"]) == before


@pytest.mark.parametrize(("stall", "longest"), [(0.2, 60.0), (60.0, 0.2)], ids=["stalls", "takes too long"])
def test_a_client_that_is_too_slow_is_given_up(stall: float, longest: float, desk: Library) -> None:
    pages = Threads(create_app(desk.runtime))
    impatient = Uploads(pages, desk.runtime.documents, stall_seconds=stall, longest_seconds=longest)
    with (
        running(impatient) as url,
        connection(replace(desk, url=url), f"{RUNBOOKS}?name=x.pdf", {"Content-Length": "100000"}) as sent,
    ):
        sent.sendall(b"half")
        status, body = answer_of(sent)
    assert (status, body["error"]["code"]) == (408, "request_timeout")
    assert spooled(desk) == []


def test_only_so_many_upload_at_once(desk: Library) -> None:
    uploads = Uploads(Threads(create_app(desk.runtime)), desk.runtime.documents, most_at_once=1)
    with running(uploads) as url:
        here = replace(desk, url=url)
        with connection(here, f"{RUNBOOKS}?name=x.pdf", {"Content-Length": "100000"}) as first:
            first.sendall(b"half")
            until(lambda: len(spooled(desk)) == 1)
            with connection(here, f"{RUNBOOKS}?name=y.pdf", {"Content-Length": "4"}) as second:
                second.sendall(b"text")
                status, body = answer_of(second)
            assert (status, body["error"]["code"]) == (503, "overloaded")
    until(lambda: spooled(desk) == [])


def test_parameters_are_read_strictly(ada: DescribedClient) -> None:
    for query in (
        "",
        "?name=",
        "?name=x.pdf&replace=1",
        "?name=x.pdf&stray=1",
        "?name=x.pdf&name=y.pdf",
        "?name=x.exe",
    ):
        answer = ada.request("POST", f"{RUNBOOKS}{query}", b"text")
        assert (answer.status, answer.error) == (400, "invalid_request"), query
    for query in ("?limit=0", "?state=lost", "?cursor=1", "?stray=1"):
        assert ada.get(f"{API}/documents{query}").status == 400
    for query in ("?wait=11", "?wait=x", "?after=1"):
        assert ada.get(f"{API}/documents/events{query}").status == 400


def test_the_same_upload_again_is_ready_and_other_bytes_need_replace(ada: DescribedClient) -> None:
    first = final(ada, upload(ada, b"text One", "again.pdf").json["id"])
    again = upload(ada, b"text One", "again.pdf")
    assert (again.status, again.json["state"]) == (202, "ready")
    assert again.json["reference"] == first["reference"]
    assert upload(ada, b"text Two", "again.pdf").error == "already_exists"
    replaced = final(ada, upload(ada, b"text Two", "again.pdf", replace="true").json["id"])
    assert replaced["knowledge_item_id"] == first["knowledge_item_id"]
    assert replaced["knowledge_revision_id"] != first["knowledge_revision_id"]


def test_a_follower_sees_an_upload_through_to_its_end(ada: DescribedClient) -> None:
    cursor = ada.get(f"{API}/documents/events").json["cursor"]
    document = upload(ada, b"text One", "followed.pdf").json["id"]
    seen: list[str] = []
    while "ready" not in seen:
        page = ada.get(f"{API}/documents/events?after={cursor}&wait=10").json
        assert page["events"], "it was waited for, so there is something"
        seen += [event["state"] for event in page["events"] if event["document"] == document]
        cursor = page["cursor"]
    assert seen == ["queued", "extracting", "ready"]


def test_documents_are_cancelled_and_tried_again(desk: Library, ada: DescribedClient, tmp_path: Path) -> None:
    held = upload(ada, f"hold {tmp_path / 'gate'}".encode(), "held.pdf").json["id"]
    until((tmp_path / "gate.begun").exists)
    queued = upload(ada, b"text x", "behind.pdf").json["id"]
    assert ada.request("POST", f"{API}/documents/{queued}/cancel").json["state"] == "cancelled"
    assert ada.request("POST", f"{API}/documents/{held}/cancel").json["state"] == "cancelled"
    failed = final(ada, upload(ada, b"fail encrypted", "locked.pdf").json["id"])
    assert (failed["state"], failed["reason"]) == ("failed", "encrypted")
    assert failed["detail"]
    assert ada.request("POST", f"{API}/documents/{failed['id']}/retry").json["state"] in (
        "queued",
        "extracting",
        "failed",
    )
    assert final(ada, failed["id"])["state"] == "failed"
    assert ada.request("POST", f"{API}/documents/{queued}/retry").error == "conflict"


def test_documents_of_others_are_not_there(desk: Library, ada: DescribedClient) -> None:
    document = upload(ada, b"text One", "hidden.pdf").json["id"]
    for who in ("vera", "olga", "root", "elsewhere"):
        stranger = desk.client(who)
        for method, address in (("GET", ""), ("POST", "/cancel"), ("POST", "/retry")):
            answer = stranger.request(method, f"{API}/documents/{document}{address}")
            absent = stranger.request(method, f"{API}/documents/doc_{'0' * 24}{address}")
            assert (answer.status, answer.error) == (404, "not_found")
            assert answer.body.replace(document.encode(), b"") == absent.body.replace(b"doc_" + b"0" * 24, b"")
        assert stranger.get(f"{API}/documents").json == {"documents": [], "cursor": None}
        cursor = stranger.get(f"{API}/documents/events").json["cursor"]
        upload(ada, b"text One", "hidden.pdf")
        page = stranger.get(f"{API}/documents/events?after={cursor}").json
        assert page["events"] == []
    final(ada, document)


def test_everybody_may_ask_which_files_can_come_in(desk: Library) -> None:
    types = desk.client("olga").get(f"{API}/file-types").json
    assert {row["suffix"] for row in types["documents"]} == {".pdf", ".docx", ".pptx", ".xlsx"}
    assert {row["max_bytes"] for row in types["documents"]} == {MEGABYTE}
    assert {".md", ".txt", ".csv", ".py", ".html"} <= {row["suffix"] for row in types["texts"]}
    assert all(row["media_type"] for row in types["texts"])
    assert desk.client(None).get(f"{API}/file-types").error == "unauthenticated"


def test_many_upload_at_once_and_all_end_in_a_final_state(desk: Library, ada: DescribedClient) -> None:
    documents: list[str] = []

    def send(number: int) -> None:
        client = desk.client("ada")
        documents.extend(
            upload(client, f"text {number}-{part}".encode(), f"many/{number}-{part}.pdf").json["id"]
            for part in range(3)
        )

    threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(documents) == 12
    assert {final(ada, document)["state"] for document in documents} == {"ready"}


# By hand, because a client that behaves would not do


@contextmanager
def connection(
    desk: Library, address: str, headers: dict[str, str], who: str | None = "ada"
) -> Iterator[socket.socket]:
    """A connection on which the head of a POST was sent."""
    place = urlsplit(desk.url)
    lines = [
        f"POST {address} HTTP/1.1",
        f"Host: {place.netloc}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    if who is not None:
        lines.append(f"Authorization: Bearer {desk.people[who]}")
    with socket.create_connection((place.hostname or "", place.port or 0), timeout=30) as sent:
        sent.sendall("\r\n".join([*lines, "", ""]).encode())
        yield sent


def answer_of(sent: socket.socket) -> tuple[int, Any]:
    """Status and JSON of the answer on a connection."""
    answer = http.client.HTTPResponse(sent)
    answer.begin()
    return answer.status, json.loads(answer.read())
