"""HTML as a stream of tags and texts, in time linear in its length whatever it holds.

The standard library's parser takes ten seconds for 30 kB of `<a `, and libxml2 nine for half a megabyte of `<b></i>`; parsers
that build trees recurse. This one reads as browsers do where it matters (comments, quotes, raw text) and never looks at a
character twice. Where a tag is not closed before the end, the rest is text: nothing is lost.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_OPENING = re.compile(r"<(/?)([A-Za-z][^\s/>]*+)")
_ATTRIBUTE = re.compile(
    r"""[\s/]*+(?:(?P<name>[^\s/>][^\s/>=]*+)(?:\s*+=\s*+(?:"(?P<double>[^"]*+)(?P<end1>")?|'(?P<single>[^']*+)(?P<end2>')?"""
    r"""|(?P<bare>[^\s>]*+)))?|(?P<close>>))"""
)
_RAW = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)
    for name in ("script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes")
}
_WITH_ENTITIES = frozenset({"title", "textarea"})
_MOST_ATTRIBUTES = 100
_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True)
class Tag:
    """A start tag or an end tag, its name in lower case. Attributes are those of start tags, the first of each name."""

    name: str
    is_end: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)


def tokens(text: str) -> Iterator[Tag | str]:
    """Tags, and texts with their entities resolved. Comments, declarations and processing instructions are left out."""
    place = 0
    while place < len(text):
        start = text.find("<", place)
        if start < 0:
            break
        if start > place:
            yield html.unescape(text[place:start])
        opening = _OPENING.match(text, start)
        if opening is None:
            if text[start + 1 : start + 2] in ("!", "?", "/"):
                place = _after_comment(text, start)
            else:
                yield "<"
                place = start + 1
            continue
        is_end, name = bool(opening[1]), opening[2].lower()[:_LONGEST_NAME]
        attributes, place = _attributes(text, opening.end())
        if place < 0:  # not closed before the end
            yield text[start:]
            return
        yield Tag(name, is_end, {} if is_end else attributes)
        if not is_end and name in _RAW:
            closing = _RAW[name].search(text, place)
            end = closing.start() if closing else len(text)
            if end > place:
                yield html.unescape(text[place:end]) if name in _WITH_ENTITIES else text[place:end]
            place = end
        elif not is_end and name == "plaintext":
            yield text[place:]
            return
    if place < len(text):
        yield html.unescape(text[place:])


def _after_comment(text: str, start: int) -> int:
    if text.startswith("<!--", start):
        if text.startswith((">", "->"), start + 4):  # as browsers do: an empty comment
            return text.index(">", start) + 1
        end = text.find("-->", start + 4)
        return len(text) if end < 0 else end + 3
    if text.startswith("<![CDATA[", start):
        end = text.find("]]>", start)
        return len(text) if end < 0 else end + 3
    end = text.find(">", start)
    return len(text) if end < 0 else end + 1


def _attributes(text: str, place: int) -> tuple[dict[str, str], int]:
    """Attributes from `place` on, and where the text goes on after the tag; -1 if the tag does not end."""
    found: dict[str, str] = {}
    while match := _ATTRIBUTE.match(text, place):
        place = match.end()
        if match["close"]:
            return found, place
        if (match["double"] is not None and not match["end1"]) or (match["single"] is not None and not match["end2"]):
            return found, -1
        value = match["double"] or match["single"] or match["bare"] or ""
        if len(found) < _MOST_ATTRIBUTES:
            found.setdefault(match["name"].lower()[:_LONGEST_NAME], html.unescape(value))
    return found, -1
