"""Addressed reads: current and pinned, for those who may and those who may not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kbgit.access import Principal, Role
from kbgit.assemble import Runtime
from kbgit.base import BaseKey
from kbgit.errors import (
    AmbiguousItem,
    BaseArchived,
    InvalidCitation,
    InvalidRequest,
    ItemDeleted,
    ItemNotFound,
    ItemNotPublished,
    RevisionNotFound,
)
from tests.library.conftest import OPERATOR, reader_of
from tests.writing import text

VIEWER = reader_of("personal:ada", "team:a", "team:b")
MEMBER = Principal("mia", {"team:a": Role.MEMBER})


@pytest.fixture
def change(runtime: Runtime) -> Callable[..., str]:
    """Commits files to a base and publishes them. The commit's name."""

    def commit(key: BaseKey, files: dict[str, str | None]) -> str:
        repository = runtime.home.repository(key)
        head = repository.head()
        contents = {name: content.encode() if content is not None else None for name, content in files.items()}
        new = repository.commit_files(contents, parent=head, message="Change", author="Ada <ada@example.org>")
        repository.move_ref("refs/heads/main", new, head)
        runtime.indexer.synchronise(key)
        return new

    return commit


def test_a_pinned_read_gives_its_revision_for_ever(
    runtime: Runtime, imported: Callable[..., BaseKey], change: Callable[..., str]
) -> None:
    key = imported({"a.md": text("One", id="item", body="first\n")}, space="team:a")
    old = runtime.library.read("item", VIEWER2)
    change(key, {"a.md": text("Two", id="item", body="second\n")})
    change(key, {"a.md": None, "moved/b.md": text("Three", id="item", body="second\n")})
    change(key, {"moved/b.md": text("Three", id="item", status="archived", body="second\n")})
    repository = runtime.home.repository(key)
    repository.git.run("gc", "--prune=now", "--quiet")
    again = runtime.library.read("item", VIEWER2, revision=old.citation.revision)
    assert (again.content, again.content_hash, again.title) == ("first\n", old.content_hash, "One")
    assert not again.is_current
    assert again.number == 1
    change(key, {"moved/b.md": None})
    assert runtime.library.read("item", VIEWER2, revision=old.citation.revision).content == "first\n"


VIEWER2 = reader_of("team:a")


def test_an_unpinned_read_gives_the_current_revision(
    runtime: Runtime, imported: Callable[..., BaseKey], change: Callable[..., str]
) -> None:
    key = imported({"a.md": text("One", body="first\n")}, space="team:a")
    new = change(key, {"a.md": text("Two", body="second\n")})
    view = runtime.library.read("notes/a", VIEWER)
    assert view.citation.revision == new
    assert view.is_current
    assert view.number == 2
    shown = view.as_json()
    assert shown["type"] == "knowledge_item"
    assert shown["base"] == {"slug": "notes", "name": "notes", "status": "active", "space": "team:a"}
    assert shown["provenance"]["message"] == "Change"


@pytest.mark.parametrize("sha", ["abc", "0" * 39, "A" * 40, "0" * 41, "HEAD", "main", ""])
def test_what_is_no_full_sha_is_refused_and_never_guessed_at(
    runtime: Runtime, imported: Callable[..., BaseKey], sha: str
) -> None:
    imported({"a.md": text()}, space="team:a")
    with pytest.raises(InvalidCitation):
        runtime.library.read("notes/a", VIEWER, revision=sha)


def test_a_sha_that_is_no_revision_of_the_item_is_not_found(
    runtime: Runtime, imported: Callable[..., BaseKey], change: Callable[..., str]
) -> None:
    key = imported({"a.md": text("A")}, space="team:a")
    other = change(key, {"b.md": text("B")})
    elsewhere = imported({"c.md": text("C")}, "other", "team:b")
    foreign = runtime.library.read("other/c", VIEWER).citation.revision
    first = runtime.library.read("notes/a", VIEWER).citation.revision
    for item, sha in (("notes/a", "0" * 40), ("notes/a", other), ("notes/a", foreign), ("notes/b", first)):
        with pytest.raises(RevisionNotFound):
            runtime.library.read(item, VIEWER, revision=sha)
    assert str(elsewhere) == "team:b/other"


def test_drafts_do_not_exist_for_readers_and_are_named_to_writers(
    runtime: Runtime, imported: Callable[..., BaseKey]
) -> None:
    imported({"a.md": text("Secret plan", status="draft")}, space="team:a")
    with pytest.raises(ItemNotFound) as hidden:
        runtime.library.read("notes/a", VIEWER)
    with pytest.raises(ItemNotFound) as absent:
        runtime.library.read("notes/zzz", VIEWER)
    assert hidden.value.message == absent.value.message.replace("zzz", "a")
    with pytest.raises(ItemNotPublished) as named:
        runtime.library.read("notes/a", MEMBER)
    revision = named.value.details["knowledge_revision_id"]
    assert runtime.library.read("notes/a", MEMBER, revision=revision).title == "Secret plan"
    with pytest.raises(ItemNotFound):
        runtime.library.read("notes/a", VIEWER, revision=revision)
    with pytest.raises(ItemNotFound):
        runtime.library.revisions("notes/a", VIEWER)


def test_an_archived_item_is_read_by_pin_only(
    runtime: Runtime, imported: Callable[..., BaseKey], change: Callable[..., str]
) -> None:
    key = imported({"a.md": text("A")}, space="team:a")
    pin = runtime.library.read("notes/a", VIEWER).citation.revision
    change(key, {"a.md": text("A", status="archived")})
    with pytest.raises(ItemNotPublished):
        runtime.library.read("notes/a", VIEWER)
    assert runtime.library.read("notes/a", VIEWER, revision=pin).title == "A"


def test_a_removed_item_says_so_and_its_citations_resolve(
    runtime: Runtime, imported: Callable[..., BaseKey], change: Callable[..., str]
) -> None:
    key = imported({"a.md": text("A"), "b.md": text("B")}, space="team:a")
    pin = runtime.library.read("notes/a", VIEWER).citation
    change(key, {"a.md": None})
    with pytest.raises(ItemDeleted):
        runtime.library.read("notes/a", VIEWER)
    assert runtime.library.resolve(str(pin), VIEWER).title == "A"
    history = runtime.library.revisions("notes/a", VIEWER)
    assert [revision.number for revision in history.revisions] == [1]


def test_an_archived_base_suspends_unpinned_reads_only(
    runtime: Runtime, imported: Callable[..., BaseKey], change: Callable[..., str]
) -> None:
    key = imported({"a.md": text("A")}, space="team:a")
    pin = runtime.library.read("notes/a", VIEWER).citation
    change(key, {"base.yaml": "status: archived\n"})
    with pytest.raises(BaseArchived):
        runtime.library.read("notes/a", VIEWER)
    view = runtime.library.resolve(str(pin), VIEWER)
    assert view.as_json()["base"]["status"] == "archived"
    change(key, {"base.yaml": "status: active\n"})
    assert runtime.library.read("notes/a", VIEWER).is_current


def test_one_id_in_two_bases_is_ambiguous_only_among_those_in_sight(
    runtime: Runtime, imported: Callable[..., BaseKey]
) -> None:
    imported({"a.md": text("Mine", id="shared")}, "one", "team:a")
    imported({"a.md": text("Theirs", id="shared")}, "two", "team:b")
    with pytest.raises(AmbiguousItem) as ambiguity:
        runtime.library.read("shared", VIEWER)
    assert ambiguity.value.details["bases"] == ["team:a/one", "team:b/two"]
    assert runtime.library.read("shared", reader_of("team:a")).title == "Mine"
    assert runtime.library.read("shared", VIEWER, base="two").title == "Theirs"
    for base in ("one", "two"):
        pin = runtime.library.read("shared", VIEWER, base=base).citation.revision
        assert runtime.library.read("shared", VIEWER, revision=pin).base.key.slug == base


def test_history_is_paged_newest_first_without_gap(
    runtime: Runtime, imported: Callable[..., BaseKey], change: Callable[..., str]
) -> None:
    key = imported({"a.md": text("0")}, space="team:a")
    for number in range(1, 7):
        change(key, {"a.md": text(str(number))})
    numbers: list[int] = []
    cursor = None
    while True:
        page = runtime.library.revisions("notes/a", VIEWER, cursor=cursor, limit=3)
        numbers += [revision.number for revision in page.revisions]
        cursor = page.cursor
        if cursor is None:
            break
    assert numbers == [7, 6, 5, 4, 3, 2, 1]
    with pytest.raises(InvalidRequest):
        runtime.library.revisions("notes/a", VIEWER, cursor="nonsense")


def test_a_difference_shows_what_changed(
    runtime: Runtime, imported: Callable[..., BaseKey], change: Callable[..., str]
) -> None:
    key = imported({"a.md": text("A", body="first line\nsecond\n")}, space="team:a")
    old = runtime.library.read("notes/a", VIEWER).citation.revision
    new = change(key, {"a.md": text("A", body="first line\nthird\n")})
    assert old is not None
    diff = runtime.library.diff("notes/a", VIEWER, old=old, new=new)
    assert "\n-second\n+third\n" in diff.text
    assert "--- a/a.md\n+++ b/a.md\n" in diff.text


def test_cited_lines_are_given_as_an_excerpt(runtime: Runtime, imported: Callable[..., BaseKey]) -> None:
    imported({"a.md": text("A", body="one\ntwo\nthree\nfour\n")}, space="team:a")
    pin = runtime.library.read("notes/a", VIEWER).citation.with_lines(2, 3)
    assert runtime.library.resolve(str(pin), VIEWER).as_json()["excerpt"] == "two\nthree"


def test_items_are_listed_for_readers_without_drafts(runtime: Runtime, imported: Callable[..., BaseKey]) -> None:
    pages = {f"{n}.md": text(str(n), status="draft" if n % 2 else "published") for n in range(6)}
    key = imported(pages, space="team:a")
    assert len(runtime.library.items(str(key), VIEWER).items) == 3
    assert len(runtime.library.items(str(key), OPERATOR).items) == 6
    assert not runtime.library.items(str(key), VIEWER, status="draft").items
    first = runtime.library.items(str(key), OPERATOR, limit=4)
    rest = runtime.library.items(str(key), OPERATOR, limit=4, cursor=first.cursor)
    assert len(first.items) + len(rest.items) == 6
    assert runtime.library.base(str(key), VIEWER).as_json()["items"] == {"published": 3}
