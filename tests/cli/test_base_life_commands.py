"""The life of a base on the command line: changed, archived, exported, destroyed, restored."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import DEPLOY, PAGES, Kbgit, git, push, write

LATER = DEPLOY.replace("at noon", "in the morning")


@pytest.fixture
def notes(kbgit: Kbgit, pages: Path) -> Kbgit:
    """A home with the base `notes`, indexed."""
    kbgit.run("base", "import", "notes", "--from", str(pages))
    kbgit.run("reindex")
    return kbgit


def test_settings_are_changed_one_by_one(notes: Kbgit) -> None:
    found = notes.json("base", "update", "notes", "--title", "Notes: ours", "--description", "What we know")
    assert (found["name"], found["description"], found["admission"]) == ("Notes: ours", "What we know", "strict")
    found = notes.json(
        "base", "update", "personal:ada/notes", "--admission", "lenient", "--default-status", "published"
    )
    assert (found["name"], found["admission"], found["default_status"]) == ("Notes: ours", "lenient", "published")
    assert found["items"]["draft"] == 0
    assert "--title" in notes.run("base", "update", "notes", code=2).stderr


def test_an_archived_base_is_not_searched_until_it_is_restored(notes: Kbgit) -> None:
    reference = notes.json("read", "item_deploy")["reference"]
    assert notes.json("base", "archive", "notes")["status"] == "archived"
    notes.run("search", "rollout", "--mode", "lexical", code=1)
    notes.run("read", "item_deploy", code=1)
    assert notes.json("resolve", reference)["base"]["status"] == "archived"
    assert "is active" in notes.run("base", "restore", "notes").stdout
    assert notes.json("search", "rollout", "--mode", "lexical")["results"]


def everything(kbgit: Kbgit) -> dict[str, Any]:
    """What a base tells about its items: what is current, each history with its provenance, each citation."""
    items = kbgit.json("item", "list", "notes")["items"]
    histories = {row["knowledge_item_id"]: kbgit.json("history", row["knowledge_item_id"]) for row in items}
    references = [revision["reference"] for history in histories.values() for revision in history["revisions"]]
    return {
        "base": {**kbgit.json("base", "show", "notes"), "freshness": None},
        "items": items,
        "histories": histories,
        "citations": {reference: kbgit.json("resolve", f"{reference}#L1-L2") for reference in references},
    }


def test_a_base_comes_back_from_its_export_as_it_was(notes: Kbgit, tmp_path: Path) -> None:
    repository = str(notes.home / "repositories/~ada/notes.git")
    push(
        repository, tmp_path / "writer", {"deploy/production.md": LATER, "de/urlaub.md": "---\nid: urlaub\n---\n# U\n"}
    )
    notes.run("item", "edit", "item_deploy", "--title", "Deployment")
    notes.run("base", "update", "notes", "--description", "Ours")
    before = everything(notes)
    assert {row["provenance"]["via"] for row in before["histories"]["item_deploy"]["revisions"]} == {
        *("import", "push", "api")
    }
    bundle = tmp_path / "notes.bundle"
    exported = notes.json("base", "export", "notes", str(bundle))
    assert exported["bytes"] == bundle.stat().st_size
    notes.run("base", "delete", "notes", "--name", "notes")
    notes.run("read", "item_deploy", code=1)
    receipt = notes.json("base", "import", "notes", "--from", str(bundle), "--restore")
    assert {item["knowledge_item_id"] for item in receipt["published"]} == {"item_deploy"}
    assert {item["knowledge_item_id"] for item in receipt["draft"]} == {"urlaub", "notes/draft"}
    assert everything(notes) == before
    assert notes.json("search", "rollout", "--mode", "lexical")["results"][0]["title"] == "Deployment"
    # It lives on: the log goes on where it ended.
    notes.run("item", "edit", "item_deploy", "--title", "Once more")
    assert len(notes.json("history", "item_deploy")["revisions"]) == 4


def test_an_export_without_restore_is_a_new_publication(notes: Kbgit, tmp_path: Path) -> None:
    bundle = str(tmp_path / "notes.bundle")
    notes.run("item", "edit", "item_deploy", "--title", "Deployment")
    notes.run("base", "export", "notes", bundle)
    notes.run("base", "import", "copy", "--from", bundle)
    ways = {row["provenance"]["via"] for row in notes.json("history", "item_deploy", "--base", "copy")["revisions"]}
    assert ways == {"import"}


def test_what_has_no_publication_log_cannot_be_restored(kbgit: Kbgit, pages: Path, tmp_path: Path) -> None:
    git(pages, "init", "--quiet", "--initial-branch=main")
    git(pages, "add", "--all")
    git(pages, "commit", "--quiet", "--message", "Write")
    git(pages, "bundle", "create", "--quiet", "../plain.bundle", "HEAD", "main")
    for source in (pages, tmp_path / "plain.bundle"):
        told = kbgit.run("base", "import", "x", "--from", str(source), "--restore", code=2).stderr
        assert "`kbgit base export`" in told
    plain = write(tmp_path / "plain", PAGES)
    assert "no history" in kbgit.run("base", "import", "x", "--from", str(plain), "--restore", code=2).stderr
    assert kbgit.json("base", "list")["bases"] == []


def test_a_log_that_belongs_to_another_branch_restores_nothing(notes: Kbgit, tmp_path: Path) -> None:
    notes.run("base", "export", "notes", str(tmp_path / "notes.bundle"))
    mixed = tmp_path / "mixed"
    git(tmp_path, "init", "--quiet", "--initial-branch=main", "mixed")
    git(write(mixed, PAGES), "add", "--all")
    git(mixed, "commit", "--quiet", "--message", "Something else")
    git(mixed, "fetch", "--quiet", "../notes.bundle", "refs/kbgit/publications:refs/kbgit/publications")
    git(mixed, "bundle", "create", "--quiet", "../mixed.bundle", "HEAD", "main", "refs/kbgit/publications")
    told = notes.run("base", "import", "x", "--from", str(tmp_path / "mixed.bundle"), "--restore", code=2).stderr
    assert "is not that of its branch" in told
    assert [row["slug"] for row in notes.json("base", "list")["bases"]] == ["notes"]


def test_an_export_replaces_no_file_unless_told_to(notes: Kbgit, tmp_path: Path) -> None:
    file = write(tmp_path, {"notes.bundle": "precious"}) / "notes.bundle"
    notes.run("base", "export", "notes", str(file), code=1)
    assert file.read_text() == "precious"
    notes.run("base", "export", "notes", str(file), "--force")
    assert file.read_bytes().startswith(b"# v2 git bundle")
    assert [path.name for path in tmp_path.glob("*.bundle*")] == ["notes.bundle"]


def test_an_empty_base_has_nothing_to_export(kbgit: Kbgit, tmp_path: Path) -> None:
    kbgit.run("base", "create", "empty")
    assert "nothing to export" in kbgit.run("base", "export", "empty", str(tmp_path / "e.bundle"), code=2).stderr
    assert not (tmp_path / "e.bundle").exists()


def test_a_deletion_says_what_it_would_take_and_takes_it_only_by_name(notes: Kbgit) -> None:
    preview = notes.json("base", "delete", "notes", "--dry-run")
    assert (preview["type"], preview["items"], preview["commits"]) == ("base_purge_preview", 3, 1)
    assert (
        "would destroy personal:ada/notes: 3 items, 1 commit,"
        in notes.run("base", "delete", "notes", "--dry-run").stdout
    )
    assert "--name notes" in notes.run("base", "delete", "notes", code=2).stderr
    notes.run("base", "delete", "notes", "--name", "note", code=2)
    assert notes.json("base", "show", "notes")["items"]["published"] == 2
    assert notes.json("base", "delete", "notes", "--name", "notes")["type"] == "base_purged"
    assert "velvet" not in "".join(path.read_text("latin-1") for path in notes.home.rglob("*") if path.is_file())
    notes.run("base", "show", "notes", code=1)
    notes.run("base", "delete", "notes", "--dry-run", code=1)


@pytest.mark.parametrize(("typed", "code", "is_gone"), [("note", 130, False), ("notes", 0, True)])
def test_on_a_terminal_the_name_is_asked_for(notes: Kbgit, typed: str, code: int, is_gone: bool) -> None:
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "kbgit.cli", "base", "delete", "notes"],
        env=notes.process_environment({}),
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(theirs)
        os.write(ours, f"{typed}\n".encode())
        _, told = process.communicate(timeout=60)
        os.close(ours)
    assert process.returncode == code, told
    assert b"would destroy personal:ada/notes" in told
    assert (notes.json("base", "list")["bases"] == []) == is_gone


def test_what_happens_to_bases_is_in_the_audit_log(notes: Kbgit, tmp_path: Path) -> None:
    notes.run("base", "create", "other")
    notes.run("base", "archive", "notes")
    notes.run("base", "export", "notes", str(tmp_path / "notes.bundle"))
    notes.run("base", "delete", "notes", "--name", "notes")
    notes.run("base", "import", "notes", "--from", str(tmp_path / "notes.bundle"), "--restore")
    entries = notes.json("audit", "--space", "personal:ada")["entries"]
    assert [(entry["event"], entry["details"]["base"].rpartition("/")[2]) for entry in entries] == [
        ("base_restored_from_export", "notes"),
        ("base_purged", "notes"),
        ("base_archived", "notes"),
        ("base_created", "other"),
        ("base_imported", "notes"),
    ]
