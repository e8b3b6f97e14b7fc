"""A home's parts, put together: what runs in the background, and what is left when opening fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbgit.access import Principal
from kbgit.assemble import HomeLock, open_runtime
from kbgit.errors import StoreTooNew
from kbgit.home import Home
from kbgit.memory import NewRecord
from kbgit.ranking import Mode
from tests.test_sqlite import open_files
from tests.web.serving import until

OPERATOR = Principal("ada", operator=True)
SETTINGS = {"watch": "off", "sweep_seconds": 0.2}


def test_a_home_that_cannot_be_opened_is_let_go_of_entirely(home: Home) -> None:
    (home.path / "memory").mkdir()
    (home.path / "memory" / "version").write_text("99\n")
    before = [name for name in open_files() if name.startswith(str(home.path))]
    with pytest.raises(StoreTooNew):
        open_runtime(Home.at(home.path, {"embedder": "hashing"}))
    assert [name for name in open_files() if name.startswith(str(home.path))] == before == []
    HomeLock(home.path).release()


def test_memory_that_was_written_without_an_embedder_is_found_by_its_meaning_later(home: Home, tmp_path: Path) -> None:
    without = open_runtime(Home.at(home.path, {**SETTINGS, "embedder": "none"}))
    without.memory.remember(NewRecord("harbour", "The crane moves."), OPERATOR)
    without.stop()
    runtime = open_runtime(Home.at(home.path, {**SETTINGS, "embedder": "hashing"}))
    runtime.start()
    try:
        until(lambda: runtime.memory.search("crane", OPERATOR).mode_used is Mode.HYBRID, 20.0)
    finally:
        runtime.stop()
