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

    def as_json(self) -> dict[str, str]:
        """JSON-ready."""
        return {"kind": self.kind.value, "name": self.name, "label": str(self)}


def mark(kind: PlaceKind, name: str | int) -> str:
    """The line that says that what follows is on this page, slide or sheet."""
    plain = " ".join(_UNFIT.sub(" ", str(name)).split())[:_LONGEST_NAME].strip(" -") or "unnamed"
    return f"<!-- {kind}: {plain} -->"


def read_mark(line: str) -> Place | None:
    """The place that a line marks; None for any other line."""
    match = _MARK.fullmatch(line.strip()) if line.lstrip().startswith("<!-- ") else None
    return Place(PlaceKind(match[1]), match[2]) if match else None


def place_at(content: str, line: int) -> Place | None:
    """The place of the 1-based `line` of canonical content: the last mark at or above it; None without one."""
    for text in reversed(content.split("\n")[: max(0, line)]):
        if place := read_mark(text):
            return place
    return None
