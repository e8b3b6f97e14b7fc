"""From the lines of all pages to blocks: headings by size and weight, paragraphs, lists, tables with and without lines."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from kbgit.documents.extraction import markdown
from kbgit.documents.extraction.markdown import Cell, ListItem, Table
from kbgit.documents.extraction.pdf_lines import Line, joined, lines_of, was_broken_on_purpose
from kbgit.documents.extraction.pdf_page import PageContent, Piece
from kbgit.documents.extraction.pdf_rules import Grid

_MARGIN = 0.12
"""Of a page's height, where its header and footer are."""
_PAGES_REPEATED = 3
_LARGER = 1.12
"""Than the body's text: a heading."""
_LONGEST_HEADING = 200
_LINES_OF_A_HEADING = 3
_BULLETS = "•‣◦▪▫●○■□–—*·⁃∙\uf0b7\uf0a7\uf0d8\uf076"
_BULLET = re.compile(rf"(?:[{re.escape(_BULLETS)}]|-(?=\s))\s*(?=\S)")
_NUMBER = re.compile(r"(\d{1,3})[.)]\s+(?=\S)")
_DIGITS = re.compile(r"\d{1,6}")
_MOST_NUMBERS = 4
_ENDS = tuple(".!?:。！？؟")
_NOT_A_HEADING = tuple(".,;:!?。，；")
_PITCH = 1.28
"""Of the distance between a paragraph's lines: a larger one parts it from the next."""
_CLOSEST_PITCH, _WIDEST_PITCH = 0.8, 2.6
"""Of the text's size."""
_ALIGNED = 0.9
"""Of the text's size."""


@dataclass(slots=True)
class Grided:
    """A table with lines, and where its top is."""

    top: float
    table: Table


Flow = Line | Grided


@dataclass(slots=True)
class PageText:
    """One page's lines and tables in reading order."""

    number: int
    height: float
    flow: list[Flow]
    has_pictures: bool

    margins: list[Line]
    """Those of the lines that are set apart at the top or the foot."""


def arrange(content: PageContent) -> PageText:
    """Puts a page in reading order. Lines in tables go into these."""
    head, body, foot = _margins([piece for piece in content.pieces if piece.slot is None], content.height)
    inside: dict[int, list[Piece]] = defaultdict(list)
    for piece in content.pieces:
        if piece.slot is not None:
            inside[piece.slot[0]].append(piece)
    above, below = lines_of(head), lines_of(foot)
    flow: list[Flow] = [*above, *lines_of(body), *below]
    for table in _tables(content.grids, inside):
        at = next((n for n, part in enumerate(flow) if _top(part) < table.top), len(flow))
        flow.insert(at, table)
    return PageText(content.number, content.height, flow, content.has_pictures, above + below)


def _margins(pieces: list[Piece], height: float) -> tuple[list[Piece], list[Piece], list[Piece]]:
    """What stands in the page's header, between, and in its footer, where blank space sets these apart.

    They belong to no column, though they may stand above or below one.
    """
    upwards = sorted(pieces, key=lambda piece: piece.middle)
    foot = _set_apart([(piece.y0, piece.y1) for piece in upwards], height)
    head = _set_apart([(height - piece.y1, height - piece.y0) for piece in reversed(upwards)], height)
    if foot + head >= len(pieces):
        return [], pieces, []
    return upwards[len(upwards) - head :], upwards[foot : len(upwards) - head], upwards[:foot]


def _set_apart(spans: list[tuple[float, float]], height: float) -> int:
    """How many of the spans, counted from an edge of the page, are in its margin and apart from the others."""
    end = 0.0
    for number, (start, stop) in enumerate(spans):
        if number and start - end > min(stop - start, height * _MARGIN / 4):
            return number
        if start > height * _MARGIN:
            return 0
        end = max(end, stop)
    return 0


def _top(part: Flow) -> float:
    return part.y1 if isinstance(part, Line) else part.top


def _tables(grids: list[Grid], inside: dict[int, list[Piece]]) -> list[Grided]:
    """The outermost tables with something in them; the others are in their cells."""
    within: dict[tuple[int, int, int], list[Table]] = defaultdict(list)
    outermost = []
    for number, grid in enumerate(
        grids
    ):  # the smallest first, so that a nested table is there before the one around it
        pieces: dict[tuple[int, int], list[Piece]] = defaultdict(list)
        for piece in inside.get(number, []):
            if piece.slot is not None:
                pieces[piece.slot[1:]].append(piece)
        rows = tuple(
            tuple(
                Cell(_cell(pieces.get((row, column), [])), tuple(within.get((number, row, column), ())))
                for column in range(grid.columns)
            )
            for row in range(grid.rows)
        )
        if not any(cell.inline or cell.tables for row in rows for cell in row):
            continue
        middle = ((grid.xs[0] + grid.xs[-1]) / 2, (grid.ys[0] + grid.ys[-1]) / 2)
        for outer, around in enumerate(grids[number + 1 :], number + 1):
            if (cell := around.cell_at(*middle)) is not None and around.area > grid.area:
                within[(outer, *cell)].append(Table(rows))
                break
        else:
            outermost.append(Grided(grid.ys[-1], Table(rows)))
    return sorted(outermost, key=lambda one: -one.top)


def _cell(pieces: list[Piece]) -> str:
    return markdown.literal(joined([line.text for line in lines_of(pieces)]))


@dataclass(slots=True)
class Fonts:
    """What is body and what is heading in one document."""

    body: float
    levels: dict[tuple[float, bool], int]
    pitch: float
    """Distance between the lines of a paragraph, to the size of its text."""

    @classmethod
    def of(cls, pages: Sequence[PageText]) -> Fonts:
        """Looks at the sizes of all text: the body's is the most used, each larger one is a level of headings."""
        used: Counter[tuple[float, bool]] = Counter()
        for page in pages:
            for part in page.flow:
                if isinstance(part, Line):
                    used[part.style.size, part.style.bold] += len(part.text)
        sizes: Counter[float] = Counter()
        for (size, _), count in used.items():
            sizes[size] += count
        body = sizes.most_common(1)[0][0] if sizes else 0.0
        body_is_bold = used[body, True] > used[body, False]
        larger = sorted(
            (
                style
                for style in used
                if style[0] >= body * _LARGER or (style[1] and not body_is_bold and style[0] >= body * 0.97)
            ),
            reverse=True,
        )
        levels: dict[tuple[float, bool], int] = {}
        level, last = 0, (0.0, False)
        for style in larger:
            if not level or last[0] - style[0] > 0.6 or style[1] != last[1]:
                level += 1
                last = style
            levels[style] = level
        return cls(body, levels, _usual_pitch(pages))

    def level(self, lines: Sequence[Line]) -> int | None:
        """The level of the heading that these lines are; None when they are none."""
        level = self.levels.get((lines[0].style.size, lines[0].style.bold))
        if (
            level is None
            or len(lines) > _LINES_OF_A_HEADING
            or any(line.repeated or line.has_leaders for line in lines)
        ):
            return None
        text = joined([line.text for line in lines])
        is_larger = lines[0].style.size >= self.body * _LARGER
        if len(text) > _LONGEST_HEADING or not any(map(str.isalnum, text)):
            return None
        return level if is_larger or not text.endswith(_NOT_A_HEADING) else None


def _usual_pitch(pages: Sequence[PageText]) -> float:
    pitches: Counter[float] = Counter()
    for page in pages:
        for one, other in pairwise(part for part in page.flow if isinstance(part, Line)):
            pitch = _pitch(one, other) / max(one.style.size, 1.0)
            if one.style == other.style and _CLOSEST_PITCH < pitch < _WIDEST_PITCH:
                pitches[round(pitch, 1)] += 1
    return pitches.most_common(1)[0][0] if pitches else _CLOSEST_PITCH * 1.5


def keep_margins_once(pages: Sequence[PageText], body: float) -> None:
    """Drops headers and footers that pages share, from all pages but the first that has them; and bare page numbers.

    Text larger than the `body`'s, in points, stays: it may be a heading at a page's top.
    """
    pages_of: dict[str, set[int]] = defaultdict(set)
    ways_of: list[tuple[PageText, Line, list[str]]] = []
    for page in pages:
        for line in page.margins:
            if line.style.size < body * _LARGER:
                ways = list(_ways_to_repeat(line, page))
                ways_of.append((page, line, ways))
                for way in ways:
                    pages_of[way].add(page.number)
    enough = min(_PAGES_REPEATED, max(len(pages), 2))
    kept: set[str] = set()
    dropped: set[int] = set()
    for page, line, ways in ways_of:
        repeated = [way for way in ways if len(pages_of[way]) >= enough]
        if line.text == str(page.number) or (repeated and _DIGITS.fullmatch(line.text)):
            dropped.add(id(line))
        elif repeated:
            line.repeated = True
            if kept.intersection(repeated):
                dropped.add(id(line))
            kept.update(repeated)
    for page in pages:
        page.flow = [part for part in page.flow if id(part) not in dropped]


def _ways_to_repeat(line: Line, page: PageText) -> Iterator[str]:
    """What the same line is on other pages: its text, or that with one number that grows with the page's."""
    edge = "top" if line.y0 > page.height / 2 else "foot"
    yield f"{edge} {line.text}"
    for number in list(_DIGITS.finditer(line.text))[:_MOST_NUMBERS]:
        ahead = int(number[0]) - page.number
        yield f"{edge} {line.text[: number.start()]}\0{ahead}\0{line.text[number.end() :]}"


@dataclass(slots=True)
class Blocks:
    """Writes pages as blocks."""

    fonts: Fonts
    first_heading: str | None = None
    _run: list[Line] = field(default_factory=list)
    _levels: dict[int, int] = field(default_factory=dict)

    def learn(self, pages: Sequence[PageText]) -> None:
        """Finds which sizes are really used for headings, so that their levels are 1, 2, 3 without gaps."""
        for page in pages:
            for _ in self.of(page):
                pass
        self._levels = {level: number for number, level in enumerate(sorted(self._levels), 1)}

    def of(self, page: PageText) -> Iterator[str | ListItem]:
        """The page's blocks; entries of lists are given one by one."""
        flow = page.flow
        at = 0
        while at < len(flow):
            part = flow[at]
            if isinstance(part, Grided):
                yield from self._end()
                yield from markdown.table(part.table)
                at += 1
            elif rows := _rows_of_table(flow, at):
                yield from self._end()
                yield from markdown.table(Table.of([[markdown.literal(text) for text in row] for row in rows]))
                at += len(rows)
            else:
                if self._run and _parts(self._run, part, self.fonts.pitch):
                    yield from self._end()
                self._run.append(part)
                at += 1
        yield from self._end()

    def _end(self) -> Iterator[str | ListItem]:
        lines, self._run = self._run, []
        if not lines:
            return
        if _is_row(lines[0]):
            yield markdown.paragraph("\n".join(markdown.literal(joined([line.text])) for line in lines))
            return
        text = joined([line.text for line in lines])
        if bullet := _BULLET.match(text):
            yield ListItem(_depth(lines[0]), markdown.literal(text[bullet.end() :]))
        elif (level := self.fonts.level(lines)) is not None:
            inline = markdown.literal(text)
            self.first_heading = self.first_heading or inline
            yield markdown.heading(self._levels.setdefault(level, level), inline)
        elif number := _NUMBER.match(text):
            yield ListItem(_depth(lines[0]), markdown.literal(text[number.end() :]), int(number[1]))
        else:
            yield markdown.paragraph(markdown.literal(text))


def _depth(line: Line) -> int:
    """How deep a list's entry stands: by how far it is set in, which the list's writer compares with those before it."""
    return int(max(line.x0, 0) / 10)


def _parts(run: list[Line], line: Line, usual: float) -> bool:
    """Whether `line` begins a new block after `run`; `usual` is the distance between lines, to their size."""
    last = run[-1]
    size = max(last.style.size, 1.0)
    if line.repeated or last.repeated or abs(line.style.size - last.style.size) > 0.08 * size:
        return True
    if _is_row(line) != _is_row(last):
        return True
    if _is_row(line):
        return _pitch(last, line) > 2 * _PITCH * size * usual
    if line.style.bold != last.style.bold or _BULLET.match(line.text) or _NUMBER.match(line.text):
        return True
    pitch = _pitch(last, line)
    if pitch <= 0:  # the top of the next column, or beside
        return last.text.endswith(_ENDS) or not line.text[:1].islower()
    before = _pitch(run[-2], last) if len(run) > 1 else 0.0
    if pitch > _PITCH * (before if before > 0 else size * usual):
        return True
    if was_broken_on_purpose(last, line):
        return True
    is_list = bool(_BULLET.match(run[0].text) or _NUMBER.match(run[0].text))
    if is_list:
        return line.x0 < run[0].x0 - size / 2
    # A line set in begins a paragraph, unless the text is centred or runs to the left.
    return line.x0 > last.x0 + size and abs(line.x1 - last.x1) < size and len(run) > 1


def _is_row(line: Line) -> bool:
    """Whether wide gaps or leading dots are in a line: it is a row rather than running text, and stays a line."""
    return line.has_leaders or (len(line.cells) > 1 and not _is_entry(line))


def _pitch(one: Line, next_: Line) -> float:
    """How far the next line is below, in points."""
    return (one.y0 + one.y1 - next_.y0 - next_.y1) / 2


def _rows_of_table(flow: Sequence[Flow], at: int) -> list[list[str]]:
    """The rows of a table without lines that begins at `at`: lines in as many aligned pieces each. Empty without one."""
    first = flow[at]
    if not isinstance(first, Line) or len(first.cells) < 2 or _is_entry(first) or first.repeated:
        return []
    rows = [first]
    for part in flow[at + 1 :]:
        if not isinstance(part, Line) or part.repeated or _is_entry(part) or not _aligned(first, part):
            break
        rows.append(part)
    if len(rows) < (3 if len(first.cells) == 2 else 2):
        return []
    return [[piece.text.strip() for piece in row.cells] for row in rows]


def _is_entry(line: Line) -> bool:
    label = line.cells[0].text.strip()
    return bool(_NUMBER.match(line.text) or _BULLET.match(line.text)) and (len(label) < 5)


def _aligned(one: Line, other: Line) -> bool:
    near = _ALIGNED * max(one.style.size, other.style.size)
    return len(one.cells) == len(other.cells) and all(
        abs(a.x0 - b.x0) < near or abs(a.x1 - b.x1) < near or abs(a.x0 + a.x1 - b.x0 - b.x1) < near
        for a, b in zip(one.cells, other.cells, strict=True)
    )
