"""Markdown written from what a document says: its structure as structure, and its text as nothing but text.

Characters are escaped only where they would become structure by accident (`*`, a leading `#`), so that a text is found and
read as it was typed: `snake_case`, `a < b` and `2 * 3` stay as they are.

"Inline" below is Markdown within a paragraph, which `literal` makes from a text; it may hold line ends. `paragraph` makes
a block of it; headings, entries of lists and cells take it as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kbgit.documents.contract import ExtractionFailed, ExtractionLimits, Reason
from kbgit.place import PlaceKind, mark

LINE_BREAK = "<br>"
"""A line end within a cell, as GitHub writes it: a table's row is one line."""
_DEEPEST_HEADING = 6
_LONGEST_HEADING = 300
_DEEPEST_LIST = 12
_ROWS_OF_A_TABLE = 200

# Control characters, lone surrogates, soft hyphens and what marks a byte order or an object in the text.
_INVISIBLE = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\ud800-\udfff\ufeff\ufff9-\ufffc\ufffe\uffff]")
_LINE_END = re.compile(r"\r\n?|[\n\x0b\x0c\x85\u2028\u2029]")
_BLANKS = re.compile(r"[ \t\u00a0]+")
_STRUCTURE = re.compile(
    r"""
      \\(?=[!-/:-@\[-`{-~\n]|\Z)    # a backslash that would escape what follows, or break the line
    | `
    | (?<!\s)\*|\*(?!\s)             # not the times of "2 * 3"
    | (?<![^\W_])_+(?=\S)|(?<=\S)_+(?![^\W_])  # not the lines within snake_case
    | \[(?=\^)|\](?=[(\[:])          # footnotes, links and their definitions
    | <(?=[A-Za-z/!?])               # HTML
    | &(?=\#?[A-Za-z0-9]+;)          # entities
    | ~(?=~)|(?<=~)~                 # strikethrough
    """,
    re.VERBOSE,
)
_SIMPLE = re.compile(r"-?[^\W_]+(?:[ .,:%/][^\W_]+)*%?")
"""Most words and numbers, which are themselves."""
_LEADING = re.compile(r"(?:\#{1,6}(?=\s|$)|>|[-+*](?=\s|$)|[=:|-][-:|=\s]*$|(?:\*\s*){3,}$)")
_NUMBERED = re.compile(r"(\d{1,9})([.)])(?=\s|$)")
_TASK = re.compile(r"\[(?=[ xX]\])")
_WEB = re.compile(r"(?:https?://|mailto:)[^\s<>]+", re.IGNORECASE)
_BRACKET = re.compile(r"(?<!\\)((?:\\\\)*)([\[\]])")
_UNFIT_IN_ADDRESS = re.compile(r"[()\\]")


def plain(text: str) -> str:
    """`text` without invisible control characters, its line ends LF and its runs of blanks one space."""
    lines = _LINE_END.sub("\n", _INVISIBLE.sub("", text)).split("\n")
    return "\n".join(_BLANKS.sub(" ", line).strip() for line in lines).strip("\n")


def one_line(text: str) -> str:
    """`plain` text on a single line."""
    return " ".join(plain(text).split())


def _escaped(match: re.Match[str]) -> str:
    return "".join("\\" + character for character in match[0])


def escaped(text: str) -> str:
    """Inline Markdown that shows exactly `text`, which may be a part of a line; blanks stay."""
    return _STRUCTURE.sub(_escaped, _LINE_END.sub("\n", _INVISIBLE.sub("", text)))


def literal(text: str) -> str:
    """Inline Markdown that shows exactly `text`, blanks and line ends made plain."""
    return text if _SIMPLE.fullmatch(text) else escaped(plain(text))


def tidy(inline: str) -> str:
    """Inline Markdown with its blanks made plain: none around lines, no empty lines around the whole."""
    return "\n".join(_BLANKS.sub(" ", line).strip() for line in inline.split("\n")).strip("\n")


def paragraph(inline: str) -> str:
    """A block of running text, no line of which is a heading, list, quotation, rule or table by accident."""
    return "\n".join(_guarded_line(line) for line in tidy(inline).split("\n") if line)


def _guarded_line(line: str) -> str:
    if _LEADING.match(line):
        return "\\" + line
    if number := _NUMBERED.match(line):
        return f"{number[1]}\\{line[number.end(1) :]}"
    return "\\" + line if _TASK.match(line) else line


def link(inline: str, address: str | None) -> str:
    """`inline` leading to `address` when that is of the web or of mail; else `inline` alone."""
    target = (address or "").strip()
    if not inline.strip() or not _WEB.fullmatch(target) or "\n" in inline:
        return inline
    if target == inline.strip():
        return inline
    shown = _BRACKET.sub(r"\1\\\2", inline.strip())
    target = _UNFIT_IN_ADDRESS.sub(lambda match: f"%{ord(match[0]):02X}", target)
    before, after = inline[: len(inline) - len(inline.lstrip())], inline[len(inline.rstrip()) :]
    return f"{before}[{shown}]({target}){after}"


class Inline:
    """Text and markup in turn, as a document's runs give them. Text that comes in pieces is escaped as a whole."""

    def __init__(self) -> None:
        self._parts: list[tuple[bool, list[str]]] = []

    def text(self, piece: str) -> None:
        """Adds a piece of text."""
        if not self._parts or self._parts[-1][0]:
            self._parts.append((False, []))
        self._parts[-1][1].append(piece)

    def markup(self, inline: str) -> None:
        """Adds inline Markdown."""
        if inline:
            self._parts.append((True, [inline]))

    def inline(self) -> str:
        """All of it, as inline Markdown."""
        out: list[str] = []
        for is_markup, pieces in self._parts:
            joined = "".join(pieces)
            if is_markup:
                if out and joined.startswith("[") and out[-1][-1:] in ("!", "]"):  # no picture, no link
                    out[-1] = f"{out[-1][:-1]}\\{out[-1][-1]}"
                out.append(joined)
            elif inline := escaped(joined):
                after_markup = out and out[-1].endswith("]") and inline[0] in "([:"
                out.append(f"\\{inline}" if after_markup else inline)
        return "".join(out)


def heading(level: int, inline: str) -> str:
    """A heading of `level` 1 to 6 (a deeper one is 6); a very long one is a paragraph."""
    text = " ".join(inline.split())
    if len(text) > _LONGEST_HEADING:
        return paragraph(text)
    if text.endswith("#"):
        text = f"{text[:-1]}\\#"
    return f"{'#' * min(max(level, 1), _DEEPEST_HEADING)} {text}"


@dataclass(frozen=True, slots=True)
class ListItem:
    """One entry of a list: its nesting from 0, its number when the list counts, and its inline text."""

    level: int
    inline: str
    number: int | None = None


def listing(items: Sequence[ListItem]) -> str:
    """The items as one list, nested by their levels; a level that was passed over is not made up."""
    lines: list[str] = []
    open_levels: list[tuple[int, str, bool]] = []  # (level, indent of what is in it, whether it counts)
    for item in items:
        while open_levels and open_levels[-1][0] > item.level:
            open_levels.pop()
        if open_levels and open_levels[-1][0] == item.level:
            if open_levels[-1][2] != (item.number is not None) and len(open_levels) == 1:
                lines.append("")
            open_levels.pop()
        del open_levels[_DEEPEST_LIST:]
        indent = open_levels[-1][1] if open_levels else ""
        marker = "- " if item.number is None else f"{item.number}. "
        inside = indent + " " * len(marker)
        first, *more = item.inline.split("\n")
        lines.append(f"{indent}{marker}{first}".rstrip())
        lines += [f"{inside}{line}".rstrip() for line in more if line]
        open_levels.append((item.level, inside, item.number is not None))
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Cell:
    """Inline text of a cell, and the tables that stood inside it."""

    inline: str = ""
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; rows may differ in length."""

    rows: tuple[tuple[Cell, ...], ...]

    @classmethod
    def of(cls, rows: Sequence[Sequence[str]]) -> Table:
        """A table whose cells hold inline text alone."""
        return cls(tuple(tuple(Cell(inline) for inline in row) for row in rows))


def table(content: Table) -> list[str]:
    """Blocks: the table, the first row as its head, and after it the tables that stood in its cells, with their place.

    A long table is several, each with the head, so that a passage from its middle still says what its columns are.
    Empty rows and columns at the end are left out. A table around a single cell with tables is passed over.
    """
    rows = [row for row in content.rows if any(cell.inline.strip() or cell.tables for cell in row)]
    width = max((_width(row) for row in rows), default=0)
    if not width:
        return []
    blocks = []
    if len(rows) == 1 and width == 1 and rows[0][0].tables:
        blocks += [paragraph(rows[0][0].inline)] if rows[0][0].inline.strip() else []
    elif any(cell.inline.strip() for row in rows for cell in row):
        head, *body = [_row(row, width) for row in rows]
        rule = "|" + " --- |" * width
        for start in range(0, max(len(body), 1), _ROWS_OF_A_TABLE):
            blocks.append("\n".join([head, rule, *body[start : start + _ROWS_OF_A_TABLE]]))
    for number, row in enumerate(rows, 1):
        for column, cell in enumerate(row, 1):
            for inner in cell.tables:
                if len(rows) > 1 or width > 1:
                    blocks.append(f"(Row {number}, column {column}:)")
                blocks += table(inner)
    return blocks


def _width(row: Sequence[Cell]) -> int:
    return max((number for number, cell in enumerate(row, 1) if cell.inline.strip() or cell.tables), default=0)


def _row(row: Sequence[Cell], width: int) -> str:
    cells = [in_cell(cell.inline) for cell in row[:width]]
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells + [""] * (width - len(cells)))


def in_cell(inline: str) -> str:
    """Inline text as it stands in a table: on one line, its pipes escaped."""
    lines = (line.strip() for line in inline.strip().split("\n"))
    return LINE_BREAK.join(line for line in lines if line).replace("|", "\\|")


@dataclass(slots=True)
class Page:
    """Markdown being written, block by block, within the limit of output."""

    limits: ExtractionLimits
    _blocks: list[str] = field(default_factory=list)
    _size: int = 0
    _list: list[ListItem] = field(default_factory=list)
    _said: int = 0

    @property
    def said(self) -> int:
        """How many blocks were added, marks not counted."""
        return self._said + len(self._list)

    def add(self, *blocks: str) -> None:
        """Adds blocks; empty ones are passed over. Raises `ExtractionFailed` past the limit of output."""
        self._end_list()
        for block in blocks:
            if block.strip():
                self._said += 1
                self._append(block)

    def add_item(self, item: ListItem) -> None:
        """Adds one entry to the list at the end."""
        if item.inline.strip():
            self._count(item.inline)
            self._list.append(replace(item, inline=paragraph(item.inline)))

    def add_place(self, kind: PlaceKind, name: str | int) -> None:
        """Says that what follows is on this page, slide or sheet."""
        self._end_list()
        self._append(mark(kind, name))

    def text(self) -> str:
        """All of it, ending with one line end; empty without a block."""
        self._end_list()
        return "\n\n".join(self._blocks) + "\n" if self._blocks else ""

    def _append(self, block: str) -> None:
        self._count(block)
        self._blocks.append(block)

    def _count(self, block: str) -> None:
        self._size += len(block.encode("utf-8", "replace")) + 2
        if self._size > self.limits.output:
            raise ExtractionFailed(
                Reason.TOO_LARGE, f"The document's text is larger than the limit of {self.limits.output:,} bytes."
            )

    def _end_list(self) -> None:
        if self._list:
            items, self._list = self._list, []
            self._said += 1
            self._append(listing(items))
