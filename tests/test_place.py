"""Marks of pages, slides and sheets in canonical content."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kbgit.place import Place, PlaceKind, mark, read_mark, stretch


@given(st.sampled_from(PlaceKind), st.text())
def test_a_mark_is_one_line_that_reads_back_as_a_place_of_its_kind(kind: PlaceKind, name: str) -> None:
    line = mark(kind, name)
    assert len(line.splitlines()) == 1
    place = read_mark(line)
    assert place is not None
    assert place.kind is kind


def test_a_name_that_is_fit_is_kept_as_it_is() -> None:
    assert read_mark(mark(PlaceKind.SHEET, "Budget 2026 (EU)")) == Place(PlaceKind.SHEET, "Budget 2026 (EU)")
    assert str(read_mark(mark(PlaceKind.PAGE, 12))) == "page 12"


def test_a_line_is_on_the_last_page_marked_at_or_above_it() -> None:
    content = "cover\n<!-- page: 1 -->\none\n<!-- page: 2 -->\ntwo\n"
    assert [str(stretch(content, line, line)) for line in (1, 2, 3, 4, 5)] == [
        "None",
        "page 1",
        "page 1",
        "page 2",
        "page 2",
    ]


def test_other_comments_and_text_mark_no_place() -> None:
    for line in ("<!-- page 2 -->", "page: 2", "<!-- page: 2 --> text", "<!-- chapter: 2 -->", "<!-- page:  -->", ""):
        assert read_mark(line) is None


def test_a_passage_over_two_pages_says_both_and_one_that_only_touches_a_mark_says_one() -> None:
    content = "<!-- page: 1 -->\n\none\n\n<!-- page: 2 -->\n\ntwo\n"
    assert str(stretch(content, 1, 3)) == "page 1"
    assert str(stretch(content, 1, 5)) == "page 1"
    assert str(stretch(content, 3, 7)) == "page 1–2"
    assert str(stretch(content, 5, 7)) == "page 2"
    assert stretch("no marks\n", 1, 1) is None


def test_text_before_the_first_mark_takes_the_place_of_what_follows() -> None:
    assert str(stretch("# Title\n<!-- slide: 1 -->\ntext\n", 1, 3)) == "slide 1"
