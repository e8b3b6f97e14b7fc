from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kbgit.cli import terminal

texts = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=200)


@given(texts, st.integers(2, 80))
def test_a_cut_text_fits(text: str, most: int) -> None:
    assert terminal.columns(terminal.cut(text, most)) <= most


@given(texts, st.integers(2, 80), st.integers(1, 4))
def test_wrapped_lines_fit_and_are_not_more_than_allowed(text: str, most: int, lines: int) -> None:
    found = list(terminal.wrapped(text, most, lines))
    assert len(found) <= lines
    assert all(terminal.columns(line) <= most for line in found)


@given(texts)
def test_wrapping_loses_nothing_when_there_is_room(text: str) -> None:
    assert "".join("".join(terminal.wrapped(text, 20, 10_000)).split()) == "".join(text.split())


def test_words_are_kept_whole_where_that_is_possible() -> None:
    assert list(terminal.wrapped("one two three four", 9, 5)) == ["one two", "three", "four"]


def test_east_asian_characters_take_two_columns() -> None:
    assert terminal.columns("年假 ok") == 7
    assert terminal.cut("年假与请假", 5) == "年假…"


def test_nothing_in_a_text_steers_the_terminal() -> None:
    assert terminal.harmless("a\x1b[31mb\r\u202ec\td\n") == "a\\u001b[31mb\\u000d\\u202ec\td\n"
    assert terminal.line("a\nb\x07") == "a\\u000ab\\u0007"


def test_columns_of_a_table_are_aligned() -> None:
    rows = list(terminal.table([["年假", "x"], ["a", "y"]], ("one", "two")))
    assert [row.replace("\x1b[1m", "").replace("\x1b[0m", "") for row in rows] == ["one   two", "年假  x", "a     y"]
