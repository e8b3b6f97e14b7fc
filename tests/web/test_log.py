"""The log: what a line holds, whose request it belongs to, and what is never in it."""

from __future__ import annotations

import base64
import contextvars
import io
import json
import logging
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import pytest

from kbgit.access import Scope
from kbgit.home import Home
from kbgit.web.asgi import CURRENT, Visit
from kbgit.web.log import JsonLines, TextLines, log_to_standard_error
from tests.web.serving import Client, People, WorkTree, git_url, published, until

CANARY = "canarybird"
_PROGRAM = """
import logging, os, sys
from pathlib import Path
from kbgit.assemble import open_runtime
from kbgit.home import Home
from kbgit.web.server import serve
home = Home.at(Path(sys.argv[1]), {"port": 0, "embedder": "hashing", "log_level": "debug", "sweep_seconds": 0.2})
runtime = open_runtime(home)
def fail(*arguments, **named):
    raise ValueError(f"cannot do this with {arguments} {named} canarybird")
def tell(*arguments, **named):
    logging.getLogger("kbgit.library").warning("told by the library")
    logging.getLogger("somebody.elses").debug("request was %s canarybird", arguments)
    return compare(*arguments, **named)
compare = runtime.library.diff
runtime.library.revisions, runtime.library.diff = fail, tell
serve(runtime, os.environ, lambda line: print(line, flush=True))
"""


def record(message: str, *arguments: object, error: BaseException | None = None, **extra: object) -> logging.LogRecord:
    info = (type(error), error, error.__traceback__) if error else None
    made = logging.LogRecord("kbgit.test", logging.ERROR, "here.py", 1, message, arguments, info)
    vars(made).update(extra)
    return made


def raised(error: Exception, cause: Exception | None = None) -> Exception:
    try:
        raise error from cause
    except Exception as caught:  # noqa: BLE001 - whatever it is
        return caught


def line(made: logging.LogRecord) -> dict[str, Any]:
    found = json.loads(JsonLines().format(made))
    assert isinstance(found, dict)
    return found


def test_a_line_is_one_json_object_with_what_it_came_with() -> None:
    found = line(record("moved %d\nrefs", 3, base="team:platform/runbooks"))
    assert found.pop("time").endswith("Z")
    assert found == {
        "level": "error",
        "logger": "kbgit.test",
        "message": "moved 3\nrefs",
        "base": "team:platform/runbooks",
    }
    assert "\n" not in JsonLines().format(record("two\nlines"))


def test_a_line_names_the_request_that_it_belongs_to_also_from_a_thread_that_works_for_it() -> None:
    CURRENT.set(Visit(request_id="request-4711"))
    context = contextvars.copy_context()
    found: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: found.append(context.run(lambda: line(record("x")))))
    thread.start()
    thread.join()
    CURRENT.set(None)
    assert found[0]["request_id"] == "request-4711"
    assert "request_id" not in line(record("x"))


def test_an_exception_is_told_by_type_and_place_and_not_by_its_message() -> None:
    error = raised(ValueError(f"{CANARY} is wrong"), raised(KeyError(CANARY)))
    text = line(record("failed", error=error))["exception"]
    assert "ValueError" in text
    assert "KeyError" in text
    assert f"{__file__}:" in text
    assert "in raised" in text
    assert CANARY not in text


def test_what_the_system_and_the_database_say_went_wrong_is_told() -> None:
    full = raised(OSError(28, "No space left on device", f"/{CANARY}"))
    text = line(record("failed", error=full))["exception"]
    assert "OSError: No space left on device" in text
    assert CANARY not in text
    with sqlite3.connect(":memory:") as connection, pytest.raises(sqlite3.OperationalError) as wrong:
        connection.execute(f"SELECT {CANARY}")
    assert "OperationalError: SQLITE_ERROR" in line(record("failed", error=wrong.value))["exception"]


def test_an_exception_that_causes_itself_ends() -> None:
    error = ValueError()
    error.__cause__ = error
    assert line(record("failed", error=error))["exception"]


@pytest.mark.parametrize("form", [JsonLines(), TextLines()])
def test_whatever_has_the_shape_of_a_token_is_struck_out(form: logging.Formatter) -> None:
    text = form.format(record("GET /kbgit_0123456789ab_%s", "s3cr3t-" * 6, header="kbgit_0123456789ab_" + "A" * 43))
    assert "s3cr3t" not in text
    assert "AAAA" not in text
    assert text.count("kbgit_0123456789ab_[struck out]") == 2


def test_on_a_terminal_lines_are_for_people_and_give_it_no_orders() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    with logging_restored():
        log_to_standard_error("info", terminal)
        logging.getLogger("kbgit.test").info("hello \x1b[31m\nworld", extra={"path": "/x\x07", "user": ""})
    (shown,) = terminal.getvalue().splitlines()
    assert "info" in shown
    assert "hello \\x1b[31m\\nworld path=/x\\x07" in shown


def test_libraries_speak_from_warnings_on_at_every_level() -> None:
    stream = io.StringIO()
    with logging_restored():
        log_to_standard_error("debug", stream)
        logging.getLogger("somebody.elses").debug("quiet")
        logging.getLogger("somebody.elses").warning("loud")
        logging.getLogger("kbgit.library").debug("own")
    assert [json.loads(text)["message"] for text in stream.getvalue().splitlines()] == ["loud", "own"]


@contextmanager
def logging_restored() -> Iterator[None]:
    root = logging.getLogger()
    loggers = [root, logging.getLogger("kbgit"), logging.getLogger("uvicorn.error")]
    handlers, levels = root.handlers[:], [logger.level for logger in loggers]
    try:
        yield
    finally:
        root.handlers[:] = handlers
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


# Traffic of all kinds


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str]]:
    """The log of a server at its most talkative under traffic of all kinds, and what must not be in it."""
    directory = tmp_path_factory.mktemp("traffic")
    home = Home.create(directory / "home")
    people = People(home.accounts())
    people.accounts.add_user("ada", "test", administrator=True)
    people.add_token("ada", "ada")
    people.add_token("reader", "ada", Scope.KNOWLEDGE_READ)
    people.accounts.close()
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(home.path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    log: list[str] = []
    assert process.stderr is not None
    reader = threading.Thread(target=lambda: log.append(process.stderr.read() if process.stderr else ""))
    reader.start()
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        forged = f"kbgit_0123456789ab_{CANARY}{'A' * 33}"
        drive(url, people, WorkTree(directory / "work"), forged)
        process.send_signal(signal.SIGHUP)
        assert Client(url).get("/healthz", {"X-Request-Id": "after-sighup"}).status == 200
    finally:
        process.terminate()
        process.wait(20)
        reader.join(20)
    secrets = [text[19:] for text in people.tokens.values()]
    return log[0], [CANARY, "A" * 33, *secrets]


def drive(url: str, people: People, work: WorkTree, forged: str) -> None:
    """Every kind of request, each with a canary wherever something can be put; right, wrong and broken ones."""
    ada = Client(url, people["ada"])
    api = "/api/v1"
    cookie = {"Cookie": f"kbgit_session={CANARY}; other={CANARY}"}

    def sent(client: Client, method: str, path: str, payload: object = None, **headers: str) -> int:
        body = payload if isinstance(payload, bytes) else json.dumps(payload).encode() if payload is not None else None
        form = {"Content-Type": "application/json", **{name.replace("_", "-"): text for name, text in headers.items()}}
        return client.request(method, path, body, form).status

    assert sent(ada, "POST", f"{api}/bases", {"space": "~ada", "slug": "notes"}) == 201
    address = f"{api}/bases/~ada/notes/items"
    new = {"title": f"T {CANARY}", "content": f"{CANARY} text", "status": "published", "locator": "a.md", "id": "a"}
    assert sent(ada, "POST", address, new) == 201
    assert sent(ada, "POST", address, {**new, "tags": 7}) == 400
    assert sent(ada, "POST", address, f'{{"title": "{CANARY}'.encode()) == 400
    assert sent(ada, "POST", f"{api}/knowledge/search", {"query": CANARY}, X_Request_Id="the-search") == 200
    assert sent(ada, "POST", f"{api}/knowledge/search", {"query": CANARY, "mode": CANARY}) == 400
    assert sent(ada, "GET", f"{api}/knowledge/search?q={CANARY}") == 405
    assert sent(ada, "GET", f"/?q={CANARY}", **cookie) < 500
    revision = ada.get(f"{api}/knowledge/items/a").json["knowledge_revision_id"]
    told = f"{api}/knowledge/items/a/diff?from={revision}&to={revision}"
    assert sent(ada, "GET", told, X_Request_Id="the-library") == 200
    assert sent(ada, "GET", f"{api}/knowledge/items/a/revisions?base={CANARY}", X_Request_Id="the-failure") == 500
    assert sent(ada, "POST", f"{api}/memory", {"text": CANARY, "project": "harbour"}) == 201
    for token in (forged, CANARY, "kbgit_nonsense"):
        assert sent(Client(url, token), "GET", f"{api}/bases") == 401
        assert sent(Client(url, token), "POST", "/mcp", {"query": CANARY}) == 401
    assert sent(Client(url), "GET", f"{api}/bases?token={forged}") == 401
    assert sent(Client(url), "GET", f"{api}/bases", Authorization=f"Digest {CANARY}") == 401
    assert sent(Client(url), "GET", f"{api}/bases", Cookie=f"x={forged}") == 401
    basic = base64.b64encode(f"x:{forged}".encode()).decode()
    assert (
        sent(
            Client(url), "GET", "/git/~ada/notes.git/info/refs?service=git-upload-pack", Authorization=f"Basic {basic}"
        )
        == 401
    )
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert Client(url).request("POST", "/sign-in", f"token={quote(forged)}".encode(), form).status < 500
    assert sent(Client(url), "GET", "/healthz", Host=f"{CANARY}.example") == 200
    assert sent(Client(url), "GET", f"{api}/status", Host=f"{CANARY}.example") == 421
    assert sent(Client(url), "GET", f"{api}/status", Origin=f"https://{CANARY}.example") == 403
    assert sent(Client(url, people["reader"]), "GET", "/metrics") == 403
    assert sent(ada, "GET", "/metrics") == 200
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    arguments = {"name": "search_knowledge", "arguments": {"query": CANARY}}
    accept = {"Accept": "application/json"}
    assert sent(ada, "POST", "/mcp", {**call, "params": arguments}, **accept) == 200
    assert (
        sent(ada, "POST", "/mcp", {**call, "params": {"name": CANARY, "arguments": {CANARY: CANARY}}}, **accept) < 500
    )
    assert sent(ada, "POST", "/mcp", f"{{{CANARY}".encode(), **accept) < 500
    uploads = f"{api}/bases/~ada/notes"
    assert ada.request("POST", f"{uploads}/documents?name={CANARY}.pdf", f"%PDF-1.7 {CANARY}".encode()).status == 202
    assert ada.request("POST", f"{uploads}/documents?name={CANARY}.exe", CANARY.encode()).status >= 400
    file = {"name": f"{CANARY}.txt", "text": f"{CANARY}\n"}
    assert sent(ada, "POST", f"{uploads}/files", {"files": [file]}) < 500
    until(lambda: all(row["state"] == "failed" for row in ada.get(f"{api}/documents").json["documents"]), 30)
    work.path.mkdir()
    work.git("clone", "--quiet", git_url(url, people["ada"], "~ada/notes.git"), ".")
    work.write({"b.md": published(f"B {CANARY}", f"{CANARY}\n")}, f"{CANARY} message")
    work.git("push", "--quiet", "origin", "HEAD:main")
    work.write({"c.md": f"---\ntitle: a: {CANARY}\n---\n"}, "broken")
    assert work.git("push", "--quiet", "origin", "HEAD:main", check=False).code != 0


def test_no_token_no_query_and_no_content_is_in_the_log(traffic: tuple[str, list[str]]) -> None:
    log, hidden = traffic
    assert len(log.splitlines()) > 30
    for text in hidden:
        assert text not in log


def test_every_line_is_json_and_every_line_of_a_request_has_its_id(traffic: tuple[str, list[str]]) -> None:
    lines = [json.loads(text) for text in traffic[0].splitlines()]
    of_library = [one for one in lines if one["message"] == "told by the library"]
    assert [one["request_id"] for one in of_library] == ["the-library"]
    failures = [one for one in lines if one.get("request_id") == "the-failure"]
    assert {one["message"] for one in failures} == {"unexpected failure", "request"}
    assert any("ValueError" in one.get("exception", "") for one in failures)
    assert all("request_id" in one for one in lines if one["logger"] in ("kbgit.access", "kbgit.git"))


def test_sighup_changes_nothing_and_the_log_says_so(traffic: tuple[str, list[str]]) -> None:
    lines = [json.loads(text) for text in traffic[0].splitlines()]
    assert any("SIGHUP changes nothing" in one["message"] for one in lines)
    assert any(one.get("request_id") == "after-sighup" for one in lines)


def test_the_log_says_under_which_names_the_server_answers(traffic: tuple[str, list[str]]) -> None:
    assert "requests are answered under the names 127.0.0.1, ::1, localhost" in traffic[0]
