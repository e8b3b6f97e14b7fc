"""Editing front matter and body of a Markdown file without touching any other byte.

Only the bytes of the fields that are named change: comments, quoting, order, line ends, byte order mark and the rest of
the file stay, so that a change of one field is a difference of one line. What is written is read back before it is
returned; if that is not exactly the change that was asked for, a `DocumentProblem` says so and nothing is changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import yaml
from yaml.events import MappingStartEvent, ScalarEvent, SequenceStartEvent

from kbgit.errors import DocumentProblem
from kbgit.frontmatter import Header, HeaderEntry, Value, decode, end_of, read_header, split_header, start_of

NewValue = str | Sequence[str] | Mapping[str, str] | None
"""Text, a list of texts, a flat mapping of texts (written as a block below its key), or None to remove the field."""

_STEP = 2  # columns by which a new block is indented
_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
_TEXT_TAG = "tag:yaml.org,2002:str"
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_TO_ESCAPE = re.compile('[\\\\"\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]')
# Characters about which no YAML reader disagrees. Others have a meaning somewhere: `a?` inside brackets, say.
_PLAIN = re.compile(r"(?:-(?=\d))?[\w/](?:[\w ./()+'-]|(?<=\d):(?=\d))*")
_UNWRITABLE = re.compile("[\x00\ud800-\udfff]")
_RESOLVER = yaml.resolver.Resolver()


def canonical_content(text: str) -> str:
    """`text` with LF as its only line end and without byte order mark in front."""
    return text.replace("\r\n", "\n").replace("\r", "\n").lstrip("\ufeff")


def edit_file(raw: bytes, fields: Mapping[str, NewValue], content: str | None) -> bytes:
    """The file with `fields` set (None removes one) and, unless it is None, its body replaced by `content`.

    A new field goes to the end of the header, which is created where there is none. Raises `DocumentProblem` when the
    present header cannot be read or the change cannot be written so that it reads back as it was asked for.
    """
    _check_texts([*fields, *_texts(fields), content or ""])
    file = _File(raw)
    wanted = _changed(file.header.fields, fields)
    wanted_content = file.content if content is None else canonical_content(content)
    file.set_fields(fields)
    file.set_content(wanted_content)
    edited = file.as_bytes()
    try:
        result = _File(edited)
        is_as_wanted = result.header.fields == wanted and result.content == wanted_content
    except DocumentProblem:
        is_as_wanted = False
    if not is_as_wanted:
        raise DocumentProblem(
            "this front matter cannot be edited field by field", mend="edit the file as text, one `key: value` a line"
        )
    return edited


def _check_texts(texts: Sequence[str]) -> None:
    for text in texts:
        if wrong := _UNWRITABLE.search(text):
            what = f"a character that no document may have, U+{ord(wrong[0]):04X}"
            raise DocumentProblem(what, line=text.count("\n", 0, wrong.start()) + 1, mend="remove it")


def _texts(fields: Mapping[str, NewValue]) -> list[str]:
    texts: list[str] = []
    for value in fields.values():
        texts += [value] if isinstance(value, str) else value or ()
        texts += value.values() if isinstance(value, Mapping) else ()
    return texts


def _changed(old: Mapping[str, Value], changes: Mapping[str, NewValue]) -> dict[str, Value]:
    merged: dict[str, Value] = dict(old)
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _as_value(value)
    return merged


class _File:
    """A file in parts: byte order mark, opening fence, header lines, closing fence, body."""

    def __init__(self, raw: bytes) -> None:
        text = decode(raw)
        header, body_start = split_header(text)
        self.content = text[body_start:].lstrip("\ufeff")
        self.header = Header({}, {}) if header is None else read_header(header)
        original = raw.decode("utf-8")
        unmarked = original.lstrip("\ufeff")
        self._mark = original[: len(original) - len(unmarked)]
        lines = [(match[1], match[2]) for match in _LINE.finditer(unmarked) if match[0]]
        self._newline = lines[0][1] if lines and lines[0][1] else "\n"
        self._fences: list[tuple[str, str]] = []
        self._lines: list[tuple[str, str]] = []
        if header is not None:
            closing = header.count("\n") + 1
            self._fences = [lines[0], lines[closing]]
            self._lines = lines[1:closing]
            lines = lines[closing + 1 :]
        self._body = "".join(text + end for text, end in lines)

    def as_bytes(self) -> bytes:
        """The whole file, as it is now."""
        text = self._body
        if self._fences:
            text = "".join(line + end for line, end in [self._fences[0], *self._lines, self._fences[1]]) + text
        return (self._mark + text).encode("utf-8")

    def set_content(self, content: str) -> None:
        """Replace the body, in the line ends of the file; nothing happens when it is the same text."""
        if content == self.content:
            return
        self.content = content
        self._body = content.replace("\n", self._newline)
        if self._fences and content:
            line, end = self._fences[1]
            self._fences[1] = (line, end or self._newline)
        elif not self._fences and _would_be_header(content):
            self._create_header()

    def set_fields(self, changes: Mapping[str, NewValue]) -> None:
        """Change the header's lines; fields that already have their value keep their bytes."""
        old = self.header
        changed = {key: value for key, value in changes.items() if _is_change(old.fields.get(key), value)}
        present = [key for key in old.entries if key in changed]
        for key in reversed(present):  # from the end, so that the places of those before stay true
            self._change(old.entries[key], old.fields[key], changed[key])
        indent = " " * min((start_of(entry.key)[1] for entry in old.entries.values()), default=0)
        for key, value in changed.items():
            if key not in old.entries and value is not None:
                if not self._fences:
                    self._create_header()
                self._lines += [(text, self._newline) for text in _entry_lines(key, value, indent)]

    def _create_header(self) -> None:
        self._fences = [("---", self._newline), ("---", self._newline)]

    def _change(self, entry: HeaderEntry, old: Value, new: NewValue) -> None:
        line, _ = start_of(entry.key)
        key_line, column = end_of(entry.key)
        if new is None:
            self._replace(line, self._last_line(entry) + 1, [])
        elif ":" not in self._lines[key_line][0][column:]:  # a key on a line of its own, after `?`
            self._replace(line, self._last_line(entry) + 1, _entry_lines(entry.key.value, new))
        elif isinstance(entry.first, SequenceStartEvent | MappingStartEvent) and not entry.first.flow_style:
            self._change_block(entry, old, new)
        elif isinstance(new, Mapping) and new:
            self._change_span_to_block(entry, new)
        else:
            self._change_span(entry, old, new)

    def _change_block(self, entry: HeaderEntry, old: Value, new: str | Sequence[str] | Mapping[str, str]) -> None:
        """Change a value that is written as indented lines below its key."""
        first, column = start_of(entry.first)
        after = self._last_line(entry) + 1
        if new and isinstance(new, Mapping):
            is_mapping = isinstance(entry.first, MappingStartEvent)
            indent = " " * column if is_mapping else self._indent_below(entry)
            self._replace(first, after, _mapping_lines(new, indent))
            return
        is_list_below = isinstance(entry.first, SequenceStartEvent)
        if new and not isinstance(new, str | Mapping) and isinstance(old, list) and is_list_below:
            self._replace(first, after, self._item_lines(entry, old, new, " " * column))
            return
        self._replace(first, after, [])
        line, column = end_of(entry.key)
        text = self._lines[line][0]
        colon = text.index(":", column) + 1
        self._replace(line, line + 1, [f"{text[:colon]} {_written(new)}{text[colon:]}"])

    def _item_lines(self, entry: HeaderEntry, old: list[Value], new: Sequence[str], indent: str) -> list[str]:
        """The lines of a block list; an item that was there keeps its own, with the comments above it."""
        written: dict[str, list[str]] = {}
        line, _ = start_of(entry.first)
        for value, (_, last) in zip(old, entry.items, strict=True):
            after = end_of(last)[0] + 1
            if isinstance(value, str) and isinstance(last, ScalarEvent) and last.style not in ("|", ">"):
                written.setdefault(value, [text for text, _ in self._lines[line:after]])
            line = after
        lines: list[str] = []
        for item in new:
            lines += written.get(item) or [f"{indent}- {_written_text(item)}"]
        return lines

    def _change_span_to_block(self, entry: HeaderEntry, new: Mapping[str, str]) -> None:
        """Put a mapping below the key in the place of a scalar or of something in brackets; a comment behind it stays."""
        line, column = start_of(entry.first)
        last_line, last_column = end_of(entry.last)
        before = self._lines[line][0][:column].rstrip()
        is_block_scalar = isinstance(entry.first, ScalarEvent) and entry.first.style in ("|", ">")
        after = "" if is_block_scalar else self._lines[last_line][0][last_column:].rstrip()
        texts = _mapping_lines(new, self._indent_below(entry))
        if before:
            texts.insert(0, before + after)
        else:  # the value stands on a line of its own below its key
            texts[-1] += after
        self._replace(line, self._last_line(entry) + 1, texts)

    def _indent_below(self, entry: HeaderEntry) -> str:
        return " " * (start_of(entry.key)[1] + _STEP)

    def _change_span(self, entry: HeaderEntry, old: Value, new: str | Sequence[str] | Mapping[str, str]) -> None:
        """Change a scalar or a list in brackets where it stands, and keep what follows it on its line."""
        line, column = start_of(entry.first)
        last_line, last_column = end_of(entry.last)
        before = self._lines[line][0][:column]
        is_block_scalar = isinstance(entry.first, ScalarEvent) and entry.first.style in ("|", ">")
        after = "" if is_block_scalar else self._lines[last_line][0][last_column:]
        text = self._written_over(entry, old, new)
        gap = " " if before.endswith(":") else ""
        self._replace(line, self._last_line(entry) + 1, [f"{before}{gap}{text}{after}"])

    def _written_over(self, entry: HeaderEntry, old: Value, new: str | Sequence[str] | Mapping[str, str]) -> str:
        if isinstance(new, str):
            return _written_text(new, entry.first if isinstance(entry.first, ScalarEvent) else None)
        written: dict[str, str] = {}
        if isinstance(old, list):
            for value, (first, last) in zip(old, entry.items, strict=True):
                (line, start), (last_line, end) = start_of(first), end_of(last)
                if isinstance(value, str) and line == last_line:
                    written[value] = self._lines[line][0][start:end]
        return _written(new, written)

    def _last_line(self, entry: HeaderEntry) -> int:
        line, column = end_of(entry.last)
        first, _ = start_of(entry.key)
        if column == 0 and line > first:  # a block scalar ends where the next line begins
            line -= 1
        while line > first and not self._lines[line][0].strip():
            line -= 1
        return line

    def _replace(self, start: int, end: int, texts: Sequence[str]) -> None:
        """Put `texts` in the place of the lines from `start` up to `end`, with their line ends as far as they go."""
        ends = [line_end for _, line_end in self._lines[start:end]]
        ends += [ends[-1] if ends else self._newline] * (len(texts) - len(ends))
        self._lines[start:end] = list(zip(texts, ends, strict=False))


def _as_value(value: str | Sequence[str] | Mapping[str, str]) -> Value:
    if isinstance(value, str):
        return value
    return dict(value) if isinstance(value, Mapping) else list(value)


def _is_change(old: Value | None, new: NewValue) -> bool:
    return old is not None if new is None else old != _as_value(new)


def _would_be_header(content: str) -> bool:
    try:
        return split_header(content)[0] is not None
    except DocumentProblem:
        return True


def _entry_lines(key: str, value: str | Sequence[str] | Mapping[str, str], indent: str = "") -> list[str]:
    """A field that is not there yet: one line, or for a mapping its key and a line for each entry below it."""
    if isinstance(value, Mapping) and value:
        return [f"{indent}{_written_key(key)}:", *_mapping_lines(value, indent + " " * _STEP)]
    return [f"{indent}{_written_key(key)}: {_written(value)}"]


def _mapping_lines(mapping: Mapping[str, str], indent: str) -> list[str]:
    return [f"{indent}{_written_key(key)}: {_written_text(value)}" for key, value in mapping.items()]


def _written(value: str | Sequence[str] | Mapping[str, str], known: Mapping[str, str] | None = None) -> str:
    """A value on one line, where a mapping must be empty; items of a list in their `known` spelling."""
    if isinstance(value, str):
        return _written_text(value)
    if isinstance(value, Mapping):
        return "{}"
    items = ((known or {}).get(item) or _written_text(item, in_brackets=True) for item in value)
    return f"[{', '.join(items)}]"


def _written_text(text: str, old: ScalarEvent | None = None, *, in_brackets: bool = False) -> str:
    """YAML on one line that reads back as `text`, here and with any other reader, in the quotes of `old` if possible.

    Without quotes only what other readers take for text too (not `no`, `2026-05-26`, `1.10`), unless `old` stood
    there in the same way.
    """
    frame = "k: [{}]\n" if in_brackets else "k: {}\n"
    value: Value = [text] if in_brackets else text
    single = "'" + text.replace("'", "''") + "'"
    style = old.style if old is not None else None
    candidates = []
    if style == "'":
        candidates.append(single)
    elif style != '"' and _PLAIN.fullmatch(text) and (_is_text(text) or (old is not None and _is_other_plain(old))):
        candidates.append(text)
    return next((one for one in candidates if _reads_as(frame.format(one), value)), _double_quoted(text))


def _written_key(key: str) -> str:
    is_plain = _PLAIN.fullmatch(key) and _is_text(key) and _reads_as(f"{key}: v\n", "v", key)
    return key if is_plain else _double_quoted(key)


def _is_text(plain: str) -> bool:
    """Whether YAML's usual rules take `plain`, without quotes, for text."""
    tag: str = _RESOLVER.resolve(yaml.ScalarNode, plain, (True, False))  # type: ignore[no-untyped-call]
    return tag == _TEXT_TAG


def _is_other_plain(scalar: ScalarEvent) -> bool:
    """Whether `scalar` stands without quotes and other readers take it for a number, a date or the like."""
    return scalar.implicit[0] and scalar.value != "" and not _is_text(scalar.value)


def _reads_as(header: str, value: Value, key: str = "k") -> bool:
    try:
        return read_header(header).fields == {key: value}
    except DocumentProblem:
        return False


def _double_quoted(text: str) -> str:
    return '"' + _TO_ESCAPE.sub(lambda match: _ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04x}", text) + '"'
