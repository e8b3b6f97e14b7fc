"""What the memory store answers with: frozen values that turn themselves into the JSON of the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kbgit.memory.files import Contents
from kbgit.memory.records import MemoryKind, MemoryProblem, MemoryRecord, ProjectKey
from kbgit.revision import rfc3339


@dataclass(frozen=True, slots=True)
class RecordPage:
    """A page of records, newest first; `cursor` asks for the next, None at the end. `problems` are unreadable files."""

    records: Sequence[MemoryRecord]
    cursor: str | None
    problems: Sequence[MemoryProblem]

    def as_json(self) -> dict[str, Any]:
        """The API's answer."""
        return {
            "type": "memory_records",
            "records": [record.as_json() for record in self.records],
            "cursor": self.cursor,
            "problems": [problem.as_json() for problem in self.problems],
        }


@dataclass(frozen=True, slots=True)
class ProjectView:
    """A project: how many records of each kind it has, the references linked to it, when it was last written to."""

    key: ProjectKey
    counts: Mapping[MemoryKind, int]
    documents: tuple[str, ...]
    last_at: int | None
    problems: Sequence[MemoryProblem]

    @classmethod
    def of(cls, key: ProjectKey, contents: Contents) -> ProjectView:
        """The view of a project that holds `contents`."""
        records = contents.records.values()
        counts = {kind: sum(record.kind is kind for record in records) for kind in MemoryKind}
        last_at = max((record.created_at for record in records), default=None)
        return cls(key, counts, contents.documents, last_at, contents.problems)

    def as_json(self) -> dict[str, Any]:
        """The API's project object."""
        return {
            "type": "memory_project",
            "space": self.key.space,
            "project": self.key.slug,
            "records": {kind.value: count for kind, count in self.counts.items()},
            "documents": list(self.documents),
            "last_at": None if self.last_at is None else rfc3339(self.last_at),
            "problems": [problem.as_json() for problem in self.problems],
        }
