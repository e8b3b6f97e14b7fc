"""What the parts of document extraction agree on: states, reasons, limits, and what an extractor gives."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol


class State(StrEnum):
    """Where a document is on its way."""

    QUEUED = "queued"
    EXTRACTING = "extracting"
    READY = "ready"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Whether nothing more happens by itself."""
        return self in (State.READY, State.FAILED, State.CANCELLED)


class Reason(StrEnum):
    """Why a document failed."""

    ENCRYPTED = "encrypted"
    NO_TEXT_LAYER = "no_text_layer"
    CORRUPT = "corrupt"
    """Truncated, damaged, or not of the kind that its name says."""
    TOO_LARGE = "too_large"
    """A limit was met: bytes, memory, members, nesting, ratio or output."""
    TIMEOUT = "timeout"
    REFUSED = "refused"
    """The extracted text could not be stored: the name is taken, or the right was taken away meanwhile."""
    CRASHED = "crashed"
    """The worker died more often than it is tried again."""


@dataclass(frozen=True, slots=True)
class ExtractionLimits:
    """What one extraction may use. Sizes are in bytes."""

    seconds: float = 60.0
    memory: int = 1 << 30
    output: int = 8 << 20
    """Of the Markdown made; also of all that a worker may write."""
    members: int = 10_000
    """Files in an office document, which is a zip archive."""
    unpacked: int = 256 << 20
    """All members of an archive together."""
    ratio: int = 200
    """Unpacked size of a member to its packed size, for members above one MiB."""
    nesting: int = 64
    """Elements, tables or lists inside one another."""
    pages: int = 5_000
    cells: int = 500_000
    """Of a spreadsheet, counting what its sheets say they span only where something is in it."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """What an extractor made of a document.

    `markdown` is canonical (LF, no front matter). Pages, slides and sheets are marked by a line of their own before what
    is on them, as `kbgit.place` writes it. `title` is the document's own or its first heading's, None without.
    `notes` are sentences for the uploader: what could not be kept.
    """

    markdown: str
    title: str | None = None
    notes: tuple[str, ...] = ()


class ExtractionFailed(Exception):
    """An extractor's own, only way to fail; `detail` is one sentence for the uploader and holds nothing of the content."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class Extractor(Protocol):
    """Reads one kind of document. A module `kbgit.documents.extraction.<kind>` has a function of this shape."""

    def __call__(self, file: Path, limits: ExtractionLimits) -> Extracted:
        """The document's text. Raises `ExtractionFailed`; anything else it raises is a worker's crash."""
        ...
