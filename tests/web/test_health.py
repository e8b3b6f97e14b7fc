"""Health: ready, degraded and why, starting and stopping; and stopping and starting anew without losing anything."""

from __future__ import annotations

import http.client
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import pytest

from kbgit.assemble import Runtime, open_runtime
from kbgit.base import BaseKey
from kbgit.errors import KbgitError
from kbgit.home import Home
from kbgit.web.app import create_app
from kbgit.web.errors import Starting, Stopping
from kbgit.web.health import Health, Phase, Reason
from kbgit.web.operating import Operating
from tests.web.conftest import Template, copied_home
from tests.web.serving import RUNBOOKS, Answer, Client, People, WorkTree, git_url, published, until

_PROGRAM = """
import os, sys
from pathlib import Path
from kbgit.assemble import open_runtime
from kbgit.home import Home
from kbgit.web.server import serve
home = Home.at(Path(sys.argv[1]), {"port": int(sys.argv[2]), "embedder": "none", "stop_seconds": sys.argv[3]})
serve(open_runtime(home), os.environ, lambda line: print(line, flush=True))
"""


@pytest.fixture
def runtime(template: Template, tmp_path: Path) -> Iterator[Runtime]:
    opened = open_runtime(copied_home(template, tmp_path, embedder="none", watch="off"))
    opened.indexer.sweep()
    yield opened
    opened.stop()


@dataclass
class Clock:
    """Seconds since the epoch, as tests want them."""

    seconds: float

    def __call__(self) -> float:
        return self.seconds


def reasons(runtime: Runtime) -> set[Reason]:
    """What a health that has not looked yet finds."""
    return set(Health(runtime).reasons())


def reasons_after(runtime: Runtime, seconds: float) -> set[Reason]:
    """The same, of a server that began now, some time from now."""
    clock = Clock(time.time())
    health = Health(runtime, clock)
    clock.seconds += seconds
    return set(health.reasons())


def test_a_home_in_order_is_ready(runtime: Runtime) -> None:
    assert reasons(runtime) == set()
    answer = create_app(runtime).test_client().get("/healthz")
    assert (answer.status_code, answer.json) == (200, {"status": "ok"})


def test_an_embedder_that_cannot_be_used_degrades(runtime: Runtime) -> None:
    runtime.indexer.embedding_problem = "the model at /secret/place is missing"
    assert reasons(runtime) == {Reason.EMBEDDING}
    answer = create_app(runtime).test_client().get("/healthz")
    assert (answer.status_code, answer.json) == (200, {"status": "degraded", "reasons": ["embedding unavailable"]})


def test_an_alarm_degrades(runtime: Runtime) -> None:
    runtime.catalogue.raise_alarm(str(RUNBOOKS), "the repository is missing")
    assert reasons(runtime) == {Reason.ALARM}


def test_hooks_that_changed_degrade(runtime: Runtime) -> None:
    (runtime.home.hooks / "pre-receive").chmod(0o644)
    assert reasons(runtime) == {Reason.HOOKS}


def test_an_index_that_lags_longer_than_the_setting_says_degrades(runtime: Runtime, work_tree: WorkTree) -> None:
    work_tree.write({"new.md": published("New")})
    work_tree.git("push", "--quiet", str(RUNBOOKS.repository_path(runtime.home.repositories)), "main")
    assert reasons_after(runtime, 30) == set()
    assert reasons_after(runtime, 120) == {Reason.LAG}
    runtime.indexer.sweep()
    assert reasons_after(runtime, 120) == set()


def test_a_lag_is_counted_from_the_publication_or_from_the_start_of_the_server_whichever_was_later(
    runtime: Runtime, work_tree: WorkTree
) -> None:
    clock = Clock(time.time())
    before = Health(runtime, clock)
    work_tree.write({"new.md": published("New")})
    work_tree.git("push", "--quiet", str(RUNBOOKS.repository_path(runtime.home.repositories)), "main")
    clock.seconds += 3600
    (lag,) = before.lags()
    assert lag.key == str(RUNBOOKS)
    assert 3500 < lag.seconds <= 3600
    assert [one.seconds for one in Health(runtime, clock).lags()] == [0.0]


def test_a_disk_that_is_nearly_full_degrades(runtime: Runtime) -> None:
    free = shutil.disk_usage(runtime.home.path).free >> 20
    runtime.home = replace(runtime.home, settings=replace(runtime.home.settings, disk_free_min_mb=free * 2))
    assert reasons(runtime) == {Reason.DISK}


@pytest.mark.parametrize(("phase", "error"), [(Phase.STARTING, Starting), (Phase.STOPPING, Stopping)])
def test_a_server_that_starts_or_stops_is_not_ready(runtime: Runtime, phase: Phase, error: type[KbgitError]) -> None:
    operating = Operating.of(runtime)
    operating.health.phase = phase
    answer = create_app(runtime, operating).test_client().get("/healthz")
    assert answer.status_code == 503
    assert answer.json is not None
    assert answer.json["error"]["code"] == error.code


def test_reasons_are_looked_for_once_a_second_however_often_anybody_asks(runtime: Runtime) -> None:
    health = Health(runtime)
    assert health.reasons() == ()
    (runtime.home.hooks / "pre-receive").chmod(0o644)
    asked = time.monotonic()
    until(lambda: health.reasons() == (Reason.HOOKS,))
    assert time.monotonic() - asked > 0.5


# Stopping and starting anew


@contextmanager
def serving(home: Home, port: int = 0, stop_seconds: float = 5) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(home.path), str(port), str(stop_seconds)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().split()[-1]
    finally:
        process.kill()
        process.communicate(timeout=20)


def test_the_next_server_may_start_at_once_at_the_same_address(home: Home) -> None:
    with serving(home) as (first, url):
        port = urlsplit(url).port or 0
        kept = http.client.HTTPConnection("127.0.0.1", port, timeout=10)  # which the first closes, and the port waits
        kept.request("GET", "/healthz")
        kept.getresponse().read()
        first.terminate()
        assert first.wait(20) == 0
        with serving(home, port) as (_, again):
            assert again == url
            assert Client(again).get("/healthz").status == 200
        kept.close()


@pytest.mark.parametrize("stop_seconds", [0.2, 10])
def test_a_push_that_runs_when_the_server_is_told_to_stop_is_kept_or_refused_and_its_pusher_knows(
    home: Home, people: People, work_tree: WorkTree, stop_seconds: float
) -> None:
    key = RUNBOOKS
    filler = {f"page{number}.md": published(f"Page {number}", f"word{number}\n" * 20) for number in range(300)}
    commit = work_tree.write(filler)
    with serving(home, stop_seconds=stop_seconds) as (process, url):
        pushed: list[int] = []
        pusher = Thread(
            target=lambda: pushed.append(
                work_tree.git("push", "--quiet", git_url(url, people["ada"]), "HEAD:main", check=False).code
            )
        )
        pusher.start()
        # Quarantine means that the pack is there and the hook is about to run, or runs.
        incoming = key.repository_path(home.repositories) / "objects"
        until(lambda: bool(list(incoming.glob("*incoming-*"))) or bool(pushed))
        process.terminate()
        assert process.wait(30) == 0
        pusher.join(30)
    moved = head_of(home, key) == commit
    if stop_seconds > 1:
        assert (pushed, moved) == ([0], True), "there was time enough"
    elif pushed[0] == 0:
        assert moved, "an acknowledged push is kept"
    # One that was not acknowledged may have moved the branch all the same; then it is published like any other.
    with serving(home) as (_, url):
        answer = search(url, people, "word7")
        assert bool(answer.json["results"]) == (head_of(home, key) == commit)


def test_a_search_that_runs_when_the_server_is_told_to_stop_is_answered(home: Home, people: People) -> None:
    with serving(home) as (process, url):
        answers: list[Answer] = []
        refused: list[ConnectionError] = []

        def ask() -> None:
            try:
                answers.append(search(url, people, "deploy"))
            except ConnectionError as error:  # before anything was answered
                refused.append(error)

        threads = [Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        until(lambda: bool(answers))
        process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join(20)
        assert process.wait(20) == 0
    assert len(answers) + len(refused) == 8
    for answer in answers:
        assert answer.status in (200, 503)
        if answer.status == 200:
            assert answer.json["results"]


def head_of(home: Home, key: BaseKey) -> str | None:
    repository = home.repository(key)
    try:
        return repository.head()
    finally:
        repository.close()


def search(url: str, people: People, query: str) -> Answer:
    client = Client(url, people["ada"])
    head = client.get("/api/v1/bases/platform/runbooks").json["freshness"]["published"]
    return client.post("/api/v1/knowledge/search", {"query": query, "wait_for": head, "wait_seconds": 20})
