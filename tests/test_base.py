"""Bases: keys and paths, `base.yaml`, and which files are items."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbgit.base import (
    Admission,
    BaseKey,
    BaseSettings,
    BaseStatus,
    TreeRules,
    check_user_name,
    is_okf_bundle,
    slug_from,
)
from kbgit.errors import DocumentProblem, InvalidName
from kbgit.item import ItemStatus

NAMES = st.from_regex(r"[a-z0-9](?:[a-z0-9_-]{0,20}[a-z0-9])?", fullmatch=True)
HOSTILE = [
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "/etc",
    "a\\b",
    "a\x00b",
    "A",
    "a b",
    "é",
    "a..b",
    "-a",
    "a-",
    "a\n",
    "%2e%2e",
    "~a",
]


@given(st.sampled_from(["personal", "team"]), NAMES, NAMES)
def test_a_key_reads_back_as_text_and_as_path(kind: str, space: str, slug: str) -> None:
    key = BaseKey(f"{kind}:{space}", slug)
    assert BaseKey.parse(str(key)) == key
    assert BaseKey.from_path(key.relative_path.parts[0], f"{key.relative_path.name}.git") == key
    assert key.repository_path(Path("/r")).is_relative_to("/r")


@pytest.mark.parametrize("name", [*HOSTILE, "a.git", "x" * 101])
def test_a_hostile_name_of_a_base_is_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        BaseKey("team:platform", name)


@pytest.mark.parametrize(
    "space", [*HOSTILE, "world:a", "team", "team:", "team:../x", "team:a..b", "team:a/b", "team:A"]
)
def test_a_hostile_name_of_a_space_is_refused(space: str) -> None:
    with pytest.raises(InvalidName):
        BaseKey(space, "notes")


@pytest.mark.parametrize("name", [*HOSTILE, "x" * 65])
def test_a_hostile_name_of_a_user_is_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        check_user_name(name)


@pytest.mark.parametrize(
    ("space", "name"), [("a", "b"), ("..", "b.git"), ("a", "...git"), ("a", "..git"), ("~", "b.git")]
)
def test_a_path_that_leads_elsewhere_is_no_base(space: str, name: str) -> None:
    with pytest.raises(InvalidName):
        BaseKey.from_path(space, name)


@given(st.text(max_size=150))
def test_a_slug_made_from_any_name_is_one_that_a_base_can_have(name: str) -> None:
    try:
        slug = slug_from(name)
    except InvalidName:
        return
    assert BaseKey("team:a", slug).slug == slug


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("Engineering Runbooks", "engineering-runbooks"),
        ("Büro & Kai", "buro-kai"),
        ("a...b", "a.b"),
        ("notes.git", "notes"),
    ],
)
def test_a_slug_stays_near_the_name(name: str, slug: str) -> None:
    assert slug_from(name) == slug


def test_a_base_without_settings_has_its_defaults_and_its_directorys_name() -> None:
    assert BaseSettings.parse(None, "notes") == BaseSettings(
        "notes", "", BaseStatus.ACTIVE, ItemStatus.DRAFT, Admission.STRICT, ""
    )
    assert BaseSettings.parse(b"", "notes") == BaseSettings(name="notes")


def test_settings_are_read_as_they_are_written() -> None:
    raw = (
        b"name: 2026-11-30\ndescription: no\nstatus: archived\ndefault_status: published\nadmission: lenient\n"
        b"subdir: /docs/en/\n"
    )
    assert BaseSettings.parse(raw, "notes") == BaseSettings(
        "2026-11-30", "no", BaseStatus.ARCHIVED, ItemStatus.PUBLISHED, Admission.LENIENT, "docs/en"
    )
    assert BaseSettings.parse(b"\xef\xbb\xbf---\r\nname: x\r\n", "notes").name == "x"


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        (b"name: x\nname: y\n", 2),
        (b"name: x\nstatus: closed\n", 1),
        (b"default_status: stable\n", 1),
        (b"admission: loose\n", 1),
        (b"name: [a]\n", 1),
        (b"name: a\nx: b: c\n", 2),
        (b"---\nname: a\nx: b: c\n", 3),
        (b"name: a\nx: \x00\n", 2),
        (b"subdir: ../elsewhere\n", 1),
        (b"\xff\xfe", 1),
        (b"- a\n- b\n", 1),
    ],
)
def test_settings_that_cannot_be_read_say_where(raw: bytes, line: int) -> None:
    with pytest.raises(DocumentProblem) as caught:
        BaseSettings.parse(raw, "notes")
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("path", "is_item"),
    [
        ("a.md", True),
        ("deep/er/a.md", True),
        (".hidden.md", True),
        (".md", False),
        ("docs/.md", False),
        (".github/a.md", False),
        ("docs/.trash/a.md", False),
        ("a.MD", False),
        ("a.markdown", False),
        ("a.md.txt", False),
        ("base.yaml", False),
        ("index.md", True),
    ],
)
def test_markdown_files_are_items_unless_hidden(path: str, is_item: bool) -> None:
    assert TreeRules().is_item(path) is is_item
    assert bool(TreeRules().why_no_item(path)) is not is_item


def test_only_files_below_the_subdir_are_items() -> None:
    rules = TreeRules("docs/en")
    assert rules.is_item("docs/en/a.md")
    assert not rules.is_item("docs/a.md")
    assert not rules.is_item("docs/english/a.md")
    assert not rules.is_item("a.md")


def test_an_okf_bundle_keeps_its_indexes_and_logs_to_itself() -> None:
    rules = TreeRules(okf=True)
    assert [rules.is_item(name) for name in ("index.md", "log.md", "a/index.md", "a/log.md", "changelog.md")] == [
        False, False, False, False, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "is_bundle"),
    [
        (b"---\nokf_version: 0.2\n---\n", True),
        (b"---\ntitle: Home\n---\nokf_version: 0.2\n", False),
        (b"---\nokf_version: [\n---\n", False),
        (None, False),
    ],
)
def test_a_bundle_is_told_by_its_root_index(raw: bytes | None, is_bundle: bool) -> None:
    assert is_okf_bundle(raw) is is_bundle


def test_every_sample_base_can_be_read(bases_directory: Path) -> None:
    names = {
        path.parent.name: BaseSettings.parse(path.read_bytes(), "x") for path in bases_directory.glob("*/base.yaml")
    }
    assert len(names) >= 3
    assert all(settings.name != "x" and settings.description for settings in names.values())
