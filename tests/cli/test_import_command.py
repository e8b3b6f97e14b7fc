"""`kbgit import`: files and directories, with and without a server."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.cli.running import Kbgit, git, write

FILES = {
    "a.py": "print('```')\n",
    "sub/notes.md": "# Notes\n\nWords.\n",
    "sub/table.csv": "a,b\n1,2\n",
    "page.html": "<title>Page</title><p>text<script>x</script>",
    "data.bin": "x",
    ".env.json": "{}",
    ".git/config.toml": "x = 1\n",
    "node_modules/x.js": "x\n",
    "__pycache__/x.py": "x\n",
    ".venv/x.py": "x\n",
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    made = write(tmp_path / "src", FILES)
    (made / "link.md").symlink_to(made / "sub" / "notes.md")
    (made / "loop").symlink_to(made)
    return made


@pytest.fixture
def notes(kbgit: Kbgit) -> Kbgit:
    kbgit.run("base", "create", "notes")
    return kbgit


def head(kbgit: Kbgit) -> str:
    return git(kbgit.home / "repositories" / "~ada" / "notes.git", "rev-list", "--count", "--all")


def test_a_directory_comes_with_its_structure_and_once(notes: Kbgit, source: Path) -> None:
    told = notes.json("import", str(source), "--base", "notes", "--publish")
    assert {row["name"]: row["locator"] for row in told["files"]} == {
        "src/a.py": "src/a.py.md",
        "src/page.html": "src/page.html.md",
        "src/sub/notes.md": "src/sub/notes.md",
        "src/sub/table.csv": "src/sub/table.csv.md",
    }
    assert told["counts"] == {"created": 4, "updated": 0, "unchanged": 0, "refused": 0}
    assert told["unsupported"] == {".bin": 1}
    assert sorted(row["name"] for row in told["skipped"]) == ["src/link.md", "src/loop"]
    assert notes.run("read", "notes/src/a.py").stdout.rstrip() == "~~~python\nprint('```')\n~~~"
    before = head(notes)
    again = notes.json("import", str(source), "--base", "notes")
    assert (again["counts"]["unchanged"], head(notes), again["head"]) == (4, before, told["head"])
    write(source, {"a.py": "print(2)\n"})
    assert notes.json("import", str(source), "--base", "notes")["counts"]["updated"] == 1


def test_one_refused_file_gives_exit_code_1_and_the_others_come(notes: Kbgit, tmp_path: Path) -> None:
    write(tmp_path, {"bad.md": "---\nok: 1\ntitle: a: b\n---\n", "good.txt": "words\n"})
    (tmp_path / "old.txt").write_bytes("Grüße\n".encode("cp1252"))
    result = notes.run(
        "import", *(str(tmp_path / name) for name in ("bad.md", "good.txt", "old.txt")), "--base", "notes", code=1
    )
    assert "bad.md:3: " in result.stdout
    assert "old.txt: converted to UTF-8 from Windows-1252" in result.stdout
    assert "knowledge:notes/good.txt@" in result.stdout
    assert [row["locator"] for row in notes.json("item", "list", "notes")["items"]] == ["good.txt.md", "old.txt.md"]


def test_files_are_chosen_by_globs(notes: Kbgit, source: Path) -> None:
    told = notes.json(
        "import", str(source), "--base", "notes", "--include", "*.py", "--include", "src/sub/*", "--exclude", "*.csv"
    )
    assert [row["name"] for row in told["files"]] == ["src/a.py", "src/sub/notes.md"]


def test_here_gives_no_name_of_its_own(notes: Kbgit, source: Path) -> None:
    done = notes.process("import", ".", "--base", "notes", "--folder", "x", "--include", "*.py", cwd=source)
    assert done.returncode == 0, done.stderr
    assert [row["locator"] for row in notes.json("item", "list", "notes")["items"]] == ["x/a.py.md"]


def test_a_dry_run_writes_nothing(notes: Kbgit, source: Path) -> None:
    before = head(notes)
    assert "would be" in notes.run("import", str(source), "--base", "notes", "--dry-run").stdout
    assert head(notes) == before


def test_an_edited_item_is_replaced_only_on_request(notes: Kbgit, source: Path) -> None:
    notes.run("import", str(source / "a.py"), "--base", "notes")
    edited = write(source, {"edited.md": "mine\n"}) / "edited.md"
    notes.run("item", "edit", "notes/a.py", "--file", str(edited))
    write(source, {"a.py": "print(3)\n"})
    refused = notes.json("import", str(source / "a.py"), "--base", "notes", code=1)
    assert refused["files"][0]["error"]["code"] == "conflict"
    assert notes.json("import", str(source / "a.py"), "--base", "notes", "--replace")["counts"]["updated"] == 1


def test_documents_without_a_server_say_what_to_do(notes: Kbgit, tmp_path: Path) -> None:
    path = write(tmp_path, {"report.pdf": "%PDF-1.7\n"}) / "report.pdf"
    result = notes.run("import", str(path), "--base", "notes", code=1)
    assert "kbgit serve" in result.stdout
    assert notes.json("import", str(path), "--base", "notes", "--dry-run")["counts"]["created"] == 1


def test_an_unreadable_file_and_an_unknown_base_are_said(notes: Kbgit, source: Path) -> None:
    notes.run("import", str(source), "--base", "nowhere", code=1)
    notes.run("import", str(source / "nothing.md"), "--base", "notes", code=2)
    os.mkfifo(source / "pipe.md")
    told = notes.json("import", str(source / "pipe.md"), "--base", "notes")
    assert told["skipped"] == [{"name": "pipe.md", "why": "it is no ordinary file"}]


def test_a_running_server_takes_files_in_batches_and_documents(notes: Kbgit, tmp_path: Path) -> None:
    many = write(tmp_path / "many", {f"{number:03}.txt": "x" * 200_000 + f"{number}\n" for number in range(9)})
    (many / "large.txt").write_text("y" * 3_000_000)
    (many / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing more\n")
    (many / "broken.docx").write_bytes(b"nothing at all\n")
    with notes.server():
        told = notes.json("import", str(many), "--base", "notes", code=1)
        assert told["counts"] == {"created": 9, "updated": 0, "unchanged": 0, "refused": 3}
        errors = {row["name"]: row["error"]["code"] for row in told["files"] if row["error"]}
        documents = {"many/broken.docx": "corrupt", "many/broken.pdf": "corrupt"}
        assert errors == {"many/large.txt": "too_large", **documents}
        assert [row["name"] for row in told["files"]][-2:] == list(documents), "in the order in which they were sent"
        before = head(notes)
        assert (
            notes.json("import", str(many), "--base", "notes", "--include", "*.txt", code=1)["counts"]["unchanged"] == 9
        )
        assert head(notes) == before


@pytest.mark.corpora
@pytest.mark.parametrize("collection", ["man-en", "man-fr"])
def test_real_texts_are_imported_and_unchanged_the_second_time(
    corpora: Path, collection: str, notes: Kbgit, tmp_path: Path
) -> None:
    corpus = corpora / "retrieval" / collection / "corpus.jsonl"
    if not corpus.is_file():
        pytest.skip(f"there is no {corpus}")
    rows = [json.loads(row) for row in corpus.read_text("utf-8").splitlines()]
    texts = write(tmp_path / "texts", {f"{number}.txt": row["text"] for number, row in enumerate(rows)})
    told = notes.json("import", str(texts), "--base", "notes", "--publish")
    assert told["counts"] == {"created": len(rows), "updated": 0, "unchanged": 0, "refused": 0}
    before = head(notes)
    again = notes.json("import", str(texts), "--base", "notes", "--publish")
    assert again["counts"] == {"created": 0, "updated": 0, "unchanged": len(rows), "refused": 0}
    assert (head(notes), again["head"]) == (before, told["head"])


def test_this_projects_own_tree_is_imported_and_unchanged_the_second_time(notes: Kbgit, tmp_path: Path) -> None:
    root = Path(__file__).resolve().parent.parent.parent
    copied = tmp_path / "project"
    for name in ("kbgit", "docs"):
        shutil.copytree(root / name, copied / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    told = notes.json("import", str(copied), "--base", "notes")
    assert told["counts"]["refused"] == 0
    before = head(notes)
    again = notes.json("import", str(copied), "--base", "notes")
    assert again["counts"] == {"created": 0, "updated": 0, "unchanged": told["counts"]["created"], "refused": 0}
    assert head(notes) == before
