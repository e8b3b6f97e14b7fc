"""The gate, on hand-made trees: what Git's own checks let through and a knowledge base cannot hold."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kbgit.admission import Assessment, Limits, Problem, Rights, Verdict, assess, judge
from kbgit.store import Repository
from tests.writing import Writer, text

Entries = list[tuple[str, str | bytes, str]]


@dataclass
class Gate:
    """Judges steps between commits of one clone, as the hook does for a push."""

    writer: Writer
    repository: Repository
    ids: dict[str, str] = field(default_factory=dict)
    """What the old tree holds: case-folded id → path."""
    contested: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)

    def assess(self, old: str | None, new: str) -> Assessment:
        known = self.ids

        def incumbents(asked: object) -> Mapping[str, str]:
            return {folded: known[folded] for folded in asked if folded in known}  # type: ignore[attr-defined]

        return assess(self.repository, old, new, "notes", incumbents, self.limits, self.contested)

    def verdict(self, old: str | None, new: str, rights: Rights | None = None) -> Verdict:
        assessment = self.assess(old, new)
        return judge(self.repository, old, new, assessment, "notes", rights or Rights(), self.limits)

    def codes(self, old: str | None, new: str) -> list[str]:
        """Codes of everything that refuses the step."""
        return [problem.code for problem in self.verdict(old, new).refusals]


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    repository = Repository.create(tmp_path / "gate.git")
    return Gate(Writer(repository.path, ""), repository)


def tree(writer: Writer, files: Mapping[str, str | bytes]) -> Entries:
    return [("100644", name, writer.blob(content)) for name, content in files.items()]


def step(writer: Writer, entries: Entries, *parents: str) -> str:
    return writer.commit_tree(writer.tree(entries), *parents)


# What fsck accepts and admission does not

LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 12\n"
CONFLICT = "a\n<<<<<<< ours\nb\n=======\nc\n>>>>>>> theirs\n"
ALWAYS: dict[str, tuple[str, str | bytes, str]] = {
    "a device name": ("100644", "AUX.md", "unsafe_name"),
    "a trailing dot": ("100644", "b.", "unsafe_name"),
    "a trailing space": ("100644", "b ", "unsafe_name"),
    "a backslash": ("100644", "..\\evil.md", "unsafe_name"),
    "a newline": ("100644", "b\n.md", "unsafe_name"),
    "an escape": ("100644", "b\x1b[2J.md", "unsafe_name"),
    "a bidi override": ("100644", "b\u202edm.md", "unsafe_name"),
    "invalid UTF-8": ("100644", b"caf\xe9.md", "unsafe_name"),
    "a name of 4,000 bytes": ("100644", "x" * 4000 + ".md", "unsafe_name"),
    "a twin in case": ("100644", "A.md", "twin_name"),
}
STRICT: dict[str, tuple[str, str, str, str]] = {
    "a symbolic link": ("120000", "b.md", "/etc/passwd", "not_a_file"),
    "a submodule": ("160000", "b.md", "", "not_a_file"),
    "an LFS pointer": ("100644", "b.md", LFS, "lfs_pointer"),
    "conflict markers": ("100644", "b.md", CONFLICT, "document_problem"),
    "unreadable front matter": ("100644", "b.md", "---\ntitle: a: b\n---\n", "document_problem"),
    "a duplicate key": ("100644", "b.md", "---\nid: a\nid: b\n---\n", "document_problem"),
    "an id with a slash": ("100644", "b.md", "---\nid: a/b\n---\n", "document_problem"),
    "an unknown status": ("100644", "b.md", "---\nstatus: open\n---\n", "document_problem"),
    "UTF-16": ("100644", "b.md", "\ufeffx", "document_problem"),
    "a taken id": ("100644", "b.md", text(id="taken"), "duplicate_id"),
    "a taken id in other case": ("100644", "b.md", text(id="TAKEN"), "duplicate_id"),
}


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("kind", ALWAYS)
def test_what_no_clone_can_hold_is_refused_in_every_base(gate: Gate, kind: str, lenient: bool) -> None:
    mode, name, code = ALWAYS[kind]
    start = tree(gate.writer, {"a.md": text(), **({"base.yaml": "admission: lenient\n"} if lenient else {})})
    old = step(gate.writer, start)
    new = step(gate.writer, [*start, (mode, name, gate.writer.blob(text("B")))], old)
    gate.writer.git("fsck", "--no-dangling", "--no-progress")
    assert code in gate.codes(old, new)


@pytest.mark.parametrize("kind", STRICT)
def test_an_item_with_a_problem_is_refused_by_a_strict_base_and_listed_by_a_lenient_one(gate: Gate, kind: str) -> None:
    mode, name, content, code = STRICT[kind]
    gate.ids = {"taken": "a.md"}
    raw = content.encode("utf-16-le") if kind == "UTF-16" else content.encode()
    entry = (mode, name, "1" * 40 if mode == "160000" else gate.writer.blob(raw))
    for settings, refused in (("", True), ("admission: lenient\n", False)):
        start = tree(gate.writer, {"a.md": text(id="taken"), "base.yaml": settings})
        old = step(gate.writer, start)
        new = step(gate.writer, [*start, entry, *tree(gate.writer, {"good.md": text("Good")})], old)
        verdict = gate.verdict(old, new)
        assert verdict.admitted is not refused
        assert [p.code for p in (verdict.refusals if refused else verdict.tolerated)] == [code]
        assert [item.path for item in gate.assess(old, new).items] == ["good.md"]


@pytest.mark.parametrize("mode", ["120000", "160000", "100755"])
def test_links_submodules_and_programs_that_are_no_items_are_left_alone(gate: Gate, mode: str) -> None:
    entry = (mode, "theme", "1" * 40 if mode == "160000" else gate.writer.blob("x"))
    new = step(gate.writer, [*tree(gate.writer, {"a.md": text()}), entry])
    verdict = gate.verdict(None, new)
    assert verdict.admitted
    assert not verdict.tolerated


def test_an_executable_item_is_an_item(gate: Gate) -> None:
    new = step(gate.writer, [("100755", "a.md", gate.writer.blob(text()))])
    assert gate.verdict(None, new).admitted
    assert [item.path for item in gate.assess(None, new).items] == ["a.md"]


@pytest.mark.parametrize(
    ("first", "second"),
    [("café.md", unicodedata.normalize("NFD", "café.md")), ("Note.md", "note.md"), ("Docs", "docs")],
)
def test_twins_are_refused_whichever_comes_later_and_in_one_commit(gate: Gate, first: str, second: str) -> None:
    one, two = (tree(gate.writer, {name: text()}) for name in (first, second))
    for earlier, later in ((one, two), (two, one)):
        old = step(gate.writer, earlier)
        assert "twin_name" in gate.codes(old, step(gate.writer, [*earlier, *later], old))
    assert "twin_name" in gate.codes(None, step(gate.writer, [*one, *two]))


@pytest.mark.parametrize(
    ("old_name", "new_name"),
    [("Note.md", "note.md"), ("café.md", unicodedata.normalize("NFD", "café.md"))],
)
def test_a_rename_that_changes_only_case_or_form_is_a_rename(gate: Gate, old_name: str, new_name: str) -> None:
    gate.ids = {"x": old_name}
    old = step(gate.writer, tree(gate.writer, {old_name: text(id="x")}))
    new = step(gate.writer, tree(gate.writer, {new_name: text(id="x")}), old)
    assert gate.verdict(old, new).admitted
    assert [(item.item_id, item.path) for item in gate.assess(old, new).items] == [("x", new_name)]
    assert gate.assess(old, new).gone == {old_name}


def test_an_evil_merge_is_judged_by_what_only_it_brings(gate: Gate) -> None:
    writer = gate.writer
    start = tree(writer, {"a.md": text()})
    old = step(writer, start)
    ours = step(writer, [*start, *tree(writer, {"b.md": text("B")})], old)
    theirs = step(writer, [*start, *tree(writer, {"c.md": text("C")})], old)
    both = [*start, *tree(writer, {"b.md": text("B"), "c.md": text("C")})]
    assert gate.codes(old, step(writer, both, ours, theirs)) == []
    evil = step(
        writer, [*both, *tree(writer, {"evil\n.md": "x"}), ("120000", "d.md", writer.blob("/etc/passwd"))], ours, theirs
    )
    assert sorted(gate.codes(old, evil)) == ["not_a_file", "unsafe_name"]


def test_only_the_final_tree_counts(gate: Gate) -> None:
    old = step(gate.writer, tree(gate.writer, {"a.md": text()}))
    broken = step(gate.writer, tree(gate.writer, {"a.md": "---\ntitle: a: b\n---\n", "AUX.md": "x"}), old)
    mended = step(gate.writer, tree(gate.writer, {"a.md": text("Mended")}), broken)
    assert gate.codes(old, broken)
    assert gate.codes(old, mended) == []


def test_dates_in_the_far_future_and_other_peoples_names_are_the_commits_own_business(gate: Gate) -> None:
    new = gate.writer.git(
        "commit-tree",
        gate.writer.tree(tree(gate.writer, {"a.md": text()})),
        *("-m", "From the future"),
        environment={"GIT_COMMITTER_DATE": "@9000000000 +0000", "GIT_COMMITTER_NAME": "The Owner"},
    )
    assert gate.verdict(None, new).admitted


# Old sins

OLD_SINS: dict[str, dict[str, str]] = {
    "a broken item": {"broken.md": "---\ntitle: a: b\n---\n"},
    "a bad name": {"AUX.md": text("Aux")},
    "twins": {"Twin.md": text("T", id="t1"), "twin.md": text("t", id="t2")},
    "a large file": {"large.bin": "x" * 5000},
    "a large item": {"large.md": "x" * 3000},
    "settings that cannot be read": {"base.yaml": "status: nonsense\n"},
}


@pytest.mark.parametrize("sin", OLD_SINS)
def test_a_file_broken_before_never_blocks_somebody_elses_push(gate: Gate, sin: str) -> None:
    gate.limits = Limits(item_bytes=2000, file_bytes=4000)
    before = tree(gate.writer, {"a.md": text(), **OLD_SINS[sin]})
    old = step(gate.writer, before)
    assert gate.codes(None, old), "as somebody's own first push it is refused"
    changed = [entry for entry in before if entry[1] != "a.md"]
    new = step(gate.writer, [*changed, *tree(gate.writer, {"a.md": text("Changed"), "b.md": text("New")})], old)
    assert gate.codes(old, new) == []
    # Not even when the whole tree has to be read again, because it became a bundle with other rules.
    bundle = step(
        gate.writer, [*changed, *tree(gate.writer, {"a.md": text(), "index.md": "---\nokf_version: 0.2\n---\n"})], old
    )
    assert gate.assess(old, bundle).complete
    assert gate.codes(old, bundle) == []


def test_touching_a_broken_file_without_mending_it_is_refused(gate: Gate) -> None:
    old = step(gate.writer, tree(gate.writer, {"a.md": "---\ntitle: a: b\n---\n"}))
    new = step(gate.writer, tree(gate.writer, {"a.md": "---\ntitle: a: c\n---\n"}), old)
    assert gate.codes(old, new) == ["document_problem"]
    assert gate.codes(old, step(gate.writer, [], old)) == []


def test_sizes_are_limited_for_items_and_for_other_files(gate: Gate) -> None:
    gate.limits = Limits(item_bytes=100, file_bytes=1000)
    cases = {"a.md": (100, 101), "a.bin": (1000, 1001)}
    for name, (most, more) in cases.items():
        assert gate.codes(None, step(gate.writer, tree(gate.writer, {name: b"x" * most}))) == []
        verdict = gate.verdict(None, step(gate.writer, tree(gate.writer, {name: b"x" * more})))
        assert [problem.code for problem in verdict.refusals] == ["too_large"]
        assert f"{more:,}" in str(verdict.refusals[0])


# Ids


def test_two_files_with_one_id_are_refused_naming_both(gate: Gate) -> None:
    new = step(gate.writer, tree(gate.writer, {"a.md": text(id="same"), "b.md": text(id="Same")}))
    verdict = gate.verdict(None, new)
    assert {(p.path, p.line, p.code) for p in verdict.refusals} == {
        ("a.md", 4, "duplicate_id"),
        ("b.md", 4, "duplicate_id"),
    }
    assert any("b.md" in p.what for p in verdict.refusals if p.path == "a.md")


IDS: dict[str, tuple[dict[str, str], dict[str, str], dict[str, str], set[str]]] = {
    # old tree, who holds ids in it, new tree → ids after it
    "a newcomer does not displace the holder": (
        {"z.md": text(id="x")}, {"x": "z.md"}, {"z.md": text(id="x"), "a.md": text(id="x")}, set(),
    ),
    "not even when both change": (
        {"z.md": text(id="x")}, {"x": "z.md"}, {"z.md": text("Z", id="x"), "a.md": text(id="x")}, {"x z.md"},
    ),
    "an id moves with its file": (
        {"z.md": text(id="x")}, {"x": "z.md"}, {"a.md": text(id="x")}, {"x a.md"},
    ),
    "an id may be given to another file": (
        {"z.md": text(id="x")}, {"x": "z.md"}, {"z.md": text(id="y"), "a.md": text(id="x")}, {"y z.md", "x a.md"},
    ),
    "two files may swap ids": (
        {"a.md": text(id="x"), "b.md": text(id="y")}, {"x": "a.md", "y": "b.md"},
        {"a.md": text(id="y"), "b.md": text(id="x")}, {"y a.md", "x b.md"},
    ),
    "a file that gets an id gives up the one of its path": (
        {"a.md": text()}, {"notes/a": "a.md"}, {"a.md": text(id="x")}, {"x a.md"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", IDS)
def test_who_has_an_id_after_a_step(gate: Gate, case: str) -> None:
    before, gate.ids, after, expected = IDS[case]
    old = step(gate.writer, tree(gate.writer, before))
    new = step(gate.writer, tree(gate.writer, after), old)
    assert {f"{item.item_id} {item.path}" for item in gate.assess(old, new).items} == expected


def test_a_contested_id_goes_to_the_file_that_is_left(gate: Gate) -> None:
    both = {"a.md": text("A", id="x"), "b.md": text("B", id="x"), "base.yaml": "admission: lenient\n"}
    old = step(gate.writer, tree(gate.writer, both))
    gate.ids, gate.contested = {"x": "a.md"}, ("b.md",)
    still = step(gate.writer, tree(gate.writer, {**both, "c.md": text("C")}), old)
    assert [item.path for item in gate.assess(old, still).items] == ["c.md"]
    assert [problem.path for problem in gate.assess(old, still).problems] == ["b.md"]
    left = step(gate.writer, tree(gate.writer, {name: both[name] for name in ("b.md", "base.yaml")}), old)
    assert [(item.item_id, item.path) for item in gate.assess(old, left).items] == [("x", "b.md")]
    assert gate.assess(old, left).problems == []


# Settings


@pytest.mark.parametrize("settings", ["status: nonsense\n", "name: a\nname: b\n", "\xff"])
def test_settings_that_cannot_be_read_are_refused_with_their_line(gate: Gate, settings: str) -> None:
    for start in ({}, {"base.yaml": "admission: lenient\n"}):
        old = step(gate.writer, tree(gate.writer, start))
        new = step(gate.writer, tree(gate.writer, {"base.yaml": settings.encode("latin-1")}), old)
        [problem] = gate.verdict(old, new).refusals
        assert (problem.path, problem.code, problem.fatal) == ("base.yaml", "settings", True)


def test_a_change_of_subdir_reads_the_tree_anew(gate: Gate) -> None:
    docs = gate.writer.tree(tree(gate.writer, {"b.md": text("B")}))
    rest: Entries = [*tree(gate.writer, {"a.md": text("A")}), ("040000", "docs", docs)]
    old = step(gate.writer, rest)
    new = step(gate.writer, [*rest, *tree(gate.writer, {"base.yaml": "subdir: docs\n"})], old)
    assessment = gate.assess(old, new)
    assert assessment.complete
    assert [item.path for item in assessment.items] == ["docs/b.md"]
    assert not gate.assess(None, old).problems


def test_without_the_right_a_first_push_cannot_bring_settings(gate: Gate) -> None:
    plain = step(gate.writer, tree(gate.writer, {"a.md": text()}))
    named = step(gate.writer, tree(gate.writer, {"a.md": text(), "base.yaml": "name: X\n"}))
    nothing = Rights(administer=False, delete=False)
    assert gate.verdict(None, plain, nothing).admitted
    assert [problem.code for problem in gate.verdict(None, named, nothing).refusals] == ["forbidden"]


# Words


def test_a_problem_is_one_safe_line() -> None:
    problem = Problem("a\x1b\n.md", 7, "unsafe_name", "the name has a control character", "rename it")
    assert str(problem) == "a\\u001b\\u000a.md:7: the name has a control character; rename it"
    assert str(Problem("a.md", 1, "x", "is odd", "")) == "a.md:1: is odd"


def test_problems_come_in_the_order_of_their_places(gate: Gate) -> None:
    new = step(gate.writer, tree(gate.writer, dict.fromkeys(("c.md", "a.md", "b.md"), "---\nx\n---\n")))
    problems = gate.verdict(None, new).refusals
    assert list(problems) == sorted(problems)
    assert [problem.path for problem in problems] == ["a.md", "b.md", "c.md"]


def sees_every_file(gate: Gate, name: str) -> bool:
    return [item.path for item in gate.assess(None, step(gate.writer, tree(gate.writer, {name: text()}))).items] == [
        name
    ]


@pytest.mark.parametrize(
    "name", ["测试 “x”.md", "emoji 🦊.md", "büro.md", "-dash.md", " lead.md", "#hash.md", "a@b.md"]
)
def test_names_that_git_quotes_are_items_like_others(gate: Gate, name: str) -> None:
    assert sees_every_file(gate, name)
    assert gate.codes(None, step(gate.writer, tree(gate.writer, {name: text()}))) == []
