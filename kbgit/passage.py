"""Passages: the section-sized parts of an item's content that are indexed and returned."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

from kbgit.item import atx_heading, heading_text, lines_outside_fences

DEFAULT_CAP = 380
"""Estimated model tokens in a passage at most: title and headings still fit beside them into a window of 512."""

# Bounds of what Markdown's block structure is read from; beyond them `#` headings and blank lines decide.
_LONGEST_STRUCTURED = 1_000_000
_MOST_LINES_STRUCTURED = 20_000
_DEEPEST_NESTING = 20
_LONGEST_SECTION = 200

_WIDE_RANGES = "\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
_WIDE = re.compile(f"[{_WIDE_RANGES}]")
_SYMBOL = re.compile(rf"[^\w\s{_WIDE_RANGES}]")
_SENTENCE_ENDS = (". ", "! ", "? ", "; ", "。", "！", "？", "；")
_SPACES = (" ", "\t")
# Link definitions are lines like others here, and inline markup has no part in where blocks begin and end.
_MARKDOWN = MarkdownIt("commonmark", {"maxNesting": _DEEPEST_NESTING}).enable("table").disable("reference")


@dataclass(frozen=True, slots=True)
class Passage:
    """One part of an item's canonical content.

    `section` is the path of headings above it, outermost first. `start_line` and `end_line` are 1-based, inclusive
    lines of the canonical content (the body after the front matter), and `text` is exactly those lines; of a line that
    alone is over the cap it is a part, and the parts in its passages make the line again when joined (but for a part of
    blanks alone).
    """

    ordinal: int
    section: tuple[str, ...]
    start_line: int
    end_line: int
    text: str


def split_passages(content: str, cap: int = DEFAULT_CAP) -> list[Passage]:
    """Cut canonical content into passages of at most `cap` estimated tokens, in order.

    A heading begins a passage, and one without text of its own goes with its first subsection. Paragraphs are packed up
    to the cap; a list, table, fence or paragraph is cut (between items, rows or lines) only if it alone is over it.
    Every line that is not blank is in exactly one passage, except that a line over the cap is in several. Content
    without any text has no passage. Time is linear in the length of `content`.
    """
    lines = content.split("\n")
    measure = _Measure(content, lines, cap)
    passages: list[Passage] = []
    for section in _sections(_blocks(content, lines)):
        for start, end in _pack(section.blocks, measure):
            for first, last, text in _texts(lines, start, end, measure):
                passages.append(Passage(len(passages), section.path, first, last, text))
    return passages


def estimated_tokens(text: str) -> float:
    """About how many tokens a multilingual sentence model makes of `text`; never more than its characters.

    A rule of thumb: 4 characters of a script with spaces, 1.3 of Chinese, Japanese or Korean, or 1.5 symbols a token.
    """
    symbols = len(_SYMBOL.findall(text))
    wide = 0 if text.isascii() else len(_WIDE.findall(text))
    return wide / 1.3 + symbols / 1.5 + max(0, len(text) - wide - symbols) / 4


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines `start` up to `end` (0-based) that belong together; `cuts` are lines at which further parts begin.

    A heading has a `level`, 1 to 6, and its text; anything else has level 0.
    """

    start: int
    end: int
    cuts: tuple[int, ...] = ()
    level: int = 0
    heading: str = ""


@dataclass(slots=True)
class _Section:
    path: tuple[str, ...]
    blocks: list[_Block] = field(default_factory=list)

    @property
    def is_bare(self) -> bool:
        """Whether there are only headings so far."""
        return all(block.level for block in self.blocks)


class _Measure:
    """Tells which runs of lines are within the cap."""

    def __init__(self, content: str, lines: Sequence[str], cap: float) -> None:
        self.cap = cap
        self._lines = lines
        self._all_fit = estimated_tokens(content) <= cap
        self._sums: list[float] = []

    def fits(self, start: int, end: int, share: float = 1.0) -> bool:
        """Whether the lines from `start` up to `end` take at most `share` of the cap."""
        if self._all_fit and share == 1.0:
            return True
        if not self._sums:
            self._sums = list(accumulate(map(estimated_tokens, self._lines), initial=0.0))
        return self._sums[end] - self._sums[start] <= self.cap * share


def _blocks(content: str, lines: Sequence[str]) -> Iterator[_Block]:
    """The top-level blocks of Markdown, in order; together they hold every line that is not blank."""
    if len(content) > _LONGEST_STRUCTURED or len(lines) > _MOST_LINES_STRUCTURED:
        return _plain_blocks(content, lines)
    tokens: list[Token] = []
    _MARKDOWN.block.parse(content, _MARKDOWN, {}, tokens)
    if any(token.level >= _DEEPEST_NESTING - 1 for token in tokens):
        # The parser may have skipped the rest of the text from here, headings included.
        return _plain_blocks(content, lines)
    return _without_gaps(_structured_blocks(tokens), lines)


def _structured_blocks(tokens: Sequence[Token]) -> Iterator[_Block]:
    items = [token.map[0] for token in tokens if token.level == 1 and token.type == "list_item_open" and token.map]
    for index, token in enumerate(tokens):
        if token.level or token.nesting < 0 or token.map is None:
            continue
        start, end = token.map
        if token.type == "heading_open":
            yield _Block(start, end, level=int(token.tag[1]), heading=heading_text(tokens[index + 1].content))
        elif token.type.endswith("list_open"):
            yield _Block(start, end, cuts=tuple(items[bisect_right(items, start) : bisect_left(items, end)]))
        elif token.type == "table_open":
            yield _Block(start, end, cuts=tuple(range(start + 3, end)))  # the head stays with the first row
        else:
            yield _Block(start, end)


def _plain_blocks(content: str, lines: Sequence[str]) -> Iterator[_Block]:
    """Blocks told only by `#` headings and blank lines, for text whose nesting or length is out of bounds."""
    headings = {number - 1: found for number, line in lines_outside_fences(content) if (found := atx_heading(line))}
    start: int | None = None
    for index, line in enumerate(lines):
        heading = headings.get(index)
        if start is not None and (heading or not line.strip()):
            yield _Block(start, index)
            start = None
        if heading:
            yield _Block(index, index + 1, level=heading[0], heading=heading[1])
        elif start is None and line.strip():
            start = index
    if start is not None:
        yield _Block(start, len(lines))


def _without_gaps(blocks: Iterable[_Block], lines: Sequence[str]) -> Iterator[_Block]:
    """`blocks`, and between them what the parser passed over, so that no text is lost whatever it does."""
    done = 0
    for block in blocks:
        if any(line.strip() for line in lines[done : block.start]):
            yield _Block(done, block.start)
        yield block
        done = block.end
    if any(line.strip() for line in lines[done:]):
        yield _Block(done, len(lines))


def _sections(blocks: Iterable[_Block]) -> Iterator[_Section]:
    """Blocks by heading; a heading without text of its own begins the section of its first subsection."""
    above: list[_Block] = []
    section = _Section(())
    for block in blocks:
        if block.level:
            is_subsection = section.blocks and section.is_bare and block.level > section.blocks[-1].level
            while above and above[-1].level >= block.level:
                above.pop()
            above.append(block)
            path = tuple(heading.heading[:_LONGEST_SECTION] for heading in above if heading.heading)
            if is_subsection:
                section.path = path
            else:
                if section.blocks:
                    yield section
                section = _Section(path)
        section.blocks.append(block)
    if section.blocks:
        yield section


def _pack(blocks: Sequence[_Block], measure: _Measure) -> Iterator[tuple[int, int]]:
    """Runs of lines (start, end) of a section, each within the cap or ending with the one line that is over it."""
    start = end = blocks[0].start
    if measure.fits(start, blocks[-1].end):
        yield start, blocks[-1].end
        return
    is_bare = True  # only headings so far: a line that is over the cap may begin in the same passage
    for block in blocks:
        for piece_start, piece_end in _pieces(block, measure):
            if end > start and not measure.fits(start, piece_end):
                joins = (
                    is_bare and not measure.fits(piece_start, piece_end) and measure.fits(start, piece_start, share=0.5)
                )
                if not joins:
                    yield start, end
                    start = piece_start
            end = piece_end
            is_bare = is_bare and block.level > 0
    yield start, end


def _pieces(block: _Block, measure: _Measure) -> Iterator[tuple[int, int]]:
    """The block as a whole if it is within the cap; else its parts, and the lines of parts that are not."""
    if measure.fits(block.start, block.end):
        yield block.start, block.end
        return
    for start, end in pairwise((block.start, *block.cuts, block.end)):
        if measure.fits(start, end):
            yield start, end
        else:
            yield from ((line, line + 1) for line in range(start, end))


def _texts(lines: Sequence[str], start: int, end: int, measure: _Measure) -> Iterator[tuple[int, int, str]]:
    """What becomes of the run of lines from `start` up to `end`: first line, last line (from 1, inclusive), text.

    That is one passage, without blank lines around it; or, when the last line is over the cap, one for each part of it,
    the first of them with the headings above.
    """
    while end > start and not lines[end - 1].strip():
        end -= 1
    while start < end and not lines[start].strip():
        start += 1
    if start == end:
        return
    if measure.fits(start, end):
        yield start + 1, end, "\n".join(lines[start:end])
        return
    headings = "".join(f"{line}\n" for line in lines[start : end - 1])
    for part in _parts(lines[end - 1], measure.cap - estimated_tokens(headings), measure.cap):
        text = headings + part
        if text.strip():
            yield start + 1, end, text
            headings, start = "", end - 1


def _parts(line: str, first_cap: float, cap: float) -> Iterator[str]:
    """Cut a line into parts within the cap, after a sentence or a word where there is one."""
    start = 0
    room = first_cap
    while start < len(line):
        length = min(len(line) - start, int(room * 4) + 1)
        while length > 1 and (size := estimated_tokens(line[start : start + length])) > room:
            length = max(1, min(length - 1, int(length * room / size)))
        if start + length < len(line):
            length = _natural_length(line[start : start + length])
        yield line[start : start + length]
        start += length
        room = cap


def _natural_length(text: str) -> int:
    for ends in (_SENTENCE_ENDS, _SPACES):
        length = max(text.rfind(end) + len(end) for end in ends)
        if length > len(text) // 2:
            return length
    return len(text)
