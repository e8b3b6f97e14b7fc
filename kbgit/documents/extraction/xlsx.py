"""Workbooks, sheet by sheet, through openpyxl: each sheet's filled cells as tables, as a reader of the sheet sees them.

A workbook is read for the values that its program last computed, and a second time for its formulas only when some have no
value: these are shown as they are written. Cells are looked up where something is in them, never along the range
that a sheet says it spans, which one cell in its last corner makes 17 billion.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import openpyxl
from openpyxl.cell.cell import Cell as SheetCell
from openpyxl.cell.cell import MergedCell
from openpyxl.utils.exceptions import InvalidFileException
from openpyxl.workbook.workbook import Workbook
from openpyxl.worksheet.formula import ArrayFormula, DataTableFormula
from openpyxl.worksheet.worksheet import Worksheet

from kbgit.documents.contract import Extracted, ExtractionFailed, ExtractionLimits, Reason
from kbgit.documents.extraction import archive, markdown
from kbgit.documents.extraction.markdown import ListItem, Page, Table
from kbgit.documents.extraction.titles import title_of
from kbgit.documents.extraction.xlsx_values import shown
from kbgit.place import PlaceKind

_HEADING = 2
_COMPUTED_TEXT = "str"
"""What openpyxl leaves as the type of a formula whose value is an empty text."""
_EMPTY_CELLS = 4
"""Cells that are only formatted cost memory too: so many times the limit of filled ones may be there."""
_SPARSE = 20
"""A table of which less than one in so many cells is filled, and that is large, is a list of its cells instead."""
_LARGE = 10_000

Position = tuple[int, int]
"""Row and column, 1-based."""


def extract(file: Path, limits: ExtractionLimits) -> Extracted:
    """The text of a workbook. Raises `ExtractionFailed`."""
    contents = archive.check(file, limits)
    formulas_count, values_count, lacking = _count_cells(contents, limits)
    with archive.damaged_when_a_library_fails(InvalidFileException), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of features that openpyxl would lose in writing
        formulas = None
        values = openpyxl.load_workbook(file, data_only=True, keep_links=False)
        if formulas_count and (lacking or _filled(values) < values_count):
            formulas = openpyxl.load_workbook(file, keep_links=False)
        reader = _Reader(limits)
        for sheet in values.worksheets:
            reader.read(sheet, _formulas_of(formulas, sheet.title))
        title = title_of(values.properties.title, None)
        charts = len(values.chartsheets)
    if not reader.said:
        raise ExtractionFailed(Reason.NO_TEXT_LAYER, "The workbook holds nothing in its cells.")
    notes = [*archive.notes_on(contents)]
    if reader.without_value:
        number = reader.without_value
        said = "1 formula has" if number == 1 else f"{number:,} formulas have"
        notes.append(
            f"{said} no computed value in the file; shown as written. Open and save it in its program to compute."
        )
    if charts:
        notes.append("Sheets that are only a chart were not read.")
    return Extracted(reader.page.text(), title, tuple(notes))


def _count_cells(contents: archive.Contents, limits: ExtractionLimits) -> tuple[int, int, bool]:
    """Refuses a workbook of too many cells before they are in memory.

    Gives how many formulas and how many values there are, and whether some formula has no place for a value.
    """
    counts: Counter[str] = Counter()
    for elements in contents.elements.values():
        for prefix in {name.removesuffix("sheetData") for name in elements if name.endswith("sheetData")}:
            for name in ("c", "v", "is", "f"):
                counts[name] += elements[prefix + name]
            counts[archive.FORMULA_WITH_VALUE] += elements[archive.FORMULA_WITH_VALUE]
    filled = counts["v"] + counts["is"]
    if filled > limits.cells or counts["c"] > limits.cells * _EMPTY_CELLS:
        raise ExtractionFailed(Reason.TOO_LARGE, f"The workbook has more than {limits.cells:,} cells.")
    return counts["f"], filled, counts["f"] > counts[archive.FORMULA_WITH_VALUE]


def _filled(workbook: Workbook) -> int:
    return sum(_has_value(cell) for sheet in workbook.worksheets for cell in sheet._cells.values())


def _has_value(cell: SheetCell | MergedCell) -> bool:
    """Whether the file gives the cell's value, which may be an empty text that a formula computed."""
    return cell.value is not None or cell.data_type == _COMPUTED_TEXT


@dataclass(slots=True)
class _Reader:
    """Reads sheets into a page."""

    limits: ExtractionLimits
    page: Page = field(init=False)
    without_value: int = 0
    said: bool = False

    def __post_init__(self) -> None:
        self.page = Page(self.limits)

    def read(self, sheet: Worksheet, formulas: dict[Position, str]) -> None:
        cells, comments = self._cells(sheet, formulas)
        hidden = sheet.sheet_state != "visible"
        if not cells and not comments:
            return
        self.said = True
        self.page.add_place(PlaceKind.SHEET, sheet.title)
        self.page.add(markdown.heading(_HEADING, markdown.literal(sheet.title)))
        self.page.add("*(hidden sheet)*" if hidden else "")
        for header in _margins(sheet):
            self.page.add(header)
        self._write(cells)
        if comments:
            self.page.add("Comments:")
            for comment in comments:
                self.page.add_item(ListItem(0, comment))

    def _cells(self, sheet: Worksheet, formulas: dict[Position, str]) -> tuple[dict[Position, str], list[str]]:
        """Inline text by position, in order of rows, and the comments."""
        cells: dict[Position, str] = {}
        comments = []
        # What is there; the public ways go through the whole range.
        present: Mapping[Position, SheetCell | MergedCell] = sheet._cells
        for position in sorted(present):
            cell = present[position]
            inline = shown(cell.value, getattr(cell, "number_format", "General"))
            if not inline and not _has_value(cell) and (formula := formulas.get(position)):
                inline = _code(formula)
                self.without_value += 1
            if inline:
                cells[position] = inline
            if (comment := getattr(cell, "comment", None)) is not None and (
                said := markdown.literal(comment.text or "")
            ):
                author = markdown.literal(markdown.one_line(comment.author or ""))
                own = f"{author}:"
                said = said.removeprefix(own).strip() if author else said
                comments.append(f"{cell.coordinate} ({author}): {said}" if author else f"{cell.coordinate}: {said}")
        return cells, comments

    def _write(self, cells: dict[Position, str]) -> None:
        rows: dict[int, dict[int, str]] = {}
        for (row, column), inline in cells.items():
            rows.setdefault(row, {})[column] = inline
        for group in _titled(list(rows.values())):
            columns = sorted({column for row in group for column in row})
            filled = sum(map(len, group))
            if len(columns) == 1 and len(group) == 1:
                self.page.add(markdown.paragraph(group[0][columns[0]]))
            elif len(columns) * len(group) > max(_LARGE, filled * _SPARSE):
                for filled_row in group:
                    said = "; ".join(" ".join(filled_row[column].split()) for column in sorted(filled_row))
                    self.page.add_item(ListItem(0, said))
            else:
                self.page.add(*markdown.table(Table.of([[row.get(column, "") for column in columns] for row in group])))


def _titled(rows: list[dict[int, str]]) -> Iterator[list[dict[int, str]]]:
    """The rows above a wider table that hold one cell each, which are its title; then the table."""
    start = 0
    widest = max(map(len, rows), default=0)
    while widest > 1 and start < len(rows) - 1 and len(rows[start]) == 1:
        yield [rows[start]]
        start += 1
    if start < len(rows):
        yield rows[start:]


def _formulas_of(workbook: Workbook | None, title: str) -> dict[Position, str]:
    """The formulas of one sheet, as a program shows them."""
    if workbook is None or title not in workbook.sheetnames:
        return {}
    found = {}
    for position, cell in workbook[title]._cells.items():
        value = cell.value
        if isinstance(value, ArrayFormula):
            value = value.text
        elif isinstance(value, DataTableFormula):
            value = "=TABLE()"
        if isinstance(value, str) and cell.data_type == "f":
            found[position] = value if value.startswith("=") else f"={value}"
    return found


def _code(formula: str) -> str:
    """A formula as a span of code."""
    text = markdown.one_line(formula)
    fence = "`" * (1 + max((len(run) for run in _runs_of_ticks(text)), default=0))
    return f"{fence}{text}{fence}" if not text.endswith("`") else f"{fence} {text} {fence}"


def _runs_of_ticks(text: str) -> list[str]:
    return [run for run in "".join(c if c == "`" else " " for c in text).split() if run]


def _margins(sheet: Worksheet) -> Iterator[str]:
    """The header and the footer that a sheet is printed with."""
    for label, margin in (("Header", sheet.oddHeader), ("Footer", sheet.oddFooter)):
        of = (margin.left, margin.center, margin.right) if margin else ()
        parts = [part.text for part in of if part is not None and part.text]
        said = markdown.literal(" ".join(markdown.one_line(part) for part in parts if "&" not in part))
        if said:
            yield f"{label}: {said}"
