"""Which lines of one text are which of another."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kbgit.store.hunks import Hunk, line_hunks

LINES = ("a", "b", "", "--- old/1", "+++ new", "@@ -1 +1 @@", "diff --git a/0 b/0", "\\ No newline", "ü\u2028\x0c\r")
texts = st.lists(st.sampled_from(LINES), max_size=12).map("\n".join)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(texts, texts), max_size=5))
def test_hunks_turn_the_old_lines_into_the_new(pairs: list[tuple[str, str]]) -> None:
    for (old, new), hunks in zip(pairs, line_hunks(pairs), strict=True):
        before, after = (text.removesuffix("\n").split("\n") for text in (old, new))
        made: list[str] = []
        done = 0
        for hunk in hunks:
            made += before[done : hunk.old_start]
            assert hunk.new_start == len(made)
            made += after[hunk.new_start : hunk.new_end]
            done = hunk.old_end
        assert made + before[done:] == after


def test_an_empty_run_stands_between_two_lines() -> None:
    added, removed, same, changed = line_hunks(
        [("1\n2\n", "1\nx\n2\n"), ("1\nx\n2\n", "1\n2"), ("1", "1\n"), ("1\n2\n", "0\n2\n")]
    )
    assert added == [Hunk(1, 1, 1, 2)]
    assert removed == [Hunk(1, 2, 1, 1)]
    assert same == []
    assert changed == [Hunk(0, 1, 0, 1)]


def test_nothing_is_compared_without_a_pair() -> None:
    assert line_hunks([]) == []
