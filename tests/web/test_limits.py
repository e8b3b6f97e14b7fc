"""Rate limits: who is counted as one caller, what they are told, and that little is remembered of them."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbgit.assemble import open_runtime
from kbgit.config import Settings
from kbgit.home import Home
from kbgit.web.asgi import VISIT, Message, Receive, Scope, Send, Visit, respond
from kbgit.web.edge import client_address
from kbgit.web.limits import Buckets, RateLimits, SearchGate, address_block, presented
from kbgit.web.server import application
from tests.web.conftest import Template, copied_home
from tests.web.serving import SERVER_ENVIRONMENT, Answer, Client, WorkTree, git_url, running


@dataclass
class Clock:
    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


@dataclass
class Told:
    """What came back."""

    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


def ask(
    limits: RateLimits,
    client: str = "192.0.2.1",
    *,
    token: str | None = None,
    method: str = "GET",
    path: str = "/x",
    **headers: str,
) -> Told:
    told = Told()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            told.status, told.headers = message["status"], dict(message["headers"])
        else:
            told.body += message["body"]

    sent = [(name.encode(), value.encode()) for name, value in headers.items()]
    if token is not None:
        sent.append((b"authorization", f"Bearer {token}".encode()))
    scope = {"type": "http", "path": path, "method": method, "headers": sent, VISIT: Visit(client=client)}
    asyncio.run(limits(scope, _nothing, send))
    return told


async def good_tokens_only(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers 200 to `good…` and to those who bring no token, 401 to every other token."""
    text = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
    is_good = text.startswith("good")
    if is_good:
        scope[VISIT].user = "ada"
    await respond(send, 200 if is_good or not text else 401, b"", "text/plain")


def limits(clock: Clock, **settings: Any) -> RateLimits:  # noqa: ANN401
    given_settings = {"rate_per_minute": 60, "rate_burst": 3, "failed_sign_ins_per_minute": 2, **settings}
    return RateLimits(good_tokens_only, Settings().overlaid(given_settings), clock=clock)


# Buckets


@given(st.lists(st.floats(0, 100), max_size=50), st.integers(1, 600), st.integers(1, 20))
def test_nobody_takes_more_than_the_burst_and_what_time_gives(waits: list[float], per_minute: int, burst: int) -> None:
    clock = Clock()
    buckets = Buckets(per_minute, burst, clock)
    taken = 0
    for wait in waits:
        clock.seconds += wait
        if not buckets.wait("x"):
            buckets.take("x")
            taken += 1
    assert taken <= burst + clock.seconds * per_minute / 60 + 1e-6


def test_whoever_waits_as_long_as_they_are_told_is_let_in() -> None:
    clock = Clock()
    buckets = Buckets(7, 1, clock)
    for _ in range(50):
        clock.seconds += buckets.wait("x")
        clock.seconds += 1e-6
        assert buckets.wait("x") == 0
        buckets.take("x")


def test_nothing_is_limited_at_a_rate_of_none() -> None:
    buckets = Buckets(0, 1, Clock())
    for _ in range(1000):
        assert buckets.wait("x") == 0
        buckets.take("x")
    assert len(buckets) == 0


def test_only_so_many_callers_are_remembered() -> None:
    buckets = Buckets(1, 1, Clock(), most=100)
    for number in range(10_000):
        buckets.take(str(number))
    assert len(buckets) == 100
    assert buckets.wait("9999") > 0
    assert buckets.wait("0") == 0


# Callers


def test_a_caller_over_the_limit_is_refused_and_told_when_to_come_back() -> None:
    clock = Clock()
    limited = limits(clock)
    assert [ask(limited).status for _ in range(4)] == [200, 200, 200, 429]
    refused = ask(limited)
    assert refused.headers[b"retry-after"] == b"1"
    assert b'"rate_limited"' in refused.body
    clock.seconds += 1
    assert [ask(limited).status for _ in range(2)] == [200, 429]


def test_one_caller_over_the_limit_costs_no_other_anything() -> None:
    limited = limits(Clock())
    for _ in range(3):
        assert ask(limited, token="good1").status == 200  # the first of them counts for the address
    assert [ask(limited, token="good1").status for _ in range(2)] == [200, 429]
    assert [ask(limited, token="good2").status for _ in range(2)] == [200, 200]
    assert ask(limited, "192.0.2.2").status == 200


def test_made_up_tokens_count_for_the_address_that_they_come_from() -> None:
    limited = limits(Clock(), failed_sign_ins_per_minute=0)
    assert [ask(limited, token=f"bad{number}").status for number in range(5)] == [401, 401, 401, 429, 429]


def test_an_address_with_too_many_failed_sign_ins_waits_but_not_the_good_tokens_behind_it() -> None:
    clock = Clock()
    limited = limits(clock, rate_burst=100)
    assert ask(limited, token="good").status == 200
    assert [ask(limited, token=f"bad{number}").status for number in range(4)] == [401, 401, 429, 429]
    assert ask(limited, token="good").status == 200
    assert ask(limited, token="good-too").status == 429  # it may be a guess like the others
    assert ask(limited).status == 200  # who tries nothing
    assert ask(limited, "192.0.2.2", token="bad").status == 401
    clock.seconds += 30
    assert ask(limited, token="good-too").status == 200


def test_a_token_that_was_good_and_is_not_any_more_counts_as_one_that_never_was() -> None:
    revoked: set[str] = set()

    async def service(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, 401, b"", "text/plain") if revoked else await good_tokens_only(scope, receive, send)

    limited = RateLimits(service, Settings(failed_sign_ins_per_minute=2), clock=Clock())
    assert ask(limited, token="good").status == 200
    revoked.add("good")
    assert [ask(limited, token="good").status for _ in range(4)] == [401, 401, 429, 429]


def test_a_form_that_is_refused_is_a_failed_sign_in() -> None:
    async def service(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, 401, b"", "text/html")

    limited = RateLimits(service, Settings(failed_sign_ins_per_minute=2), clock=Clock())
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert [ask(limited, method="POST", **form).status for _ in range(3)] == [401, 401, 429]
    assert ask(limited).status == 401  # looking at the form is no attempt


def test_health_is_told_to_everybody_always() -> None:
    limited = limits(Clock())
    assert [ask(limited, path="/healthz").status for _ in range(10)] == [200] * 10


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("", "no address", False),
    ],
)
def test_an_address_stands_for_what_one_customer_is_given(one: str, other: str, same: bool) -> None:
    assert (address_block(one) == address_block(other)) is same


def test_a_token_is_one_caller_however_it_is_sent_and_is_not_kept() -> None:
    basic = base64.b64encode(b"anybody:secret").decode()
    ways = ["Bearer secret", "bearer  secret", f"Basic {basic}"]
    names = {presented({"headers": [(b"authorization", way.encode())]}) for way in ways}
    assert len(names) == 1
    assert "secret" not in str(names)
    assert presented({"headers": [(b"authorization", b"Basic ???")]}) is not None
    assert presented({"headers": [(b"cookie", b"theme=dark; kbgit_session=abc")]}) is not None
    assert presented({"headers": [(b"cookie", b"theme=dark")]}) is None


# Proxies


@pytest.mark.parametrize(
    ("peer", "trusted", "forwarded", "expected"),
    [
        ("192.0.2.1", "", "198.51.100.7", "192.0.2.1"),
        ("192.0.2.1", "192.0.2.9", "198.51.100.7", "192.0.2.1"),
        ("192.0.2.9", "192.0.2.9", "198.51.100.7", "198.51.100.7"),
        ("192.0.2.9", "192.0.2.9", "203.0.113.5, 198.51.100.7", "198.51.100.7"),
        ("192.0.2.9", "192.0.2.9", "198.51.100.7, nonsense", "192.0.2.9"),
        ("192.0.2.9", "192.0.2.9", None, "192.0.2.9"),
    ],
)
def test_only_the_trusted_proxy_says_who_its_clients_are(
    peer: str, trusted: str, forwarded: str | None, expected: str
) -> None:
    headers = [(b"x-forwarded-for", forwarded.encode())] if forwarded else []
    assert client_address({"client": (peer, 1), "headers": headers}, trusted) == expected


# Searches


def test_only_so_many_searches_run_at_once_and_one_caller_never_has_them_all() -> None:
    running_now: list[str] = []
    most: list[int] = []
    release = asyncio.Event()

    async def service(scope: Scope, receive: Receive, send: Send) -> None:
        running_now.append(scope[VISIT].caller)
        most.append(len(running_now))
        await release.wait()
        running_now.remove(scope[VISIT].caller)
        await respond(send, HTTPStatus.OK, b"", "text/plain")

    async def scene() -> None:
        gate = SearchGate(service, 4)
        statuses: list[int] = []

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        def search(caller: str, path: str = "/api/v1/knowledge/search") -> asyncio.Task[None]:
            scope = {"type": "http", "path": path, "headers": [], VISIT: Visit(caller=caller)}
            return asyncio.create_task(gate(scope, _nothing, send))

        # Also the pages that search, a person's own among them.
        pages = [search("greedy", "/me"), search("greedy", "/")]
        tasks = [*pages, *(search("greedy") for _ in range(4)), *(search(f"other{number}") for number in range(4))]
        for _ in range(20):
            await asyncio.sleep(0)
        assert sorted(running_now) == ["greedy", "greedy", "other0", "other1"]
        reading = search("reader", "/api/v1/knowledge/item")
        for _ in range(5):
            await asyncio.sleep(0)
        assert "reader" in running_now
        release.set()
        await asyncio.gather(*tasks, reading)
        assert statuses == [200] * 11
        assert max(most) == 5
        assert not gate.waiting

    asyncio.run(scene())


def test_a_search_that_waits_too_long_is_told_that_there_are_too_many() -> None:
    async def service(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.Event().wait()

    async def scene() -> None:
        gate = SearchGate(service, 1, seconds=0.02)
        told: list[Message] = []

        async def send(message: Message) -> None:
            told.append(message)

        scope = {"type": "http", "path": "/api/v1/recall", "headers": [], VISIT: Visit(caller="x")}
        endless = asyncio.create_task(gate(scope, _nothing, send))
        await asyncio.sleep(0)
        await gate(scope, _nothing, send)
        assert told[0]["status"] == 503
        assert (b"retry-after", b"1") in told[0]["headers"]
        assert b'"overloaded"' in told[1]["body"]
        endless.cancel()
        await asyncio.gather(endless, return_exceptions=True)

    asyncio.run(scene())


# The whole server


@contextmanager
def served(home: Home) -> Iterator[str]:
    runtime = open_runtime(home)
    try:
        with running(application(runtime, SERVER_ENVIRONMENT)) as url:
            yield url
    finally:
        runtime.stop()


@pytest.fixture
def strict(template: Template, tmp_path: Path) -> Home:
    """A home that lets four requests through."""
    return copied_home(
        template, tmp_path, embedder="none", watch="off", rate_per_minute=1, rate_burst=4, failed_sign_ins_per_minute=3
    )


@pytest.mark.parametrize("path", ["/api/v1/bases", "/mcp", "/git/platform/runbooks.git/info/refs", "/", "/metrics"])
def test_every_surface_is_limited(strict: Home, template: Template, path: str) -> None:
    with served(strict) as url:
        client = Client(url, template.people["ada"])
        answers: list[Answer] = [client.get(path) for _ in range(9)]
        assert HTTPStatus.TOO_MANY_REQUESTS not in [answer.status for answer in answers[:4]]
        last = answers[-1]
        assert last.status == HTTPStatus.TOO_MANY_REQUESTS
        assert int(last.headers["retry-after"]) > 0
        assert b"rate_limited" in last.body
        assert client.get("/healthz").status == 200


def test_git_says_why_it_is_refused(strict: Home, work_tree: WorkTree) -> None:
    with served(strict) as url:
        asked = [
            work_tree.git("ls-remote", git_url(url, "kbgit_0123456789ab_" + "A" * 43), check=False) for _ in range(5)
        ]
        assert all(ran.code for ran in asked)
        assert "429" in asked[-1].output
