"""Which documents can be read, and that a file is what its name says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kbgit.documents.contract import ExtractionFailed, Reason
from kbgit.documents.extraction.kinds import KINDS, check_beginning, kind_of
from tests.documents.extraction.conftest import Fail

LIBRARIES = {".pdf": "pypdfium2", ".docx": "docx", ".pptx": "pptx", ".xlsx": "openpyxl"}


@pytest.mark.parametrize(("name", "suffix"), [("a.PDF", ".pdf"), ("x.y.docx", ".docx"), ("日本.Pptx", ".pptx")])
def test_a_kind_is_known_by_its_suffix_in_any_case(name: str, suffix: str) -> None:
    kind = kind_of(name)
    assert kind
    assert kind.suffix == suffix


@pytest.mark.parametrize("name", ["a.doc", "pdf", "a.pdf.exe", "", ".docx", "a.docm"])
def test_other_names_are_no_documents(name: str) -> None:
    assert kind_of(name) is None


@pytest.mark.parametrize("suffix", KINDS)
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"MZ\x90\x00" + b"\0" * 100, "Windows program"),
        (b"\x7fELF\x02" + b"\0" * 100, "Linux program"),
        (b"#!/bin/sh\n", "script"),
        (b"<html><body>", "does not begin like one"),
        (b"\x89PNG\r\n", "picture"),
    ],
)
def test_something_else_under_a_documents_name_is_refused_in_clear_words(
    fail: Fail, suffix: str, content: bytes, said: str
) -> None:
    failed = fail(f"renamed{suffix}", content)
    assert failed.reason is Reason.CORRUPT
    assert said in failed.detail
    assert suffix in failed.detail


@pytest.mark.parametrize("suffix", KINDS)
def test_an_empty_file_says_so(fail: Fail, suffix: str) -> None:
    failed = fail(f"empty{suffix}", b"")
    assert (failed.reason, failed.detail) == (Reason.CORRUPT, "The file is empty.")


def test_a_missing_file_is_corrupt(tmp_path: Path) -> None:
    with pytest.raises(ExtractionFailed):
        check_beginning(KINDS[".pdf"], tmp_path / "none.pdf")


def test_one_kind_under_the_name_of_another_is_refused(fail: Fail, written: Path) -> None:
    assert fail("a.pdf", (written / "text.docx").read_bytes()).reason is Reason.CORRUPT
    assert fail("a.docx", (written / "report.pdf").read_bytes()).reason is Reason.CORRUPT
    assert fail("a.docx", (written / "costs.xlsx").read_bytes()).reason is Reason.CORRUPT
    assert fail("a.pptx", (written / "text.docx").read_bytes()).reason is Reason.CORRUPT
    assert fail("a.xlsx", (written / "deck.pptx").read_bytes()).reason is Reason.CORRUPT


@pytest.mark.parametrize("suffix", KINDS)
def test_reading_one_kind_loads_only_its_own_library(suffix: str) -> None:
    script = (
        "import sys; from kbgit.documents.extraction.kinds import KINDS; "
        f"before = set(sys.modules); KINDS[{suffix!r}].extractor(); print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert set(LIBRARIES.values()) & set(loaded) == {LIBRARIES[suffix]}
    assert not {"flask", "chromadb", "onnxruntime"} & set(loaded)
