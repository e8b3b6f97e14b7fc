"""Under which names the whole server answers, and to whose pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kbgit.assemble import open_runtime
from kbgit.web.server import application
from tests.web.conftest import Library, Template, copied_home
from tests.web.serving import SERVER_ENVIRONMENT, Client, running

SURFACES = [
    "/",
    "/sign-in",
    "/api/v1/status",
    "/api/v1/bases",
    "/mcp",
    "/metrics",
    "/git/platform/runbooks.git/info/refs?service=git-upload-pack",
    "/nowhere",
]


@pytest.mark.parametrize("path", SURFACES)
@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "user@localhost"])
def test_no_surface_answers_under_a_strange_name_whatever_token_comes_with_it(
    library: Library, path: str, host: str
) -> None:
    answer = Client(library.url, library.people["ada"]).get(path, {"Host": host})
    assert answer.status == 421
    assert b"misdirected" in answer.body
    assert b"allowed_hosts" in answer.body


@pytest.mark.parametrize("path", SURFACES)
@pytest.mark.parametrize("origin", ["https://evil.example", "null", "file://"])
def test_no_surface_answers_the_pages_of_others(library: Library, path: str, origin: str) -> None:
    answer = Client(library.url, library.people["ada"]).get(path, {"Origin": origin})
    assert answer.status == 403
    assert b"foreign_origin" in answer.body


def test_health_answers_under_every_name(library: Library) -> None:
    assert (
        Client(library.url).get("/healthz", {"Host": "10.9.8.7:7420", "Origin": "https://evil.example"}).status == 200
    )


def test_its_own_pages_may_ask(library: Library) -> None:
    assert Client(library.url).get("/sign-in", {"Origin": library.url}).status == 200


@pytest.fixture
def named(template: Template, tmp_path: Path) -> Iterator[str]:
    """A server with further names."""
    runtime = open_runtime(
        copied_home(template, tmp_path, embedder="none", watch="off", allowed_hosts="kbgit, KB.internal")
    )
    try:
        with running(application(runtime, SERVER_ENVIRONMENT)) as url:
            yield url
    finally:
        runtime.stop()


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("kbgit:7420", None, 200),
        ("kb.internal", None, 200),
        ("kb.internal:7420", "http://kb.internal:7420", 200),
        ("kb.internal:7420", "http://kb.internal:9999", 403),
        ("kb.internal.evil.example", None, 421),
    ],
)
def test_a_setting_gives_further_names_whose_pages_are_its_own_too(
    named: str, host: str, origin: str | None, status: int
) -> None:
    headers = {"Host": host, **({"Origin": origin} if origin else {})}
    assert Client(named).get("/api/v1/status", headers).status == status
