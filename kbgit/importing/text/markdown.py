"""Markdown: it stays as it is, its own front matter too."""

from __future__ import annotations

from kbgit.importing.text.body import Body
from kbgit.item import parse_document


def convert(text: str) -> Body:
    """The text itself. Raises `DocumentProblem`, with its line, where its front matter cannot be read."""
    return Body(text, parse_document(text.encode("utf-8")).title)
