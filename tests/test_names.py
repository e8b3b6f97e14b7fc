"""Names of files: which are refused, which clash, how they are shown."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbgit import names

GOOD = ["a.md", "deploy/production.md", "测试 “x”.md", "büro.md", ".hidden/a.md", "emoji 🦊.md", "a b.md", "-x.md", "@a#1.md",
        "日本語/経費.md", "한국어.md", "console.md", "com10.md", "a..b.md", "x" * 255]  # fmt: skip
BAD = {
    "newline": b"a\nb.md",
    "escape": b"a\x1b[31m.md",
    "tab": b"a\tb.md",
    "delete": b"a\x7f.md",
    "next line": "a\u0085b.md".encode(),
    "bidi override": "a\u202egpj.md".encode(),
    "bidi isolate": "a\u2066b.md".encode(),
    "right-to-left mark": "a\u200fb.md".encode(),
    "invalid UTF-8": b"caf\xe9.md",
    "surrogate": b"a\xed\xa0\x80.md",
    "device": b"AUX.md",
    "device in a directory": b"docs/nul/a.md",
    "device with a superscript": "com¹.md".encode(),
    "trailing dot": b"a.",
    "trailing space": b"docs /a.md",
    "backslash": b"..\\evil.md",
    "colon": b"a:b.md",
    "quote": b'a"b.md',
    "star": b"a*.md",
    "long part": b"x" * 256,
    "long path": b"/".join([b"x" * 200] * 6),
    "4,000 bytes": b"x" * 4000,
}


@pytest.mark.parametrize("name", GOOD)
def test_a_name_that_every_system_can_hold_has_no_fault(name: str) -> None:
    assert names.fault(name.encode()) is None


@pytest.mark.parametrize("kind", BAD)
def test_a_name_that_some_system_cannot_hold_has_a_fault(kind: str) -> None:
    assert names.fault(BAD[kind])


@given(st.binary(max_size=300))
def test_any_name_is_shown_on_one_printable_line(name: bytes) -> None:
    shown = names.shown(name)
    assert shown.isprintable()
    assert shown == names.shown(shown)
    assert shown.encode() or not name


def test_what_could_deceive_is_shown_escaped() -> None:
    assert names.shown(b"a\x1b[31m\n") == "a\\u001b[31m\\u000a"
    assert names.shown("a\u202eb") == "a\\u202eb"
    assert names.shown(b"caf\xe9") == "caf\\xe9"
    assert names.shown("测试 “x” 🦊") == "测试 “x” 🦊"


@pytest.mark.parametrize(
    ("added", "other"),
    [
        ("a.md", "A.md"),
        ("café.md", unicodedata.normalize("NFD", "café.md")),
        ("straße.md", "STRASSE.md"),
        ("docs/a.md", "Docs/b.md"),
        ("docs/deep/a.md", "docs/Deep/b.md"),
        ("docs", "Docs/b.md"),
        ("İ.md", unicodedata.normalize("NFD", "İ.md")),
        ("ΑΣ.md", "ας.md"),
    ],
)
def test_names_that_differ_only_in_case_or_unicode_form_are_twins(added: str, other: str) -> None:
    assert list(names.twins([added], [added, other])) == [(added, _first_difference(added, other))]
    assert list(names.twins([added], [other, added])) == [(added, _first_difference(added, other))]


def _first_difference(added: str, other: str) -> str:
    ours, theirs = added.split("/"), other.split("/")
    depth = next(n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b)
    return "/".join(theirs[: depth + 1])


@pytest.mark.parametrize("tree", [["a.md"], ["a.md", "b.md"], ["docs/a.md", "docs/b.md"], ["a/b.md", "a b.md"]])
def test_names_that_differ_otherwise_are_no_twins(tree: list[str]) -> None:
    assert list(names.twins(tree[:1], tree)) == []


def test_twins_that_were_there_before_are_nobodys_fault() -> None:
    assert list(names.twins(["new.md"], ["a.md", "A.md", "new.md"])) == []


@given(st.lists(st.text("aAbB/é", min_size=1, max_size=6), unique=True, max_size=8))
def test_twins_are_what_a_slow_search_finds(tree: list[str]) -> None:
    def spellings(path: str) -> set[str]:
        parts = path.split("/")
        return {"/".join(parts[:n]) for n in range(1, len(parts) + 1)}

    everything = {prefix for path in tree for prefix in spellings(path)}
    clashing = {
        path
        for path in tree
        if any(a != b and names.folded(a) == names.folded(b) for a in spellings(path) for b in everything)
    }
    assert {path for path, _ in names.twins(tree, tree)} == clashing
