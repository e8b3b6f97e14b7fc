"""Ruled tables of a page: from the straight lines drawn on it to grids of cells."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

_CLOSE = 3.0
"""Points; lines nearer to each other are one, and lines that come so near meet."""
_SHORTEST = 5.0
_MOST_CELLS = 10_000
_MOST_TABLES = 100
_MOST_LINES = 4_000
"""Of a page; a drawing has more, a table does not."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A straight line: at `at` across, from `start` to `end` along. In points; of which direction is known from elsewhere."""

    at: float
    start: float
    end: float


@dataclass(slots=True)
class Grid:
    """A table's lines. Columns are counted from the left, rows from the top."""

    xs: list[float]
    ys: list[float]
    """Ascending, so from the bottom."""
    horizontal: list[Rule]
    vertical: list[Rule]
    _walls: dict[tuple[bool, int, int], bool] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many rows."""
        return len(self.ys) - 1

    @property
    def columns(self) -> int:
        """How many columns."""
        return len(self.xs) - 1

    @property
    def area(self) -> float:
        """In square points."""
        return (self.xs[-1] - self.xs[0]) * (self.ys[-1] - self.ys[0])

    def cell_at(self, x: float, y: float) -> tuple[int, int] | None:
        """Row and column of the cell around a point, of a merged cell its first; None outside."""
        column, upward = bisect_right(self.xs, x) - 1, bisect_right(self.ys, y) - 1
        if not (0 <= column < self.columns and 0 <= upward < self.rows):
            return None
        while upward < self.rows - 1 and not self._wall(False, upward + 1, column):
            upward += 1
        while column > 0 and not self._wall(True, column, upward):
            column -= 1
        return self.rows - 1 - upward, column

    def _wall(self, is_vertical: bool, line: int, along: int) -> bool:
        """Whether a line is drawn there, beside the middle of a cell."""
        key = (is_vertical, line, along)
        if key not in self._walls:
            rules, lines, others = (
                (self.vertical, self.xs, self.ys) if is_vertical else (self.horizontal, self.ys, self.xs)
            )
            middle = (others[along] + others[along + 1]) / 2
            self._walls[key] = any(
                abs(rule.at - lines[line]) <= _CLOSE and rule.start <= middle <= rule.end for rule in rules
            )
        return self._walls[key]


def grids(horizontal: Iterable[Rule], vertical: Iterable[Rule]) -> list[Grid]:
    """The tables of more than one column that the lines make, the smallest first: a nested one before the one around it."""
    across, down = _merged(horizontal), _merged(vertical)
    if len(across) + len(down) > _MOST_LINES:
        return []
    made = []
    for one_across, one_down in _joined(across, down):
        xs, ys = _places(one_down), _places(one_across)
        cells = (len(xs) - 1) * (len(ys) - 1)
        if len(xs) > 2 and len(ys) > 1 and cells <= _MOST_CELLS:  # one column is a box, or shading, around text
            made.append(Grid(xs, ys, one_across, one_down))
    return sorted(made, key=lambda grid: grid.area) if len(made) <= _MOST_TABLES else []


def _merged(rules: Iterable[Rule]) -> list[Rule]:
    """Lines drawn in pieces, or twice, as one."""
    merged: list[Rule] = []
    by_place: list[list[Rule]] = []
    for rule in sorted((rule for rule in rules if rule.end > rule.start), key=lambda rule: rule.at):
        if not by_place or rule.at - by_place[-1][0].at > _CLOSE:
            by_place.append([])
        by_place[-1].append(rule)
    for group in by_place:
        group.sort(key=lambda rule: rule.start)
        at, start, end = group[0].at, group[0].start, group[0].end
        for rule in group[1:]:
            if rule.start <= end + _CLOSE:
                end = max(end, rule.end)
            else:
                merged.append(Rule(at, start, end))
                start, end = rule.start, rule.end
        merged.append(Rule(at, start, end))
    return [rule for rule in merged if rule.end - rule.start >= _SHORTEST]


def _joined(across: Sequence[Rule], down: Sequence[Rule]) -> list[tuple[list[Rule], list[Rule]]]:
    """Groups of lines that meet."""
    group_of = list(range(len(across) + len(down)))

    def root(index: int) -> int:
        while group_of[index] != index:
            group_of[index] = group_of[group_of[index]]
            index = group_of[index]
        return index

    for number, line in enumerate(across):
        for other, column in enumerate(down, len(across)):
            if (
                line.start - _CLOSE <= column.at <= line.end + _CLOSE
                and column.start - _CLOSE <= line.at <= column.end + _CLOSE
            ):
                group_of[root(number)] = root(other)
    groups: dict[int, tuple[list[Rule], list[Rule]]] = defaultdict(lambda: ([], []))
    for number, line in enumerate(across):
        groups[root(number)][0].append(line)
    for other, column in enumerate(down, len(across)):
        groups[root(other)][1].append(column)
    return list(groups.values())


def _places(rules: Sequence[Rule]) -> list[float]:
    places: list[float] = []
    for rule in sorted(rules, key=lambda rule: rule.at):
        if not places or rule.at - places[-1] > _CLOSE:
            places.append(rule.at)
    return places
