"""A server in a process of its own, and a client that keeps its connection."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from kbgit.access import Scope
from kbgit.home import Home


def make_home(path: Path) -> None:
    """A home owned by ada, whose token is in its `owner-token`."""
    home = Home.create(path)
    accounts = home.accounts()
    accounts.add_user("ada", "benchmark", administrator=True)
    _, token = accounts.add_token("ada", "benchmark", list(Scope), "benchmark")
    home.owner_token_file.write_text(token)
    accounts.close()


@contextmanager
def server(home: Path, **settings: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """`kbgit serve` on a free port: its process and its URL."""
    overlay = {f"KBGIT_{name.upper()}": value for name, value in settings.items()}
    environment = {**os.environ, "KBGIT_HOME": str(home), "KBGIT_PORT": "0", "KBGIT_LOG_LEVEL": "error", **overlay}
    (home / "server.json").unlink(missing_ok=True)
    process = subprocess.Popen([sys.executable, "-m", "kbgit.cli", "serve"], env=environment, stdout=subprocess.DEVNULL)
    try:
        while not (home / "server.json").exists():
            if process.poll() is not None:
                raise SystemExit("the server ended")
            time.sleep(0.05)
        yield process, json.loads((home / "server.json").read_text())["url"]
    finally:
        process.terminate()
        process.wait()


def children(pid: int) -> list[int]:
    """The processes that a process started and that live: of a server, those that it keeps, and what is at work."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(stat.read_text().rpartition(") ")[2].split()[1]) == pid:
                found.append(int(stat.parent.name))
    return found


def resident(pid: int) -> int:
    """Resident memory of a process in bytes; 0 for one that is gone."""
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def memory_mb(pid: int) -> tuple[float, float]:
    """Resident memory of a server, and of the processes beside it."""
    return resident(pid) / (1 << 20), sum(map(resident, children(pid))) / (1 << 20)


class Client:
    """A client that keeps its connection, as agents do."""

    def __init__(self, url: str, token: str) -> None:
        place = urlsplit(url)
        assert place.hostname
        self._connection = http.client.HTTPConnection(place.hostname, place.port)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def request(self, method: str, path: str, body: object = None) -> tuple[int, dict[str, object]]:
        """Status and answer."""
        self._connection.request(method, path, None if body is None else json.dumps(body), self._headers)
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())

    def ask(self, path: str, body: object = None) -> dict[str, object]:
        """GET, or POST when there is a body; ends the program for anything but success."""
        status, answer = self.request("GET" if body is None else "POST", path, body)
        if status >= 300:
            raise SystemExit(f"{path}: {status} {answer}")
        return answer

    def search(self, query: str, **fields: object) -> dict[str, object]:
        """The search endpoint."""
        return self.ask("/api/v1/knowledge/search", {"query": query, **fields})


def results_of(answer: dict[str, object]) -> list[dict[str, object]]:
    """The results of a search answer."""
    results = answer["results"]
    assert isinstance(results, list)
    return results
