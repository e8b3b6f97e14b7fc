"""Documents that are not meant well: each ends within its limits, with its own reason, in a worker as it really runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kbgit.documents import child
from kbgit.documents.contract import Extracted, ExtractionLimits, Reason
from tests.documents.extraction import hostile
from tests.documents.extraction.corpus import corner_workbook, with_member

LIMITS = replace(ExtractionLimits(), seconds=20.0, memory=512 << 20)
SECONDS = 15.0
"""Enough on a machine that does other things besides; alone, each takes a second or less."""

Outcome = Extracted | child.Failure | child.Died
Work = Callable[[Path], Outcome]


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Work]:
    """What a worker makes of a file. Fails when it takes long."""
    brake = child.Brake()

    def work_(file: Path) -> Outcome:
        workplace = tmp_path / "workplace"
        workplace.mkdir()
        started = time.monotonic()
        outcome = child.extract(file, file.suffix, LIMITS, workplace, brake)
        assert time.monotonic() - started < SECONDS
        assert not [left for left in tmp_path.rglob("*") if left.is_file() and left.parent not in (tmp_path, workplace)]
        return outcome

    yield work_
    brake.close()


BOMBS: dict[str, tuple[str, Callable[[], bytes], Reason]] = {
    "a document of 1000:1": (".docx", hostile.thousand_to_one, Reason.TOO_LARGE),
    "many small bombs": (".docx", hostile.small_bombs, Reason.TOO_LARGE),
    "a hundred thousand members": (".docx", hostile.thousands_of_members, Reason.TOO_LARGE),
    "archives in archives": (".docx", hostile.nested_archives, Reason.TOO_LARGE),
    "a billion laughs": (".docx", lambda: hostile.word(hostile.entity_bomb()), Reason.CORRUPT),
    "a billion laughs in a part without a suffix": (
        ".docx",
        lambda: hostile.word(hostile.entity_bomb(), name="word/document.bin"),
        Reason.CORRUPT,
    ),
    "XML that is too deep": (".docx", lambda: hostile.word(hostile.deep(100_000)), Reason.TOO_LARGE),
    "tables that are too deep": (".docx", lambda: hostile.word(hostile.deep_tables(66)), Reason.TOO_LARGE),
    "a page tree in a circle": (".pdf", hostile.page_tree_in_a_circle, Reason.CORRUPT),
    "page trees in a circle": (".pdf", hostile.page_trees_in_a_circle, Reason.CORRUPT),
    "too many pages": (".pdf", lambda: hostile.many_pages(6_000), Reason.TOO_LARGE),
    "a form that paints itself": (".pdf", hostile.paints_itself, Reason.TOO_LARGE),
    "forms that paint others": (".pdf", hostile.paints_ten_times_ten, Reason.TOO_LARGE),
    "one stream a thousand times": (".pdf", hostile.one_stream_a_thousand_times, Reason.TOO_LARGE),
    "a deflated bomb": (".pdf", hostile.deflated_bomb, Reason.TOO_LARGE),
    "a bomb deflated twice": (".pdf", lambda: hostile.deflated_bomb(twice=True), Reason.TOO_LARGE),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_ends_with_its_reason(work: Work, tmp_path: Path, name: str) -> None:
    suffix, make, reason = BOMBS[name]
    file = tmp_path / f"bomb{suffix}"
    file.write_bytes(make())
    outcome = work(file)
    assert isinstance(outcome, child.Failure), outcome
    assert outcome.reason is reason
    assert outcome.detail


def test_a_workbook_of_too_many_cells_is_refused_before_it_is_in_memory(
    work: Work, written: Path, tmp_path: Path
) -> None:
    file = tmp_path / "cells.xlsx"
    with_member(written / "costs.xlsx", file, "xl/worksheets/sheet1.xml", hostile.sheet_of(600_000))
    outcome = work(file)
    assert isinstance(outcome, child.Failure), outcome
    assert (outcome.reason, "cells" in outcome.detail) == (Reason.TOO_LARGE, True)


def test_a_cell_in_the_last_corner_of_a_sheet_costs_nothing(work: Work, tmp_path: Path) -> None:
    file = tmp_path / "corner.xlsx"
    corner_workbook(file)
    outcome = work(file)
    assert isinstance(outcome, Extracted), outcome
    assert "| first corner | |" in outcome.markdown
    assert "| | last corner |" in outcome.markdown


@pytest.mark.parametrize("name", ["word/document.xml", "word/document.bin", "word/document.svg"])
def test_the_file_that_an_entity_asks_for_is_never_read(work: Work, tmp_path: Path, name: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("entity-canary")
    file = tmp_path / "entity.docx"
    file.write_bytes(hostile.word(hostile.external_entity(str(secret)), name=name))
    outcome = work(file)
    assert "entity-canary" not in repr(outcome)
    assert isinstance(outcome, child.Failure), outcome
    assert outcome.reason is Reason.CORRUPT


def test_two_billion_pages_that_are_not_there_are_not_counted(work: Work, tmp_path: Path) -> None:
    file = tmp_path / "endless.pdf"
    file.write_bytes(hostile.endless_pages())
    outcome = work(file)
    if isinstance(outcome, Extracted):
        assert outcome.markdown.count("looped canary") == 1
    else:
        assert isinstance(outcome, child.Failure)
        assert outcome.reason in (Reason.CORRUPT, Reason.TOO_LARGE)
