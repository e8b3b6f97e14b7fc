"""From a page's pieces of text to lines in the order in which a person reads them: column by column, top to bottom."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import median

from kbgit.documents.extraction.pdf_page import Piece, Style

_FEWEST_IN_A_COLUMN = 4
_MOST_IN_COLUMNS = 4_000
"""Pieces of text; what has more on one page is no page of running text."""
_SHORTEST_IN_A_COLUMN = 12
"""Characters, in the median; what is shorter is a table without lines, to be read row by row."""
_FILLED = 0.5
_CROSSING = 0.25
_NARROWEST = 0.12
"""Of the width of what is split."""
_BEYOND_THE_EDGE = 0.25
_SAFELY = 1.3
_SHORTEST_WORD = 4
_ALL = 0.9
"""Of a line's characters, for it to count as bold."""
_LEADERS = re.compile(r"(?:\s?[.·…_]){4,}\s*")
_DEEPEST = 6
"""Columns split in columns."""
_JOINS_NEXT = "\u2010"
_CJK = re.compile(
    r"[\u2e80-\u303f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)


@dataclass(slots=True)
class Line:
    """One line of a column. `cells` are its pieces, in reading order; more than one where wide gaps are."""

    x0: float
    y0: float
    x1: float
    y1: float
    style: Style
    cells: list[Piece]
    left: float = 0.0
    right: float = 0.0
    """Where the lines around it begin and end, in points."""
    repeated: bool = False
    """Whether it stands at the same margin of other pages too."""

    @property
    def text(self) -> str:
        """All of it; the dots that lead to a page's number are one ellipsis."""
        text = " ".join(piece.text.strip() for piece in self.cells)
        return _LEADERS.sub(" … ", text).strip() if self.has_leaders else text

    @property
    def has_leaders(self) -> bool:
        """Whether dots lead the eye to a number at its end, as in a table of contents."""
        text = self.cells[-1].text
        return text[-1:].isalnum() and ("...." in text or ". . . ." in text)


def is_right_to_left(text: str) -> bool:
    """Whether most letters of a text are of a script that runs to the left."""
    if text.isascii():
        return False
    kinds = Counter(unicodedata.bidirectional(character) for character in text[:200])
    return kinds["R"] + kinds["AL"] > kinds["L"]


def lines_of(pieces: Sequence[Piece]) -> list[Line]:
    """The lines that these pieces make, in reading order."""
    upright = [piece for piece in pieces if piece.style.upright and piece.text.strip()]
    aslant = [piece for piece in pieces if not piece.style.upright and piece.text.strip()]
    return _in_columns(upright, 0) + [_line([piece]) for piece in aslant]


def joined(texts: Sequence[str]) -> str:
    """Lines of a paragraph as one text: words parted at a line's end whole again, Chinese and Japanese without blanks."""
    parts: list[str] = []
    last = ""  # the part before, of which only the end matters
    for text in texts:
        text = " ".join(text.split())
        if not text:
            continue
        if parts and last[-1] in f"-{_JOINS_NEXT}" and last[-2:-1].isalpha() and text[0].isalpha():
            # "well-known" may lose its hyphen here; far more words were parted than have one at that place.
            parts[-1] = last[:-1] + ("" if text[0].islower() else "-")
        elif parts and not (_CJK.match(last[-1]) and _CJK.match(text[0])):
            parts.append(" ")
        parts.append(text)
        last = text
    return "".join(parts).replace(_JOINS_NEXT, "-")


def _in_columns(pieces: list[Piece], depth: int) -> list[Line]:
    gutter = _gutter(pieces) if depth < _DEEPEST else None
    if gutter is None:
        return _rows(pieces)
    crossing = sorted((p for p in pieces if p.x0 < gutter < p.x1), key=lambda p: -p.middle)
    sides = [[p for p in pieces if p.x1 <= gutter], [p for p in pieces if p.x0 >= gutter]]
    if is_right_to_left("".join(piece.text[:40] for piece in pieces[:20])):
        sides.reverse()
    lines: list[Line] = []
    above = float("inf")
    for bound in [*_rows(crossing), None]:
        below = bound.y1 if bound else float("-inf")
        for side in sides:
            lines += _in_columns([p for p in side if below <= p.middle < above], depth + 1)
        if bound:
            lines.append(bound)
            above = below
    return lines


def _gutter(pieces: list[Piece]) -> float | None:
    """Where the blank strip between two columns is; None for text that is of one."""
    if not 2 * _FEWEST_IN_A_COLUMN <= len(pieces) <= _MOST_IN_COLUMNS:
        return None
    left, right = min(p.x0 for p in pieces), max(p.x1 for p in pieces)
    width = int(right - left) + 2
    if not 10 < width < 20_000:
        return None
    changes = [0] * (width + 1)
    for piece in pieces:
        changes[int(piece.x0 - left)] += 1
        changes[int(piece.x1 - left) + 1] -= 1
    crossed = list(accumulate(changes))[: width - 1]
    edge = int(width * _NARROWEST)
    inner = crossed[edge : len(crossed) - edge]
    fewest = min(inner, default=len(pieces))
    if fewest > len(pieces) * _CROSSING:
        return None
    strips = _strips(inner, fewest)
    start, end = max(strips, key=lambda strip: (strip[1] - strip[0], strip[0]))
    gutter = left + edge + (start + end) / 2
    sides = [[p for p in pieces if p.x1 <= gutter], [p for p in pieces if p.x0 >= gutter]]
    return gutter if all(map(_is_column, sides)) else None


def _strips(values: list[int], wanted: int) -> list[tuple[int, int]]:
    strips: list[tuple[int, int]] = []
    for index, value in enumerate(values):
        if value == wanted:
            if strips and strips[-1][1] == index:
                strips[-1] = (strips[-1][0], index + 1)
            else:
                strips.append((index, index + 1))
    return strips


def _is_column(pieces: list[Piece]) -> bool:
    if len(pieces) < _FEWEST_IN_A_COLUMN:
        return False
    width = max(p.x1 for p in pieces) - min(p.x0 for p in pieces)
    return (
        median(p.x1 - p.x0 for p in pieces) >= width * _FILLED
        and median(len(p.characters) for p in pieces) >= _SHORTEST_IN_A_COLUMN
    )


def _rows(pieces: Sequence[Piece]) -> list[Line]:
    rows: list[list[Piece]] = []
    for piece in sorted(pieces, key=lambda p: -p.middle):
        if rows and _beside(rows[-1][0], piece):
            rows[-1].append(piece)
        else:
            rows.append([piece])
    lines = [_line(row) for row in rows]
    left, right = -_usual_edge([(-line.x0, line) for line in lines]), _usual_edge([(line.x1, line) for line in lines])
    for line in lines:
        line.left, line.right = left, right
    return lines


def _usual_edge(places: list[tuple[float, Line]]) -> float:
    """Where text ends that fills its lines: one in four characters is on a line that ends farther out."""
    room = sum(len(line.text) for _, line in places) * _BEYOND_THE_EDGE
    for place, line in sorted(places, key=lambda one: -one[0]):
        room -= len(line.text)
        if room <= 0:
            return place
    return 0.0


def was_broken_on_purpose(last: Line, line: Line) -> bool:
    """Whether the first word of `line` would have had room at the end of `last`, the one before it."""
    if last.text[-1:] in f"-{_JOINS_NEXT}":
        return False
    text = line.text
    word = 1 if _CJK.match(text) else max(len(text.split(" ", 1)[0]), _SHORTEST_WORD)
    needed = (line.x1 - line.x0) * (word + 1) / max(len(text), 1)
    room = last.x0 - last.left if is_right_to_left(last.text) else last.right - last.x1
    return room > needed * _SAFELY


def _beside(one: Piece, other: Piece) -> bool:
    overlap = min(one.y1, other.y1) - max(one.y0, other.y0)
    return overlap > 0.5 * min(one.y1 - one.y0, other.y1 - other.y0) and overlap > 0


def _line(row: list[Piece]) -> Line:
    backwards = is_right_to_left("".join(piece.text for piece in row))
    row = sorted(row, key=lambda p: -p.x1 if backwards else p.x0)
    styles: Counter[Style] = Counter()
    for piece in row:
        styles.update(piece.styles)
    sizes: Counter[float] = Counter()
    for style, count in styles.items():
        sizes[style.size] += count
    bold = sum(count for style, count in styles.items() if style.bold)
    set_as = Style(sizes.most_common(1)[0][0], bold > _ALL * styles.total(), row[0].style.upright)
    longest = max(row, key=lambda p: len(p.characters))  # a bullet's own height says nothing of the line's place
    return Line(min(p.x0 for p in row), longest.y0, max(p.x1 for p in row), longest.y1, set_as, row)
