"""`kbgit backup` and `kbgit restore`, and the page about them, run as it stands there."""

from __future__ import annotations

import re
import shutil
import threading
from pathlib import Path

from tests.cli import test_administration_page as page
from tests.cli.running import PAGES, Kbgit, push, wait_until, write

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "backup.md"


def filled(kbgit: Kbgit, scratch: Path) -> None:
    kbgit.run("base", "import", "--from", str(write(scratch / "handbook", PAGES)))
    kbgit.run("memory", "remember", "Ask Ada before a deploy.", "--project", "harbour")


def test_a_home_is_backed_up_while_it_is_served_and_restored(kbgit: Kbgit, tmp_path: Path) -> None:
    filled(kbgit, tmp_path)
    repository = str(kbgit.home / "repositories" / "~ada" / "handbook.git")
    stop = threading.Event()
    pushed: list[str] = []

    def push_on() -> None:
        while not stop.is_set():
            text = f"---\nstatus: published\n---\n# Gannet {len(pushed)}\n"
            pushed.append(push(repository, tmp_path / f"writer {len(pushed)}", {f"gannet{len(pushed)}.md": text}))

    with kbgit.server():
        pushing = threading.Thread(target=push_on)
        pushing.start()
        try:
            wait_until(lambda: len(pushed) > 0)
            acknowledged = list(pushed)
            written = kbgit.json("backup", str(tmp_path / "backup.tar"))
        finally:
            stop.set()
            pushing.join()
    assert list(written["bases"]) == ["personal:ada/handbook"]
    assert kbgit.json("backup", "--verify", str(tmp_path / "backup.tar"))["files"] == written["files"]
    before = kbgit.json("search", "rollout", "--embed")["results"]
    remembered = kbgit.json("memory", "list")
    shutil.rmtree(kbgit.home)
    again = Kbgit(tmp_path / "again")
    preview = again.json("restore", str(tmp_path / "backup.tar"), "--dry-run")
    assert preview["bases"] == written["bases"]
    assert not again.home.exists()
    done = again.json("restore", str(tmp_path / "backup.tar"))
    assert done["verified"]["sound"] is True
    again.run("reindex")
    assert again.json("verify", "--full")["findings"] == []
    found = again.json("search", "rollout")["results"]
    assert [(hit["title"], hit["citation"]) for hit in found if "Gannet" not in hit["title"]] == [
        (hit["title"], hit["citation"]) for hit in before if "Gannet" not in hit["title"]
    ]
    assert again.json("memory", "list") == remembered
    for commit in acknowledged:
        assert again.json("search", "gannet", "--wait-for", commit)["results"]


def test_a_damaged_backup_is_refused_by_name(kbgit: Kbgit, tmp_path: Path) -> None:
    filled(kbgit, tmp_path)
    kbgit.run("backup", str(tmp_path / "backup"))
    with open(tmp_path / "backup" / "accounts.sqlite", "ab") as file:
        file.write(b"x")
    for command in (("backup", "--verify", str(tmp_path / "backup")), ("restore", str(tmp_path / "backup"))):
        found = Kbgit(tmp_path / "new").json(*command, code=3)
        assert found["error"]["code"] == "backup_damaged"
        assert found["error"]["details"]["file"] == "accounts.sqlite"
    assert not (tmp_path / "new").exists()


def test_a_home_is_not_restored_over_another(kbgit: Kbgit, tmp_path: Path) -> None:
    kbgit.run("backup", str(tmp_path / "backup"))
    assert "over nothing" in kbgit.run("restore", str(tmp_path / "backup"), code=3).stderr
    kbgit.run("backup", str(tmp_path / "backup"), code=1)
    kbgit.run("backup", "--verify", "--with-owner-token", str(tmp_path / "backup"), code=2)


def test_an_owner_of_several_users_can_go_on_after_a_restore(kbgit: Kbgit, tmp_path: Path) -> None:
    kbgit.run("user", "create", "mia")
    kbgit.run("backup", str(tmp_path / "backup"))
    again = Kbgit(tmp_path / "again")
    told = again.run("restore", str(tmp_path / "backup")).stdout
    assert "A new token of ada" in told
    assert again.json("user", "list")["users"] == ["ada", "mia"]


def test_the_page_about_backups_runs_as_it_is_written(tmp_path: Path) -> None:
    blocks = "".join(re.findall(r"<!-- run -->\n```console\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL))
    steps: list[tuple[str, list[str]]] = []
    for line in blocks.splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], []))
        else:
            steps[-1][1].append(line)
    printed = page.run([command for command, _ in steps], tmp_path)
    assert len(printed) == len(steps)
    for (command, expected), told in zip(steps, printed, strict=True):
        assert re.fullmatch(page.pattern(expected), told), f"$ {command}\n{told}"
