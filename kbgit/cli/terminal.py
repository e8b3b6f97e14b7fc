"""The terminal: how wide it is, what is safe to show on it, notes and progress beside the answer."""

from __future__ import annotations

import re
import shutil
import sys
import time
import unicodedata
from collections.abc import Iterator, Sequence

import click

from kbgit import names

_DEFAULT_WIDTH = 100
_LEAST_WIDTH = 40
_REDRAW_SECONDS = 0.1
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")


def width() -> int:
    """Columns to fill: the terminal's (or COLUMNS), 100 without one."""
    return max(_LEAST_WIDTH, shutil.get_terminal_size((_DEFAULT_WIDTH, 24)).columns)


def columns(text: str) -> int:
    """How many columns a line of text takes: East Asian characters take two, combining ones none."""
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if character < "\u0300":
        return 1
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, most: int) -> str:
    """`text` in at most `most` columns, with an ellipsis where something is left out."""
    if columns(text) <= most:
        return text
    return text[: _fitting(text, most - 1)].rstrip() + "…"


def wrapped(text: str, most: int, lines: int) -> Iterator[str]:
    """`text`, whose white space is folded, in at most `lines` lines of `most` columns; the last is cut."""
    rest = " ".join(text.split())
    for _ in range(lines - 1):
        end = _fitting(rest, most)
        if end >= len(rest):
            break
        space = rest.rfind(" ", 0, end + 1)
        end = space if space > end // 2 else end
        yield rest[:end].rstrip()
        rest = rest[end:].lstrip()
    if rest:
        yield cut(rest, most)


def _fitting(text: str, most: int) -> int:
    """How many characters of `text` fit into `most` columns."""
    taken = 0
    for index, character in enumerate(text):
        taken += _columns(character)
        if taken > most:
            return index
    return len(text)


def harmless(text: str) -> str:
    """`text` of several lines, in which whatever could steer a terminal or hide from its reader is escaped."""
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def line(text: object) -> str:
    """Anything as one harmless line."""
    return names.shown(str(text))


def count(number: int, what: str) -> str:
    """`1 item`, `1,234 items`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def tell(text: str) -> None:
    """What is being done, on standard error."""
    click.echo(f"kbgit: {text}", err=True)


def note(text: str) -> None:
    """Something to know beside the answer, on standard error."""
    click.echo(f"kbgit: note: {text}", err=True)


def table(rows: Sequence[Sequence[str]], heads: Sequence[str]) -> Iterator[str]:
    """Rows under their heads, columns aligned; the last column keeps its natural width."""
    every = [list(heads), *map(list, rows)]
    widths = [max(columns(row[index]) for row in every) for index in range(len(heads))]
    for number, row in enumerate(every):
        padded = [cell + " " * (widths[index] - columns(cell)) for index, cell in enumerate(row)]
        text = "  ".join(padded).rstrip()
        yield click.style(text, bold=True) if number == 0 else text


class ProgressLine:
    """One line on standard error that is written over and over, and wiped at the end. Without a terminal: nothing."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()
        self._drawn_at = 0.0

    def tell(self, text: str) -> None:
        """Show `text`, if the last one has been there long enough to be read."""
        now = time.monotonic()
        if self._is_shown and now - self._drawn_at >= _REDRAW_SECONDS:
            self._drawn_at = now
            sys.stderr.write(f"\r\x1b[K{cut(line(text), width() - 1)}")
            sys.stderr.flush()

    def count(self, what: str, done: int, total: int) -> None:
        """Show a bar."""
        filled = 20 * done // total if total else 20
        self.tell(f"{'█' * filled}{'░' * (20 - filled)} {done:,} of {total:,} {what}")

    def wipe(self) -> None:
        """Leave the line empty for what comes next."""
        if self._is_shown and self._drawn_at:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._drawn_at = 0.0
