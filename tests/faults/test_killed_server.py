"""SIGKILL at any moment while pushes come in: what was acknowledged stays, and answers equal a rebuild.

`KBGIT_KILLS` sets how many times the server is killed (a long run: see docs/reliability.md); the suite does a few.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kbgit.access import Principal, Scope
from kbgit.assemble import open_runtime
from kbgit.base import BaseKey
from kbgit.home import Home
from kbgit.library import SearchRequest
from kbgit.publish import rebuild
from tests.web.serving import WorkTree, git_url, published
from tests.writing import tables

KEY = BaseKey("personal:ada", "notes")
KILLS = int(os.environ.get("KBGIT_KILLS", "4"))
PUSHES = 30
_PROGRAM = """
import os, sys
from pathlib import Path
from kbgit.assemble import open_runtime
from kbgit.home import Home
from kbgit.web.server import serve
home = Home.at(Path(sys.argv[1]), {"port": 0, "embedder": "hashing", "sweep_seconds": 0.2})
serve(open_runtime(home), os.environ, lambda line: print(line, flush=True))
"""


@contextmanager
def serving(home: Home) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server process and its URL. Whatever it started dies with it: it leads a process group of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(home.path)],
        stdout=subprocess.PIPE,
        stderr=sys.stderr,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "answers at" in line
        yield process, line.split()[-1]
    finally:
        kill(process)
        process.communicate()


def kill(process: subprocess.Popen[str]) -> None:
    """SIGKILL to the server, its hooks and its Git processes at once."""
    if process.poll() is None:
        os.killpg(process.pid, 9)
        process.wait()


@pytest.fixture
def owned(home: Home) -> tuple[Home, str]:
    """A home with one owner, and their token."""
    accounts = home.accounts()
    accounts.add_user("ada", "test")
    _, token = accounts.add_token("ada", "test", list(Scope), "test")
    accounts.close()
    home.create_repository(KEY)
    return home, token


def test_acknowledged_pushes_survive_kill_9_and_the_catalogue_and_index_equal_a_rebuild(
    owned: tuple[Home, str], tmp_path: Path
) -> None:
    home, token = owned
    chance = random.Random(20261130)
    work = WorkTree(tmp_path / "work")
    work.path.mkdir()
    work.git("init", "--quiet", "--initial-branch=main")
    acknowledged: list[str] = []
    number = 0
    said = ""
    for round_of_kills in range(KILLS):
        last = round_of_kills == KILLS - 1
        with serving(home) as (process, url):
            # The kill comes while pushes run, at a moment that differs from round to round.
            killer = threading.Timer(chance.uniform(0.05, 2.0), kill, (process,))
            if not last:
                killer.start()
            for _ in range(max(1, PUSHES // KILLS)):
                number += 1
                commit = work.write(
                    {f"{number % 7}.md": published(f"Heron {number}", f"word{number}\n", id=f"i{number % 7}")}
                )
                pushed = work.git("push", git_url(url, token, "~ada/notes.git"), "main", check=False)
                said = pushed.output
                if pushed.code == 0:
                    acknowledged.append(commit)
                if process.poll() is not None and not last:
                    break
            killer.cancel()
    assert acknowledged, said
    check_that_nothing_is_lost(home, acknowledged)


def check_that_nothing_is_lost(home: Home, acknowledged: list[str]) -> None:
    """Every acknowledged commit is published, its pusher known; catalogue and answers equal a rebuild from nothing."""
    home = Home.at(home.path, {"embedder": "hashing", "watch": "off"})
    runtime = open_runtime(home)
    try:
        runtime.indexer.sweep()
        while runtime.indexer.embed_some():
            pass
        repository = home.repository(KEY)
        head = repository.head()
        assert head is not None
        for commit in acknowledged:
            assert repository.is_ancestor(commit, head)
            provenance = runtime.catalogue.provenance(str(KEY), commit)
            assert provenance is not None
            assert (provenance.pushed_by, provenance.via.value) == ("ada", "push")
        lived = tables(home)
        answers = all_answers(runtime.library.search)
        rebuild(repository, runtime.catalogue, runtime.catalogue.base(str(KEY)), home.limits)
        assert tables(home) == lived
        runtime.index.drop(str(KEY))
        runtime.indexer.sweep()
        while runtime.indexer.embed_some():
            pass
        for lived_answer, rebuilt_answer in zip(answers, all_answers(runtime.library.search), strict=True):
            assert rebuilt_answer == lived_answer
    finally:
        runtime.stop()


def all_answers(search: object) -> list[list[tuple[str, float]]]:
    """What a few queries find, in order, with their scores."""
    assert callable(search)
    caller = Principal("ada", operator=True)
    found = []
    for query in ("heron", *(f"word{number}" for number in range(1, PUSHES + 1))):
        results = search(SearchRequest(query=query, limit=100), caller).results
        found.append([(str(result.citation), round(result.score, 4)) for result in results])
    return found
