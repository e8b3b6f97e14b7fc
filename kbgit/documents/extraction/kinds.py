"""The kinds of documents that can be read: one line each, and one module each beside this one.

A new kind is a new module with a function `extract(file, limits)` and a line in `_KINDS`. Modules are loaded by name, so
that a process that reads one kind pays for the library of that kind alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path, PurePath
from typing import cast

from kbgit.documents.contract import Extracted, ExtractionFailed, ExtractionLimits, Extractor, Reason

_OFFICE = "application/vnd.openxmlformats-officedocument"
_ZIP = b"PK\x03\x04"
_EMPTY_ZIP = b"PK\x05\x06"
_PDF = b"%PDF-"
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_READ = 1024
"""Bytes; a PDF may begin with that much of something else."""
_FOREIGN = {
    b"MZ": "a Windows program",
    b"\x7fELF": "a Linux program",
    b"\xcf\xfa\xed\xfe": "a macOS program",
    b"#!": "a script",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"GIF8": "a picture",
    b"\x1f\x8b": "a compressed file",
    b"Rar!": "an archive",
    b"7z\xbc\xaf": "an archive",
    b"{\\rtf": "a document in rich text format",
    _PDF: "a PDF",
    _ZIP: "an office document or another zip archive",
    _OLE: "an office document of the format before 2007",
}


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of document: the suffix of its files, its media type, and the module that reads it."""

    suffix: str
    media_type: str
    module: str
    beginnings: tuple[bytes, ...]
    """What its files begin with, one of them. An encrypted office document begins like one from before 2007."""
    within: int = 0
    """How many bytes may stand before that."""

    def extractor(self) -> Extractor:
        """The function that reads this kind; loads its library."""
        return cast(Extractor, import_module(f"{__package__}.{self.module}").extract)


_OFFICE_BEGINNINGS = (_ZIP, _EMPTY_ZIP, _OLE)
_KINDS = (
    Kind(".pdf", "application/pdf", "pdf", (_PDF,), _READ),
    Kind(".docx", f"{_OFFICE}.wordprocessingml.document", "docx", _OFFICE_BEGINNINGS),
    Kind(".pptx", f"{_OFFICE}.presentationml.presentation", "pptx", _OFFICE_BEGINNINGS),
    Kind(".xlsx", f"{_OFFICE}.spreadsheetml.sheet", "xlsx", _OFFICE_BEGINNINGS),
)
KINDS = {kind.suffix: kind for kind in _KINDS}
"""By suffix, in lower case with its dot."""


def kind_of(name: str) -> Kind | None:
    """The kind that a file's name says it is, by its suffix in any case; None for any other."""
    return KINDS.get(PurePath(name).suffix.lower())


def check_beginning(kind: Kind, file: Path) -> None:
    """That the file's first bytes are those of its kind. Raises `ExtractionFailed` (corrupt) when they are not."""
    try:
        with file.open("rb") as opened:
            beginning = opened.read(_READ)
    except OSError as error:
        raise ExtractionFailed(Reason.CORRUPT, "The file could not be read.") from error
    if not beginning:
        raise ExtractionFailed(Reason.CORRUPT, "The file is empty.")
    if any(-1 < beginning.find(bytes_) <= kind.within for bytes_ in kind.beginnings):
        return
    named = f"Its name ends in {kind.suffix}"
    for bytes_, what in _FOREIGN.items():
        if beginning.startswith(bytes_):
            raise ExtractionFailed(Reason.CORRUPT, f"{named}, but the file is {what}.")
    raise ExtractionFailed(Reason.CORRUPT, f"{named}, but the file does not begin like one.")


def extract(kind: Kind, file: Path, limits: ExtractionLimits) -> Extracted:
    """The text of a file of this kind, its first bytes checked. Raises `ExtractionFailed`."""
    check_beginning(kind, file)
    return kind.extractor()(file, limits)
