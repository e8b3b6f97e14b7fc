"""What a converter makes of one file's text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Body:
    """Markdown, the title that the text gives itself (None: none), and sentences for whoever imports it."""

    markdown: str
    title: str | None = None
    notes: tuple[str, ...] = ()


Converter = Callable[[str], Body]
"""Turns a file's text, lines ended by LF and without byte order mark, into Markdown.

Raises `DocumentProblem` for a text that cannot become an item.
"""
