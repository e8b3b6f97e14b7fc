"""What the tests of HTTP share: servers on free ports, clients, clones."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import uvicorn

from kbgit.access import Scope
from kbgit.accounts import Accounts
from kbgit.base import BaseKey
from kbgit.store.git import clean_environment
from kbgit.web.asgi import Application

RUNBOOKS = BaseKey("team:platform", "runbooks")
NOTES = BaseKey("personal:ada", "notes")
SERVER_ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "KBGIT_EMBEDDER_API_KEY": "for the server alone",
    "GIT_DIR": "/another/repository",
    "GIT_INDEX_FILE": "/another/index",
}


@dataclass(frozen=True)
class Answer:
    """An HTTP answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The code of an error answer, whose shape is checked on the way."""
        assert set(self.json) == {"error"}
        assert set(self.json["error"]) == {"code", "message", "details"}
        return str(self.json["error"]["code"])


@dataclass
class Client:
    """HTTP by hand: one connection per request."""

    url: str
    token: str | None = None

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,  # noqa: ANN401
        headers: Mapping[str, str] | None = None,
        *,
        chunked: bool = False,
    ) -> Answer:
        address = urlsplit(self.url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
        sent = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            connection.request(method, path, body, {**sent, **(headers or {})}, encode_chunked=chunked)
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        return self.request("GET", path, headers=headers)

    def post(self, path: str, payload: object) -> Answer:
        return self.request("POST", path, json.dumps(payload), {"Content-Type": "application/json"})


@dataclass
class People:
    """Who may do what, and their tokens, by name."""

    accounts: Accounts
    tokens: dict[str, str] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> str:
        return self.tokens[name]

    def add_token(self, name: str, user: str, *scopes: Scope, bases: list[str] | None = None) -> None:
        token, text = self.accounts.add_token(user, name, scopes or tuple(Scope), "test", bases=bases)
        self.tokens[name], self.ids[name] = text, token.id


class _ThreadServer(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


@contextmanager
def running(application: Application, http: Literal["auto", "h11", "httptools"] = "auto") -> Iterator[str]:
    """Serve an application in a thread, on a free port; gives its URL. `http` names what parses HTTP."""
    config = uvicorn.Config(
        application, log_config=None, loop="asyncio", lifespan="off", ws="none", http=http, timeout_graceful_shutdown=2
    )
    server = _ThreadServer(config)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        assert server.ready.wait(10)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive()


@dataclass(frozen=True)
class Ran:
    """A finished command."""

    code: int
    output: str


@dataclass
class WorkTree:
    """A clone, and Git's command line on it."""

    path: Path

    def git(self, *arguments: str, stdin: str = "", check: bool = True) -> Ran:
        identity = {f"GIT_{who}_{what}": f"{who}@x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        done = subprocess.run(
            ["git", "-C", str(self.path), *arguments],
            env=clean_environment(os.environ) | identity,
            input=stdin.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
            check=False,
        )
        ran = Ran(done.returncode, done.stdout.decode("utf-8", "replace"))
        assert not check or ran.code == 0, ran.output
        return ran

    def write(self, files: Mapping[str, str | bytes], message: str = "change") -> str:
        """Commit files; gives the commit's SHA."""
        for name, content in files.items():
            target = self.path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content if isinstance(content, bytes) else content.encode())
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "HEAD").output.strip()


def git_url(url: str, token: str | None, path: str = "platform/runbooks.git", user: str = "x") -> str:
    """The address of a base with a token in it, as Git's credential helpers would add it."""
    address = urlsplit(url)
    who = f"{user}:{token}@" if token else ""
    return f"{address.scheme}://{who}{address.netloc}/git/{path}"


def published(title: str, body: str = "Words.\n", **fields: str) -> str:
    """A published item."""
    lines = [f"{name}: {value}\n" for name, value in fields.items()]
    return f"---\ntitle: {title}\nstatus: published\n{''.join(lines)}---\n# {title}\n\n{body}"


def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait for a condition; fails the test if it does not come true."""
    give_up = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < give_up, "this did not come true in time"
        pause.wait(0.01)


def git_children() -> list[int]:
    """The `git` processes that this process started and that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = path.read_text().partition(" (")[2].rpartition(") ")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if name.startswith("git") and int(rest.split()[1]) == os.getpid():
            found.append(int(path.parent.name))
    return found
