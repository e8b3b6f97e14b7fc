"""Passages: the section-sized parts of an item's content that are indexed and returned."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Passage:
    """One part of an item's canonical content.

    `section` is the path of headings above it, outermost first. `start_line` and `end_line` are 1-based, inclusive
    lines of the canonical content (the body after the front matter), and `text` is exactly those lines.
    """

    ordinal: int
    section: tuple[str, ...]
    start_line: int
    end_line: int
    text: str
