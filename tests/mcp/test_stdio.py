"""The server on standard input and output, as clients start it."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from kbgit.access import Scope
from kbgit.assemble import LOCK_FILE
from kbgit.home import Home
from tests.mcp.connecting import Served, lines_of
from tests.web.serving import until

ROOT = Path(__file__).parents[2]
OPENING = [
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
]


def call(number: int, name: str, **arguments: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


def lines(*messages: object) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in messages)


def written(*messages: object) -> bytes:
    """The handshake, then these."""
    return lines(*OPENING, *messages)


@contextmanager
def started(
    home: Path, *arguments: str, flags: tuple[str, ...] = (), **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """`kbgit mcp`, ended at the end in any case."""
    with subprocess.Popen(
        [sys.executable, *flags, "-m", "kbgit.cli", "mcp", "--home", str(home), *arguments],
        env={"PATH": os.environ["PATH"], **environment},
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def break_index(home: Home) -> int:
    """Overwrite every file of the index. How many there were."""
    files = [file for file in home.index_directory.rglob("*") if file.is_file()]
    for file in files:
        file.write_bytes(b"broken")
    return len(files)


def is_locked(home: Path) -> bool:
    with open(home / LOCK_FILE, "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def first_line(stream: IO[bytes] | None) -> dict[str, Any]:
    assert stream is not None
    found = json.loads(stream.readline())
    assert isinstance(found, dict)
    return found


def test_nothing_but_the_protocol_reaches_standard_output(home: Home) -> None:
    with started(home.path) as process:
        process.communicate(written(call(2, "search_knowledge", query="rollback")), timeout=60)
    assert break_index(home) > 3
    (home.path / "catalogue.sqlite").write_bytes(b"broken")
    questions = [call(2, "search_knowledge", query="rollback"), call(3, "never_was"), call(4, "read_knowledge")]
    variables = {"KBGIT_LOG_LEVEL": "debug", "PYTHONWARNINGS": "always"}
    with started(home.path, flags=("-W", "always", "-X", "dev"), **variables) as process:
        output, log = process.communicate(written(*questions) + b"nonsense\n\n[]\n", timeout=60)
    answers = {one["id"]: one for one in lines_of(output) if "id" in one}
    assert process.returncode == 0
    assert {1, 2, 3, 4} <= set(answers)
    assert answers[3]["error"]["code"] == -32602
    assert answers[4]["result"]["isError"] is True
    assert b'"level": "warning"' in log


def test_an_index_that_breaks_while_it_is_used_does_not_break_the_wire(home: Home) -> None:
    with started(home.path) as process:
        assert process.stdin is not None
        process.stdin.write(written(call(2, "search_knowledge", query="rollback")))
        process.stdin.flush()
        assert [first_line(process.stdout)["id"] for _ in range(2)] == [1, 2]
        until(lambda: any(home.index_directory.rglob("stamp.json")))  # an answer does not wait for the index
        assert break_index(home)
        output, _ = process.communicate(lines(call(3, "search_knowledge", query="harbour")), timeout=60)
        assert [one["id"] for one in lines_of(output)] == [3]
        assert process.returncode == 0


def test_what_was_asked_before_the_end_of_input_is_answered(home: Home) -> None:
    with started(home.path) as process:
        output, _ = process.communicate(written(call(2, "search_knowledge", query="rollback")), timeout=60)
    answers = {one["id"]: one for one in lines_of(output)}
    assert answers[2]["result"]["structuredContent"]["type"] == "knowledge_search"
    assert process.returncode == 0
    assert not is_locked(home.path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_its_locks_released(home: Home, number: signal.Signals) -> None:
    with started(home.path) as process:
        assert process.stdin is not None
        process.stdin.write(written())
        process.stdin.flush()
        assert first_line(process.stdout)["id"] == 1
        assert is_locked(home.path)
        process.send_signal(number)
        assert process.wait(20) == 0
        assert not is_locked(home.path)


def test_a_client_that_dies_ends_it(home: Home) -> None:
    with started(home.path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(written())
        process.stdin.flush()
        assert first_line(process.stdout)["id"] == 1
        process.stdout.close()
        process.stdin.write(lines(call(2, "search_knowledge", query="rollback")))
        process.stdin.close()
        process.wait(20)
        assert not is_locked(home.path)


def test_a_revoked_token_is_refused_in_an_open_session(home: Home) -> None:
    accounts = home.accounts()
    made, text = accounts.add_token("ada", "x", tuple(Scope), "test")
    with started(home.path, KBGIT_TOKEN=text) as process:
        assert process.stdin is not None
        process.stdin.write(written(call(2, "recall_context", query="x")))
        process.stdin.flush()
        assert first_line(process.stdout)["id"] == 1
        before = first_line(process.stdout)["result"]
        accounts.revoke_token(made.id, "test")
        process.stdin.write(lines(call(3, "recall_context", query="x")))
        process.stdin.flush()
        after = first_line(process.stdout)["result"]
    accounts.close()
    assert before["isError"] is False
    assert after["structuredContent"]["error"]["code"] == "unauthenticated"


def test_a_token_that_is_not_valid_is_said_at_once_and_not_on_standard_output(home: Home) -> None:
    with started(home.path, KBGIT_TOKEN="nonsense") as process:
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (1, b"")
    assert b"kbgit token create" in errors


def test_an_unknown_profile_is_said_with_those_there_are(home: Home) -> None:
    with started(home.path, "--profile", "anything") as process:
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (2, b"")
    assert b"chatgpt-public" in errors


def test_the_scope_that_is_missing_is_named_in_the_answer(home: Home) -> None:
    accounts = home.accounts()
    text = accounts.add_token("ada", "x", [Scope.MEMORY_READ], "test")[1]
    accounts.close()
    with started(home.path, KBGIT_TOKEN=text) as process:
        output, _ = process.communicate(written(call(2, "remember", text="x", project="p")), timeout=60)
    error = {one["id"]: one for one in lines_of(output)}[2]["result"]["structuredContent"]["error"]
    assert (error["code"], error["details"]["scope"]) == ("forbidden", "memory:write")


def test_a_server_that_is_gone_is_an_error_of_the_protocol(home: Home) -> None:
    with started(home.path, "--server", "http://127.0.0.1:9", KBGIT_TOKEN="x") as process:
        output, _ = process.communicate(written(call(2, "search_knowledge", query="x")), timeout=60)
    answers = lines_of(output)
    assert {one["id"] for one in answers} == {1, 2}
    assert all("no server answers" in one["error"]["message"] for one in answers)


def test_a_server_that_refuses_is_an_error_that_says_why(home: Home, served: Served) -> None:
    token = served.token("ada", Scope.MEMORY_READ)
    with started(home.path, "--server", served.url, KBGIT_TOKEN=token) as process:
        output, _ = process.communicate(written(call(2, "search_knowledge", query="x")) + b"nonsense\n", timeout=60)
    answers = {one["id"]: one for one in lines_of(output)}
    assert answers[2]["error"]["data"]["details"]["scope"] == "knowledge:read"
    assert answers[None]["error"]["code"] == -32700


def test_prints_of_libraries_and_children_miss_the_wire() -> None:
    program = (
        "import os, subprocess\n"
        "from kbgit.mcp.wire import standard_output\n"
        "print('before')\n"
        "with standard_output() as output:\n"
        "    print('printed')\n"
        "    os.write(1, b'written')\n"
        "    subprocess.run(['echo', 'echoed'])\n"
        "    output.write('{}')\n"
        "print('after')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=True, timeout=60)
    assert done.stdout == b"before\n{}after\n"
    for stray in (b"printed", b"written", b"echoed"):
        assert stray in done.stderr


def test_starting_through_a_server_takes_no_time() -> None:
    heavy = "import sys, kbgit.cli.mcp; print([m for m in ('mcp', 'chromadb', 'numpy', 'whoosh') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", heavy], cwd=ROOT, capture_output=True, check=True, timeout=60)
    assert done.stdout == b"[]\n"
