from __future__ import annotations

import re
import shutil
import threading
from pathlib import Path

import pytest

from kbgit.assemble import HomeLock
from kbgit.cli import client
from tests.cli.running import Kbgit, Published


def test_status_says_what_answers_and_how_fresh_everything_is(published: Published) -> None:
    shown = published.kbgit.run("status").stdout
    assert "opened by this command" in shown
    assert "up to date" in shown
    assert published.kbgit.json("status", "--check")["fresh"] is True


def test_status_check_is_a_no_while_vectors_are_missing(kbgit: Kbgit, pages: Path) -> None:
    kbgit.run("base", "import", "--from", str(pages))
    assert kbgit.json("status", "--check", code=1)["fresh"] is False
    kbgit.run("reindex")
    kbgit.run("status", "--check")


def test_reindex_full_gives_what_was_there(kbgit: Kbgit, pages: Path) -> None:
    kbgit.run("base", "import", "--from", str(pages))
    before = kbgit.json("search", "rollout", "--embed")
    (row,) = kbgit.json("reindex", "--full", "team-pages")["bases"]
    assert row["passages"] == row["vectors"] > 0
    assert row["problem"] is None
    assert kbgit.json("search", "rollout") == before


def test_everything_derived_can_be_deleted(kbgit: Kbgit, pages: Path) -> None:
    kbgit.run("base", "import", "--from", str(pages))
    before = kbgit.json("search", "rollout", "--embed")
    shutil.rmtree(kbgit.home / "index")
    for file in kbgit.home.glob("*.sqlite*"):
        if not file.name.startswith("accounts"):
            file.unlink()
    assert kbgit.json("search", "rollout", "--embed") == before


def test_reindex_knows_no_other_bases(kbgit: Kbgit) -> None:
    kbgit.run("reindex", "nowhere", code=1)


def test_reindex_names_a_base_that_its_caller_may_not_see(kbgit: Kbgit, pages: Path) -> None:
    kbgit.run("user", "create", "mia")
    kbgit.run("space", "create", "platform", "--owner", "mia")
    kbgit.run("base", "import", "team:platform/pages", "--from", str(pages))
    (row,) = kbgit.json("reindex", "--full")["bases"]
    assert (row["base"], row["passages"], row["problem"]) == ("team:platform/pages", None, None)
    assert "team:platform/pages: the owner of the home is not in its space" in kbgit.run("reindex").stdout
    (kbgit.home / "repositories" / "platform" / "pages.git" / "refs" / "kbgit" / "publications").unlink()
    assert "team:platform/pages" in kbgit.run("reindex", "--full", code=3).stdout


def test_a_home_that_another_process_owns_for_a_moment_is_waited_for(kbgit: Kbgit, pages: Path) -> None:
    kbgit.run("base", "import", "--from", str(pages))
    lock = HomeLock(kbgit.home)
    timer = threading.Timer(0.5, lock.release)
    timer.start()
    try:
        kbgit.run("reindex")
    finally:
        timer.join()


def test_a_home_that_another_process_keeps_is_trouble(kbgit: Kbgit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_LOCK_SECONDS", 0.2)
    lock = HomeLock(kbgit.home)
    try:
        assert "owns the index" in kbgit.run("status", code=3).stderr
    finally:
        lock.release()


def test_status_shows_health_documents_disk_and_stores_at_a_glance(published: Published) -> None:
    shown = published.kbgit.run("status").stdout
    assert "health       ready" in shown
    assert "documents    0 queued, 0 extracting, 0 failed" in shown
    assert re.search(r"disk free    [\d,]+\.\d [MG]B", shown)
    assert re.search(r"stores       .*\bindex \d+\.\d MB", shown)


def test_status_of_a_machine_names_its_server_and_its_stores(published: Published) -> None:
    alone = published.kbgit.json("status", "--machine")
    assert alone["server"] is None
    assert alone["home"]["path"] == str(published.kbgit.home)
    assert alone["home"]["disk_free_bytes"] > 0
    assert alone["home"]["store_bytes"]["accounts"] > 0
    with published.kbgit.server() as url:
        assert published.kbgit.json("status", "--machine")["server"]["url"] == url
    assert published.kbgit.json("status")["health"] == {"status": "ok"}


def test_status_says_what_degrades(published: Published) -> None:
    hook = published.kbgit.home / "hooks" / "pre-receive"
    hook.chmod(0o644)
    try:
        assert published.kbgit.json("status")["health"] == {"status": "degraded", "reasons": ["hooks changed"]}
        assert "health       hooks changed" in published.kbgit.run("status").stdout
    finally:
        hook.chmod(0o755)  # other tests have the same home
