"""A server of Git alone, for the tests of it."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from dataclasses import dataclass

from kbgit.base import BaseKey
from kbgit.home import Home
from kbgit.web.asgi import Receive, Scope, Send, header
from kbgit.web.edge import Edge
from kbgit.web.git_http import GitHttp
from tests.web.serving import (
    RUNBOOKS,
    SERVER_ENVIRONMENT,
    People,
    running,
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


def serving(home: Home, people: People) -> Iterator[GitServer]:
    noticed: list[BaseKey] = []
    encodings: set[str | None] = set()
    git = GitHttp(home, people.accounts, noticed.append, SERVER_ENVIRONMENT)

    async def noted(scope: Scope, receive: Receive, send: Send) -> None:
        encodings.update(header(scope, name) for name in (b"content-encoding", b"transfer-encoding"))
        await git(scope, receive, send)

    with running(Edge(noted)) as url:
        yield GitServer(url, home, noticed, encodings)


def noise(count: int, seed: int = 1) -> bytes:
    """Bytes that do not compress."""
    return random.Random(seed).randbytes(count)


def basic(token: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"anyone:{token}".encode()).decode()}


ADVERTISEMENT = "/git/platform/runbooks.git/info/refs?service=git-upload-pack"
