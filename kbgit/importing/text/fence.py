"""Code and data: the file's text in a fence that nothing inside it can close."""

from __future__ import annotations

import re

from kbgit.importing.text.body import Body, Converter

_SHORTEST = 3
_RUN = re.compile(r"`+|~+")


def fenced(text: str, language: str) -> str:
    """`text` as a fenced code block whose content is `text` exactly, with a line end added where the last line has none.

    The fence is of backticks or tildes, whichever runs shorter in the text, and longer than any run of it.
    """
    longest = {"`": 0, "~": 0}
    for run in _RUN.finditer(text):
        longest[run[0][0]] = max(longest[run[0][0]], len(run[0]))
    mark = "~" if longest["~"] < longest["`"] and longest["`"] >= _SHORTEST else "`"
    fence = mark * max(_SHORTEST, longest[mark] + 1)
    end = "" if text.endswith("\n") or not text else "\n"
    return f"{fence}{language}\n{text}{end}{fence}\n"


def code(language: str) -> Converter:
    """The converter of a language, under the name that Markdown highlighters know it by."""

    def convert(text: str) -> Body:
        return Body(fenced(text, language))

    return convert
