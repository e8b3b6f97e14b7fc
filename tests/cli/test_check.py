from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import PAGES, Kbgit, git, write

BROKEN = "---\ntitle: a: b\n---\n"


@pytest.fixture
def work_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A committed work tree, and the current directory."""
    root = write(tmp_path / "pages", PAGES)
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Pages")
    monkeypatch.chdir(root)
    return root


def test_a_sound_tree_has_no_problem(kbgit: Kbgit, work_tree: Path) -> None:
    assert kbgit.run("check").stdout == "3 items, no problem\n"


def test_problems_are_lines_with_path_line_and_mend(kbgit: Kbgit, work_tree: Path) -> None:
    write(work_tree, {"bad.md": BROKEN})
    assert kbgit.run("check", code=1).stdout == (
        'bad.md:2: unreadable front matter: a colon inside an unquoted value; write title: "a: b"\n'
    )


def test_two_files_with_one_id_are_found_however_far_apart(kbgit: Kbgit, work_tree: Path) -> None:
    write(work_tree, {"far/away.md": "---\nid: Item_Deploy\n---\n"})
    found = kbgit.json("check", "far/away.md", code=1)
    (problem,) = found["problems"]
    assert (problem["path"], problem["line"], problem["code"]) == ("far/away.md", 2, "duplicate_id")
    assert "deploy/production.md" in problem["what"]


@pytest.mark.parametrize("name", ["a:b.md", "con.md", "trailing ./x.md", "DEPLOY/x.md", "image?.png"])
def test_names_that_cannot_be_checked_out_everywhere_are_found(kbgit: Kbgit, work_tree: Path, name: str) -> None:
    write(work_tree, {name: "x"})
    assert kbgit.run("check", code=1).stdout.startswith(f"{name}:1: ")


def test_a_link_is_no_item(kbgit: Kbgit, work_tree: Path) -> None:
    (work_tree / "link.md").symlink_to("draft.md")
    assert "link.md:1: is a symbolic link" in kbgit.run("check", "link.md", code=1).stdout


def test_settings_of_the_base_are_checked(kbgit: Kbgit, work_tree: Path) -> None:
    write(work_tree, {"base.yaml": "name: Pages\nstatus: sleeping\n"})
    assert kbgit.run("check", code=1).stdout.startswith("base.yaml:")


def test_only_what_is_below_the_named_directory_is_spoken_about(kbgit: Kbgit, work_tree: Path) -> None:
    write(work_tree, {"bad.md": BROKEN})
    assert kbgit.run("check", "deploy").stdout == "1 item, no problem\n"


def test_a_lenient_base_lists_problems_and_is_not_refused(kbgit: Kbgit, work_tree: Path) -> None:
    write(work_tree, {"base.yaml": "admission: lenient\n", "bad.md": BROKEN})
    found = kbgit.json("check")
    assert found["refused"] is False
    assert [problem["path"] for problem in found["problems"]] == ["bad.md"]


def test_only_what_is_staged_is_spoken_about(kbgit: Kbgit, work_tree: Path) -> None:
    write(work_tree, {"bad.md": BROKEN, "good.md": "# Good\n"})
    git(work_tree, "add", "good.md")
    assert kbgit.run("check", "--staged").stdout == ""
    git(work_tree, "add", "bad.md")
    write(work_tree, {"bad.md": "# Mended, but not staged\n"})
    assert kbgit.run("check", "--staged", code=1).stdout.startswith("bad.md:2: ")


def test_what_was_broken_before_does_not_block_a_commit(kbgit: Kbgit, work_tree: Path) -> None:
    write(work_tree, {"bad.md": BROKEN})
    git(work_tree, "add", "--all")
    git(work_tree, "commit", "--quiet", "--message", "Broken")
    write(work_tree, {"good.md": "# Good\n"})
    git(work_tree, "add", "--all")
    kbgit.run("check", "--staged")


def test_the_writers_repository_is_left_as_it_was(kbgit: Kbgit, work_tree: Path) -> None:
    write(work_tree, {"new.md": "# Never seen before\n"})
    before = {path: path.read_bytes() for path in (work_tree / ".git").rglob("*") if path.is_file()}
    kbgit.run("check")
    kbgit.run("check", "--staged")
    assert {path: path.read_bytes() for path in (work_tree / ".git").rglob("*") if path.is_file()} == before


def test_a_file_that_is_no_item_is_not_taken_for_approved(kbgit: Kbgit, work_tree: Path) -> None:
    write(work_tree, {"notes.txt": "x", ".gitignore": "scratch.md\n", "scratch.md": BROKEN})
    assert "notes.txt is no item: not a .md file" in kbgit.run("check", "notes.txt").stderr
    assert "scratch.md is no item: ignored by Git" in kbgit.run("check", "scratch.md").stderr


def test_files_are_named_from_where_one_stands(kbgit: Kbgit, work_tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(work_tree, {"deploy/bad.md": BROKEN})
    monkeypatch.chdir(work_tree / "deploy")
    assert kbgit.run("check", "bad.md", code=1).stdout.startswith("deploy/bad.md:2: ")
    assert kbgit.run("check", "production.md").stdout == "1 item, no problem\n"


def test_files_of_another_tree_are_refused(kbgit: Kbgit, work_tree: Path, tmp_path: Path) -> None:
    write(tmp_path, {"other.md": "x"})
    assert "is outside" in kbgit.run("check", str(tmp_path / "other.md"), code=2).stderr


def test_a_directory_without_git_is_checked_too(kbgit: Kbgit, pages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(pages, {"base.yaml": "name: Pages\n", "de/bad.md": BROKEN})
    monkeypatch.chdir(pages / "de")
    assert kbgit.run("check", code=1).stdout.startswith("de/bad.md:2: ")
    kbgit.run("check", "--staged", code=2)
    assert not (pages / ".git").exists()


def test_the_first_commit_and_a_linked_work_tree_are_checked(
    kbgit: Kbgit, work_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write(tmp_path / "first", {"bad.md": BROKEN})
    git(first, "init", "--quiet")
    git(first, "add", "--all")
    monkeypatch.chdir(first)
    kbgit.run("check", "--staged", code=1)
    git(work_tree, "worktree", "add", "--quiet", str(tmp_path / "linked"))
    monkeypatch.chdir(write(tmp_path / "linked", {"bad.md": BROKEN}))
    git(tmp_path / "linked", "add", "--all")
    kbgit.run("check", "--staged", code=1)
