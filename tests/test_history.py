"""Revisions and their numbers, on random histories, against a slow reading of the definition and against Git."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbgit.base import Admission, BaseKey
from kbgit.catalogue import Catalogue
from kbgit.errors import DocumentProblem
from kbgit.home import Home
from kbgit.importing import BaseOptions, Importer
from kbgit.item import ItemStatus, item_id, parse_document
from kbgit.publish import catch_up, rebuild
from kbgit.rows import BaseRow
from kbgit.store import Repository
from kbgit.store.repository import PUBLICATION_LOG
from tests.writing import tables, text

KEY = BaseKey("team:platform", "notes")
Tree = dict[str, str]


# Random histories


@dataclass
class History:
    """Commits in topological order, each with its parents (numbers) and its whole tree (path → content)."""

    parents: list[tuple[int, ...]] = field(default_factory=list)
    trees: list[Tree] = field(default_factory=list)

    def ancestors(self, commit: int) -> set[int]:
        """Of a commit, itself included."""
        found, todo = set(), [commit]
        while todo:
            here = todo.pop()
            if here not in found:
                found.add(here)
                todo += self.parents[here]
        return found


def random_content(chance: random.Random, explicit: str | None) -> str:
    if chance.random() < 0.1:
        return f"---\ntitle: a: b\nx: {chance.randrange(3)}\n---\n"  # cannot be read
    fields = {"id": explicit} if explicit else {}
    return text(f"T{chance.randrange(3)}", status=chance.choice(["draft", "published", "archived"]), **fields)


def edited(chance: random.Random, tree: Tree) -> Tree:
    """One to three edits: of files that their path names, files that name themselves and move, one that changes its id."""
    tree = dict(tree)
    for _ in range(chance.randint(1, 3)):
        kind = chance.randrange(5)
        if kind <= 1:
            path = chance.choice(["a.md", "docs/b.md", "docs/é.md", ".hidden/h.md", "notes.txt"])
            tree[path] = random_content(chance, None)
        elif kind == 2:
            number = chance.randrange(3)
            here, there = chance.sample([f"x{number}.md", f"moved/x{number}.md"], 2)
            content = tree.pop(here, None) or random_content(chance, f"item-{number}")
            tree[there] = content if chance.random() < 0.5 else random_content(chance, f"item-{number}")
        elif kind == 3:
            tree["named.md"] = random_content(chance, chance.choice([None, "one", "two"]))
        elif tree:
            del tree[chance.choice(sorted(tree))]
    return tree


def random_history(chance: random.Random, size: int) -> History:
    made = History([()], [edited(chance, {})])
    for number in range(1, size):
        parents = [number - 1 if chance.random() < 0.7 else chance.randrange(number)]
        if chance.random() < 0.3:
            other = chance.randrange(number)
            if other not in made.ancestors(parents[0]) and parents[0] not in made.ancestors(other):
                parents.append(other)
        first, last = made.trees[parents[0]], made.trees[parents[-1]]
        # A merge takes each path from either side, and now and then brings something that neither has.
        tree = {p: t for p in sorted({*first, *last}) if (t := chance.choice([first, last]).get(p)) is not None}
        if len(parents) == 1 or chance.random() < 0.3:
            tree = edited(chance, tree)
        for n in range(3):  # a file that names itself is in one place
            if f"x{n}.md" in tree and f"moved/x{n}.md" in tree:
                del tree[f"moved/x{n}.md"]
        made.parents.append(tuple(parents))
        made.trees.append(tree)
    return made


def store(history: History, directory: Path) -> list[str]:
    """Write a history into a repository with fast-import. The commits' names, in order."""
    stream: list[bytes] = []
    for number, (parents, tree) in enumerate(zip(history.parents, history.trees, strict=True)):
        stream.append(b"commit refs/import/%d\nmark :%d\n" % (number, number + 1))
        stream.append(b"committer A <a@x> %d +0000\ndata 1\nm\n" % (1_700_000_000 + number))
        stream += [b"%s :%d\n" % (b"merge" if n else b"from", parent + 1) for n, parent in enumerate(parents)]
        stream.append(b"deleteall\n")
        for path, content in tree.items():
            raw = content.encode()
            stream.append(b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(raw), raw))
    marks = directory / "marks"
    subprocess.run(
        ["git", "-C", directory, "fast-import", "--quiet", f"--export-marks={marks}"],
        input=b"".join(stream),
        check=True,
    )
    listed = dict(line.split() for line in marks.read_text().splitlines())
    return [listed[f":{number + 1}"] for number in range(len(history.parents))]


# The definition, read slowly


def document_id(content: str | None, path: str) -> str | None:
    """The id of the item that a file is; None if it is none, or cannot be read."""
    if content is None:
        return None
    try:
        return item_id(parse_document(content.encode()), KEY.slug, path)
    except DocumentProblem:
        return None


def is_markdown(path: str) -> bool:
    return path.endswith(".md") and not path.startswith(".hidden/")


def touched(history: History, commit: int) -> set[tuple[str, str, bool]]:
    """(item, path, whether it can be read there) of each item that a commit changes against every parent."""
    tree, parents = history.trees[commit], [history.trees[parent] for parent in history.parents[commit]] or [{}]
    arrived, left = {}, {}
    for path in {path for side in (tree, *parents) for path in side if is_markdown(path)}:
        if any(tree.get(path) == side.get(path) for side in parents):
            continue
        before, after = document_id(parents[0].get(path), path), document_id(tree.get(path), path)
        if after is not None:
            arrived[after] = path
        for gone in {before} - {None, after} if after else {before or f"{KEY.slug}/{path[:-3]}"}:
            assert gone is not None
            left[gone] = path
    return {(i, p, True) for i, p in arrived.items()} | {(i, p, False) for i, p in left.items() if i not in arrived}


def expected_revisions(history: History, head: int) -> dict[tuple[int, str], tuple[int, str, bool]]:
    """(commit, item) → (number, path, readable)."""
    reachable = history.ancestors(head)
    found = {commit: touched(history, commit) for commit in reachable}
    return {
        (commit, item): (sum(item in {i for i, _, _ in found[c]} for c in history.ancestors(commit)), path, readable)
        for commit in reachable
        for item, path, readable in found[commit]
    }


# Running kbgit on it


@dataclass
class Bench:
    """A home whose base gets one random history after the other."""

    home: Home
    catalogue: Catalogue
    repository: Repository

    def fresh(self) -> None:
        for ref in self.repository.refs():
            self.repository.git.run("update-ref", "-d", ref)
        self.catalogue.reset(KEY)

    def publish(self, head: str) -> BaseRow:
        self.repository.git.run("update-ref", "refs/heads/main", head)
        return catch_up(self.repository, self.catalogue, self.base, self.home.limits, clock=lambda: 1_800_000_000)

    @property
    def base(self) -> BaseRow:
        return self.catalogue.base(str(KEY))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    home = Home.create(tmp_path_factory.mktemp("history") / "home")
    catalogue = home.catalogue()
    made = Bench(home, catalogue, home.create_repository(KEY))
    catalogue.add_base(KEY)
    yield made
    made.repository.close()
    catalogue.close()


def facts(found: Mapping[str, list[tuple[object, ...]]]) -> dict[str, object]:
    """What no order of publication may change: revisions without their place, items without theirs."""
    return {
        "revisions": sorted((r[1], r[2], r[3], r[5], r[6], r[8]) for r in found["revisions"]),
        "items": sorted(repr((*i[:5], *i[7:])) for i in found["items"]),
        "item_fields": found["item_fields"],
        "commits": sorted(repr(c[:7]) for c in found["commits"]),
        "problems": found["problems"],
    }


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), size=st.integers(2, 14))
def test_revisions_are_those_of_the_definition_and_the_same_by_every_road(bench: Bench, seed: int, size: int) -> None:
    chance = random.Random(seed)
    history = random_history(chance, size)
    bench.fresh()
    names = store(history, bench.repository.path)
    head = size - 1
    # Published as it grew: heads along one road from the root, each in the history of the next.
    road = [head]
    while history.parents[road[-1]]:
        road.append(chance.choice(history.parents[road[-1]]))
    heads = [commit for commit in reversed(road[1:]) if chance.random() < 0.4] + [head]

    for commit in heads:
        bench.publish(names[commit])
    grown = tables(bench.home)
    found = {
        (names.index(row.sha), row.item_id): (row.number, row.path, row.blob is not None)
        for (item,) in {(r[1],) for r in grown["revisions"]}
        for row in bench.catalogue.revisions(str(KEY), str(item))
    }
    assert found == expected_revisions(history, head)

    items = bench.catalogue.items(str(KEY))
    readable = {(i, p) for p, t in history.trees[head].items() if is_markdown(p) and (i := document_id(t, p))}
    assert {(item.item_id, item.path) for item in items} == readable
    for item in items:
        row = bench.catalogue.revision(str(KEY), item.item_id, item.revision)
        assert row is not None
        assert (row.path, row.blob, row.number) == (item.path, item.blob, item.number)

    rebuild(bench.repository, bench.catalogue, bench.base, bench.home.limits)
    assert tables(bench.home) == grown, "rebuilt from the log"
    bench.repository.git.run("update-ref", "-d", PUBLICATION_LOG)
    bench.catalogue.reset(KEY)
    bench.publish(names[head])
    assert facts(tables(bench.home)) == facts(grown), "published at once"


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_in_a_history_without_merges_the_number_is_gits_own_count(bench: Bench, seed: int) -> None:
    chance = random.Random(seed)
    made = History([()], [edited(chance, {})])
    for number in range(1, 12):
        made.parents.append((number - 1,))
        made.trees.append(edited(chance, made.trees[-1]))
    bench.fresh()
    names = store(made, bench.repository.path)
    bench.publish(names[-1])
    for path in ("a.md", "docs/b.md", "docs/é.md"):
        counted = bench.repository.git.run("rev-list", names[-1], "--", path).decode().split()[::-1]
        rows = bench.catalogue.revisions(str(KEY), f"{KEY.slug}/{path[:-3]}")
        assert [(row.sha, row.number) for row in reversed(rows)] == [(sha, n + 1) for n, sha in enumerate(counted)]


# Ids that several files claim


def published(bench: Bench, *trees: Tree) -> list[str]:
    """Publish one commit after the other, a tree each."""
    bench.fresh()
    line = History([(number - 1,) if number else () for number in range(len(trees))], list(trees))
    names = store(line, bench.repository.path)
    for name in names:
        bench.publish(name)
    return names


def revisions(bench: Bench, item: str) -> list[tuple[int, str, str | None]]:
    """(number, commit, path or None where it was removed), oldest first."""
    rows = bench.catalogue.revisions(str(KEY), item)
    return [(row.number, row.sha, row.path if row.blob else None) for row in reversed(rows)]


A, B, LENIENT = text("A", id="x"), text("B", id="x"), "admission: lenient\n"


def test_a_copy_that_keeps_the_id_is_no_revision_of_the_original(bench: Bench) -> None:
    """Copied by mistake, refused by the hook, mended by one more commit, and pushed together."""
    bench.fresh()
    trees = [
        {"a.md": A},
        {"a.md": A, "b.md": A},
        {"a.md": A, "b.md": text("B", id="y")},
        {"a.md": text("Later", id="x")},
    ]
    names = store(History([(), (0,), (1,), (2,)], trees), bench.repository.path)
    bench.publish(names[0])
    bench.publish(names[3])
    assert revisions(bench, "x") == [(1, names[0], "a.md"), (2, names[3], "a.md")]
    assert revisions(bench, "y") == [(1, names[2], "b.md"), (2, names[3], None)]


@pytest.mark.parametrize("together", [True, False])
def test_of_two_files_that_come_with_one_id_the_one_that_keeps_it_has_it(bench: Bench, together: bool) -> None:
    bench.fresh()
    trees = [{"a.md": A, "z.md": B}, {"a.md": text("A", id="y"), "z.md": B}]
    names = store(History([(), (0,)], trees), bench.repository.path)
    for name in names[together:]:
        bench.publish(name)
    assert [(i.item_id, i.path) for i in bench.catalogue.items(str(KEY))] == [("x", "z.md"), ("y", "a.md")]
    assert bench.catalogue.problems(str(KEY)) == []
    assert revisions(bench, "y") == [(1, names[1], "a.md")]
    assert revisions(bench, "x")[-1][2] == "z.md"


def test_a_newcomer_that_is_listed_as_a_problem_becomes_the_item_when_the_holder_goes(bench: Bench) -> None:
    names = published(bench, {"z.md": A}, {"z.md": A, "a.md": B}, {"a.md": B})
    assert [(i.item_id, i.path, i.revision) for i in bench.catalogue.items(str(KEY))] == [("x", "a.md", names[2])]
    assert revisions(bench, "x") == [(1, names[0], "z.md"), (2, names[2], "a.md")]
    assert bench.catalogue.problems(str(KEY)) == []


@pytest.mark.parametrize(("declared", "status"), [("status: published\n", "published"), ("", "draft")])
def test_a_revision_by_which_a_file_becomes_the_item_has_the_status_of_that_file(
    bench: Bench, declared: str, status: str
) -> None:
    heir = f"---\nid: x\n{declared}---\nWords.\n"
    holder = text("A", id="x", status="archived")
    names = published(bench, {"z.md": holder}, {"z.md": holder, "a.md": heir}, {"a.md": heir})
    item = bench.catalogue.item(str(KEY), "x")
    row = bench.catalogue.revision(str(KEY), "x", names[2])
    assert item is not None
    assert row is not None
    assert (item.status, item.revision, row.status) == (status, names[2], status)


def test_holder_and_newcomer_changed_by_one_commit_are_told_apart(bench: Bench) -> None:
    names = published(bench, {"z.md": A}, {"z.md": text("New", id="x"), "a.md": B})
    assert [(i.item_id, i.path, i.revision) for i in bench.catalogue.items(str(KEY))] == [("x", "z.md", names[1])]
    assert [(p.path, p.code) for p in bench.catalogue.problems(str(KEY))] == [("a.md", "duplicate_id")]
    assert revisions(bench, "x") == [(1, names[0], "z.md"), (2, names[1], "z.md")]


# What the settings of a base make an item


def test_a_change_of_subdir_brings_items_with_the_numbers_that_they_always_had(bench: Bench) -> None:
    docs = {"docs/a.md": text("A")}
    names = published(
        bench,
        {**docs, "b.md": text("B"), "base.yaml": "subdir: docs\n"},
        {**docs, "b.md": text("B2"), "base.yaml": "subdir: docs\n"},
        {**docs, "b.md": text("B2")},
        {**docs, "b.md": text("B3")},
    )
    item = bench.catalogue.item(str(KEY), "notes/b")
    assert item is not None
    assert (item.revision, item.number) == (names[3], 3)
    seen = {row.sha: row.was_published for row in bench.catalogue.revisions(str(KEY), "notes/b")}
    assert seen == {names[0]: False, names[1]: True, names[3]: True}, "seen by readers: what was ever an item there"


def test_a_base_that_becomes_a_bundle_and_back_keeps_its_numbers(bench: Bench) -> None:
    bundle = {"index.md": "---\nokf_version: 0.2\n---\n", "docs/log.md": text("Log")}
    plain = {"index.md": text("Home"), "docs/log.md": text("Log 2")}
    names = published(bench, {**bundle, "index.md": text("Home")}, bundle, plain)
    assert {i.item_id: i.number for i in bench.catalogue.items(str(KEY))} == {"notes/docs/log": 2, "notes/index": 3}
    assert bench.base.head == names[2]


def test_another_default_status_changes_the_items_that_have_none_of_their_own(bench: Bench) -> None:
    plain, draft = {"a.md": "# A\n"}, {"d.md": text(status="draft")}
    names = published(
        bench, {**plain, **draft}, {**plain, **draft, "base.yaml": "default_status: published\n"}, {**plain, **draft}
    )
    statuses = {item.item_id: item.status for item in bench.catalogue.items(str(KEY))}
    assert statuses == {"notes/a": ItemStatus.DRAFT, "notes/d": ItemStatus.DRAFT}
    assert [row.was_published for row in bench.catalogue.revisions(str(KEY), "notes/a")] == [True], "once seen"
    assert [row.was_published for row in bench.catalogue.revisions(str(KEY), "notes/d")] == [False]
    assert bench.base.head == names[2]


# A real history


@pytest.mark.corpora
def test_every_revision_of_a_real_history_is_what_git_says(corpora: Path, home: Home, catalogue: Catalogue) -> None:
    source = str(corpora / "prometheus-runbooks.bundle")
    key = BaseKey("team:corpora", "runbooks")
    Importer(home, catalogue, "test").from_repository(key, source, BaseOptions(admission=Admission.LENIENT))
    repository = home.repository(key)
    rows = [row for item in catalogue.items(str(key)) for row in catalogue.revisions(str(key), item.item_id)]
    assert len(rows) > 200
    for row in rows:
        assert int(repository.git.run("rev-list", "--count", row.sha, "--", row.path)) == row.number
        if row.blob is not None:
            shown = repository.git.run("show", f"{row.sha}:{row.path}")
            document = parse_document(repository.blob(row.blob))
            assert shown.decode().replace("\r\n", "\n").endswith(document.content)
            assert document.content_hash == row.content_hash
            header = shown.decode()[: len(shown.decode()) - len(document.content)]
            assert not header or (header.startswith("---") and header.rstrip().endswith("---"))
    repository.close()
