"""SIGKILL of the server while documents come in and are extracted: none is lost, none becomes two items.

`KBGIT_KILLS` sets how many times the server is killed; the suite does a few.
"""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from kbgit.access import Scope
from kbgit.assemble import open_runtime
from kbgit.base import BaseKey
from kbgit.home import Home
from kbgit.importing import digest_of
from tests.documents.queueing import WORKER
from tests.web.serving import Client, until

KEY = BaseKey("personal:ada", "notes")
KILLS = int(os.environ.get("KBGIT_KILLS", "3"))
DOCUMENTS = 20
API = "/api/v1"
_PROGRAM = """
import os, sys
from dataclasses import replace
from pathlib import Path
from kbgit.assemble import open_runtime
from kbgit.documents.placing import Placing
from kbgit.documents.service import Documents
from kbgit.home import Home
from kbgit.web.server import serve
home = Home.at(Path(sys.argv[1]), {"port": 0, "embedder": "none", "watch": "off", "document_workers": 2})
runtime = open_runtime(home)
runtime.documents.stop()
placing = Placing(runtime.accounts, runtime.catalogue, runtime.indexer, runtime.writing)
settings = replace(home.settings, document_memory_mb=192)
runtime.documents = Documents(home.path / "documents", settings, runtime.catalogue, placing, command=sys.argv[2:])
serve(runtime, os.environ, lambda line: print(line, flush=True))
"""


@contextmanager
def serving(home: Home) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server process and its URL."""
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(home.path), *WORKER],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "answers at" in line
        yield process, line.split()[-1]
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def owned(home: Home) -> tuple[Home, str]:
    """A home with one owner, and their token."""
    accounts = home.accounts()
    accounts.add_user("ada", "test")
    _, token = accounts.add_token("ada", "test", list(Scope), "test")
    accounts.close()
    home.create_repository(KEY)
    return home, token


def content_of(number: int) -> bytes:
    """The bytes of a document; one in four cannot be read."""
    return f"{'fail corrupt' if number % 4 == 3 else 'text'} {number}".encode()


def test_no_document_is_lost_or_doubled_by_kill_9(owned: tuple[Home, str]) -> None:
    home, token = owned
    chance = random.Random(20261130)
    accepted: dict[str, int] = {}
    waiting = list(range(DOCUMENTS))
    for round_of_kills in range(KILLS + 1):
        with serving(home) as (process, url):
            client = Client(url, token)
            if round_of_kills < KILLS:
                killer = threading.Timer(chance.uniform(0.1, 1.5), process.kill)
                killer.start()
                with suppress(OSError, HTTPException):
                    while waiting:
                        upload(client, waiting, accepted)
                    process.wait(30)
                killer.join()
                process.wait(30)
            else:
                while waiting:
                    upload(client, waiting, accepted)
                rows = when_final(client)
    assert accepted.keys() <= rows.keys(), "what was acknowledged is there"
    for document, number in accepted.items():
        row = rows[document]
        assert row["sha256"] == hashlib.sha256(content_of(number)).hexdigest()
        assert row["state"] == ("failed" if number % 4 == 3 else "ready"), row
        assert row["attempts"] <= 1, "a server that is killed fails no document"
    check_that_each_is_one_item(home)


def upload(client: Client, waiting: list[int], accepted: dict[str, int]) -> None:
    """Send the first that waits; it waits no more once it is acknowledged."""
    number = waiting[0]
    answer = client.request("POST", f"{API}/bases/~ada/notes/documents?name={number}.pdf", content_of(number))
    assert answer.status == 202, answer.body
    accepted[answer.json["id"]] = waiting.pop(0)


def when_final(client: Client) -> dict[str, dict[str, Any]]:
    """Every document by its id, when nothing more happens to any."""
    until(lambda: all(row["state"] in ("ready", "failed") for row in documents(client)), 60)
    return {row["id"]: row for row in documents(client)}


def documents(client: Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(f"{API}/documents?limit=200").json["documents"]
    return found


def check_that_each_is_one_item(home: Home) -> None:
    """Each document that can be read is one item with one revision; no process and no file is left."""
    runtime = open_runtime(Home.at(home.path, {"embedder": "none", "watch": "off"}))
    try:
        base = runtime.catalogue.base(str(KEY))
        items = runtime.catalogue.items(str(KEY), limit=1000)
        wanted = {hashlib.sha256(content_of(number)).hexdigest() for number in range(DOCUMENTS) if number % 4 != 3}
        assert sorted(str(digest_of(item.metadata)) for item in items) == sorted(wanted)
        assert {item.number for item in items} == {1}
        assert base.head is not None
        assert len(home.repository(KEY).history(base.head)) == len(wanted)
        failed = runtime.documents._store.needing_originals()
    finally:
        runtime.stop()
    directory = home.path / "documents"
    assert {path.name for path in (directory / "originals").iterdir()} == failed
    assert list((directory / "incoming").iterdir()) == []
    assert list((directory / "work").iterdir()) == []
    give_up = time.monotonic() + 10
    while workers_of(home) and time.monotonic() < give_up:
        time.sleep(0.01)
    assert workers_of(home) == []


def workers_of(home: Home) -> list[str]:
    """Processes that were given a job of this home."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if str(home.path / "documents").encode() in path.read_bytes():
                found.append(path.parent.name)
    return found
