"""Memory taken out: as JSON for programs, as one Markdown document for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kbgit.memory.records import MemoryProblem, MemoryRecord, ProjectKey
from kbgit.revision import rfc3339

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class ExportedProject:
    """A project with everything in it: its records, oldest first, and the references of its linked documents."""

    key: ProjectKey
    records: Sequence[MemoryRecord]
    documents: Sequence[str]


@dataclass(frozen=True, slots=True)
class MemoryExport:
    """What was asked for, as of `exported_at` (seconds since the epoch). `problems` are files that it lacks."""

    exported_at: int
    projects: Sequence[ExportedProject]
    problems: Sequence[MemoryProblem]

    def as_json(self) -> dict[str, Any]:
        """`{"type": "memory_export", "version", "exported_at", "projects": [{"space", "project", "documents", "records"}],
        "problems"}`; records are those of the API."""
        return {
            "type": "memory_export",
            "version": FORMAT_VERSION,
            "exported_at": rfc3339(self.exported_at),
            "projects": [
                {
                    "space": project.key.space,
                    "project": project.key.slug,
                    "documents": list(project.documents),
                    "records": [record.as_json() for record in project.records],
                }
                for project in self.projects
            ],
            "problems": [problem.as_json() for problem in self.problems],
        }

    def as_markdown(self) -> str:
        """A heading for each project and each record. A record's text is a block quote, line by line, so that no text can
        pass for another record, or for who wrote one."""
        blocks = [f"# Memory, exported {rfc3339(self.exported_at)}"]
        for project in self.projects:
            blocks.append(f"## {project.key}")
            if project.documents:
                blocks.append("\n".join(["Linked documents:", "", *(f"- `{one}`" for one in project.documents)]))
            for record in project.records:
                blocks += _record_blocks(record)
        if self.problems:
            listed = (f"- {problem.project}/{problem.file}: {problem.what}" for problem in self.problems)
            blocks.append("\n".join(["## Left out, because it cannot be read", "", *listed]))
        return "\n\n".join(blocks) + "\n"


def _record_blocks(record: MemoryRecord) -> Iterator[str]:
    yield f"### {record.id}"
    attribution = {
        "kind": record.kind.value,
        "title": record.title,
        "tags": ", ".join(record.tags),
        "author": record.author,
        "client": record.client,
        "created": rfc3339(record.created_at),
        "expires": "" if record.expires_at is None else rfc3339(record.expires_at),
    }
    yield "\n".join(f"- {name}: {value}" for name, value in attribution.items() if value)
    yield "\n".join(f"> {line}" if line else ">" for line in record.text.split("\n"))
