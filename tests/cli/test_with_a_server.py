"""The same commands while a server owns the home, and from elsewhere."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from kbgit.cli.errors import ServerUnreachable
from kbgit.cli.http_client import HttpClient
from kbgit.errors import KbgitError
from tests.cli.running import PAGES, Kbgit, Published, new_home, push, write


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Kbgit, str]]:
    """A home with a base, and its server's URL."""
    scratch = tmp_path_factory.mktemp("served")
    kbgit = new_home(scratch / "home")
    kbgit.run("base", "import", "--from", str(write(scratch / "handbook", PAGES)))
    with kbgit.server() as url:
        yield kbgit, url


def test_answers_are_the_same_with_and_without_a_server(published: Published, tmp_path: Path) -> None:
    old, new = published.heads
    questions = [
        ("search", "rollout", "--explain"),
        ("search", "nothing like this", "--mode", "lexical"),
        ("read", "item_deploy"),
        ("read", "nowhere"),
        ("read", f"knowledge:item_deploy@{old}#L3-L3"),
        ("history", "item_deploy", "--limit", "1"),
        ("diff", "item_deploy", f"{old[:8]}..{new}"),
        ("resolve", f"knowledge:item_deploy@{old}"),
        ("base", "list"),
        ("base", "show", "handbook"),
        ("status",),
    ]
    ask = published.kbgit.run
    alone = [ask(*question, "--json", code=None) for question in questions]
    with published.kbgit.server():
        served = [ask(*question, "--json", code=None) for question in questions]
    for question, first, second in zip(questions, alone, served, strict=True):
        assert (first.exit_code, first.stdout, first.stderr) == (second.exit_code, second.stdout, second.stderr), (
            question
        )
        assert json.loads(first.stdout)


def test_status_names_the_server(served: tuple[Kbgit, str]) -> None:
    kbgit, url = served
    assert f"the server at {url}" in kbgit.run("status").stdout


def test_an_import_waits_until_the_server_has_indexed_it(served: tuple[Kbgit, str], tmp_path: Path) -> None:
    kbgit, _ = served
    source = write(tmp_path / "birds", {"heron.md": "---\nstatus: published\n---\n# Heron\n\nIt waits.\n"})
    assert kbgit.json("base", "import", "--from", str(source))["indexed"] is True
    assert kbgit.json("search", "heron", "--mode", "lexical")["results"][0]["title"] == "Heron"


def test_a_push_is_found_through_the_server(served: tuple[Kbgit, str], tmp_path: Path) -> None:
    kbgit, _ = served
    repository = str(kbgit.home / "repositories" / "~ada" / "handbook.git")
    head = push(repository, tmp_path / "writer", {"new.md": "---\nstatus: published\n---\n# Gannet\n"})
    found = kbgit.json("search", "gannet", "--mode", "lexical", "--wait-for", head)
    assert found["results"][0]["title"] == "Gannet"


def test_reindex_waits_for_the_server_which_rebuilds_as_it_is_told(served: tuple[Kbgit, str]) -> None:
    kbgit, _ = served
    rows = kbgit.json("reindex", "handbook")["bases"]
    assert [row["base"] for row in rows] == ["personal:ada/handbook"]
    assert rows[0]["passages"] == rows[0]["vectors"] > 0
    before = kbgit.json("search", "rollout")
    generations = set((kbgit.home / "index").glob("*handbook/*"))
    assert kbgit.json("reindex", "--full", "handbook")["bases"] == rows
    assert kbgit.json("search", "rollout") == before
    assert not generations & set((kbgit.home / "index").glob("*handbook/*")), "nothing was built anew"
    assert list((kbgit.home / "orders").iterdir()) == []


def test_searches_are_answered_as_ever_while_the_server_rebuilds(served: tuple[Kbgit, str]) -> None:
    kbgit, url = served
    kbgit.run("reindex")
    client = HttpClient(url, (kbgit.home / "owner-token").read_text().strip(), is_local=True)
    asked = {"query": "how do we deploy with rollout", "mode": "hybrid"}
    due = client.search(asked)
    assert due["results"]
    assert due["mode_used"] == "hybrid"
    answers, stop = [], threading.Event()

    def ask_on() -> None:
        while not stop.is_set():
            answers.append(client.search(asked))

    asking = threading.Thread(target=ask_on)
    asking.start()
    try:
        for _ in range(3):
            kbgit.run("reindex", "--force")
    finally:
        stop.set()
        asking.join()
    assert len(answers) > 3
    assert all(answer == due for answer in answers)


def test_another_machine_needs_only_the_url_and_a_token(served: tuple[Kbgit, str], tmp_path: Path) -> None:
    kbgit, url = served
    token = kbgit.run("token", "create", "--scope", "knowledge:read").stdout.strip()
    elsewhere = Kbgit(tmp_path / "no-home")
    assert "Urlaub" in elsewhere.run("--server", url, "read", "urlaub", KBGIT_TOKEN=token).stdout
    assert "Urlaub" in elsewhere.run("read", "urlaub", "--server", f"{url}/", KBGIT_TOKEN=token).stdout
    assert "Urlaub" in elsewhere.run("read", "urlaub", KBGIT_TOKEN=token, KBGIT_SERVER=url).stdout


def test_a_server_wants_a_valid_token(served: tuple[Kbgit, str]) -> None:
    kbgit, url = served
    for token in ("", "kbgit_000000000000_wrong", "kbgit_0000…", "kbgit_0000\nx"):
        result = kbgit.run("read", "urlaub", "--server", url, code=1, KBGIT_TOKEN=token)
        assert "KBGIT_TOKEN" in result.stderr


def test_a_home_on_the_command_line_comes_before_a_server_in_the_environment(served: tuple[Kbgit, str]) -> None:
    kbgit, _ = served
    assert kbgit.run("status", "--home", str(kbgit.home), KBGIT_SERVER="http://127.0.0.1:9").exit_code == 0


def test_an_address_that_is_none_is_wrong_usage(kbgit: Kbgit) -> None:
    kbgit.run("status", "--server", "example.org", code=2)


def test_a_server_that_does_not_answer_is_trouble(kbgit: Kbgit) -> None:
    result = kbgit.run("status", "--server", "http://127.0.0.1:9", code=3, KBGIT_TOKEN="x")
    assert "does not answer" in result.stderr


def test_what_a_dead_server_left_behind_is_no_server(kbgit: Kbgit) -> None:
    (kbgit.home / "server.json").write_text('{"url": "http://127.0.0.1:9", "pid": 1}')
    assert "opened by this command" in kbgit.run("status").stdout
    (kbgit.home / "server.json").write_text("{")
    kbgit.run("status")


class _Other(http.server.BaseHTTPRequestHandler):
    """A web server that is not kbgit's."""

    status: ClassVar[int] = 200
    body: ClassVar[bytes] = b""
    seen: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        type(self).seen.append(self.path)
        self.send_response(self.status)
        if self.status in (301, 302):
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        """Be quiet."""


@contextmanager
def other_server(status: int, body: bytes) -> Iterator[tuple[HttpClient, list[str]]]:
    handler: type[_Other] = type("Other", (_Other,), {"status": status, "body": body, "seen": []})
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield HttpClient(f"http://127.0.0.1:{server.server_port}", "token", is_local=True), handler.seen
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(("status", "body"), [(200, b"<html>"), (200, b"[]"), (404, b"<html>"), (502, b"{}")])
def test_what_is_no_kbgit_server_is_told_from_one(status: int, body: bytes) -> None:
    with other_server(status, body) as (client, _), pytest.raises(ServerUnreachable):
        client.status()


@pytest.mark.parametrize("status", [301, 302])
def test_a_redirect_does_not_carry_the_token_away(status: int) -> None:
    with other_server(status, b"") as (client, seen):
        with pytest.raises(ServerUnreachable):
            client.status()
        assert seen == ["/api/v1/status"]


@pytest.mark.parametrize(("code", "status"), [("item_not_found", 404), ("document_problem", 422), ("overloaded", 503)])
def test_an_error_keeps_its_code_and_status_on_its_way(code: str, status: int) -> None:
    body = json.dumps({"error": {"code": code, "message": "no", "details": {"a": 1}}}).encode()
    with other_server(status, body) as (client, _), pytest.raises(KbgitError) as caught:
        client.status()
    assert (caught.value.code, caught.value.http_status, caught.value.details) == (code, status, {"a": 1})
    assert str(caught.value.message) == "no"
