"""Items: what one Markdown file says about itself, and its canonical content."""

from __future__ import annotations

import hashlib
import html
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from io import StringIO

from kbgit.errors import DocumentProblem
from kbgit.frontmatter import Header, Value, decode, read_header, split_header, start_of
from kbgit.header_edit import NewValue, edit_file

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_NULLS = ("~", "null", "Null", "NULL")
_OWN_FIELDS = frozenset({"id", "title", "status", "tags", "description"})

_LONGEST_HEADING = 500
_FENCE = re.compile(r" {0,3}(?:(`{3,})[^`]*|(~{3,}).*)")
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*")
_CONTAINER = re.compile(r" {0,3}(?:[>|<]|[-+*](?:[ \t]|$)|\d{1,9}[.)](?:[ \t]|$))")

_MARKUP = re.compile(r"[\\`*_\[<&~]")
_LITERAL = re.compile(r"\\([!-/:-@\[-`{-~])|(?<!`)(`+)(?!`)(.+?)(?<!`)\2(?!`)")
_LINK = re.compile(r"!?\[([^\[\]]*)\](?:\([^()]*\)|\[[^\[\]]*\])")
_AUTOLINK = re.compile(r"<([A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*)>")
_TAG = re.compile(
    r"</?(?:a|abbr|b|br|code|del|em|i|img|ins|kbd|mark|s|small|span|strong|sub|sup|u|var)(?:\s[^<>]*)?/?>",
    re.IGNORECASE,
)
_STARS = re.compile(r"(\*{1,3})(?=[^\s*])(.+?)(?<=[^\s*])\1")
_UNDERSCORES = re.compile(r"(?<!\w)(_{1,3})(?=[^\s_])(.+?)(?<=[^\s_])\1(?!\w)")
_STRIKE = re.compile(r"(~~)(?=\S)(.+?)(?<=\S)\1")
_SET_ASIDE = re.compile("\x00([0-9]+)\x00")


class ItemStatus(StrEnum):
    """Where an item stands: seen by its writers only, by every reader, or by pinned citations only."""

    DRAFT = "draft"
    PUBLISHED = "published"
    ARCHIVED = "archived"


# The Open Knowledge Format says `stable` and `deprecated`.
_STATUS_WORDS = {
    **{status.value: status for status in ItemStatus},
    "stable": ItemStatus.PUBLISHED,
    "deprecated": ItemStatus.ARCHIVED,
}


@dataclass(frozen=True, slots=True)
class Document:
    """One parsed file.

    `fields` are all front matter fields, their text exactly as typed (an empty value is ""), `field_lines` the 1-based
    line of the file on which each stands. `content` is the canonical content: the body after the front matter, with LF
    and without byte order mark; it starts on line `body_line` of the file. `explicit_id`, `status` and `title` are None
    where the file says nothing: then the path, the base's default and the file name decide. `title` is the front
    matter's, else the first heading's. `metadata` are the fields that kbgit gives no meaning.
    """

    fields: Mapping[str, Value]
    field_lines: Mapping[str, int]
    content: str
    body_line: int
    explicit_id: str | None
    status: ItemStatus | None
    title: str | None
    tags: tuple[str, ...]
    description: str
    metadata: Mapping[str, Value]

    @property
    def content_hash(self) -> str:
        """`sha256:` and the hex digest of the canonical content in UTF-8."""
        return f"sha256:{hashlib.sha256(self.content.encode()).hexdigest()}"


def parse_document(raw: bytes) -> Document:
    """Read a file. Raises `DocumentProblem`, the first one there is, with the line of the file."""
    text = decode(raw)
    if "<<<<<<< " in text:
        _refuse_conflict_markers(text)
    header_text, body_start = split_header(text)
    content = text[body_start:].lstrip("\ufeff") if body_start else text
    if header_text is None:
        return Document({}, {}, content, 1, None, None, first_heading(content), (), "", {})
    header = read_header(header_text)
    return Document(
        fields=header.fields,
        field_lines={key: header.line_of(key) for key in header.fields},
        content=content,
        body_line=header_text.count("\n") + 3,
        explicit_id=_explicit_id(header),
        status=_status(header),
        title=" ".join(_text(header, "title").split("\n")).strip() or first_heading(content),
        tags=_tags(header),
        description=_text(header, "description").strip(),
        metadata={key: value for key, value in header.fields.items() if key not in _OWN_FIELDS},
    )


def edit_document(raw: bytes, fields: Mapping[str, NewValue], content: str | None = None) -> bytes:
    """The file with `fields` set (None removes one) and, unless it is None, its body replaced by `content`.

    Only bytes of what is named change; see `kbgit.header_edit`. Raises `DocumentProblem` when the present file cannot
    be read, or when the edited one would not be an item (an unknown status, say).
    """
    edited = edit_file(raw, fields, content)
    parse_document(edited)
    return edited


def item_id(document: Document, base_slug: str, path: str) -> str:
    """The id of the item at `path` (within its base, with `/`): its own, else `<base>/<path without .md>` in NFC."""
    if document.explicit_id is not None:
        return document.explicit_id
    return f"{base_slug}/{unicodedata.normalize('NFC', _without_suffix(path))}"


def title_of(document: Document, path: str) -> str:
    """The title, which for a file that has none is its name without `.md`."""
    return document.title or unicodedata.normalize("NFC", _without_suffix(path.rpartition("/")[2]))


def _without_suffix(path: str) -> str:
    return path[:-3] if path.lower().endswith(".md") else path


def _text(header: Header, key: str) -> str:
    value = header.fields.get(key, "")
    if not isinstance(value, str):
        shape = "a list" if isinstance(value, list) else "a mapping"
        raise _field_problem(header, key, f"`{key}` is {shape}, not text", f'write {key}: "…", with quotes')
    return value


def _word(header: Header, key: str) -> str:
    """A field that is one word: there YAML's null means that nothing is given."""
    word = _text(header, key).strip()
    return "" if word in _NULLS else word


def _explicit_id(header: Header) -> str | None:
    word = _word(header, "id")
    if word and not _ID.fullmatch(word):
        mend = "use letters, digits, `.`, `_`, `-`, at most 128, beginning with a letter or digit"
        raise _field_problem(header, "id", f"an id with forbidden characters, {word[:200]!r}", mend)
    return word or None


def _status(header: Header) -> ItemStatus | None:
    word = _word(header, "status")
    if word and word not in _STATUS_WORDS:
        suggestion = _STATUS_WORDS.get(word.lower())
        mend = f"write status: {suggestion}" if suggestion else "use draft, published or archived"
        raise _field_problem(header, "status", f"unknown status {word[:200]!r}", mend)
    return _STATUS_WORDS.get(word)


def _tags(header: Header) -> tuple[str, ...]:
    value = header.fields.get("tags", "")
    words = _word(header, "tags").split(",") if isinstance(value, str) else value
    if isinstance(words, dict) or not all(isinstance(word, str) for word in words):
        raise _field_problem(header, "tags", "`tags` is no list of words", "write tags: [one, two]")
    return tuple(dict.fromkeys(tag for word in words if isinstance(word, str) and (tag := word.strip())))


def _field_problem(header: Header, key: str, what: str, mend: str) -> DocumentProblem:
    _, column = start_of(header.entries[key].first)
    return DocumentProblem(what, line=header.line_of(key), column=column + 1, mend=mend)


def _refuse_conflict_markers(text: str) -> None:
    """Raise `DocumentProblem` if all three of Git's conflict markers stand at line starts outside fences, in order."""
    first = seen = 0
    for number, line in lines_outside_fences(text):
        if line.startswith("<<<<<<< "):
            first, seen = number, 1
        elif seen == 1 and line == "=======":
            seen = 2
        elif seen == 2 and line.startswith(">>>>>>> "):
            raise DocumentProblem("a merge conflict that is not resolved", line=first, mend="keep what is right of it")


def lines_outside_fences(text: str) -> Iterator[tuple[int, str]]:
    """The lines of Markdown, numbered from 1, that are in no fenced code block and no HTML comment."""
    closing: str | None = None
    for number, ended in enumerate(StringIO(text, newline="\n"), 1):
        line = ended[:-1] if ended.endswith("\n") else ended
        if closing == "-->":
            closing = None if "-->" in line else closing
        elif closing is not None:
            stripped = line.strip()
            if stripped.startswith(closing) and not stripped.strip(closing[0]) and _FENCE.match(line):
                closing = None
        elif fence := _FENCE.fullmatch(line):
            closing = fence[1] or fence[2]
        elif line.lstrip(" ").startswith("<!--") and "-->" not in line:
            closing = "-->"
        else:
            yield number, line


def first_heading(content: str) -> str | None:
    """The text of the first heading, `#` or underlined, that has any; None without one."""
    paragraph: list[str] = []
    in_container = False  # where a line of dashes underlines nothing
    for _, line in lines_outside_fences(content):
        if atx := atx_heading(line):
            if atx[1]:
                return atx[1]
            paragraph = []
        elif not line or line.isspace():
            paragraph, in_container = [], False
        elif paragraph and _UNDERLINE.fullmatch(line):
            if text := heading_text(" ".join(paragraph)):
                return text
            paragraph = []
        elif in_container or _CONTAINER.match(line):
            in_container = True
            paragraph = []
        elif paragraph or not line.startswith(("    ", "\t")):
            paragraph.append(line.strip()[:_LONGEST_HEADING])
    return None


def atx_heading(line: str) -> tuple[int, str] | None:
    """Level (1 to 6) and text of a heading line `## Text ##`; None for any other line."""
    match = _ATX.fullmatch(line)
    if match is None:
        return None
    text = (match[2] or "").rstrip()
    bare = text.rstrip("#")
    if not bare or bare[-1] in " \t":
        text = bare.rstrip()
    return len(match[1]), heading_text(text)


def heading_text(markdown: str) -> str:
    """A heading's text without inline markup, on one line, at most 500 characters long."""
    text = markdown[:_LONGEST_HEADING]
    if _MARKUP.search(text):
        text = _without_markup(text)
    return " ".join(text.split())


def _without_markup(text: str) -> str:
    literals: list[str] = []

    def set_aside(match: re.Match[str]) -> str:
        literals.append(match[1] or match[3])
        return f"\x00{len(literals) - 1}\x00"

    text = _LITERAL.sub(set_aside, text.replace("\x00", ""))
    text = _LINK.sub(r"\1", _LINK.sub(r"\1", text))  # twice: an image may be a link's text
    text = _TAG.sub("", _AUTOLINK.sub(r"\1", text))
    for emphasis in (_STARS, _UNDERSCORES, _STRIKE):
        text = emphasis.sub(r"\2", text)
    return _SET_ASIDE.sub(lambda match: literals[int(match[1])], html.unescape(text))
