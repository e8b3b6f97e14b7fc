"""What an office document must be before a library opens it: a modest zip archive of modest XML.

Everything is measured, nothing believed: members are inflated, and counted while they are; XML is read to its end by a
parser that keeps nothing. What passes cannot grow in a library's hands, names no file outside and resolves no entity.
"""

from __future__ import annotations

import mmap
import re
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO
from xml.parsers import expat

from kbgit.documents.contract import ExtractionFailed, ExtractionLimits, Reason

FORMULA_WITH_VALUE = "f v"
"""Counts the formulas of a sheet that have a value beside them."""
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED_PACKAGE = "EncryptedPackage".encode("utf-16-le")
_END_OF_DIRECTORY = b"PK\x05\x06"
_LONGEST_COMMENT = 65_535
_END_RECORD = struct.Struct("<4s4H2LH")
_BYTES_A_MEMBER = 1024
"""Of the directory, at most, on average: a name and the fields beside it."""
_CHUNK = 64 << 10
_SMALL = 1 << 20
"""Bytes; a member below that may be packed however well."""
_ENCRYPTED = 0x1
_ARCHIVES = (b"PK\x03\x04", b"PK\x05\x06", b"Rar!", b"7z\xbc\xaf\x27\x1c", b"\x1f\x8b\x08", b"BZh", b"\xfd7zXZ\x00")
_MAY_HOLD_FILES = re.compile(r"(?:^|/)(?:embeddings|media|activeX|fonts|thumbnail)[^/]*(?:/|$)", re.IGNORECASE)
"""Where office programs put embedded files. They are never opened here."""
_XML_NAMES = (".xml", ".rels")
_XML_BEGINNING = re.compile(rb"(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)?[\s\x00]*<")
_EBCDIC_XML = b"\x4c\x6f\xa7\x94"
_DRIVE = re.compile(r"[A-Za-z]:")


@dataclass(slots=True)
class Contents:
    """What an archive holds."""

    names: tuple[str, ...]
    embedded: int = 0
    """Files embedded in the document, which are not read."""
    elements: dict[str, Counter[str]] = field(default_factory=dict)
    """By XML member: how often each element occurs, by its name as written; of `FORMULA_WITH_VALUE`, both together."""


def check(file: Path, limits: ExtractionLimits) -> Contents:
    """What is in the office document `file`. Raises `ExtractionFailed` when it is no document that a library may open."""
    _check_directory(file, limits)
    try:
        with zipfile.ZipFile(file) as opened:
            return _check_members(opened, limits)
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, OSError, struct.error) as error:
        raise ExtractionFailed(Reason.CORRUPT, "The file is damaged or ends too early.") from error
    except (NotImplementedError, RuntimeError) as error:
        if isinstance(error, RecursionError):
            raise
        raise ExtractionFailed(
            Reason.CORRUPT, "The file is packed in a way that office programs do not write."
        ) from error


def _check_directory(file: Path, limits: ExtractionLimits) -> None:
    """Looks at the end of the file, so that a list of a million members is never read."""
    with file.open("rb") as opened:
        if opened.read(len(_OLE)) == _OLE:
            _refuse_ole(opened)
        size = opened.seek(0, 2)
        opened.seek(max(0, size - _LONGEST_COMMENT - _END_RECORD.size))
        tail = opened.read()
    at = tail.rfind(_END_OF_DIRECTORY)
    if at < 0 or at + _END_RECORD.size > len(tail):
        raise ExtractionFailed(Reason.CORRUPT, "The file is damaged or ends too early.")
    _, _, _, _, count, length, _, _ = _END_RECORD.unpack_from(tail, at)
    if count > limits.members or min(length, size) > limits.members * _BYTES_A_MEMBER:
        raise _too_many(limits)


def _too_many(limits: ExtractionLimits) -> ExtractionFailed:
    return ExtractionFailed(Reason.TOO_LARGE, f"The file is an archive of more than {limits.members:,} members.")


def _refuse_ole(opened: IO[bytes]) -> None:
    with mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        encrypted = content.find(_ENCRYPTED_PACKAGE) >= 0
    if encrypted:
        raise ExtractionFailed(Reason.ENCRYPTED, "The document is encrypted; save it without a password.")
    raise ExtractionFailed(
        Reason.CORRUPT, "The file is an office document of the format before 2007; save it in the present one."
    )


def _check_members(opened: zipfile.ZipFile, limits: ExtractionLimits) -> Contents:
    members = opened.infolist()
    if len(members) > limits.members:
        raise _too_many(limits)
    _check_names(members)
    if any(member.flag_bits & _ENCRYPTED for member in members):
        raise ExtractionFailed(Reason.ENCRYPTED, "The document is encrypted; save it without a password.")
    contents = Contents(tuple(member.filename for member in members))
    total = 0
    for member in members:
        if not member.is_dir():
            total += _check_member(opened, member, contents, limits, limits.unpacked - total)
    return contents


def _check_names(members: list[zipfile.ZipInfo]) -> None:
    seen: set[str] = set()
    for member in members:
        name = member.orig_filename.replace("\\", "/")
        if name.startswith("/") or _DRIVE.match(name) or ".." in name.split("/") or "\x00" in name:
            raise ExtractionFailed(Reason.CORRUPT, "The file holds a member whose name leads out of it.")
        folded = name.casefold()
        if folded in seen:
            raise ExtractionFailed(Reason.CORRUPT, "The file holds two members of the same name.")
        seen.add(folded)


def _check_member(
    opened: zipfile.ZipFile, member: zipfile.ZipInfo, contents: Contents, limits: ExtractionLimits, room: int
) -> int:
    """Inflates one member, in pieces. Gives its size in bytes."""
    size = 0
    reader: _XmlReader | None = None
    packed = max(member.compress_size, 1)
    for chunk in _chunks(opened, member):
        if not size:
            reader = _reader_for(member.filename, chunk, limits)
            if chunk.startswith(_ARCHIVES):
                if not _MAY_HOLD_FILES.search(member.filename):
                    raise ExtractionFailed(Reason.TOO_LARGE, "The file is an archive that holds further archives.")
                contents.embedded += 1
        size += len(chunk)
        if size > room:
            raise ExtractionFailed(
                Reason.TOO_LARGE, f"The document unpacks to more than the limit of {limits.unpacked:,} bytes."
            )
        if size > _SMALL and size > packed * limits.ratio:
            raise ExtractionFailed(
                Reason.TOO_LARGE, f"The document holds a part that unpacks to more than {limits.ratio} times its size."
            )
        if reader:
            reader.feed(chunk)
    if reader:
        reader.close()
        contents.elements[member.filename] = reader.elements
    elif not size and member.filename.lower().endswith(_XML_NAMES):
        raise _not_xml()
    return size


def _chunks(opened: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[bytes]:
    with opened.open(member) as stream:
        while chunk := stream.read(_CHUNK):
            yield chunk


def _not_xml() -> ExtractionFailed:
    return ExtractionFailed(Reason.CORRUPT, "The document is damaged: a part of it is not the XML that it should be.")


def _reader_for(name: str, beginning: bytes, limits: ExtractionLimits) -> _XmlReader | None:
    if beginning.startswith(_EBCDIC_XML):
        raise _not_xml()
    named = name.lower().endswith(_XML_NAMES)
    return _XmlReader(limits, strict=named) if named or _XML_BEGINNING.match(beginning) else None


class _XmlReader:
    """Reads XML and keeps only counts. `strict` for what must be XML; other parts may be pages of HTML and the like.

    A document type declaration is refused: it is what entities come from. In other parts, one that names a type and
    declares nothing may stand, as pictures in SVG begin with it.
    """

    def __init__(self, limits: ExtractionLimits, *, strict: bool) -> None:
        self.elements: Counter[str] = Counter()
        self._limit = limits.nesting * _XML_DEPTH_OF_A_LEVEL
        self._strict = strict
        self._depth = 0
        self._last = ""
        self._given_up = False
        self._parser = expat.ParserCreate()
        self._parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.StartDoctypeDeclHandler = self._doctype

    def feed(self, chunk: bytes, final: bool = False) -> None:
        """Reads on."""
        if self._given_up:
            return
        try:
            self._parser.Parse(chunk, final)
        except (expat.ExpatError, ValueError, LookupError) as error:
            if self._strict:
                raise _not_xml() from error
            self._given_up = True

    def close(self) -> None:
        """The part has ended."""
        self.feed(b"", final=True)

    def _start(self, name: str, _: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > self._limit:
            raise ExtractionFailed(Reason.TOO_LARGE, "The document's parts are nested too deeply.")
        self.elements[name] += 1
        if name == "v" and self._last == "f":
            self.elements[FORMULA_WITH_VALUE] += 1
        self._last = name

    def _end(self, _: str) -> None:
        self._depth -= 1

    def _doctype(self, _: str, __: str | None, ___: str | None, internal: bool) -> None:
        if self._strict or internal:
            raise ExtractionFailed(
                Reason.CORRUPT, "The document declares entities of its own, which no office program writes."
            )


_XML_DEPTH_OF_A_LEVEL = 4
"""A table in a cell, or a shape in a group, is a few elements deeper."""

_LIBRARY_FAILURES: tuple[type[Exception], ...] = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    OSError,
    SyntaxError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What libraries raise on a document that lies about itself. Not MemoryError and RecursionError, which are limits met."""


@contextmanager
def damaged_when_a_library_fails(*more: type[Exception]) -> Iterator[None]:
    """Turns what a library raises on a damaged document, and `more`, into `ExtractionFailed` (corrupt)."""
    try:
        yield
    except (*_LIBRARY_FAILURES, *more) as error:
        raise ExtractionFailed(Reason.CORRUPT, "The document is damaged: its parts do not fit together.") from error


def notes_on(contents: Contents, read: int = 0) -> tuple[str, ...]:
    """What the uploader should know of an archive's contents. Of `read` embedded files the text is there."""
    unread = contents.embedded - read
    if unread <= 0:
        return ()
    number = "1 embedded file was" if unread == 1 else f"{unread} embedded files were"
    return (f"{number} not read.",)
