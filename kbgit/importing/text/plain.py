"""Plain text: as it is where Markdown reads it the same way, in a fence where it does not.

Prose stays prose: paragraphs, and lists with dashes or numbers, are the same in both. But a line of `====`, a column of
figures, an indented block or `<name>` would become headings, lose their alignment or vanish. Such a file goes into a fence
whole, because escaping would change the very lines that citations quote.
"""

from __future__ import annotations

import re

from kbgit.importing.text.body import Body
from kbgit.importing.text.fence import fenced

_STRUCTURE = re.compile(
    r"""
    ^[ ]{0,3}(?:(?:[-*+]|\d{1,9}[.)])[ \t]+){0,9}(?:  # at the start of a line, or of an item of a list
        \#{1,6}(?:[ \t]|$)                      # a heading
        | >                                     # a quotation
        | `{3} | ~{3}                           # a fence
        | <{7}[ ]                               # a conflict marker
        | [=|]                                  # an underline, a table
        | [-|:][-|:\ \t]*$
        | (?P<rule>[-*_])(?:[ \t]*(?P=rule)){2,}[ \t]*$
        | \[[^\]\n]{1,999}\]:                   # a link's definition
    )
    | ^(?:[ ]{4}|[ ]{0,3}\t)[ \t]*[^ \t\n]      # indented: a code block, or alignment that would be lost
    | [^ \t\n](?:\t|[ ]{3})                     # columns
    | \\(?:$|[!-/:-@\[-`{-~])                   # a line break, an escape
    | `                                         # code
    | <[A-Za-z/!?]                              # a tag, a link
    | &(?:\#\w{1,8}|\w{1,32});                  # an entity
    | \][(\[]                                   # a link
    | ~~
    | \*[^\s*] | [^\s*]\*                       # emphasis
    | (?<![^\W_])_[^\s_] | [^\s_]_(?![^\W_])
    """,
    re.VERBOSE | re.MULTILINE,
)


def convert(text: str) -> Body:
    """Paragraphs as they are, or a fence around the whole."""
    if _STRUCTURE.search(text):
        return Body(fenced(text, "text"))
    return Body(text)
