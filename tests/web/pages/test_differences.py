"""Differences as rows."""

from __future__ import annotations

import time
from difflib import unified_diff

from hypothesis import given
from hypothesis import strategies as st

from kbgit.web.pages.differences import Block, Side, read_difference, within_line

LINES = st.lists(st.sampled_from(["a", "b c", "-- x", "++ y", "@@ -1 +1 @@", "", "\\ z", "é 漢", "b d"]), max_size=12)


def side(blocks: list[Block], name: str) -> list[str]:
    found: list[Side] = [one for block in blocks for row in block.rows if (one := getattr(row, name))]
    return ["".join(piece for piece, _ in one.pieces) for one in found]


@given(LINES, LINES)
def test_rows_hold_both_sides_line_for_line(old: list[str], new: list[str]) -> None:
    text = "\n".join(unified_diff(old, new, "old", "new", n=100, lineterm=""))
    blocks = read_difference(text)
    if old == new:
        assert blocks == []
        return
    assert side(blocks, "old") == old
    assert side(blocks, "new") == new
    for name in ("old", "new"):
        numbers = [one.number for block in blocks for row in block.rows if (one := getattr(row, name))]
        assert numbers == list(range(1, len(numbers) + 1))


@given(st.text(max_size=200))
def test_any_text_is_read_without_an_error(text: str) -> None:
    assert isinstance(read_difference(text), list)


@given(st.text(max_size=60), st.text(max_size=60))
def test_pieces_join_to_the_line(old: str, new: str) -> None:
    before, after = within_line(old, new)
    assert "".join(piece for piece, _ in before) == old
    assert "".join(piece for piece, _ in after) == new
    assert "".join(piece for piece, differs in before if not differs) == "".join(p for p, d in after if not d)


def test_what_differs_within_a_line_is_marked() -> None:
    before, after = within_line("run kubectl logs now", "run kubectl describe now")
    assert [piece for piece, differs in before if differs] == ["logs"]
    assert [piece for piece, differs in after if differs] == ["describe"]


def test_lines_that_share_little_differ_as_a_whole() -> None:
    assert within_line("alpha beta", "one, two!") == ([("alpha beta", True)], [("one, two!", True)])


def test_a_line_too_long_to_compare_differs_as_a_whole() -> None:
    old, new = "a " * 5_000, "a " * 4_999 + "b "
    assert within_line(old, new) == ([(old, True)], [(new, True)])


def test_a_missing_end_of_file_is_passed_over() -> None:
    text = "--- a/x\n+++ b/x\n@@ -1 +1 @@ heading\n-one\n\\ No newline at end of file\n+two\n\\ No newline at end of file\n"
    (block,) = read_difference(text)
    assert block.heading == "heading"
    assert [(row.kind, row.old is not None, row.new is not None) for row in block.rows] == [("changed", True, True)]


def test_a_long_difference_takes_no_longer_by_comparing_within_its_lines() -> None:
    words = ("a " * 140).strip()
    removed = "".join(f"-{words} {number}\n" for number in range(2_000))
    added = "".join(f"+{words} x{number}\n" for number in range(2_000))
    start = time.perf_counter()
    (block,) = read_difference(f"@@ -1,2000 +1,2000 @@\n{removed}{added}")
    assert time.perf_counter() - start < 10
    assert len(block.rows) == 2_000
    first, last = block.rows[0].new, block.rows[-1].new
    assert first is not None
    assert last is not None
    assert len(first.pieces) > 1
    assert last.pieces == [(f"{words} x1999", True)]
