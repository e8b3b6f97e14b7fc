"""Where in an original document a text stood: its page, slide or sheet.

Extraction writes a line of its own, an HTML comment, before what is on a page; every Markdown reader passes over it, and a
passage finds the last one above it. So the place needs no store of its own, and survives editing and Git.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

_LONGEST_NAME = 100
_MARK = re.compile(r"<!-- (page|slide|sheet): ([^\n]{1,100}?) -->")
_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029<>]|-(?=-)")


class PlaceKind(StrEnum):
    """What a document is divided into."""

    PAGE = "page"
    SLIDE = "slide"
    SHEET = "sheet"


@dataclass(frozen=True, slots=True)
class Place:
    """A page or slide by its number, or a sheet by its name."""

    kind: PlaceKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Where a passage begins and ends; mostly one place."""

    first: Place
    last: Place

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}–{self.last.name}"

    def as_json(self) -> dict[str, str]:
        """JSON-ready: `label` is for people, `page 12–13`."""
        return {"kind": self.first.kind.value, "from": self.first.name, "to": self.last.name, "label": str(self)}


def mark(kind: PlaceKind, name: str | int) -> str:
    """The line that says that what follows is on this page, slide or sheet."""
    plain = " ".join(_UNFIT.sub(" ", str(name)).split())[:_LONGEST_NAME].strip(" -") or "unnamed"
    return f"<!-- {kind}: {plain} -->"


def read_mark(line: str) -> Place | None:
    """The place that a line marks; None for any other line."""
    match = _MARK.fullmatch(line.strip()) if line.lstrip().startswith("<!-- ") else None
    return Place(PlaceKind(match[1]), match[2]) if match else None


def stretch(content: str, start: int, end: int) -> Stretch | None:
    """Where the lines `start` to `end` (1-based, inclusive) of canonical content stood; None where nothing is marked.

    Marks and blank lines at either side have no text, so they count for the side on which text follows.
    """
    lines = content.split("\n")
    while start < end and _is_bare(lines[start - 1 : start]):
        start += 1
    while end > start and _is_bare(lines[end - 1 : end]):
        end -= 1
    first, last = _last_mark(lines[:start]), _last_mark(lines[:end])
    if first is None or last is None:
        return Stretch(last, last) if last else None
    return Stretch(first, last if last.kind is first.kind else first)


def _is_bare(lines: list[str]) -> bool:
    return all(not line.strip() or read_mark(line) is not None for line in lines)


def _last_mark(lines: list[str]) -> Place | None:
    for text in reversed(lines):
        if place := read_mark(text):
            return place
    return None
