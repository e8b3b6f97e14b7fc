"""Receipts: what a writer is told."""

from __future__ import annotations

import json
from functools import partial

from kbgit.base import BaseKey
from kbgit.catalogue import Catalogue
from kbgit.home import Home
from kbgit.publish import Announcement, announce, catch_up
from kbgit.receipt import Receipt, receipt
from kbgit.revision import Via
from kbgit.store import Repository
from tests.writing import text


def publish(
    home: Home, key: BaseKey, repository: Repository, catalogue: Catalogue, files: dict[str, str | None]
) -> Receipt:
    """Publish one commit; its receipt."""
    old = repository.head()
    raw = {name: content.encode() if content is not None else None for name, content in files.items()}
    new = repository.commit_files(raw, parent=old, message="m", author="A <a@x>", when=1_700_000_000)
    announce(repository, Announcement("refs/heads/main", old, new, "max", Via.PUSH, 1_700_000_000))
    repository.move_ref("refs/heads/main", new, old)
    catalogue.add_base(key)
    base = catch_up(repository, catalogue, catalogue.base(str(key)), home.limits)
    return receipt(repository, catalogue, base, old)


def test_a_receipt_names_what_became_of_each_file(
    home: Home, key: BaseKey, base_repository: Repository, catalogue: Catalogue
) -> None:
    step = partial(publish, home, key, base_repository, catalogue)
    step({"a.md": text("A"), "b.md": text("B", id="b"), "c.md": text("C"), "same.md": text("Same")})
    told = step({
        "a.md": text("A2"), "b.md": None, "moved/b.md": text("B", id="b"), "c.md": None, "d.md": text("D", status="draft"),
        "e.md": "---\ntitle: a: b\n---\n", "f.txt": "x",
    })  # fmt: skip
    head = base_repository.head()

    def item(item_id: str, locator: str, title: str) -> dict[str, str]:
        citation = f"knowledge:{item_id}@{head}"
        return {"knowledge_item_id": item_id, "locator": locator, "title": title, "citation": citation}

    assert json.loads(json.dumps(told.as_json())) == {
        "base": "team:platform/runbooks",
        "head": head,
        "draft": [item("runbooks/d", "d.md", "D")],
        "published": [item("runbooks/a", "a.md", "A2"), item("b", "moved/b.md", "B")],
        "archived": [],
        "removed": ["runbooks/c"],
        "problems": [
            {
                "path": "e.md",
                "line": 2,
                "code": "document_problem",
                "what": "unreadable front matter: a colon inside an unquoted value",
                "mend": 'write title: "a: b"',
            }
        ],
        "not_items": [{"path": "f.txt", "why": "not a .md file"}],
    }


def test_a_step_that_moved_nothing_has_an_empty_receipt(
    home: Home, key: BaseKey, base_repository: Repository, catalogue: Catalogue
) -> None:
    publish(home, key, base_repository, catalogue, {"a.md": text()})
    told = receipt(base_repository, catalogue, catalogue.base(str(key)), base_repository.head())
    assert (told.items, told.removed, told.problems, told.others) == ((), (), (), ())


def test_long_lists_are_cut_with_a_count(
    home: Home, key: BaseKey, base_repository: Repository, catalogue: Catalogue
) -> None:
    lines = list(publish(home, key, base_repository, catalogue, {f"{n:03}.md": text() for n in range(45)}).lines())
    assert "45 published" in lines[0]
    assert lines[-1] == "  published  … and 5 more"
    assert len(lines) == 1 + 40 + 1


def test_a_push_into_an_archived_base_says_that_nothing_of_it_is_found(
    home: Home, key: BaseKey, base_repository: Repository, catalogue: Catalogue
) -> None:
    told = publish(home, key, base_repository, catalogue, {"a.md": text(), "base.yaml": "status: archived\n"})
    assert "this base is archived: nothing in it is searched until it is restored" in list(told.lines())


def test_a_title_cannot_steer_the_writers_terminal(
    home: Home, key: BaseKey, base_repository: Repository, catalogue: Catalogue
) -> None:
    told = publish(home, key, base_repository, catalogue, {"a.md": "# Evil \x1b[2J \u202e\n"})
    assert all(line.isprintable() for line in told.lines())


def test_files_outside_the_subdir_are_neither_published_nor_removed(
    home: Home, key: BaseKey, base_repository: Repository, catalogue: Catalogue
) -> None:
    step = partial(publish, home, key, base_repository, catalogue)
    told = step({"docs/a.md": text(), "b.md": text(), "base.yaml": "subdir: docs\n"})
    assert ("b.md", "outside the base's subdir docs") in told.others
    told = step({"b.md": None, "docs/a.md": None})
    assert told.removed == ["runbooks/docs/a"]
