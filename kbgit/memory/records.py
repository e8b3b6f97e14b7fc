"""Records: what a memory is, and the Markdown file it is kept in.

    ---
    id: mem_5f1c9a0e6b2d47830c1e2f3a
    kind: working
    title: "Deploys: who to ask"
    tags: [deploy]
    author: ada
    client: cursor-plugin
    created_at: "2026-11-30T12:00:00Z"
    expires_at: "2026-12-14T12:00:00Z"
    ---
    Ask the harbour team before a deploy on Friday.

The header is one that kbgit's own strict parser reads; `title`, `tags`, `client` and `expires_at` may be absent. A file
is named after its record's id and lies in the directory of its project, which say the rest.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any

from kbgit.access import personal_space
from kbgit.base import BaseKey
from kbgit.errors import DocumentProblem, InvalidName, InvalidRequest, TooLarge
from kbgit.frontmatter import Header, decode, read_header, split_header
from kbgit.header_edit import NewValue, canonical_content, edit_file
from kbgit.revision import rfc3339

MOST_TAGS = 32
LONGEST_TAG = 64
LONGEST_TITLE = 300
LONGEST_CLIENT = 100

_ID = re.compile(r"mem_[0-9a-f]{24}")
_ID_BYTES = 12
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# Characters that show nothing and can carry or reorder words: tags, variation selectors of the supplement, bidirectional
# controls, zero-width spaces and joiners of words.
_HIDDEN = re.compile("[\U000e0000-\U000e007f\U000e0100-\U000e01ef\u202a-\u202e\u2066-\u2069\u200b\u2060-\u2064\ufeff]")


class MemoryKind(StrEnum):
    """How long a record is meant to last."""

    KNOWLEDGE = "knowledge"
    WORKING = "working"


@dataclass(frozen=True, slots=True, order=True)
class ProjectKey:
    """Names a project of a space: `personal:ada/harbour`. Spelled like the key of a base, and independent of bases."""

    space: str
    slug: str

    def __post_init__(self) -> None:
        BaseKey(self.space, "x")  # says what is wrong with a space
        try:
            BaseKey(self.space, self.slug)
        except InvalidName:
            raise InvalidName(
                f"{self.slug[:120]!r} cannot name a project: use a-z, 0-9, dot, underscore and dash, "
                "beginning and ending with a letter or digit, at most 100 characters"
            ) from None

    @classmethod
    def from_path(cls, space: str, name: str) -> ProjectKey:
        """Read the two last parts of a project's directory: `~ada`, `harbour`. Raises `InvalidName`."""
        return cls(BaseKey.from_path(space, "x.git").space, name)

    @property
    def relative_path(self) -> PurePosixPath:
        """`~ada/harbour` or `platform/harbour`."""
        return BaseKey(self.space, self.slug).relative_path

    def __str__(self) -> str:
        return f"{self.space}/{self.slug}"


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """Bounds of memory, and how long a working record lasts unless it says otherwise."""

    text_bytes: int = 64 * 1024
    records_per_project: int = 10_000
    working_seconds: int = 14 * 86_400
    longest_working_seconds: int = 366 * 86_400


@dataclass(frozen=True, slots=True)
class NewRecord:
    """What is to be remembered. Without `space` it goes to the caller's personal one.

    `client` names the program that remembers (`cursor-plugin`). `lifetime_seconds` is for working records alone.
    """

    project: str
    text: str
    kind: MemoryKind = MemoryKind.KNOWLEDGE
    space: str | None = None
    title: str = ""
    tags: Sequence[str] = ()
    client: str = ""
    lifetime_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    """A record as it is kept. Times are seconds since the epoch; a record without `expires_at` lasts until forgotten.

    `text` is the file's body as it was given, with LF as its line end; `digest` is the SHA-256 (hex) of the file.
    """

    id: str
    project: ProjectKey
    kind: MemoryKind
    text: str
    author: str
    created_at: int
    client: str = ""
    title: str = ""
    tags: tuple[str, ...] = ()
    expires_at: int | None = None
    digest: str = field(default="", compare=False)

    def is_expired(self, now: float) -> bool:
        """Whether its time is over: then it is not found any more, whether or not its file is still there."""
        return self.expires_at is not None and self.expires_at <= now

    @property
    def has_hidden_characters(self) -> bool:
        """Whether the text or title holds characters that no reader sees but a model reads."""
        return _HIDDEN.search(self.text) is not None or _HIDDEN.search(self.title) is not None

    def as_json(self, *, with_text: bool = True) -> dict[str, Any]:
        """The API's record object."""
        found: dict[str, Any] = {
            "id": self.id,
            "space": self.project.space,
            "project": self.project.slug,
            "kind": self.kind.value,
            "title": self.title,
            "tags": list(self.tags),
            "author": self.author,
            "client": self.client,
            "created_at": rfc3339(self.created_at),
            "expires_at": None if self.expires_at is None else rfc3339(self.expires_at),
            "hidden_characters": self.has_hidden_characters,
        }
        return {**found, "text": self.text} if with_text else found


@dataclass(frozen=True, slots=True)
class MemoryProblem:
    """A file of a project that is not what it should be: it is left out, and left alone."""

    project: ProjectKey
    file: str
    what: str
    line: int = 1

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "space": self.project.space,
            "project": self.project.slug,
            "file": self.file,
            "what": self.what,
            "line": self.line,
        }


def is_record_id(text: str) -> bool:
    """Whether `text` has the shape of a record's id."""
    return _ID.fullmatch(text) is not None


def new_record(new: NewRecord, author: str, now: float, limits: MemoryLimits) -> MemoryRecord:
    """`new` as a record of `author`, under an id of its own. Raises `InvalidRequest`, `InvalidName`, `TooLarge`."""
    text = canonical_content(new.text)
    if wrong := _UNSTORABLE.search(text):
        raise _wrong("text", f"holds a character that no document may have, U+{ord(wrong[0]):04X}; remove it")
    if not text.strip():
        raise _wrong("text", "is empty")
    if len(text.encode()) > limits.text_bytes:
        what = f"a record has at most {limits.text_bytes} bytes; a longer text is an item for a base"
        raise TooLarge(what, {"limit": limits.text_bytes})
    created_at = int(now)
    return MemoryRecord(
        id="mem_" + secrets.token_hex(_ID_BYTES),
        project=ProjectKey(new.space or personal_space(author), new.project),
        kind=new.kind,
        text=text,
        author=author,
        created_at=created_at,
        client=_line("client", new.client, LONGEST_CLIENT),
        title=_line("title", new.title, LONGEST_TITLE),
        tags=_tags(new.tags),
        expires_at=_expiry(new, created_at, limits),
    )


def _expiry(new: NewRecord, created_at: int, limits: MemoryLimits) -> int | None:
    lifetime = new.lifetime_seconds
    if new.kind is MemoryKind.KNOWLEDGE:
        if lifetime is not None:
            raise _wrong("lifetime_seconds", "is for working records; knowledge lasts until it is forgotten")
        return None
    if lifetime is not None and not 1 <= lifetime <= limits.longest_working_seconds:
        raise _wrong("lifetime_seconds", f"must be from 1 to {limits.longest_working_seconds}")
    return created_at + (limits.working_seconds if lifetime is None else lifetime)


def _tags(given: Sequence[str]) -> tuple[str, ...]:
    tags = tuple(dict.fromkeys(tag for one in given if (tag := _line("tags", one, LONGEST_TAG))))
    if len(tags) > MOST_TAGS:
        raise _wrong("tags", f"are more than {MOST_TAGS}")
    return tags


def _line(name: str, text: str, longest: int) -> str:
    """One line of printable text."""
    line = text.strip()
    if _CONTROL.search(line):
        raise _wrong(name, "holds a line end or a control character")
    if len(line) > longest:
        raise _wrong(name, f"is longer than {longest} characters")
    return line


def _wrong(name: str, why: str) -> InvalidRequest:
    return InvalidRequest(f"field `{name}` {why}", {"field": name})


# The file


def record_file(record: MemoryRecord) -> bytes:
    """The record as a file; `parse_record` reads the same record from it."""
    fields: dict[str, NewValue] = {
        "id": record.id,
        "kind": record.kind.value,
        "title": record.title or None,
        "tags": list(record.tags) or None,
        "author": record.author,
        "client": record.client or None,
        "created_at": rfc3339(record.created_at),
        "expires_at": None if record.expires_at is None else rfc3339(record.expires_at),
    }
    return edit_file(b"", fields, record.text)


def parse_record(raw: bytes, project: ProjectKey, record_id: str) -> MemoryRecord:
    """Read the file of the record `record_id`. Raises `DocumentProblem`."""
    text = decode(raw)
    header_text, body_start = split_header(text)
    if header_text is None:
        raise DocumentProblem("a record without front matter", mend="restore the file, or remove it")
    header = read_header(header_text)
    if _word(header, "id") != record_id:
        raise _problem(header, "id", "the id is not the file's name")
    body = text[body_start:].lstrip("\ufeff")
    if not body.strip():
        raise DocumentProblem("a record without text", line=header_text.count("\n") + 3, mend="remove the file")
    return MemoryRecord(
        id=record_id,
        project=project,
        kind=_kind(header),
        text=body,
        author=_required(header, "author"),
        created_at=_moment(header, "created_at"),
        client=_word(header, "client"),
        title=" ".join(_word(header, "title").split()),
        tags=_listed(header, "tags"),
        expires_at=_moment(header, "expires_at") if _word(header, "expires_at") else None,
        digest=hashlib.sha256(raw).hexdigest(),
    )


def _word(header: Header, key: str) -> str:
    value = header.fields.get(key, "")
    if not isinstance(value, str):
        raise _problem(header, key, f"`{key}` is not a plain text")
    return value.strip()


def _required(header: Header, key: str) -> str:
    word = _word(header, key)
    if not word:
        raise _problem(header, key, f"`{key}` is missing")
    return word


def _kind(header: Header) -> MemoryKind:
    word = _required(header, "kind")
    if word not in set(MemoryKind):
        raise _problem(header, "kind", f"unknown kind {word[:100]!r}", "use knowledge or working")
    return MemoryKind(word)


def _moment(header: Header, key: str) -> int:
    word = _required(header, key)
    mend = "write it like 2026-11-30T12:00:00Z"
    try:
        moment = datetime.fromisoformat(word)
        if moment.tzinfo is None:
            raise _problem(header, key, f"`{key}` is a time without its zone", mend)
        return int(moment.timestamp())
    except (ValueError, OverflowError):
        raise _problem(header, key, f"`{key}` is no time: {word[:100]!r}", mend) from None


def _listed(header: Header, key: str) -> tuple[str, ...]:
    value = header.fields.get(key, [])
    values = [value] if isinstance(value, str) else value
    if isinstance(values, dict) or not all(isinstance(one, str) for one in values):
        raise _problem(header, key, f"`{key}` is no list of words")
    return tuple(dict.fromkeys(word for one in values if isinstance(one, str) and (word := one.strip())))


def _problem(header: Header, key: str, what: str, mend: str = "") -> DocumentProblem:
    return DocumentProblem(what, line=header.line_of(key) if key in header.entries else 1, mend=mend)
