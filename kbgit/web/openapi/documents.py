"""Documents in the OpenAPI document."""

from __future__ import annotations

from kbgit import errors as e
from kbgit.documents.contract import Reason, State
from kbgit.documents.service import LONGEST_WAIT_SECONDS
from kbgit.web import errors as h
from kbgit.web.openapi.operations import BASE_IN_PATH, OF_BASES, OF_WRITING, PAGE, operation, parameter
from kbgit.web.openapi.shapes import (
    CURSOR,
    REFERENCE,
    SHA,
    TEXT,
    TEXTS,
    TIME,
    TRUTH,
    Json,
    closed,
    described,
    listed,
    nullable,
    ref,
    whole,
    words,
)

_FILE_TYPE = closed({"suffix": TEXT, "media_type": TEXT, "max_bytes": whole(1)})
SCHEMAS: Json = {
    "DocumentState": described(
        words(State), "`queued` and `extracting` go on by themselves; `ready`, `failed` and `cancelled` are final."
    ),
    "DocumentReason": described(words(Reason), "Why a document failed."),
    "Document": closed(
        {
            "type": {"const": "document"},
            "id": TEXT,
            "base": described(TEXT, "The base's key."),
            "name": described(TEXT, "The file's name, exactly as it was given."),
            "folder": TEXT,
            "media_type": TEXT,
            "size": described(whole(), "In bytes."),
            "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
            "locator": described(TEXT, "Where in the base its item is, or will be."),
            "replace": described(TRUTH, "Whether it makes a new revision of the item that is there."),
            "uploaded_by": TEXT,
            "state": ref("DocumentState"),
            "reason": nullable(ref("DocumentReason")),
            "detail": described(nullable(TEXT), "What went wrong, in a sentence."),
            "notes": described(TEXTS, "What could not be kept, in sentences."),
            "attempts": whole(),
            "knowledge_item_id": described(nullable(TEXT), "The item, once it is ready."),
            "knowledge_revision_id": nullable(SHA),
            "reference": nullable(REFERENCE),
            "created_at": TIME,
            "updated_at": TIME,
        }
    ),
    "DocumentPage": closed({"documents": listed(ref("Document")), "cursor": CURSOR}),
    "DocumentEvents": closed(
        {
            "events": listed(
                closed({"document": TEXT, "base": TEXT, "state": ref("DocumentState"), "at": TIME}),
            ),
            "cursor": described(TEXT, "Asks for what happens next, as `after`."),
        }
    ),
    "FileTypes": closed(
        {
            "documents": described(listed(_FILE_TYPE), "Files that are uploaded whole and extracted by the server."),
            "texts": described(listed(_FILE_TYPE), "Text and code, which becomes an item as it is."),
        }
    ),
}
_ID = parameter("document_id", "The document's id.", TEXT, where="path", required=True)


def _upload() -> Json:
    found = operation(
        "uploadDocument",
        "Take a document (PDF or office file) in, as the request's body. It is queued, and becomes a draft item once its "
        "text is extracted; the same bytes at the same place are `ready` at once.",
        "Document",
        parameters=[
            *BASE_IN_PATH,
            parameter("name", "The file's name, or its path below `folder`; kept exactly.", TEXT, required=True),
            parameter("folder", "Where in the base its item is to go.", TEXT),
            parameter(
                "replace", "Make a new revision where another file's item is there.", {**TRUTH, "default": False}
            ),
        ],
        status=202,
        errors=(*OF_BASES, e.AlreadyExists, *OF_WRITING, e.QueueFull, e.StorageFull, h.Overloaded),
    )
    anything = {"schema": {"type": "string", "format": "binary"}}
    found["requestBody"] = {"required": True, "content": {"application/octet-stream": anything}}
    return found


def _move(name: str, summary: str) -> Json:
    return operation(name, summary, "Document", parameters=[_ID], errors=(e.NotFound, e.Conflict))


PATHS: Json = {
    "/api/v1/bases/{space}/{slug}/documents": {"post": _upload()},
    "/api/v1/documents": {
        "get": operation(
            "listDocuments",
            "A page of the documents of bases whose items the caller may write, newest first.",
            "DocumentPage",
            parameters=[
                parameter("base", "Only documents of this base: a slug or key.", TEXT),
                parameter("state", "Only documents in this state.", ref("DocumentState")),
                *PAGE,
            ],
            errors=OF_BASES,
        )
    },
    "/api/v1/documents/events": {
        "get": operation(
            "listDocumentEvents",
            "What happened to documents since a cursor, oldest first; without one nothing, but a cursor for what comes.",
            "DocumentEvents",
            parameters=[
                parameter("after", "The `cursor` of the answer before.", TEXT),
                parameter(
                    "wait",
                    "For how many seconds to wait where nothing has happened yet; where many wait, the answer comes at once.",
                    {**whole(0, LONGEST_WAIT_SECONDS), "default": 0},
                ),
            ],
        )
    },
    "/api/v1/documents/{document_id}": {
        "get": operation("showDocument", "One document.", "Document", parameters=[_ID], errors=(e.NotFound,))
    },
    "/api/v1/documents/{document_id}/cancel": {
        "post": _move("cancelDocument", "Let nothing come of a document that is not an item yet.")
    },
    "/api/v1/documents/{document_id}/retry": {"post": _move("retryDocument", "Queue a failed document again.")},
    "/api/v1/file-types": {
        "get": operation("listFileTypes", "Which files can come in, and how large they may be.", "FileTypes")
    },
}
