"""The server as a process of its own."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import pytest

from kbgit.config import Settings
from kbgit.home import SERVER_FILE, Home
from kbgit.web.server import local_url
from tests.web.serving import Answer, Client, People, until

_PROGRAM = """
import os, sys
from pathlib import Path
from kbgit.assemble import open_runtime
from kbgit.errors import KbgitError
from kbgit.home import Home
from kbgit.web.server import serve
try:
    home = Home.at(Path(sys.argv[1]), {"port": int(sys.argv[2]), "embedder": "none"})
    serve(open_runtime(home), os.environ, lambda line: print(line, flush=True))
except KbgitError as error:
    sys.exit(f"{error.code}: {error.message}")
print("stopped")
"""


@contextmanager
def started(home: Home, port: int = 0) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(home.path), str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=20)


def ready_url(process: subprocess.Popen[str]) -> str:
    """The URL that a server prints when it is ready."""
    assert process.stdout is not None
    match = re.fullmatch(r"kbgit answers at (http://127\.0\.0\.1:\d+)\n", process.stdout.readline())
    assert match is not None
    return match[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_is_and_stops_when_told(home: Home, number: signal.Signals) -> None:
    with started(home) as process:
        url = ready_url(process)
        file = home.path / SERVER_FILE
        assert json.loads(file.read_text()) == {"url": url, "pid": process.pid}
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert Client(url).get("/healthz").status == 200
        process.send_signal(number)
        output, errors = process.communicate(timeout=20)
        assert (process.returncode, output) == (0, "stopped\n"), errors
        assert not file.exists()


def test_a_request_that_runs_is_finished_before_it_stops(home: Home, people: People) -> None:
    with started(home) as process:
        client = Client(ready_url(process), people["ada"])
        answers: list[Answer] = []
        waiting = {"query": "x", "wait_for": "0" * 40, "wait_seconds": 1}
        thread = Thread(target=lambda: answers.append(client.post("/api/v1/knowledge/search", waiting)))
        thread.start()
        until(lambda: _open_connections(process.pid) > 0)
        process.terminate()
        thread.join(20)
        assert [answer.error for answer in answers] == ["timed_out"]
        assert process.wait(20) == 0


def test_a_request_that_runs_too_long_is_told_so_when_it_stops(home: Home, people: People) -> None:
    with started(home) as process:
        client = Client(ready_url(process), people["ada"])
        answers: list[Answer] = []
        waiting = {"query": "x", "wait_for": "0" * 40, "wait_seconds": 8}
        thread = Thread(target=lambda: answers.append(client.post("/api/v1/knowledge/search", waiting)))
        thread.start()
        until(lambda: _open_connections(process.pid) > 0)
        process.terminate()
        thread.join(20)
        assert [(answer.status, answer.error) for answer in answers] == [(503, "stopping")]
        assert process.wait(20) == 0


def test_an_answer_on_a_kept_connection_does_not_wait_for_an_acknowledgement(home: Home) -> None:
    with started(home) as process:
        connection = http.client.HTTPConnection(urlsplit(ready_url(process)).netloc, timeout=20)
        seconds = []
        for _ in range(30):
            start = time.perf_counter()
            connection.request("GET", "/healthz")
            assert connection.getresponse().read() == b'{"status":"ok"}'
            seconds.append(time.perf_counter() - start)
        connection.close()
    # Linux delays acknowledgements by 40 ms, except of the first few; a busy machine delays some answers, but not all.
    assert sorted(seconds[15:])[3] < 0.035


def test_what_takes_long_to_load_is_loaded_when_it_is_needed() -> None:
    slow = "import sys, kbgit.cli.serve; print([m for m in ('mcp', 'onnx', 'chromadb') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", slow], capture_output=True, check=True, timeout=60)
    assert done.stdout == b"[]\n"


def test_its_log_is_a_line_of_json_for_each_request(home: Home) -> None:
    with started(home) as process:
        Client(ready_url(process)).get("/healthz", {"X-Request-Id": "logged-request"})
        process.terminate()
        _, errors = process.communicate(timeout=20)
    lines = [json.loads(line) for line in errors.splitlines()]
    line = next(line for line in lines if line["logger"] == "kbgit.access")
    assert (line["request_id"], line["path"], line["status"]) == ("logged-request", "/healthz", 200)
    assert line["ms"] >= 0


def test_it_does_not_start_without_its_hooks(home: Home) -> None:
    (home.hooks / "pre-receive").chmod(0o644)
    with started(home) as process:
        output, errors = process.communicate(timeout=20)
        assert process.returncode == 1
        assert "home_problem" in errors
        assert "Git would skip it" in errors
        assert output == ""
        assert not (home.path / SERVER_FILE).exists()


def test_an_address_that_is_taken_is_a_problem_with_a_name(home: Home) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with started(home, port) as process:
            _, errors = process.communicate(timeout=20)
            assert process.returncode == 1
            assert f"cannot listen on 127.0.0.1:{port}" in errors


@pytest.mark.parametrize(
    ("host", "expected"), [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("localhost", "localhost")]
)
def test_the_address_for_this_machine_is_one_that_can_be_reached(host: str, expected: str) -> None:
    with socket.socket() as listener:
        listener.bind((host, 0))
        port = listener.getsockname()[1]
        assert local_url(Settings(host=host), listener) == f"http://{expected}:{port}"


def _open_connections(pid: int) -> int:
    """How many connections a process has accepted."""
    sockets = set()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(path)
        except FileNotFoundError:  # closed while we look
            continue
        if target.startswith("socket:["):
            sockets.add(target[8:-1])
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return sum(row[3] == "01" and row[9] in sockets for row in rows)
