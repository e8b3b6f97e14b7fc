"""The interface keeps to its description whatever it is asked: requests that schemathesis makes, by every kind of caller.

A few of each operation here; `python -m benchmarks.fuzz` makes many.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.nursery import Child, Nursery, url_of
from tests.fuzz.interface import ROLES, make_home, operations, try_all
from tests.web.serving import Client


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str | None], Path]]:
    """The server's address, tokens by role, and the file of its log."""
    directory = tmp_path_factory.mktemp("interface")
    home = directory / "home"
    tokens = make_home(home)
    nursery = Nursery()
    child: Child = nursery.child(home, "serve", directory / "control")
    url = url_of(home, child)
    assert url is not None, (directory / "server.log").read_text()
    yield url, tokens, directory / "server.log"
    child.kill()
    child.close()
    nursery.close()


@pytest.mark.parametrize("role", ROLES)
def test_no_request_gets_an_answer_that_is_not_described(
    role: str, served: tuple[str, dict[str, str | None], Path]
) -> None:
    url, tokens, log = served
    found = try_all(url, tokens[role], 2, 20261130)
    assert found.wrong == [], log.read_text()[-2000:]
    assert not [status for status in found.statuses if status >= 500]
    assert found.statuses.total() >= 2 * len(list(operations())) * 0.8
    assert found.statuses[401] > 0 if role == "nobody" else found.statuses[200] > 0


def test_a_whole_number_may_be_written_with_a_point(served: tuple[str, dict[str, str | None], Path]) -> None:
    url, tokens, _ = served
    client = Client(url, tokens["owner"])
    for limit in ("3.0", "3"):
        sent = '{"query": "deploy", "knowledge_limit": ' + limit + "}"
        told = client.request("POST", "/api/v1/recall", sent, {"Content-Type": "application/json"})
        assert told.status == 200, told.body


def test_a_time_long_ago_is_a_time(served: tuple[str, dict[str, str | None], Path]) -> None:
    url, tokens, _ = served
    sent = {"scopes": ["knowledge:read"], "name": "old", "expires_at": "0003-03-15T00:00:00Z"}
    told = Client(url, tokens["owner"]).post("/api/v1/tokens", sent)
    assert told.status == 201, told.body
    assert told.json["expires_at"] == "0003-03-15T00:00:00Z"
