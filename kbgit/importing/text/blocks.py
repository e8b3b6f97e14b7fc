"""A page being written in Markdown: blocks with what encloses them, and the words of the one that is open."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from kbgit.importing.text import escape
from kbgit.importing.text.fence import fenced
from kbgit.item import heading_text

_DEEPEST = 12  # quotations and lists inside one another; what is deeper is shown on the last level
_DEEPEST_TABLE = 3
_HIGHEST_NUMBER = 999_999_999
_BACKTICKS = re.compile("`+")


@dataclass(eq=False, slots=True)
class Container:
    """A quotation or an item, around blocks; `marker` goes before an item's first block."""

    marker: str = ""
    pad: str = ""
    is_fresh: bool = False
    of_list: object = None

    @property
    def first(self) -> str:
        """What comes before the first line of a block in it."""
        if not self.marker:
            return "> "
        return self.pad + (self.marker if self.is_fresh else " " * len(self.marker))

    @property
    def rest(self) -> str:
        """What comes before its other lines."""
        return self.pad + " " * len(self.marker) if self.marker else "> "


@dataclass(slots=True)
class ListOf:
    """A list that is open; `number` is None for one of dashes."""

    number: int | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """Lines, what goes before them, and how they look as part of one line."""

    lines: Sequence[str]
    flat: str
    first: str
    rest: str
    containers: tuple[Container, ...]
    begins_item: bool
    interrupts: bool
    """Whether it may follow a paragraph without a blank line."""
    breaks_cells: bool = False
    """Whether a table's cell cannot hold it."""


@dataclass(slots=True)
class Table:
    """Rows of cells, each a list of blocks."""

    rows: list[list[list[Block]]] = field(default_factory=list)


class Page:
    """Takes what a reader of HTML finds, in order. Beginnings and ends come in pairs, properly nested."""

    def __init__(self) -> None:
        self.first_heading: str | None = None
        self._blocks: list[Block] = []
        self._containers: list[Container] = []
        self._lists: list[ListOf] = []
        self._pushed: list[bool] = []  # whether each container that was begun is there, or lies too deep
        self._tables: list[Table | None] = []
        self._table_depth = 0
        self._cells: list[tuple[list[Block], list[Container], list[ListOf]] | None] = []
        self._heading = 0
        self._pieces: list[str] = []
        self._raw: list[str] = []
        self._link: tuple[int, str] | None = None
        self._inline_code = 0
        self._code: list[str] | None = None
        self._language = ""

    # Words

    def text(self, text: str) -> None:
        """Words of the block that is open."""
        (self._raw if self._code is None else self._code).append(text)

    def line_break(self) -> None:
        """The next words stand on a line of their own."""
        if self._code is not None:
            self._code.append("\n")
        elif self._inline_code:
            self._raw.append(" ")
        else:
            self._settle()
            self._pieces.append("\n")

    def begin_inline_code(self) -> None:
        """The next words are code."""
        if self._code is None:
            self._settle()
        self._inline_code += 1

    def end_inline_code(self) -> None:
        """They were."""
        if self._code is None:
            self._settle()
        self._inline_code = max(0, self._inline_code - 1)

    def begin_link(self, address: str) -> None:
        """The next words lead to `address` (empty: nowhere)."""
        if self._code is None and not self._inline_code and address:
            self._settle()
            self._link = (len(self._pieces), address)

    def end_link(self) -> None:
        """The link ends, if one was begun."""
        if self._link is not None and self._code is None:
            self._settle()
            self._close_link()
            self._link = None

    def _settle(self) -> None:
        """Words so far become Markdown."""
        text = _folded("".join(self._raw))
        self._raw.clear()
        if not text:
            return
        if not self._inline_code:
            self._pieces.append(escape.inline(text))
        elif text.strip():
            self._pieces.append(_code_span(text))
        else:
            self._pieces.append(text)

    def _close_link(self) -> None:
        if self._link is None:
            return
        start, address = self._link
        label = "".join(self._pieces[start:]).replace("\n", " ")
        if label.strip():
            if start and self._pieces[start - 1].endswith("!"):  # or it would be a picture
                self._pieces[start - 1] = f"{self._pieces[start - 1][:-1]}\\!"
            before, after = (" " * label.startswith(" ")), (" " * label.endswith(" "))
            self._pieces[start:] = [f"{before}[{label.strip()}]({address}){after}"]

    # Blocks

    def end_block(self) -> None:
        """What comes next is another block."""
        if self._code is not None:
            if self._code and not self._code[-1].endswith("\n"):
                self._code.append("\n")
            return
        self._settle()
        self._close_link()
        lines = [line for part in "".join(self._pieces).split("\n") if (line := part.strip())]
        self._pieces.clear()
        if self._link is not None:
            self._link = (0, self._link[1])
        if not lines:
            return
        flat = " ".join(lines)
        if self._heading:
            shown = f"{flat[:-1]}\\#" if flat.endswith("#") else flat
            self.first_heading = self.first_heading or heading_text(flat) or None
            self._add([f"{'#' * self._heading} {shown}"], flat, breaks_cells=True)
        else:
            paragraph = escape.at_line_start("\n".join(lines)).split("\n")
            self._add([f"{line}\\" for line in paragraph[:-1]] + paragraph[-1:], flat)

    def begin_heading(self, level: int) -> None:
        """The next words are a heading."""
        self.end_block()
        self._heading = level

    def end_heading(self) -> None:
        """They were."""
        self.end_block()
        self._heading = 0

    def rule(self) -> None:
        """A line across the page; three dashes would be front matter."""
        self.end_block()
        if self._code is None:
            self._add(["***"], "", breaks_cells=False)

    def begin_code(self, language: str) -> None:
        """The next words are lines of code."""
        self.end_block()
        self._code, self._language = [], language

    def name_language(self, language: str) -> None:
        """The language of the code that was begun, where it is not known yet."""
        if self._code is not None and not self._language:
            self._language = language

    def end_code(self) -> None:
        """They were."""
        text = "".join(self._code or ()).removeprefix("\n")
        self._code = None
        if text.strip():
            self._add(fenced(text, self._language).split("\n")[:-1], _code_span(_folded(text)), breaks_cells=True)

    # What encloses blocks

    def begin_quote(self) -> None:
        """The next blocks are quoted."""
        self.end_block()
        self._enclose(Container())

    def end_quote(self) -> None:
        """They were."""
        self._leave()

    def begin_list(self, *, ordered: bool, start: str) -> None:
        """The next items make a list, numbered from `start` if it is ordered."""
        self.end_block()
        number = int(start) if start.isascii() and start.isdecimal() and len(start) < 10 else 1
        self._lists.append(ListOf(number if ordered else None))

    def end_list(self) -> None:
        """The list ends."""
        self.end_block()
        if self._lists:
            self._lists.pop()

    def begin_item(self, *, nested: bool) -> None:
        """The next blocks are an item; a `nested` one belongs to the item before it."""
        self.end_block()
        of_list = self._lists[-1] if self._lists else ListOf()
        marker = "- "
        if of_list.number is not None:
            marker = f"{of_list.number}. "
            of_list.number = min(of_list.number + 1, _HIGHEST_NUMBER)
        outermost = next((one.of_list for one in self._containers if one.marker), of_list)
        self._enclose(Container(marker, "  " if nested else "", True, outermost))

    def end_item(self) -> None:
        """They were."""
        self._leave()

    def _enclose(self, container: Container) -> None:
        is_shallow = len(self._containers) < _DEEPEST
        self._pushed.append(is_shallow)
        if is_shallow:
            self._containers.append(container)

    def _leave(self) -> None:
        self.end_block()
        if self._pushed.pop() and self._containers:
            self._containers.pop()

    # Tables

    def begin_table(self) -> None:
        """The next rows make a table."""
        self.end_block()
        is_shallow = self._table_depth < _DEEPEST_TABLE and self._code is None
        self._table_depth += is_shallow
        self._tables.append(Table() if is_shallow else None)

    def begin_row(self) -> None:
        """The next cells make a row."""
        self.end_block()
        if self._tables and self._tables[-1] is not None:
            self._tables[-1].rows.append([])

    def end_row(self) -> None:
        """They did."""
        self.end_block()

    def begin_cell(self) -> None:
        """The next blocks are a cell."""
        self.end_block()
        if not self._tables or self._tables[-1] is None or self._code is not None:
            self._cells.append(None)
            return
        self._cells.append((self._blocks, self._containers, self._lists))
        self._blocks, self._containers, self._lists = [], [], []

    def end_cell(self) -> None:
        """They were."""
        self.end_block()
        outside = self._cells.pop()
        if outside is None:
            return
        cell = self._blocks
        self._blocks, self._containers, self._lists = outside
        table = self._tables[-1] if self._tables else None
        if table is not None:
            if not table.rows:
                table.rows.append([])
            table.rows[-1].append(cell)

    def end_table(self) -> None:
        """The table ends: it is written as one, or its cells one after the other where it only lays out the page."""
        self.end_block()
        table = self._tables.pop()
        if table is None:
            return
        self._table_depth -= 1
        rows = [row for row in table.rows if any(row)]
        if not rows:
            return
        blocks = [block for row in rows for cell in row for block in cell]
        if max(map(len, rows)) == 1 or any(block.breaks_cells for block in blocks):
            for block in blocks:
                self._add_again(block)
            return
        head, *others = [[_in_cell(cell) for cell in row] for row in rows]
        head += [""] * (max(map(len, rows)) - len(head))
        lines = [head, ["---"] * len(head), *others]
        flat = "; ".join(" ".join(filter(None, cells)) for cells in (head, *others))
        self._add([f"| {' | '.join(cells)} |" for cells in lines], flat, breaks_cells=True)

    # Writing

    def _add(self, lines: Sequence[str], flat: str, *, breaks_cells: bool = False) -> None:
        first, rest, begins_item, interrupts = self._prefixes()
        self._blocks.append(
            Block(lines, flat, first, rest, tuple(self._containers), begins_item, interrupts, breaks_cells)
        )

    def _add_again(self, block: Block) -> None:
        """A block of a cell, within what encloses the table."""
        first, rest, begins_item, _ = self._prefixes()
        moved = replace(
            block,
            first=first + block.first,
            rest=rest + block.rest,
            containers=(*self._containers, *block.containers),
            begins_item=begins_item or block.begins_item,
        )
        self._blocks.append(moved)

    def _prefixes(self) -> tuple[str, str, bool, bool]:
        first = "".join(container.first for container in self._containers)
        rest = "".join(container.rest for container in self._containers)
        fresh = [container for container in self._containers if container.is_fresh]
        for container in fresh:
            container.is_fresh = False
        # A number other than 1 cannot begin a list right after a paragraph.
        return first, rest, bool(fresh), all(container.marker in ("- ", "1. ") for container in fresh)

    def markdown(self) -> str:
        """The whole page."""
        self.end_block()
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        before: Block | None = None
        for block in self._blocks:
            if before is not None and not _is_tight(before, block):
                yield _between(before, block)
            before = block
            for number, line in enumerate(block.lines):
                prefix = block.rest if number else block.first
                yield prefix + line if line else prefix.rstrip()


def _is_tight(before: Block, block: Block) -> bool:
    """Whether an item follows another of the same list closely."""
    if not block.begins_item or not block.interrupts:
        return block.begins_item and _is_sibling(before, block)
    return bool(before.containers) and _outermost(before) is _outermost(block) is not None


def _is_sibling(before: Block, block: Block) -> bool:
    return len(before.containers) == len(block.containers) and _outermost(before) is _outermost(block) is not None


def _outermost(block: Block) -> object:
    return next((one.of_list for one in block.containers if one.marker), None)


def _between(before: Block, block: Block) -> str:
    """The blank line between two blocks, within the quotations that hold both."""
    shared = []
    for one, other in zip(before.containers, block.containers, strict=False):
        if one is not other:
            break
        shared.append(one.rest)
    return "".join(shared).rstrip()


def _in_cell(cell: list[Block]) -> str:
    """A cell's blocks on one line; items are told apart by semicolons."""
    parts: list[str] = []
    for block in cell:
        parts += ["; " if block.begins_item else " ", block.flat] if parts else [block.flat]
    return escape.in_cell("".join(parts))


def _folded(text: str) -> str:
    """White space as one space, at the ends too."""
    folded = " ".join(text.split())
    if not folded:
        return " " * bool(text)
    return f"{' ' * text[0].isspace()}{folded}{' ' * text[-1].isspace()}"


def _code_span(text: str) -> str:
    """Words as inline code, between more backticks than any run in them."""
    bare = text.strip()
    longest = max((len(run) for run in _BACKTICKS.findall(bare)), default=0)
    ticks = "`" * (longest + 1)
    gap = " " if bare.startswith("`") or bare.endswith("`") else ""
    return f"{' ' * text.startswith(' ')}{ticks}{gap}{bare}{gap}{ticks}{' ' * text.endswith(' ')}"
