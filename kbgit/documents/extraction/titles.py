"""Which of the titles that a document has is worth having."""

from __future__ import annotations

import re

from kbgit.documents.extraction import markdown

_LONGEST = 200
_FILE_NAME = re.compile(r"\S+\.(?:docx?|pptx?|xlsx?|pdf|odt|odp|ods|rtf|indd|tex|dvi|ps|qxd)", re.IGNORECASE)
_MEANINGLESS = re.compile(
    r"(?:untitled|unbenannt|(?:power ?point[- ])?(?:presentation|präsentation)|(?:microsoft )?(?:word|excel)\b.*|"
    r"(?:word )?document|dokument|presentation|slide) ?\d*",
    re.IGNORECASE,
)


def title_of(own: str | None, first_heading: str | None) -> str | None:
    """The document's `own` title unless its program made it up; else its first heading, inline Markdown; None without."""
    text = markdown.one_line(own or "")
    if text and not _MEANINGLESS.fullmatch(text) and not _FILE_NAME.fullmatch(text):
        return text[:_LONGEST]
    heading = " ".join(re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", first_heading or "").split())
    return heading[:_LONGEST] or None
