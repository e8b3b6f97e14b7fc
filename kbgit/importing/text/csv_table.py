"""CSV: the file in a fence and, when it is small, a table that people can read before it."""

from __future__ import annotations

import csv
import io
from collections import Counter

from kbgit.importing.text import escape
from kbgit.importing.text.body import Body
from kbgit.importing.text.fence import fenced

MOST_ROWS = 50
"""Rows of a table, besides its head."""
MOST_COLUMNS = 12
_MOST_CHARACTERS = 32 << 10
_DELIMITERS = ",;\t|"


def convert(text: str) -> Body:
    """The table, if the file is small enough for one, and the file itself."""
    rows = _rows(text)
    whole = fenced(text, "csv")
    return Body(f"{table(rows)}\n{whole}" if rows else whole)


def table(rows: list[list[str]]) -> str:
    """A Markdown table whose head is the first row; shorter rows are filled up."""
    wide = max(map(len, rows))
    head, *rest = ([*map(_cell, row), *[""] * (wide - len(row))] for row in rows)
    lines = [head, ["---"] * wide, *rest]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _cell(text: str) -> str:
    return escape.in_cell(escape.inline(text))


def _rows(text: str) -> list[list[str]]:
    """The rows, if they make a small table: empty where they are too many, too long, or no table at all."""
    if len(text) > _MOST_CHARACTERS:
        return []
    best: list[list[str]] = []
    best_rank = (0.0, 0)
    for delimiter in _DELIMITERS:
        rows = _parsed(text, delimiter)
        if not rows:
            continue
        wide, count = Counter(map(len, rows)).most_common(1)[0]
        rank = (count / len(rows), wide)  # most rows agree on how many columns there are, and there are many
        if wide > 1 and rank > best_rank:
            best, best_rank = rows, rank
    is_small = len(best) <= MOST_ROWS + 1 and all(len(row) <= MOST_COLUMNS for row in best)
    return best if is_small else []


def _parsed(text: str, delimiter: str) -> list[list[str]]:
    """Rows that have anything in them; none where the text is not of this form."""
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error:
        return []
    return [row for row in rows if any(cell.strip() for cell in row)]
