"""A difference as Git writes it, read into rows that stand side by side, with what changed within a line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

Segments = list[tuple[str, bool]]
"""A line in pieces, and whether each differs from the other side."""

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)")
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")
# Beyond these, comparing within lines takes longer than anybody would thank for; whole lines are marked then.
_LONGEST_LINE = 2_000
_MOST_WORDS = 300
# Comparing two lines takes time by the product of their words, and some more where words repeat. So much of it for a page.
_MOST_COMPARED = 1_000_000
_LIKE_ENOUGH = 0.35


@dataclass(frozen=True, slots=True)
class Side:
    """One line of one side: its number in the file, from 1, and its text in pieces."""

    number: int
    pieces: Segments


@dataclass(frozen=True, slots=True)
class Row:
    """What stands side by side; None where a side has no such line."""

    kind: Literal["same", "changed", "added", "removed"]
    old: Side | None
    new: Side | None


@dataclass(frozen=True, slots=True)
class Block:
    """Lines that follow each other. `heading` is the line that Git found above them, often empty."""

    heading: str
    rows: Sequence[Row]


def read_difference(text: str) -> list[Block]:
    """The blocks of a unified difference of one file; none where nothing differs.

    Counts in the headers say how many lines follow, so a line may look like anything.
    """
    blocks: list[Block] = []
    compare = _Comparison()
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        match = _HUNK.fullmatch(lines[at])
        at += 1
        if match is None:
            continue
        old_number, new_number = int(match[1]), int(match[3])
        old_left, new_left = int(match[2] or 1), int(match[4] or 1)
        rows: list[Row] = []
        removed: list[str] = []
        added: list[str] = []
        while at < len(lines) and (old_left or new_left or lines[at].startswith("\\")):
            sign, line = lines[at][:1], lines[at][1:]
            at += 1
            if sign == "-":
                if added:
                    old_number, new_number = _flush(rows, removed, added, old_number, new_number, compare)
                removed.append(line)
                old_left -= 1
            elif sign == "+":
                added.append(line)
                new_left -= 1
            elif sign != "\\":
                old_number, new_number = _flush(rows, removed, added, old_number, new_number, compare)
                rows.append(Row("same", Side(old_number, [(line, False)]), Side(new_number, [(line, False)])))
                old_number, new_number = old_number + 1, new_number + 1
                old_left, new_left = old_left - 1, new_left - 1
        _flush(rows, removed, added, old_number, new_number, compare)
        blocks.append(Block(match[5], rows))
    return blocks


def _flush(
    rows: list[Row], removed: list[str], added: list[str], old_number: int, new_number: int, compare: _Comparison
) -> tuple[int, int]:
    """Pair the lines that are gone with those that came, and empty both lists."""
    for index in range(max(len(removed), len(added))):
        gone = removed[index] if index < len(removed) else None
        came = added[index] if index < len(added) else None
        old_pieces, new_pieces = compare(gone, came)
        old = Side(old_number + index, old_pieces) if gone is not None else None
        new = Side(new_number + index, new_pieces) if came is not None else None
        rows.append(Row("changed" if old and new else "removed" if old else "added", old, new))
    after = old_number + len(removed), new_number + len(added)
    removed.clear()
    added.clear()
    return after


class _Comparison:
    """Compares within lines, until it has taken as long as a page may."""

    def __init__(self) -> None:
        self._left = _MOST_COMPARED

    def __call__(self, old: str | None, new: str | None) -> tuple[Segments, Segments]:
        """Both lines in pieces; as a whole where one is missing, is long, or the time is used up."""
        if old is None or new is None or self._left < 0 or max(len(old), len(new)) > _LONGEST_LINE:
            return [(old or "", True)], [(new or "", True)]
        before, after = _WORDS.findall(old), _WORDS.findall(new)
        if max(len(before), len(after)) > _MOST_WORDS:
            return [(old, True)], [(new, True)]
        self._left -= len(before) * len(after)
        return _within_line(before, after)


def within_line(old: str, new: str) -> tuple[Segments, Segments]:
    """Both lines in pieces: what they share, and what they do not. Lines that share little differ as a whole."""
    return _Comparison()(old, new)


def _within_line(before: list[str], after: list[str]) -> tuple[Segments, Segments]:
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.ratio() < _LIKE_ENOUGH:
        return [("".join(before), True)], [("".join(after), True)]
    old_pieces: Segments = []
    new_pieces: Segments = []
    for kind, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if old_end > old_start:
            old_pieces.append(("".join(before[old_start:old_end]), kind != "equal"))
        if new_end > new_start:
            new_pieces.append(("".join(after[new_start:new_end]), kind != "equal"))
    return old_pieces, new_pieces
