"""Front matter: the YAML header of a Markdown file, read strictly.

A header begins with `---` on the very first line and ends with a line `---` or `...`. It is a mapping whose scalars are
always text, exactly as typed: `no`, `0123`, `2026-05-26`, `~` are never bool, number, date or null. Anchors, aliases,
tags, merge keys and duplicate keys are refused, and so is everything over the limits below, so that reading is bounded
and what a person sees in the file is what everybody reads from it. `kbgit.header_edit` writes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import yaml
from yaml.error import Mark, MarkedYAMLError
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from kbgit.errors import DocumentProblem

if TYPE_CHECKING:
    from yaml._yaml import Mark as CMark

Value: TypeAlias = "str | list[Value] | dict[str, Value]"

LONGEST_HEADER = 64 * 1024
"""Bytes of UTF-8 between the fences."""
DEEPEST = 8
"""Levels of nested lists and mappings; the header itself is the first."""
MOST_NODES = 1000
"""Keys and values, nested ones included."""

_BOM = "\ufeff"
_OPENING = re.compile(r"---[ \t]*(?:\n|\Z)")
_CLOSING = re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE)
_NO_BLANK = re.compile(r"[^ \t\n]")
_KEY_LIKE = re.compile(r"""["']?\w[^\n:]{0,127}:(?:\s|\Z)""")
_TAB_INDENT = re.compile(r"^ *\t[ \t]*(?=[^ \t\n])", re.MULTILINE)
# YAML's unprintable characters, and those it takes for line ends where Markdown and Git do not.
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
# An unquoted or wrongly quoted value in its line: everything before it, and itself.
_VALUE_IN_LINE = re.compile(
    r"""(?P<before>[ ]*(?:-[ ]+)*(?:[^\s:#'"\[\]{},&*!|>%@`-][^:]{0,127}:[ \t]+)?)(?P<value>\S.*)"""
)
# What YAML reports at the end of something that goes wrong at its beginning.
_CONTEXT_IS_THE_PLACE = ("quoted scalar", "flow sequence", "flow mapping", "simple key")
_RULE_HINT = "write `***` instead if it is meant as a horizontal rule"


@dataclass(frozen=True, slots=True)
class HeaderEntry:
    """Where a top-level field stands: its key, the first event of its value and the last one that has text.

    Marks are 0-based lines and columns of the header. `items` holds first and last event of each item of a list.
    """

    key: ScalarEvent
    first: Event
    last: Event
    items: tuple[tuple[Event, Event], ...]


@dataclass(frozen=True, slots=True)
class Header:
    """A header's fields in their order, and where each stands."""

    fields: dict[str, Value]
    entries: dict[str, HeaderEntry]

    def line_of(self, key: str) -> int:
        """1-based line of a top-level key in the file."""
        return _file_line(self.entries[key].key)


def decode(raw: bytes) -> str:
    """The text of a file, without byte order mark, lines ended by LF.

    Raises `DocumentProblem` for anything but UTF-8 and for NUL.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _not_utf8(raw, error) from None
    if text.startswith(_BOM):
        text = text.lstrip(_BOM)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x00" in text:
        place = text.index("\x00")
        line, column = text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place)
        raise DocumentProblem("a NUL character", line=line, column=column, mend="remove it, or save the file as UTF-8")
    return text


def _not_utf8(raw: bytes, error: UnicodeDecodeError) -> DocumentProblem:
    before = raw[: error.start].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    wrong = raw[error.start : error.start + 3]
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        mend = "it looks like UTF-16: save it as UTF-8"
    elif len(wrong) == 3 and wrong[0] == 0xED and wrong[1] >= 0xA0:
        mend = "it encodes half of a surrogate pair: remove that character"
    else:
        mend = "save it as UTF-8"
    return DocumentProblem(
        f"not UTF-8: byte 0x{raw[error.start]:02x} at offset {error.start}",
        line=before.count(b"\n") + 1,
        column=len(before) - (before.rfind(b"\n") + 1) + 1,
        mend=mend,
    )


def split_header(text: str) -> tuple[str | None, int]:
    """The header of `decode`d text (None without one) and the offset in `text` at which the body begins.

    A first line `---` that is a horizontal rule leaves the whole text to the body; where it might be either, that is a
    `DocumentProblem`: no text is ever lost, and no `status: draft` overlooked.
    """
    opening = _OPENING.match(text)
    if opening is None:
        return None, 0
    start = opening.end()
    closing = _CLOSING.search(text, start)
    text_begins = _NO_BLANK.search(text, start)
    first = text_begins.start() if text_begins else len(text)
    is_separated = "\n" in text[start:first]
    if closing is None:
        if first >= len(text) or (is_separated and not _KEY_LIKE.match(text, first)):
            return None, 0
        raise DocumentProblem(
            "the front matter that begins here is not closed", mend=f"add a line `---` after it, or {_RULE_HINT}"
        )
    if is_separated and first < closing.start() and not _KEY_LIKE.match(text, first):
        if text[first] != "#":
            return None, 0
        raise DocumentProblem(
            "this may be front matter that begins with a comment or a horizontal rule before a heading",
            mend=f"remove the blank line after it, or {_RULE_HINT}",
        )
    header = text[start : closing.start()]
    if len(header) > LONGEST_HEADER or (len(header) > LONGEST_HEADER // 4 and _size(header) > LONGEST_HEADER):
        raise DocumentProblem(f"front matter over {LONGEST_HEADER // 1024} KiB", mend="move text into the body")
    return header, min(closing.end() + 1, len(text))


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def read_header(header: str) -> Header:
    """Read the text between the fences. Raises `DocumentProblem` at the first thing that is wrong."""
    try:
        return _Reader(header).read()
    except _Refusal as refusal:
        raise _problem(header, refusal) from None
    except yaml.YAMLError as error:
        raise _problem(header, _refusal_of(error)) from None


class _Refusal(Exception):
    """Something kbgit or YAML refuses, at a 0-based line and column of the header."""

    def __init__(self, what: str, line: int, column: int, mend: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.line = line
        self.column = column
        self.mend = mend


def _refusal_of(error: yaml.YAMLError) -> _Refusal:
    if not isinstance(error, MarkedYAMLError) or error.problem_mark is None:
        return _Refusal(f"unreadable front matter ({error})", 0, 0)
    mark = error.problem_mark
    if error.context_mark is not None and (error.context or "").endswith(_CONTEXT_IS_THE_PLACE):
        mark = error.context_mark
    problem = error.problem or "unreadable"
    if problem.startswith("mapping values are not allowed"):
        problem = "a colon inside an unquoted value"
    elif "escape" in problem or "hex" in problem:
        problem = "a backslash inside double quotes that begins no known escape"
    elif "nesting" in problem:
        problem = f"nesting deeper than {DEEPEST} levels"
    elif "could not find expected ':'" in problem:
        problem = "a line that is no `key: value`"
    return _Refusal(f"unreadable front matter: {problem}", mark.line, mark.column)


def _problem(header: str, refusal: _Refusal) -> DocumentProblem:
    mend = refusal.mend or _quoted_form(header, refusal.line)
    return DocumentProblem(refusal.what, line=refusal.line + 2, column=refusal.column + 1, mend=mend)


def _quoted_form(header: str, number: int) -> str:
    """The hint to quote the value in a line, given only if the header then reads at least beyond that line."""
    lines = header.split("\n")
    match = _VALUE_IN_LINE.fullmatch(lines[number]) if number < len(lines) else None
    if match is None or len(match["value"]) > 500:
        return ""
    value = match["value"].rstrip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]
    quoted = "'" + value.replace("'", "''") + "'" if '"' in value or "\\" in value else f'"{value}"'
    mended = match["before"] + quoted
    try:
        _Reader("\n".join([*lines[:number], mended, *lines[number + 1 :]])).read()
    except _Refusal as refusal:
        still = refusal.line
    except yaml.YAMLError as error:
        still = _refusal_of(error).line
    else:
        return f"write {mended.strip()}"
    return f"write {mended.strip()}" if still > number else ""


# libyaml's parser gives the same events as the pure one, ten times faster; a PyYAML built without it still works.
_EVENT_PARSER: type[yaml.CBaseLoader] | type[yaml.BaseLoader] = (
    yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader
)


class _Reader:
    """Reads one header from YAML's event stream, which neither resolves types nor expands anything."""

    def __init__(self, header: str) -> None:
        self._header = header
        self._parser = _EVENT_PARSER(header)
        self._nodes = 0
        self._last: Event | None = None
        self._items: list[tuple[Event, Event]] = []

    def read(self) -> Header:
        """The fields. Raises `_Refusal` or `yaml.YAMLError`."""
        self._check_characters()
        self._next()  # the stream's start
        event = self._next()
        if isinstance(event, StreamEndEvent):
            return self._without_fields()
        if isinstance(event, DocumentStartEvent) and (event.explicit or event.version or event.tags):
            raise self._refuse("a YAML directive or document marker", event, "remove it")
        root = self._next()
        if not isinstance(root, MappingStartEvent):
            mend = f"write `key: value` on each line, or {_RULE_HINT}"
            raise self._refuse("front matter that is no list of `key: value` lines", root, mend)
        self._refuse_properties(root)
        header = self._fields()
        self._next()  # the document's end
        event = self._next()
        if not isinstance(event, StreamEndEvent):
            raise self._refuse("a second YAML document", event, "keep one block of `key: value` lines")
        return header

    def _check_characters(self) -> None:
        wrong = _FORBIDDEN.search(self._header)
        if wrong is not None:
            raise self._refuse_at(f"a character that no header may have, U+{ord(wrong[0]):04X}", wrong.start())
        if "\t" in self._header and (tab := _TAB_INDENT.search(self._header)):
            raise self._refuse_at("a tab in the indentation", tab.start() + tab[0].index("\t"), "indent with spaces")

    def _refuse_at(self, what: str, offset: int, mend: str = "remove it") -> _Refusal:
        line = self._header.count("\n", 0, offset)
        return _Refusal(what, line, offset - (self._header.rfind("\n", 0, offset) + 1), mend)

    def _without_fields(self) -> Header:
        if self._header.strip():
            # Comments alone: more likely a heading between horizontal rules, whose text must not vanish.
            raise _Refusal("front matter without any `key: value` line", 0, 0, _RULE_HINT)
        return Header({}, {})

    def _fields(self) -> Header:
        fields: dict[str, Value] = {}
        entries: dict[str, HeaderEntry] = {}
        while not isinstance(event := self._next(), MappingEndEvent):
            key = self._key(event)
            if key.value in fields:
                raise self._duplicate(key, entries[key.value].key)
            first = self._next()
            value = self._value(first, 2)
            items = tuple(self._items) if isinstance(first, SequenceStartEvent) else ()
            fields[key.value] = value
            entries[key.value] = HeaderEntry(key, first, self._last or first, items)
        return Header(fields, entries)

    def _value(self, event: Event, depth: int) -> Value:
        self._count(event)
        self._refuse_properties(event)
        if isinstance(event, ScalarEvent):
            self._last = event
            return self._text(event)
        if depth > DEEPEST:
            raise self._refuse(f"nesting deeper than {DEEPEST} levels", event, "flatten it")
        if isinstance(event, SequenceStartEvent):
            return self._list(event, depth)
        return self._mapping(event, depth)

    def _list(self, start: SequenceStartEvent, depth: int) -> list[Value]:
        values: list[Value] = []
        items: list[tuple[Event, Event]] = []
        while not isinstance(event := self._next(), CollectionEndEvent):
            values.append(self._value(event, depth + 1))
            items.append((event, self._last or event))
        self._close(start, event)
        self._items = items
        return values

    def _mapping(self, start: Event, depth: int) -> dict[str, Value]:
        fields: dict[str, Value] = {}
        keys: dict[str, ScalarEvent] = {}
        while not isinstance(event := self._next(), CollectionEndEvent):
            key = self._key(event)
            if key.value in fields:
                raise self._duplicate(key, keys[key.value])
            keys[key.value] = key
            fields[key.value] = self._value(self._next(), depth + 1)
        self._close(start, event)
        return fields

    def _close(self, start: Event, end: Event) -> None:
        # A block collection's end mark lies at whatever follows it; only a flow collection has text at its end.
        if self._last is None or (isinstance(start, CollectionStartEvent) and start.flow_style):
            self._last = end

    def _key(self, event: Event) -> ScalarEvent:
        self._count(event)
        self._refuse_properties(event)
        if not isinstance(event, ScalarEvent):
            raise self._refuse("a key that is a list or a mapping", event)
        if not event.value:
            raise self._refuse("a key without a name", event)
        if event.value == "<<" and event.implicit[0]:
            raise self._refuse("a merge key `<<`", event, "write the fields out")
        self._text(event)
        return event

    def _text(self, event: ScalarEvent) -> str:
        text: str = event.value
        if "\x00" in text:
            raise self._refuse("a NUL character", event, "remove it")
        return text

    def _count(self, event: Event) -> None:
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise self._refuse(f"more than {MOST_NODES} keys and values", event, "move them into the body")

    def _refuse_properties(self, event: Event) -> None:
        if isinstance(event, AliasEvent):
            raise self._refuse(f"an alias, `*{event.anchor}`", event)
        if isinstance(event, NodeEvent) and event.anchor is not None:
            raise self._refuse(f"an anchor, `&{event.anchor}`", event)
        if isinstance(event, ScalarEvent | CollectionStartEvent) and event.tag is not None:
            raise self._refuse(f"a tag, `{event.tag}`", event)

    def _duplicate(self, key: ScalarEvent, earlier: ScalarEvent) -> _Refusal:
        lines = f"lines {_file_line(earlier)} and {_file_line(key)}"
        return self._refuse(f"duplicate key `{key.value}`, {lines}", key, "keep one of them")

    def _refuse(self, what: str, event: Event, mend: str = "") -> _Refusal:
        line, column = start_of(event)
        return _Refusal(what, line, column, mend)

    def _next(self) -> Event:
        event = self._parser.get_event()
        if event is None:
            raise yaml.YAMLError("the header ended too early")
        return event


def start_of(event: Event) -> tuple[int, int]:
    """Where an event's text begins: 0-based line and column (in characters) of the header."""
    return _place(event.start_mark)


def end_of(event: Event) -> tuple[int, int]:
    """Where an event's text ends: 0-based line and column (in characters) of the header."""
    return _place(event.end_mark)


def _place(mark: Mark | CMark | None) -> tuple[int, int]:
    return (mark.line, mark.column) if mark is not None else (0, 0)


def _file_line(event: Event) -> int:
    return start_of(event)[0] + 2  # 0-based, after the opening fence
