"""Metrics: what they count, who may read them, and that nobody can make their number grow."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from kbgit.access import Scope
from kbgit.assemble import Runtime, open_runtime
from kbgit.web.operating import Operating
from kbgit.web.push_report import PushReport
from kbgit.web.server import application
from tests.web.conftest import Template, copied_home
from tests.web.serving import (
    RUNBOOKS,
    SERVER_ENVIRONMENT,
    Client,
    People,
    WorkTree,
    git_url,
    published,
    running,
    until,
)

Values = dict[tuple[str, frozenset[tuple[str, str]]], float]


@dataclass
class Watched:
    """A running server of its own."""

    runtime: Runtime
    url: str
    people: People
    operating: Operating

    def client(self, who: str | None) -> Client:
        return Client(self.url, self.people[who] if who else None)

    def values(self) -> Values:
        return parsed(self.operating.metrics.text().decode())

    def value(self, name: str, **labels: str) -> float:
        return self.values().get((name, frozenset(labels.items())), 0.0)

    def total(self, name: str, **labels: str) -> float:
        """Summed over all other labels."""
        return sum(value for (one, has), value in self.values().items() if one == name and labels.items() <= has)


def parsed(text: str) -> Values:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def watched(template: Template, tmp_path: Path) -> Iterator[Watched]:
    home = copied_home(template, tmp_path, embedder="hashing", watch="off", rate_burst=2000)
    runtime = open_runtime(home)
    runtime.indexer.sweep()
    operating = Operating.of(runtime)
    try:
        with running(application(runtime, SERVER_ENVIRONMENT, operating)) as url:
            people = People(runtime.accounts, dict(template.people.tokens), dict(template.people.ids))
            yield Watched(runtime, url, people, operating)
    finally:
        runtime.stop()


# Who


@pytest.mark.parametrize(("who", "status"), [(None, 401), ("ada", 403), ("kim", 403), ("root", 200)])
def test_administrators_of_the_home_read_them_and_nobody_else_not_even_from_this_machine(
    watched: Watched, who: str | None, status: int
) -> None:
    assert watched.client(who).get("/metrics").status == status


def test_a_token_without_the_scope_of_administration_does_not_do(watched: Watched) -> None:
    watched.people.add_token("narrow", "root", Scope.KNOWLEDGE_READ)
    assert watched.client("narrow").get("/metrics").status == 403


def test_a_setting_opens_them_to_everybody(template: Template, tmp_path: Path) -> None:
    runtime = open_runtime(copied_home(template, tmp_path, embedder="none", watch="off", metrics_public=True))
    try:
        with running(application(runtime, SERVER_ENVIRONMENT)) as url:
            answer = Client(url).get("/metrics")
        assert answer.status == 200
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert parsed(answer.body.decode())
    finally:
        runtime.stop()


def test_names_of_bases_are_there_only_if_a_setting_says_so(
    watched: Watched, template: Template, tmp_path: Path
) -> None:
    text = watched.client("root").get("/metrics").body.decode()
    for hidden in ("runbooks", "notes", "platform", "ada"):
        assert hidden not in text
    runtime = open_runtime(
        copied_home(template, tmp_path / "other", embedder="none", watch="off", metrics_base_names=True)
    )
    try:
        assert f'base="{RUNBOOKS}"' in Operating.of(runtime).metrics.text().decode()
    finally:
        runtime.stop()


# What


def test_requests_are_counted_by_route_and_class_of_status(watched: Watched) -> None:
    ada = watched.client("ada")
    for item in ("a", "b", "deploy"):
        ada.get(f"/api/v1/knowledge/items/{item}")
    watched.client(None).get("/api/v1/bases")
    name = "kbgit_request_seconds_count"
    route = "/api/v1/knowledge/items/<path:item_id>"
    until(lambda: watched.total(name) == 4)
    assert watched.total(name, route=route, method="GET") == 3
    assert watched.value(name, route="/api/v1/bases", method="GET", status="4xx") == 1
    assert watched.value("kbgit_refusals_total", code="unauthenticated") == 1


def test_searches_are_counted_by_the_mode_asked_for_and_the_one_that_answered(watched: Watched) -> None:
    ada = watched.client("ada")
    for _ in range(2):
        assert ada.post("/api/v1/knowledge/search", {"query": "deploy", "mode": "hybrid"}).status == 200
    assert watched.value("kbgit_search_seconds_count", mode="hybrid", mode_used="lexical") == 2
    while watched.runtime.indexer.embed_some():
        pass
    assert ada.post("/api/v1/knowledge/search", {"query": "deploy", "mode": "hybrid"}).status == 200
    assert watched.value("kbgit_search_seconds_count", mode="hybrid", mode_used="hybrid") == 1


def test_pushes_are_counted_by_outcome_and_publications_by_their_way(watched: Watched, work_tree: WorkTree) -> None:
    before = watched.value("kbgit_publications_total", via="push")
    work_tree.write({"new.md": published("New")})
    work_tree.git("push", "--quiet", git_url(watched.url, watched.people["ada"]), "HEAD:main")
    work_tree.write({"bad.md": "---\ntitle: a: b\n---\n"})
    refused = work_tree.git("push", git_url(watched.url, watched.people["ada"]), "HEAD:main", check=False)
    assert refused.code != 0
    until(lambda: watched.value("kbgit_pushes_total", transport="http", outcome="refused") == 1)
    assert watched.value("kbgit_pushes_total", transport="http", outcome="accepted") == 1
    assert watched.value("kbgit_publications_total", via="push") == before + 1


def test_what_is_indexed_and_what_waits_is_told(watched: Watched, work_tree: WorkTree) -> None:
    assert watched.value("kbgit_indexed_items") == 1
    assert watched.value("kbgit_vectors_missing") == watched.value("kbgit_indexed_passages") > 0
    while watched.runtime.indexer.embed_some():
        pass
    assert watched.value("kbgit_vectors_missing") == 0
    assert watched.value("kbgit_bases_lagging") == 0
    work_tree.write({"new.md": published("New")})
    work_tree.git("push", "--quiet", str(RUNBOOKS.repository_path(watched.runtime.home.repositories)), "main")
    assert watched.value("kbgit_bases_lagging") == 1
    assert watched.value("kbgit_freshness_lag_seconds") >= 0
    assert watched.value("kbgit_bases", status="active") == 2
    assert watched.value("kbgit_store_bytes", store="index") > 0
    assert watched.value("kbgit_store_bytes", store="accounts") > 0
    assert watched.value("process_resident_memory_bytes") > 1_000_000
    assert watched.value("kbgit_disk_free_bytes") > 0


def test_alarms_and_problems_are_told(watched: Watched) -> None:
    assert watched.value("kbgit_bases_with_alarm") == 0
    watched.runtime.catalogue.raise_alarm(str(RUNBOOKS), "moved")
    assert watched.value("kbgit_bases_with_alarm") == 1
    fresh = Operating.of(watched.runtime).metrics.text().decode()
    assert 'kbgit_degraded{reason="alarm"} 1.0' in fresh


def test_refusals_by_a_rate_limit_are_counted(template: Template, tmp_path: Path) -> None:
    runtime = open_runtime(
        copied_home(template, tmp_path, embedder="none", watch="off", rate_per_minute=1, rate_burst=2)
    )
    operating = Operating.of(runtime)
    try:
        with running(application(runtime, SERVER_ENVIRONMENT, operating)) as url:
            for _ in range(5):
                Client(url).get("/api/v1/status")
        assert 'kbgit_rate_limited_total{kind="requests"} 3.0' in operating.metrics.text().decode()
    finally:
        runtime.stop()


def test_no_caller_can_make_the_number_of_series_grow(watched: Watched) -> None:
    ada = watched.client("ada")

    def odd(number: int) -> None:
        ada.get(f"/nowhere/{number}")
        ada.get(f"/api/v1/knowledge/items/odd-{number}")
        ada.get(f"/git/platform/odd-{number}.git/info/refs?service=git-upload-pack")
        ada.get(f"/git/{number}/odd")
        ada.request(("PROPFIND", "MKCOL", "LOCK")[number % 3], "/api/v1/bases")
        ada.post("/mcp", {"method": f"odd{number}"})

    odd(0)
    seen = ("kbgit_request_seconds_count", "kbgit_refusals_total")
    until(lambda: watched.total(seen[0]) == 6)
    before = {key for key in watched.values() if key[0] in seen}
    for number in range(1, 30):
        odd(number)
    until(lambda: watched.total(seen[0]) == 180)
    assert {key for key in watched.values() if key[0] in seen} == before


def test_two_servers_in_one_process_count_for_themselves(watched: Watched) -> None:
    other = Operating.of(watched.runtime)
    watched.client("ada").get("/api/v1/bases")
    until(lambda: watched.total("kbgit_request_seconds_count") == 1)
    assert not any(name == "kbgit_request_seconds_count" for name, _ in parsed(other.metrics.text().decode()))


# Git's report


def line(text: bytes) -> bytes:
    return f"{len(text) + 4:04x}".encode() + text


INNER = line(b"unpack ok\n") + line(b"ok refs/heads/main\n") + line(b"ng refs/heads/x hook declined\n") + b"0000"
IN_BANDS = (
    line(b"\x02remote: 0016ok refs/heads/fake\n") + line(b"\x01" + INNER[:30]) + line(b"\x01" + INNER[30:]) + b"0000"
)


@pytest.mark.parametrize("answer", [INNER, IN_BANDS])
@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_a_report_is_read_in_whatever_pieces_it_comes(answer: bytes, size: int) -> None:
    report = PushReport()
    for start in range(0, len(answer), size):
        report.feed(answer[start : start + size])
    assert (report.accepted, report.refused) == (1, 1)


@given(st.lists(st.binary(max_size=100)))
def test_what_is_no_report_raises_nothing(pieces: list[bytes]) -> None:
    report = PushReport()
    for piece in pieces:
        report.feed(piece)
    assert (report.accepted, report.refused) == (0, 0)


# Memory


_THOUSAND = """
import resource, sys
from pathlib import Path
from kbgit.assemble import open_runtime
from kbgit.home import Home
from kbgit.web.server import application
from tests.web.serving import Client, running
home = Home.at(Path(sys.argv[1]), {"embedder": "none", "watch": "off"})
runtime = open_runtime(home)
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_knowledge","arguments":{"query":"deploy"}}}'
headers = {"Content-Type": "application/json", "Accept": "application/json"}
with running(application(runtime, {"PATH": "/usr/bin:/bin"})) as url:
    client = Client(url, sys.argv[2])
    for _ in range(300):
        assert client.request("POST", "/mcp", call, headers).status == 200
    before = resident()
    for _ in range(1000):
        assert client.request("POST", "/mcp", call, headers).status == 200
    print(resident() - before)
runtime.stop()
"""


def test_a_thousand_requests_of_agents_leave_nothing_behind(template: Template, tmp_path: Path) -> None:
    home = copied_home(template, tmp_path)
    ran = subprocess.run(
        [sys.executable, "-c", _THOUSAND, str(home.path), template.people["ada"]],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert re.fullmatch(r"-?\d+\n", ran.stdout), ran.stderr[-2000:]
    # A session of the SDK is some 23 KiB: a thousand of them would be 23 MB.
    assert int(ran.stdout) < 8_000_000
