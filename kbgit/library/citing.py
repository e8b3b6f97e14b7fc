"""Citations in running text, the lines that they mean, and the hash of what they quote."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kbgit.citation import SCHEME
from kbgit.errors import InvalidRequest

LARGEST_FILE = 5_000_000
"""Bytes of a file that is searched for citations; larger ones are no prose."""

_SKIPPED_DIRECTORIES = frozenset({"node_modules", "__pycache__"})
# Where a citation ends in running text. Between backticks, double quotes or angle brackets it may contain anything else.
_ENDS = r"\s\x00-\x1f\x7f()\[\]{}<>`\"'“”‘’„«»「」『』"
_DELIMITED = re.compile(
    rf'`({SCHEME}[^`\x00-\x1f\x7f]+)`|"({SCHEME}[^"\x00-\x1f\x7f]+)"|<({SCHEME}[^<>\x00-\x1f\x7f]+)>'
    rf"|(?<![A-Za-z0-9_-])({SCHEME}[^{_ENDS}]+)"
)
_RUN = re.compile(rf"[^{_ENDS}]+")
# A revision, or what was meant as one (too short, too long, in capitals), and the lines after it.
_REVISION = re.compile(r"@[0-9A-Fa-f]{7,}(?![0-9A-Za-z_@])(?:#L[0-9](?:[0-9L-]*[0-9])?)?")


@dataclass(frozen=True, slots=True)
class FoundCitation:
    """A citation's text and its place: `line` from 1, `offset` in characters from the beginning of the text.

    It has a revision, but may be malformed (a SHA cut short, lines that end before they start): verifying says so.
    """

    text: str
    line: int
    offset: int


@dataclass(frozen=True, slots=True)
class FileCitation:
    """A citation found in a file."""

    path: Path
    line: int
    text: str


def content_lines(content: str) -> list[str]:
    """The lines that citations count: those of canonical content, as Git counts them, but at least one."""
    lines = content.split("\n")
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    return lines


def quote_hash(text: str) -> str:
    """`sha256:` and the hex digest of quoted lines in UTF-8, joined by LF, without one at the end."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def find_citations(text: str) -> Iterator[FoundCitation]:
    """The citations with a revision in Markdown or plain text, in order.

    One ends at a blank, a quotation mark, a bracket or a backtick, and the punctuation after it is no part of it; an id
    that contains such characters is found where backticks, double quotes or angle brackets stand around the citation.
    What has no revision (`knowledge:read`) is too much like other words to be taken for a citation. Linear in `text`.
    """
    line, counted = 1, 0
    for match in _DELIMITED.finditer(text):
        piece, offset = match[match.lastindex or 0], match.start(match.lastindex or 0)
        for start, end in _within(piece, is_plain=match.lastindex == 4):
            line += text.count("\n", counted, offset + start)
            counted = offset + start
            yield FoundCitation(piece[start:end], line, counted)


def _within(piece: str, *, is_plain: bool) -> Iterator[tuple[int, int]]:
    """Where in a piece of text that begins with the scheme the citations are."""
    if not is_plain:
        revisions = [match.end() for match in _REVISION.finditer(piece)]
        if revisions == [len(piece)]:
            yield 0, len(piece)
            return
    for run in _RUN.finditer(piece):
        begin = run.start()
        for revision in _REVISION.finditer(piece, run.start(), run.end()):
            start = piece.find(SCHEME, begin, revision.start())
            if 0 <= start < revision.start() - len(SCHEME):
                yield start, revision.end()
            begin = revision.end()


def citations_below(path: Path) -> Iterator[FileCitation]:
    """The citations in a file, or in the text files below a directory, by path.

    Below a directory hidden, linked, binary and very large files are left out. Raises `InvalidRequest` for what cannot
    be read.
    """
    for file in _files(path):
        try:
            raw = file.read_bytes()
        except OSError as error:
            raise InvalidRequest(f"{file} cannot be read: {error.strerror}", {"path": str(file)}) from error
        if file != path and b"\x00" in raw:
            continue
        for found in find_citations(raw.decode("utf-8", "replace")):
            yield FileCitation(file, found.line, found.text)


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return

    def refuse(error: OSError) -> None:
        raise InvalidRequest(f"{error.filename} cannot be read: {error.strerror}", {"path": str(error.filename)})

    for directory, directories, names in os.walk(path, onerror=refuse):
        directories[:] = sorted(
            name for name in directories if not name.startswith(".") and name not in _SKIPPED_DIRECTORIES
        )
        for name in sorted(names):
            file = Path(directory, name)
            is_plain = not name.startswith(".") and not file.is_symlink() and file.is_file()
            if is_plain and file.stat().st_size <= LARGEST_FILE:
                yield file
