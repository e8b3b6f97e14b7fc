"""The locator of an imported file: the same for the same name, and safe whatever the name is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbgit import names
from kbgit.frontmatter import Value
from kbgit.importing import SourceFile, digest_of, locator_of


@pytest.mark.parametrize(
    ("name", "locator"),
    [
        ("notes.md", "notes.md"),
        ("Notes.markdown", "Notes.md"),
        ("tools/run.py", "tools/run.py.md"),
        ("設定/手順.txt", "設定/手順.txt.md"),
        ("../../etc/passwd.txt", "etc/passwd.txt.md"),
        ("C:\\Users\\ada\\plan.docx", "C-/Users/ada/plan.docx.md"),
        ("<img src=x onerror=alert(1)>.txt", "-img src=x onerror=alert(1)-.txt.md"),
        (".env.toml", "env.toml.md"),
        ("con.txt", "_con.txt.md"),
        ("..", "unnamed.md"),
        ("a\u202etxt.exe.txt", "a-txt.exe.txt.md"),
    ],
)
def test_a_name_gives_a_locator_that_people_recognise(name: str, locator: str) -> None:
    assert locator_of(name) == locator


@given(st.text(max_size=400), st.text(max_size=50))
def test_every_name_gives_one_safe_locator(name: str, folder: str) -> None:
    locator = locator_of(name, folder)
    assert locator == locator_of(name, folder)
    assert locator.endswith(".md")
    assert not locator.startswith(("/", "."))
    assert ".." not in locator.split("/")
    if len(locator.encode()) < 1000:  # the length of the whole path is for admission to judge
        assert names.fault(locator.encode()) is None


def test_long_names_that_differ_at_their_end_stay_two() -> None:
    first, second = (locator_of(f"{'長' * 200}{end}.pdf") for end in "ab")
    assert first != second
    assert first.endswith(".pdf.md")


def test_what_is_kept_of_a_file_can_be_checked_against_it() -> None:
    source = SourceFile.of("a.csv", "text/csv", b"x")
    assert (source.size, source.sha256[:8]) == (1, "2d711642")
    assert source.fields["source_type"] == "file"


def test_the_digest_is_read_back_and_of_another_name_or_shape_is_none() -> None:
    source = SourceFile.of("a.csv", "text/csv", b"x")
    fields: dict[str, Value] = {"source": {"name": "a.csv", "sha256": source.sha256}}
    assert digest_of(fields) == digest_of(fields, "a.csv") == source.sha256
    assert digest_of(fields, "b.csv") is None
    assert digest_of({"source": "somewhere"}) is digest_of({}) is digest_of({"source": {"sha256": ["x"]}}) is None
