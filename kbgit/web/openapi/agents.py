"""What agents ask without MCP. Bodies have the schemas of the tools of the same names."""

from __future__ import annotations

from kbgit import errors as e
from kbgit.base import BaseStatus
from kbgit.item import ItemStatus
from kbgit.library.change_page import ChangeOfItem
from kbgit.library.sections import ChangeOfSection
from kbgit.library.verdict import Reason, State
from kbgit.mcp.schemas import INPUTS
from kbgit.memory import MemoryKind
from kbgit.ranking import Mode
from kbgit.web.openapi.operations import OF_BASES, PAGE, SIGNED_IN, ErrorClass, operation, parameter
from kbgit.web.openapi.shapes import (
    CURSOR,
    HASH,
    LINES,
    NUMBER,
    SHA,
    TEXT,
    TEXTS,
    TIME,
    TRUTH,
    Json,
    closed,
    listed,
    nullable,
    ref,
    whole,
    words,
)

_MEMORY: tuple[ErrorClass, ...] = (e.SpaceNotFound, e.InvalidName)
_RECORD: Json = {
    "id": TEXT,
    "space": TEXT,
    "project": TEXT,
    "kind": ref("MemoryKind"),
    "title": TEXT,
    "tags": TEXTS,
    "author": TEXT,
    "client": TEXT,
    "created_at": TIME,
    "expires_at": nullable(TIME),
    "hidden_characters": {
        "type": "boolean",
        "description": "It holds characters that no reader sees but a model reads.",
    },
}
_SOURCE: Json = closed(
    {
        "asked": TRUTH,
        "why_not": {**nullable(TEXT), "description": "Why it was not asked, or how it failed."},
        "count": whole(),
        "left_out": {**whole(), "description": "What was found and did not fit the budget."},
        "mode_used": nullable(words(Mode)),
        "fallback_reason": nullable(TEXT),
    },
    {"freshness": {"type": "object", "additionalProperties": ref("Freshness")}},
)

SCHEMAS: Json = {
    "MemoryKind": words(MemoryKind),
    "VerifyRequest": INPUTS["verify_citations"],
    "Verdicts": closed(
        {
            "type": {"const": "citation_verdicts"},
            "holds": {"type": "boolean", "description": "Whether everything cited still stands."},
            "counts": {"type": "object", "additionalProperties": whole(1), "description": "How many of each state."},
            "verdicts": listed(ref("Verdict")),
        }
    ),
    "Verdict": closed(
        {"citation": TEXT, "state": words(State), "holds": TRUTH},
        {
            "reason": words(Reason),
            "base": ref("BaseName"),
            "locator": TEXT,
            "current": {**nullable(TEXT), "description": "What to cite now."},
            "differences": listed(closed({"section": TEXTS, "diff": TEXT}, {"truncated": {"const": True}})),
            "quote_hash": HASH,
            "quote_matches": TRUTH,
        },
    ),
    "ChangesRequest": INPUTS["knowledge_changes"],
    "ChangePage": closed(
        {
            "type": {"const": "knowledge_changes"},
            "bases": listed(
                closed(
                    {
                        "slug": TEXT,
                        "name": TEXT,
                        "status": ref("BaseStatus"),
                        "space": TEXT,
                        "from": nullable(SHA),
                        "to": nullable(SHA),
                        "old_status": words(BaseStatus),
                    }
                )
            ),
            "changes": listed(
                closed(
                    {
                        "kind": words(ChangeOfItem),
                        "knowledge_item_id": TEXT,
                        "title": nullable(TEXT),
                        "base": TEXT,
                        "space": TEXT,
                        "status": nullable(words(ItemStatus)),
                        "old_reference": nullable(TEXT),
                        "reference": nullable(TEXT),
                        "old_locator": nullable(TEXT),
                        "locator": nullable(TEXT),
                        "sections": listed(
                            closed(
                                {
                                    "kind": words(ChangeOfSection),
                                    "section": TEXTS,
                                    "lines": nullable(LINES),
                                    "old_lines": nullable(LINES),
                                    "citation": nullable(TEXT),
                                }
                            )
                        ),
                    }
                )
            ),
            "cursor": CURSOR,
        },
        {"unknown": {**TEXTS, "description": "Citations that cite nothing the caller may see."}},
    ),
    "RememberRequest": INPUTS["remember"],
    "MemoryRecord": closed({"type": {"const": "memory_record"}, **_RECORD, "text": TEXT}),
    "StoredRecord": closed({**_RECORD, "text": TEXT}),
    "MemoryProblem": closed({"space": TEXT, "project": TEXT, "file": TEXT, "what": TEXT, "line": whole(1)}),
    "RecordPage": closed(
        {
            "type": {"const": "memory_records"},
            "records": listed(ref("StoredRecord")),
            "cursor": CURSOR,
            "problems": listed(ref("MemoryProblem")),
        }
    ),
    "MemoryProject": closed(
        {
            "type": {"const": "memory_project"},
            "space": TEXT,
            "project": TEXT,
            "records": closed({kind.value: whole() for kind in MemoryKind}),
            "documents": TEXTS,
            "last_at": nullable(TIME),
            "problems": listed(ref("MemoryProblem")),
        }
    ),
    "MemoryProjects": closed({"type": {"const": "memory_projects"}, "projects": listed(ref("MemoryProject"))}),
    "LinkRequest": closed({"space": TEXT, "project": TEXT, "reference": TEXT}),
    "Forgotten": closed({"type": {"const": "memory_forgotten"}, "id": TEXT}),
    "MemoryExport": closed(
        {
            "type": {"const": "memory_export"},
            "version": {"const": 1},
            "exported_at": TIME,
            "projects": listed(
                closed({"space": TEXT, "project": TEXT, "documents": TEXTS, "records": listed(ref("StoredRecord"))})
            ),
            "problems": listed(ref("MemoryProblem")),
        }
    ),
    "RecallRequest": INPUTS["recall_context"],
    "Recall": closed(
        {
            "type": {"const": "recall"},
            "sources": closed({"memory": _SOURCE, "knowledge": _SOURCE}),
            "memory": listed(
                closed(
                    {
                        "source": {"const": "memory"},
                        **_RECORD,
                        "content": TEXT,
                        "lines": LINES,
                        "is_whole": TRUTH,
                        "is_cut": TRUTH,
                        "score": NUMBER,
                    }
                )
            ),
            "knowledge": listed(
                {
                    "description": "Search results, with where they come from and whether their text is cut.",
                    "type": "object",
                    "properties": {"source": {"const": "knowledge"}, "content": TEXT, "is_cut": TRUTH},
                    "required": ["source", "content", "is_cut", "citation", "title"],
                }
            ),
            "token_budget": nullable(whole(1)),
            "estimated_tokens": whole(),
            "notes": TEXTS,
        }
    ),
}

_EXPORT = operation(
    "exportMemory",
    "Everything that is remembered, of all that the caller may see or of one space or project.",
    "MemoryExport",
    parameters=[
        parameter("space", "Only this space.", TEXT),
        parameter("project", "Only projects of this name.", TEXT),
        parameter(
            "format", "JSON for programs, or Markdown for people.", {"enum": ["json", "markdown"], "default": "json"}
        ),
    ],
    errors=_MEMORY,
    callers=SIGNED_IN,
)
_EXPORT["responses"]["200"]["content"]["text/markdown; charset=utf-8"] = {"schema": TEXT}

PATHS: Json = {
    "/api/v1/citations/verify": {
        "post": operation(
            "verifyCitations",
            "What became of what each citation cites.",
            "Verdicts",
            body="VerifyRequest",
        )
    },
    "/api/v1/knowledge/changes": {
        "get": operation(
            "listChanges",
            "What changed, by item and section, since a commit or a time.",
            "ChangePage",
            parameters=[
                parameter("since_commit", "A commit; either this or `since_time`.", SHA),
                parameter("since_time", "A time.", TIME),
                parameter("base", "Only this base, by slug or key.", TEXT),
                *PAGE,
            ],
            errors=(*OF_BASES, e.RevisionNotFound),
        ),
        "post": operation(
            "listChangesSince",
            "What changed since a commit, a time or some citations.",
            "ChangePage",
            body="ChangesRequest",
            errors=(*OF_BASES, e.RevisionNotFound),
        ),
    },
    "/api/v1/memory": {
        "post": operation(
            "remember",
            "Keep a record.",
            "MemoryRecord",
            body="RememberRequest",
            errors=_MEMORY,
            callers=SIGNED_IN,
            status=201,
        ),
        "get": operation(
            "listRecords",
            "A page of records, newest first.",
            "RecordPage",
            parameters=[
                parameter("space", "Only this space: `personal:<user>` or `team:<name>`.", TEXT),
                parameter("project", "Only projects of this name.", TEXT),
                parameter("kind", "Only records of this kind.", ref("MemoryKind")),
                parameter("query", "Only records with all of these words in their title, text or tags.", TEXT),
                *PAGE,
            ],
            errors=_MEMORY,
            callers=SIGNED_IN,
        ),
    },
    "/api/v1/memory/export": {"get": _EXPORT},
    "/api/v1/memory/projects": {
        "get": operation(
            "listProjects",
            "The projects that records are kept of, with the documents linked to them.",
            "MemoryProjects",
            parameters=[parameter("space", "Only this space: `personal:<user>` or `team:<name>`.", TEXT)],
            errors=_MEMORY,
            callers=SIGNED_IN,
        )
    },
    "/api/v1/memory/documents": {
        "post": operation(
            "linkDocument",
            "Link a document, by its citation or item id, to a project.",
            "MemoryProject",
            body="LinkRequest",
            errors=(*_MEMORY, e.InvalidCitation, e.TooLarge),
            callers=SIGNED_IN,
        ),
        "delete": operation(
            "unlinkDocument",
            "Remove a link; the document stays as it is.",
            "MemoryProject",
            parameters=[
                parameter("space", "The project's space.", TEXT, required=True),
                parameter("project", "The project.", TEXT, required=True),
                parameter("reference", "What is linked.", TEXT, required=True),
            ],
            errors=(*_MEMORY, e.InvalidCitation, e.NotFound),
            callers=SIGNED_IN,
        ),
    },
    "/api/v1/memory/{record_id}": {
        "delete": operation(
            "forget",
            "Remove a record for good.",
            "Forgotten",
            parameters=[parameter("record_id", "The record's id, `mem_…`.", TEXT, where="path", required=True)],
            errors=(e.NotFound, *_MEMORY),
            callers=SIGNED_IN,
        )
    },
    "/api/v1/recall": {
        "post": operation(
            "recallContext",
            "What is remembered about a question, and what knowledge says beside it where that is allowed.",
            "Recall",
            body="RecallRequest",
            errors=(*_MEMORY, e.BaseNotFound, e.BaseArchived, e.TimedOut, e.EmbeddingFailure),
            callers=SIGNED_IN,
        )
    },
}
