"""A document on its way from upload to item, and what is told of it."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from typing import Any

from kbgit.citation import Citation
from kbgit.documents.contract import Reason, State
from kbgit.importing import SourceFile
from kbgit.revision import Via, rfc3339


@dataclass(frozen=True, slots=True)
class NewDocument:
    """An upload that was admitted: `source` as it arrived, and where its item is to go."""

    base: str
    uploader: str
    source: SourceFile
    folder: str
    locator: str
    replace: bool
    via: Via


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """A document as stored. Times are seconds since the epoch.

    `number` is its place in the queue and is told to nobody, because it counts what others uploaded. `reason` and `detail`
    are given where it failed, `item_id` and `revision` where it is ready; `notes` say what could not be kept.
    """

    number: int
    id: str
    base: str
    uploader: str
    via: Via
    source: SourceFile
    folder: str
    locator: str
    replace: bool
    state: State
    reason: Reason | None
    detail: str
    attempts: int
    item_id: str | None
    revision: str | None
    notes: tuple[str, ...]
    created_at: int
    updated_at: int

    @classmethod
    def of(cls, row: sqlite3.Row) -> DocumentRow:
        """A row of the table `documents`."""
        return cls(
            number=row["number"],
            id=row["id"],
            base=row["base"],
            uploader=row["uploader"],
            via=Via(row["via"]),
            source=SourceFile(row["name"], row["media_type"], row["size"], row["sha256"]),
            folder=row["folder"],
            locator=row["locator"],
            replace=bool(row["replace"]),
            state=State(row["state"]),
            reason=Reason(row["reason"]) if row["reason"] else None,
            detail=row["detail"],
            attempts=row["attempts"],
            item_id=row["item"],
            revision=row["revision"],
            notes=tuple(json.loads(row["notes"])),
            created_at=row["created_at"],
            updated_at=row["updated_at"],
        )

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        cited = Citation(self.item_id, self.revision) if self.item_id and self.revision else None
        return {
            "type": "document",
            "id": self.id,
            "base": self.base,
            "name": self.source.name,
            "folder": self.folder,
            "media_type": self.source.media_type,
            "size": self.source.size,
            "sha256": self.source.sha256,
            "locator": self.locator,
            "replace": self.replace,
            "uploaded_by": self.uploader,
            "state": self.state.value,
            "reason": self.reason.value if self.reason else None,
            "detail": self.detail or None,
            "notes": list(self.notes),
            "attempts": self.attempts,
            "knowledge_item_id": self.item_id,
            "knowledge_revision_id": self.revision,
            "reference": cited.reference if cited else None,
            "created_at": rfc3339(self.created_at),
            "updated_at": rfc3339(self.updated_at),
        }


@dataclass(frozen=True, slots=True)
class DocumentEvent:
    """A document came into a state, at a time in seconds since the epoch. `number` orders events and is told to nobody."""

    number: int
    document: str
    base: str
    state: State
    at: int

    def as_json(self) -> dict[str, str]:
        """JSON-ready."""
        return {"document": self.document, "base": self.base, "state": self.state.value, "at": rfc3339(self.at)}
