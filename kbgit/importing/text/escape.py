"""Words as Markdown that shows exactly these words: whatever would be markup is escaped, and nothing else."""

from __future__ import annotations

import re

_INLINE = re.compile(
    r"""
    \\(?=[!-/:-@\[-`{-~\n]|$)                   # a backslash that would escape
    | [`*\[\]]
    | <(?=[A-Za-z/!?])
    | &(?=\#\w|\w{1,32};)
    | ~(?=~)
    | (?<![^\W_])_ | _(?![^\W_])
    """,
    re.VERBOSE,
)
_AT_LINE_START = re.compile(
    r"^([ ]{0,3})(?:([#>|=~]|[-+](?=[ \t\n-]|$)|:(?=-))|(\d{1,9})([.)])(?=[ \t\n]|$))", re.MULTILINE
)


def inline(text: str) -> str:
    """Text that stands within a line; whoever puts it at the start of one takes `at_line_start` as well."""
    return _INLINE.sub(r"\\\g<0>", text)


def at_line_start(markdown: str) -> str:
    """Lines of `inline` Markdown that begin no heading, list, quotation, table or rule."""
    return _AT_LINE_START.sub(_escaped_start, markdown)


def in_cell(markdown: str) -> str:
    """`inline` Markdown for a table's cell: on one line, its pipes escaped."""
    return " ".join(markdown.split()).replace("|", "\\|")


def _escaped_start(match: re.Match[str]) -> str:
    indent, mark, number, dot = match.groups()
    return f"{indent}\\{mark}" if mark else f"{indent}{number}\\{dot}"
