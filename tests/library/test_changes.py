"""What changed since then: kinds, sections, pages, and what a caller may know of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from kbgit.access import Principal, Role
from kbgit.assemble import Runtime
from kbgit.base import BaseKey
from kbgit.errors import BaseNotFound, InvalidRequest, RevisionNotFound
from kbgit.importing import BaseOptions, Importer
from kbgit.item import parse_document
from kbgit.library.change_page import ChangePage, ItemChange
from kbgit.library.changes import Changes
from tests.library.conftest import reader_of
from tests.library.publishing import publish
from tests.library.test_verifying import random_history
from tests.writing import text

READER = reader_of("team:a", "team:b")
MEMBER = Principal("mia", {"team:a": Role.MEMBER})
BODY = "# Guide\n\nIntroduction.\n\n## First\n\nOne.\n\n## Second\n\nTwo.\n"


@pytest.fixture
def ask(runtime: Runtime) -> Callable[..., ChangePage]:
    """Asks for changes."""

    def page(caller: Principal | None = READER, **asked: object) -> ChangePage:
        return Changes(runtime.catalogue, runtime.indexer).changes(caller, **asked)  # type: ignore[arg-type]

    return page


@pytest.fixture
def base(runtime: Runtime, imported: Callable[..., BaseKey]) -> BaseKey:
    return imported({f"{name}.md": text(name, id=name, body=BODY) for name in ("a", "b", "c")}, space="team:a")


def head_of(runtime: Runtime, key: BaseKey) -> str:
    head = runtime.catalogue.base(str(key)).head
    assert head is not None
    return head


def kinds(page: ChangePage) -> dict[str, str]:
    return {change.item_id: change.kind.value for change in page.changes}


def test_every_kind_of_change_is_named(runtime: Runtime, base: BaseKey, ask: Callable[..., ChangePage]) -> None:
    publish(runtime, base, {f"{n}.md": text(n, id=n, body=BODY) for n in ("d", "e", "f")})
    publish(runtime, base, {"f.md": text("f", id="f", status="archived", body=BODY)})
    since = head_of(runtime, base)
    new = publish(
        runtime,
        base,
        {
            "a.md": text("a", id="a", body=BODY.replace("One.", "One and a half.")),
            "b.md": None,
            "elsewhere/b.md": text("b", id="b", body=BODY),
            "c.md": None,
            "d.md": text("d", id="d", status="archived", body=BODY),
            "e.md": text("e", id="e", status="draft", body=BODY),
            "f.md": text("f", id="f", body=BODY),
            "g.md": text("g", id="g", body=BODY),
        },
    )
    expected = {
        "a": "changed",
        "b": "renamed",
        "c": "removed",
        "d": "archived",
        "e": "archived",
        "f": "restored",
        "g": "added",
    }
    page = ask(since_commit=since)
    assert kinds(page) == expected
    assert kinds(ask(MEMBER, since_commit=since)) == {**expected, "e": "changed"}
    by_id: dict[str, ItemChange] = {change.item_id: change for change in page.changes}
    shown = by_id["a"].as_json()
    assert (shown["reference"], shown["locator"]) == (f"knowledge:a@{new}", "a.md")
    assert shown["sections"] == [
        {
            "kind": "changed",
            "section": ["Guide", "First"],
            "lines": [5, 7],
            "old_lines": [5, 7],
            "citation": f"knowledge:a@{new}#L5-L7",
        }
    ]
    assert (by_id["b"].old_locator, by_id["b"].locator) == ("b.md", "elsewhere/b.md")
    assert by_id["c"].new is None
    assert by_id["d"].as_json()["reference"] is None  # the archiving revision is none that readers may read
    assert (by_id["e"].as_json()["status"], by_id["e"].as_json()["reference"]) == ("draft", None)
    assert by_id["g"].old is None
    bases = page.as_json()["bases"]
    assert [(one["slug"], one["from"], one["to"], one["old_status"]) for one in bases] == [
        ("notes", since, new, "active")
    ]


def test_nothing_changed_since_the_head(runtime: Runtime, base: BaseKey, ask: Callable[..., ChangePage]) -> None:
    page = ask(since_commit=head_of(runtime, base))
    assert (page.changes, page.cursor) == ([], None)


def test_what_was_changed_back_is_not_named(runtime: Runtime, base: BaseKey, ask: Callable[..., ChangePage]) -> None:
    since = head_of(runtime, base)
    publish(runtime, base, {"a.md": text("a", id="a", body="Other.\n")})
    publish(runtime, base, {"a.md": text("a", id="a", body=BODY), "b.md": text("b", id="b", owner="me", body=BODY)})
    page = ask(since_commit=since)
    assert kinds(page) == {"b": "changed"}
    assert page.changes[0].sections == ()


def test_a_rename_without_an_id_of_its_own_is_an_end_and_a_start(
    runtime: Runtime, imported: Callable[..., BaseKey], ask: Callable[..., ChangePage]
) -> None:
    key = imported({"old.md": text()}, space="team:a")
    since = head_of(runtime, key)
    publish(runtime, key, {"old.md": None, "new.md": text()})
    assert kinds(ask(since_commit=since)) == {"notes/new": "added", "notes/old": "removed"}


def test_sections_that_came_or_went_are_named(runtime: Runtime, base: BaseKey, ask: Callable[..., ChangePage]) -> None:
    since = head_of(runtime, base)
    publish(runtime, base, {"a.md": text("a", id="a", body=BODY.replace("## Second", "## Third\n\nTwo and a half"))})
    (change,) = ask(since_commit=since).changes
    assert [(part.kind.value, part.section, part.old_lines, part.new_lines) for part in change.sections] == [
        ("added", ("Guide", "Third"), None, (9, 13)),
        ("removed", ("Guide", "Second"), (9, 11), None),
    ]


def test_since_a_time_means_what_was_published_then(
    runtime: Runtime, base: BaseKey, ask: Callable[..., ChangePage]
) -> None:
    published_at = runtime.catalogue.base(str(base)).published_at
    assert published_at is not None
    assert kinds(ask(since_time=published_at - 1)) == dict.fromkeys("abc", "added")
    assert ask(since_time=published_at - 1).bases[0].old_head is None
    assert kinds(ask(since_time=published_at + 1000)) == {}


def test_since_citations_names_what_became_of_the_cited_items_alone(
    runtime: Runtime, base: BaseKey, imported: Callable[..., BaseKey], ask: Callable[..., ChangePage]
) -> None:
    first = head_of(runtime, base)
    hidden = imported({"x.md": text(id="x")}, "hidden", "team:c")
    second = publish(runtime, base, {"a.md": text("a", id="a", body="Other.\n")})
    publish(runtime, base, {"b.md": None, "d.md": text("d", id="d")})
    cited = [
        f"knowledge:a@{first}#L1-L3",
        f"knowledge:b@{first}",
        f"knowledge:c@{first}",
        f"knowledge:x@{head_of(runtime, hidden)}",
        f"knowledge:y@{first}",
        "nonsense",
        "knowledge:\ud800@" + "0" * 40,
    ]
    page = ask(citations=cited)
    assert kinds(page) == {"a": "changed", "b": "removed"}
    assert list(page.unknown) == cited[3:]
    assert kinds(ask(citations=[f"knowledge:a@{second}"])) == {}
    both = ask(citations=[f"knowledge:a@{second}", f"knowledge:a@{first}"]).changes
    assert [change.old.revision for change in both if change.old] == [first]


def test_pages_follow_each_other_without_gap(
    runtime: Runtime, imported: Callable[..., BaseKey], ask: Callable[..., ChangePage]
) -> None:
    for slug, space in (("one", "team:a"), ("two", "team:b"), ("three", "team:b")):
        imported({f"{n}.md": text(str(n)) for n in range(4)}, slug, space)
    names, cursor = [], None
    while True:
        page = ask(since_time=0, cursor=cursor, limit=3)
        names += [(str(change.base.key), change.item_id) for change in page.changes]
        assert len(page.changes) <= 3
        cursor = page.cursor
        if cursor is None:
            break
    assert names == sorted(names)
    assert len(set(names)) == 12
    assert len(ask(since_time=0, bases=["two"]).changes) == 4


def test_readers_are_told_of_published_states_only(
    runtime: Runtime, base: BaseKey, ask: Callable[..., ChangePage]
) -> None:
    publish(runtime, base, {"never.md": text("Never", id="never", status="archived")})
    since = head_of(runtime, base)
    publish(
        runtime,
        base,
        {
            "secret.md": text("Secret", id="secret", status="draft"),
            "shelved.md": text("Shelved", id="shelved", status="archived"),
            "never.md": None,
            "a.md": text("Renamed in secret", id="a", status="draft", body=BODY + "Secret.\n"),
        },
    )
    (only,) = ask(since_commit=since).changes
    assert (only.item_id, only.kind.value, only.title, only.new, only.locator) == ("a", "archived", None, None, None)
    assert kinds(ask(MEMBER, since_commit=since)) == {"secret": "added", "never": "removed", "a": "changed"}
    publish(runtime, base, {"secret.md": None})
    assert "secret" not in kinds(ask(since_commit=since))
    publish(runtime, base, {"secret.md": text("Secret", id="secret")})
    assert kinds(ask(since_commit=since))["secret"] == "added"


def test_a_base_out_of_sight_takes_no_part(
    runtime: Runtime, base: BaseKey, imported: Callable[..., BaseKey], ask: Callable[..., ChangePage]
) -> None:
    hidden = imported({"x.md": text(id="x")}, "hidden", "team:c")
    assert [change.base.key for change in ask(since_time=0).changes] == [base] * 3
    assert [one.base.key for one in ask(since_time=0).bases] == [base]
    errors = []
    for sha in (head_of(runtime, hidden), "0" * 40):
        with pytest.raises(RevisionNotFound) as error:
            ask(since_commit=sha)
        errors.append(error.value.message.replace(sha, ""))
    assert errors[0] == errors[1]
    with pytest.raises(BaseNotFound):
        ask(since_time=0, bases=["hidden"])
    assert ask(None, since_time=0).changes == []


def test_an_archived_base_says_so_and_lists_no_items(
    runtime: Runtime, base: BaseKey, ask: Callable[..., ChangePage]
) -> None:
    since = head_of(runtime, base)
    archived = publish(runtime, base, {"base.yaml": "status: archived\n", "a.md": None})
    page = ask(since_commit=since)
    assert page.changes == []
    assert (page.as_json()["bases"][0]["status"], page.as_json()["bases"][0]["old_status"]) == ("archived", "active")
    assert ask(citations=[f"knowledge:b@{since}"]).changes == []
    publish(runtime, base, {"base.yaml": "status: active\n"})
    assert kinds(ask(since_commit=since)) == {"a": "removed"}
    assert ask(since_commit=archived).bases[0].was_active is False


def test_settings_that_publish_items_count_as_their_change(
    runtime: Runtime, imported: Callable[..., BaseKey], ask: Callable[..., ChangePage]
) -> None:
    key = imported({"plain.md": "# Plain\n", "sub/own.md": text(id="own")}, space="team:a")
    since = head_of(runtime, key)
    published = publish(runtime, key, {"base.yaml": "default_status: published\n"})
    assert kinds(ask(since_commit=since)) == {"notes/plain": "added"}
    publish(runtime, key, {"base.yaml": "default_status: published\nsubdir: sub\n"})
    assert kinds(ask(since_commit=published)) == {"notes/plain": "removed"}
    assert kinds(ask(since_commit=since)) == {}


def test_a_merge_that_throws_a_change_away_leaves_the_state_of_its_tree(
    runtime: Runtime, base: BaseKey, ask: Callable[..., ChangePage]
) -> None:
    repository = runtime.home.repository(base)
    first = head_of(runtime, base)
    author = "Ada <ada@example.org>"
    ours = repository.commit_files({"b.md": b"---\nid: b\nstatus: published\n---\nOurs.\n"}, parent=first,
                                   message="Ours", author=author)  # fmt: skip
    theirs = repository.commit_files({"a.md": b"---\nid: a\nstatus: published\n---\nThrown away.\n"}, parent=first,
                                     message="Theirs", author=author)  # fmt: skip
    tree = repository.git.run("rev-parse", f"{ours}^{{tree}}").decode().strip()
    identity = {f"GIT_{who}_{what}": "ada@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    arguments = ("commit-tree", tree, "-p", ours, "-p", theirs, "-m", "Merge")
    merge = repository.git.run(*arguments, extra=identity).decode().strip()
    repository.move_ref("refs/heads/main", merge, first)
    runtime.indexer.synchronise(base)
    assert kinds(ask(since_commit=first)) == {"b": "changed"}
    assert kinds(ask(since_commit=theirs)) == {"a": "changed", "b": "changed"}
    assert kinds(ask(since_commit=ours)) == {}
    publish(runtime, base, {"a.md": text("a", id="a", body="New.\n")})
    (change,) = ask(since_commit=merge).changes
    assert change.old is not None
    assert change.old.revision == first


@pytest.mark.parametrize(
    "asked",
    [{}, {"since_time": 1, "since_commit": "0" * 40}, {"since_commit": "HEAD"}, {"since_commit": ""},
     {"since_time": 0, "limit": 0}, {"since_time": 0, "limit": 201}],
)  # fmt: skip
def test_what_cannot_be_understood_is_refused(
    base: BaseKey, ask: Callable[..., ChangePage], asked: dict[str, object]
) -> None:
    with pytest.raises(InvalidRequest):
        ask(**asked)


@pytest.mark.parametrize("seed", [4, 5])
def test_changes_equal_what_two_trees_say(
    runtime: Runtime, tmp_path: Path, ask: Callable[..., ChangePage], seed: int
) -> None:
    _, shas = random_history(seed, tmp_path / "source.git", commits=60)
    key = BaseKey("team:a", "random")
    Importer(runtime.home, runtime.catalogue, "ada").from_repository(key, str(tmp_path / "source.git"), BaseOptions())
    repository = runtime.home.repository(key)

    def state(commit: str) -> dict[str, tuple[str, str, str, str]]:
        found = {}
        for entry in repository.tree(commit):
            document = parse_document(repository.blob(entry.sha))
            assert document.explicit_id
            assert document.status
            found[document.explicit_id] = (
                document.status.value,
                document.content,
                entry.path.decode(),
                str(document.fields),
            )
        return found

    now = state(shas[-1])
    for commit in random.Random(seed).sample(shas[1:], 12):
        then = state(commit)
        expected = {}
        for item_id in then.keys() | now.keys():
            old, new = then.get(item_id), now.get(item_id)
            if new is None:
                kind = "removed" if old and old[0] == "published" else None
            elif new[0] != "published":
                kind = "archived" if old and old[0] == "published" else None
            elif old is None or old[0] != "published":
                kind = "restored" if old and old[0] == "archived" else "added"
            elif old[1] != new[1]:
                kind = "changed"
            elif old[2] != new[2]:
                kind = "renamed"
            else:
                kind = "changed" if old != new else None
            # Whether an item that was archived at the time had been seen before, two trees cannot say.
            if kind is not None and not (old and old[0] == "archived"):
                expected[item_id] = kind
        found = kinds(ask(since_commit=commit, limit=200))
        archived = {item_id for item_id, old in then.items() if old[0] == "archived"}
        assert {item: kind for item, kind in found.items() if item not in archived} == expected
