from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from kbgit.home import Home
from tests.cli.running import PAGES, Kbgit, Published, git, write


def test_a_base_is_created_in_the_owners_space_and_can_be_cloned(kbgit: Kbgit, tmp_path: Path) -> None:
    made = kbgit.json("base", "create", "notes", "--title", "Notes: mine", "--default-status", "published")
    assert made["base"] == "personal:ada/notes"
    git(tmp_path, "clone", "--quiet", made["repository"], "clone")
    assert (tmp_path / "clone" / "base.yaml").read_text() == "name: 'Notes: mine'\ndefault_status: published\n"


def test_a_base_without_options_stays_empty(kbgit: Kbgit) -> None:
    assert kbgit.json("base", "create", "notes")["head"] is None


@pytest.mark.parametrize(
    "arguments", [("team:platform/notes",), ("platform/notes",), ("notes", "--space", "team:platform")]
)
def test_a_base_is_created_in_the_space_that_is_named(kbgit: Kbgit, arguments: tuple[str, ...]) -> None:
    kbgit.run("space", "create", "platform")
    assert kbgit.json("base", "create", *arguments)["base"] == "team:platform/notes"


def test_a_base_is_not_created_in_a_space_that_is_not_there(kbgit: Kbgit) -> None:
    assert "`kbgit space create NAME`" in kbgit.run("base", "create", "notes", "--space", "team:sea", code=1).stderr


def test_a_base_is_not_created_in_two_spaces(kbgit: Kbgit) -> None:
    kbgit.run("space", "create", "platform")
    kbgit.run("base", "create", "platform/notes", "--space", "~ada", code=2)
    kbgit.run("base", "create", "platform/notes", "--space", "platform")


def test_a_base_is_not_created_twice_or_under_an_impossible_name(kbgit: Kbgit) -> None:
    kbgit.run("base", "create", "notes")
    kbgit.run("base", "create", "notes", code=1)
    kbgit.run("base", "create", "My Notes", code=2)


def test_a_directory_is_imported_under_its_name(kbgit: Kbgit, pages: Path) -> None:
    found = kbgit.json("base", "import", "--from", str(pages))
    assert found["base"] == "personal:ada/team-pages"
    assert {item["locator"] for item in found["published"]} == {"deploy/production.md", "de/urlaub.md"}
    assert [item["locator"] for item in found["draft"]] == ["draft.md"]
    assert found["indexed"] is False


def test_an_import_prints_its_receipt_and_tells_its_steps_beside_it(kbgit: Kbgit, pages: Path) -> None:
    result = kbgit.run("base", "import", "--from", str(pages))
    assert "1 draft, 2 published" in result.stdout
    assert "knowledge:item_deploy@" in result.stdout
    assert "kbgit: committing 3 files" in result.stderr
    assert "`kbgit serve`" in result.stdout


def test_a_repository_is_imported_with_its_history_from_a_relative_path(
    kbgit: Kbgit, published: Published, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(
        tmp_path, "clone", "--quiet", "--bare", str(published.kbgit.home / "repositories/~ada/handbook.git"), "copy.git"
    )
    monkeypatch.chdir(tmp_path)
    found = kbgit.json("base", "import", "--from", "copy.git")
    assert found["slug"] == "copy"
    assert found["head"] == published.heads[1]
    assert len(kbgit.json("history", "item_deploy")["revisions"]) == 2


def test_options_of_an_import_become_settings_of_the_base(kbgit: Kbgit, tmp_path: Path) -> None:
    source = write(tmp_path / "app", {"docs/a.md": "# A\n", "src/b.md": "# B\n"})
    found = kbgit.json(
        *("base", "import", "docs", "--from", str(source), "--subdir", "docs"),
        *("--default-status", "published", "--admission", "lenient", "--description", "How it works"),
    )
    assert [item["locator"] for item in found["published"]] == ["a.md"]
    shown = kbgit.json("base", "show", "docs")
    assert (shown["admission"], shown["description"]) == ("lenient", "How it works")


def test_a_refused_import_names_every_problem_and_leaves_nothing(kbgit: Kbgit, tmp_path: Path) -> None:
    source = write(tmp_path / "bad", {"a.md": "---\ntitle: a: b\n---\n", "b.md": "---\nstatus: nope\n---\n"})
    result = kbgit.run("base", "import", "--from", str(source), code=1)
    assert "a.md:2" in result.stderr
    assert "b.md:2" in result.stderr
    assert kbgit.json("base", "list")["bases"] == []


def test_a_source_that_gives_no_name_or_is_not_there_is_wrong_usage(kbgit: Kbgit, tmp_path: Path) -> None:
    nameless = write(tmp_path / "会社", PAGES)
    assert "kbgit base import NAME --from" in kbgit.run("base", "import", "--from", str(nameless), code=2).stderr
    kbgit.run("base", "import", "--from", str(tmp_path / "nowhere"), code=2)
    assert "no branch" in kbgit.run("base", "import", "x", "--from", str(nameless), "--branch", "main", code=2).stderr


def test_bases_are_listed_with_counts_and_freshness(published: Published) -> None:
    (base,) = published.kbgit.json("base", "list")["bases"]
    assert base["key"] == "personal:ada/handbook"
    assert base["items"] == {"draft": 1, "published": 2, "archived": 0}
    assert base["freshness"]["published"] == base["freshness"]["indexed"] == published.heads[1]
    assert "personal:ada/handbook" in published.kbgit.run("base", "list").stdout


def test_no_base_yet_is_said_with_what_to_do(kbgit: Kbgit) -> None:
    assert "`kbgit base import" in kbgit.run("base", "list").stdout


def test_a_base_is_shown_with_the_problems_of_its_files(kbgit: Kbgit, tmp_path: Path) -> None:
    source = write(tmp_path / "pages", {**PAGES, "bad.md": "---\nstatus: nope\n---\n"})
    kbgit.run("base", "import", "--from", str(source), "--admission", "lenient")
    shown = kbgit.run("base", "show", "pages").stdout
    assert "bad.md:2: " in shown
    assert "1 draft, 2 published" in shown


def test_a_slug_in_two_spaces_must_be_named_with_its_space(kbgit: Kbgit) -> None:
    kbgit.run("space", "create", "platform")
    kbgit.run("base", "create", "notes")
    kbgit.run("base", "create", "team:platform/notes")
    assert "personal:ada/notes, team:platform/notes" in kbgit.run("base", "show", "notes", code=1).stderr
    assert kbgit.json("base", "show", "team:platform/notes")["space"] == "team:platform"
    kbgit.run("base", "show", "team:platform/other", code=1)


def rewritten(kbgit: Kbgit, pages: Path) -> tuple[str, str]:
    """Move a published branch behind kbgit's back: the heads before and after."""
    before = kbgit.json("base", "import", "pages", "--from", str(pages))["head"]
    kbgit.run("search", "rollout")  # indexes it
    repository = kbgit.home / "repositories" / "~ada" / "pages.git"
    other = git(repository, "rev-parse", f"{before}:deploy")  # a tree with the same page, elsewhere
    after = git(repository, "commit-tree", other, "-m", "Another history")
    git(repository, "update-ref", "refs/heads/main", after)
    return before, after


def test_a_rewritten_history_is_an_alarm_until_it_is_accepted(kbgit: Kbgit, pages: Path) -> None:
    before, after = rewritten(kbgit, pages)
    assert "no longer contains" in kbgit.run("status").stdout
    kbgit.run("status", "--check", code=1)
    (found,) = kbgit.json("search", "rollout", "--mode", "lexical")["results"]
    assert found["knowledge_revision_id"] == before
    accepted = kbgit.json("base", "accept-rewrite", "pages", "--yes")
    assert (accepted["before"], accepted["head"]) == (before, after)
    assert kbgit.json("read", "item_deploy")["knowledge_revision_id"] == after
    assert kbgit.json("read", "item_deploy", "--revision", before)["is_current"] is False
    assert kbgit.json("base", "show", "pages")["alarm"] == ""


def test_nobody_to_ask_accepts_nothing(kbgit: Kbgit, pages: Path) -> None:
    before, _ = rewritten(kbgit, pages)
    assert "--yes" in kbgit.run("base", "accept-rewrite", "pages", code=2).stderr
    with closing(Home.at(kbgit.home).catalogue()) as catalogue:
        assert catalogue.base("personal:ada/pages").head == before


def test_a_history_that_is_not_rewritten_needs_no_accepting(kbgit: Kbgit, pages: Path) -> None:
    kbgit.run("base", "import", "pages", "--from", str(pages))
    assert "not rewritten" in kbgit.run("base", "accept-rewrite", "pages", "--yes", code=1).stderr
