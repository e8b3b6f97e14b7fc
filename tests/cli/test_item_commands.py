from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.running import DEPLOY, Kbgit, git, write

HERON = "---\nid: heron\ntitle: 'Grey heron'   # ours\ntags: [bird,  water]\nowner: mia\n---\n# Heron\n\nIt waits.\n"


@pytest.fixture
def notes(kbgit: Kbgit, tmp_path: Path) -> Kbgit:
    """A home with the base `notes`, which has the draft `heron`."""
    kbgit.run("base", "import", "notes", "--from", str(write(tmp_path / "notes", {"birds/heron.md": HERON})))
    return kbgit


def raw(kbgit: Kbgit, locator: str) -> str:
    """A file of `notes` as it is in Git."""
    return git(kbgit.home / "repositories/~ada/notes.git", "show", f"main:{locator}")


def editor(tmp_path: Path, script: str) -> str:
    """An editor that runs Python on the file's `text`."""
    path = tmp_path / "editor.py"
    path.write_text(
        "import sys, pathlib\npath = pathlib.Path(sys.argv[1])\ntext = path.read_text()\n"
        f"{script}\npath.write_text(text)\n"
    )
    return shlex.join([sys.executable, str(path)])


def test_an_item_is_created_from_a_file_with_what_its_front_matter_and_the_options_say(
    kbgit: Kbgit, tmp_path: Path
) -> None:
    kbgit.run("base", "create", "notes")
    page = write(tmp_path, {"heron.md": HERON}) / "heron.md"
    made = kbgit.json(
        *("item", "create", "notes", "--file", str(page), "--title", "Heron: a bird", "--locator", "birds/heron.md"),
        *("--set", "season=winter"),
    )
    assert (made["knowledge_item_id"], made["status"], made["locator"]) == ("heron", "draft", "birds/heron.md")
    written = kbgit.json("read", made["reference"])
    assert (written["title"], written["tags"]) == ("Heron: a bird", ["bird", "water"])
    assert written["metadata"] == {"owner": "mia", "season": "winter"}
    assert written["content"] == "# Heron\n\nIt waits.\n"


def test_an_item_from_a_pipe_is_named_by_its_first_heading(kbgit: Kbgit) -> None:
    kbgit.run("base", "create", "notes")
    done = kbgit.process("item", "create", "notes", "--file", "-", "--json", stdin=b"# Night heron\n\nIt too.\n")
    assert done.returncode == 0, done.stderr
    assert b'"locator": "night-heron.md"' in done.stdout


def test_an_item_is_not_created_where_a_file_is_or_from_what_is_no_item(notes: Kbgit, tmp_path: Path) -> None:
    files = write(
        tmp_path / "new", {"a.md": "a\n", "bad.md": "---\ntitle: a: b\n---\n", "deep.md": "---\na: {b: c}\n---\n"}
    )
    create = ("item", "create", "notes", "--file")
    notes.run(*create, str(files / "a.md"), "--locator", "birds/heron.md", code=1)
    notes.run(*create, str(files / "a.md"), "--title", "A", "--locator", "../a.md", code=2)
    notes.run(*create, str(files / "bad.md"), code=1)
    assert "push the file" in notes.run(*create, str(files / "deep.md"), "--title", "Deep", code=2).stderr
    notes.run("item", "create", "elsewhere", "--file", str(files / "a.md"), "--title", "A", code=1)
    assert len(notes.json("item", "list", "notes")["items"]) == 1


def test_an_edit_changes_what_the_options_name_and_no_other_byte(notes: Kbgit) -> None:
    before = notes.json("history", "heron")["revisions"][0]["knowledge_revision_id"]
    edit = ("item", "edit", "heron", "--expect", before, "--set", "season=winter", "--unset", "owner", "-m", "Tidy up")
    after = notes.json(*edit)
    assert after["knowledge_revision_id"] != before
    assert raw(notes, "birds/heron.md") == HERON.replace("owner: mia", "season: winter").rstrip("\n")
    assert notes.json("history", "heron")["revisions"][0]["provenance"]["message"].strip() == "Tidy up"
    notes.run("item", "edit", "heron", "--tag", "pond", "--description", "It waits")
    notes.run("item", "edit", "heron", "--unset", "tags", "--status", "published")
    found = notes.json("read", "heron")
    assert (found["tags"], found["description"], found["status"]) == ([], "It waits", "published")


def test_an_edit_from_a_file_sets_what_its_front_matter_says(notes: Kbgit, tmp_path: Path) -> None:
    files = write(
        tmp_path / "new", {"a.md": "---\nstatus: published\n---\nIt left.\n", "b.md": "---\nid: stork\n---\nx\n"}
    )
    result = notes.run("item", "edit", "heron", "--file", str(files / "a.md"))
    assert "heron is at revision 1" in result.stderr
    found = notes.json("read", "heron")
    assert (found["content"], found["title"], found["tags"]) == ("It left.\n", "Grey heron", ["bird", "water"])
    assert "'stork', not 'heron'" in notes.run("item", "edit", "heron", "--file", str(files / "b.md"), code=2).stderr


@pytest.mark.parametrize("variable", ["EDITOR", "VISUAL"])
def test_without_options_the_text_is_edited(notes: Kbgit, tmp_path: Path, variable: str) -> None:
    command = editor(tmp_path, "text = text.replace('waits', 'stands')")
    replace(notes, environment={variable: command}).run("item", "edit", "heron")
    assert raw(notes, "birds/heron.md") == HERON.replace("waits", "stands").rstrip("\n")
    result = replace(notes, environment={variable: editor(tmp_path, "")}).run("item", "edit", "heron")
    assert "nothing was changed" in result.stderr
    assert len(notes.json("history", "heron")["revisions"]) == 2


def test_without_options_and_without_an_editor_an_edit_is_wrong_usage(notes: Kbgit) -> None:
    assert "EDITOR" in notes.run("item", "edit", "heron", code=2, EDITOR="", VISUAL="").stderr


def test_an_editor_that_fails_changes_nothing_and_leaves_what_it_wrote(notes: Kbgit, tmp_path: Path) -> None:
    command = editor(tmp_path, "path.write_text('half')\nsys.exit(1)")
    told = notes.run("item", "edit", "heron", code=2, EDITOR=command).stderr
    kept = Path(told.rpartition(" ")[2].strip())
    assert kept.read_text() == "half"
    kept.unlink()
    assert len(notes.json("history", "heron")["revisions"]) == 1


@pytest.mark.parametrize("command", ["/nowhere/editor", "editor '"])
def test_an_editor_that_cannot_be_started_is_named_and_leaves_nothing(
    notes: Kbgit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = set(tmp_path.iterdir())
    assert command in notes.run("item", "edit", "heron", code=2, EDITOR=command).stderr
    assert set(tmp_path.iterdir()) == before


def test_a_stale_edit_writes_nothing_shows_the_difference_and_keeps_the_text(notes: Kbgit, tmp_path: Path) -> None:
    # While the editor is open, somebody else changes the item.
    other = shlex.join([sys.executable, "-m", "kbgit.cli", "item", "edit", "heron", "--title", "Somebody else's"])
    command = editor(tmp_path, f"text = 'mine'\nimport os\nassert os.system({other!r}) == 0")
    result = notes.run("item", "edit", "heron", "--json", code=1, EDITOR=command)
    assert "+title: " in result.stderr
    assert "Somebody else" in result.stderr
    assert '"stale_revision"' in result.stdout
    kept = Path(result.stderr.partition("your text is kept in ")[2].splitlines()[0])
    assert kept.read_text() == "mine"
    assert kept.stat().st_mode & 0o077 == 0
    kept.unlink()
    assert notes.json("item", "list", "notes")["items"][0]["title"] == "Somebody else's"


def test_a_stale_edit_from_a_pipe_keeps_the_text_too(notes: Kbgit) -> None:
    done = notes.process("item", "edit", "heron", "--file", "-", "--expect", "0" * 40, stdin=b"mine\n")
    assert done.returncode == 1
    kept = Path(done.stderr.decode().partition("your text is kept in ")[2].splitlines()[0])
    assert kept.read_bytes() == b"mine\n"
    kept.unlink()


def test_an_item_goes_through_its_states_one_line_at_a_time(notes: Kbgit) -> None:
    states = {"publish": "published", "unpublish": "draft", "archive": "archived", "restore": "published"}
    for verb, status in states.items():
        assert notes.json("item", verb, "heron")["status"] == status
    assert raw(notes, "birds/heron.md") == HERON.replace("owner: mia\n", "owner: mia\nstatus: published\n").rstrip("\n")
    assert "published, in birds/heron.md" in notes.run("item", "publish", "heron").stdout


@pytest.mark.parametrize("verb", ["publish", "unpublish", "archive", "restore", "delete"])
def test_a_change_that_expects_another_revision_is_refused(notes: Kbgit, verb: str) -> None:
    assert "apply your change to that" in notes.run("item", verb, "heron", "--expect", "0" * 40, code=1).stderr
    assert len(notes.json("history", "heron")["revisions"]) == 1


def test_a_deleted_item_is_gone_and_its_citations_resolve(notes: Kbgit) -> None:
    reference = notes.json("item", "publish", "heron")["reference"]
    preview = notes.json("item", "delete", "heron", "--dry-run")
    assert (preview["type"], preview["reference"]) == ("knowledge_delete_preview", reference)
    assert "would remove heron" in notes.run("item", "delete", "heron", "--dry-run").stdout
    assert notes.json("item", "delete", "heron")["status"] is None
    assert "was removed" in notes.run("read", "heron", code=1).stderr
    assert notes.json("resolve", reference)["title"] == "Grey heron"
    notes.run("item", "edit", "heron", "--title", "x", code=1)
    notes.run("item", "delete", "heron", "--dry-run", code=1)


def test_items_are_listed_by_status_and_place(notes: Kbgit, tmp_path: Path) -> None:
    page = write(tmp_path, {"deploy.md": DEPLOY}) / "deploy.md"
    notes.run("item", "create", "notes", "--file", str(page), "--locator", "ops/deploy.md")

    def listed(*arguments: str) -> list[str]:
        return [row["knowledge_item_id"] for row in notes.json("item", "list", "notes", *arguments)["items"]]

    assert listed() == ["heron", "item_deploy"]
    assert listed("--status", "published") == ["item_deploy"]
    assert listed("--prefix", "birds/") == ["heron"]
    shown = notes.run("item", "list", "notes", "--limit", "1").stdout
    assert "heron" in shown
    assert "item_deploy" not in shown
    assert "--limit" in shown
    assert "no such item" in notes.run("item", "list", "notes", "--status", "archived").stdout


def test_an_item_in_two_bases_is_named_with_its_base(notes: Kbgit, tmp_path: Path) -> None:
    notes.run("base", "import", "other", "--from", str(write(tmp_path / "other", {"heron.md": HERON})))
    assert "--base" in notes.run("item", "publish", "heron", code=1).stderr
    assert notes.json("item", "publish", "heron", "--base", "other")["receipt"]["base"] == "personal:ada/other"


def test_what_is_not_there_is_said_so(notes: Kbgit) -> None:
    for arguments in (
        ("edit", "stork", "--title", "x"),
        ("publish", "stork"),
        ("delete", "stork"),
        ("list", "nowhere"),
    ):
        notes.run("item", *arguments, code=1)
    notes.run("item", "edit", "heron", "--set", "nonsense", code=2)
    notes.run("item", "edit", "heron", "--unset", "status", code=2)
    notes.run("item", "edit", "heron", "--set", "title=x", code=2)
