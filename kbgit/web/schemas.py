"""JSON Schemas (2020-12) of what goes in and out of the JSON interface. Objects are closed unless they say otherwise."""

from __future__ import annotations

from typing import Any

from kbgit.base import Admission, BaseStatus
from kbgit.item import ItemStatus
from kbgit.library.request import Content
from kbgit.ranking import Mode
from kbgit.revision import Via

Json = dict[str, Any]


def ref(name: str) -> Json:
    """A reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def whole(least: int = 0, most: int | None = None) -> Json:
    """A whole number in a range."""
    return {"type": "integer", "minimum": least} | ({} if most is None else {"maximum": most})


def nullable(schema: Json) -> Json:
    """`schema` or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def _list(of: Json) -> Json:
    return {"type": "array", "items": of}


def _words(
    kind: type[Mode] | type[Content] | type[ItemStatus] | type[BaseStatus] | type[Admission] | type[Via],
) -> Json:
    return {"type": "string", "enum": [word.value for word in kind]}


def _object(required: Json, optional: Json | None = None) -> Json:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


_TEXT: Json = {"type": "string"}
_TRUTH: Json = {"type": "boolean"}
_NUMBER: Json = {"type": "number"}
_ANYTHING: Json = {"type": "object", "additionalProperties": True}
_TIME: Json = {"type": "string", "format": "date-time"}
_SHA: Json = {"type": "string", "pattern": "^[0-9a-f]{40}$"}
_HASH: Json = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
_REFERENCE: Json = {"type": "string", "pattern": "^knowledge:.+@[0-9a-f]{40}$"}
_CITATION: Json = {"type": "string", "pattern": "^knowledge:.+@[0-9a-f]{40}#L[0-9]+-L[0-9]+$"}
_LINES: Json = {"type": "array", "items": whole(1), "minItems": 2, "maxItems": 2}
_TEXTS = _list(_TEXT)
_TEXT_OR_TEXTS: Json = {"anyOf": [_TEXT, {**_TEXTS, "maxItems": 100}, {"type": "null"}]}

SCHEMAS: Json = {
    "Error": _object(
        {
            "error": _object(
                {
                    "code": {"type": "string", "description": "Stable; programs may match on it."},
                    "message": {"type": "string", "description": "For people; names the way out where there is one."},
                    "details": _ANYTHING,
                }
            )
        }
    ),
    "ItemStatus": _words(ItemStatus),
    "BaseStatus": _words(BaseStatus),
    "Mode": _words(Mode),
    "SearchRequest": _object(
        {
            "query": {
                "type": "string",
                "description": 'Any text. Quotes ask for an exact phrase: `"connection refused"`. Nothing else is special.',
            }
        },
        {
            "exclude": {**_TEXT_OR_TEXTS, "description": "Words or phrases that must not occur."},
            "mode": nullable(ref("Mode")),
            "alpha": {
                **nullable({"type": "number", "minimum": 0, "maximum": 1}),
                "description": "hybrid: the weight of the lexical score; 1 is purely lexical. Default 0.5.",
            },
            "k": {**nullable(whole(1, 100_000)), "description": "rrf: the rank constant. Default 60."},
            "limit": {**nullable(whole(1, 100)), "description": "The most results. Default 10."},
            "offset": {**nullable(whole(0, 1000)), "description": "Results to skip, for the next page. Default 0."},
            "bases": {**_TEXT_OR_TEXTS, "description": "Slugs or keys of the only bases to search."},
            "spaces": {**_TEXT_OR_TEXTS, "description": "Keys of the only spaces to search."},
            "tags": {**_TEXT_OR_TEXTS, "description": "Tags that items must have, all of them."},
            "locator": {**nullable(_TEXT), "description": "How the item's path in its base must begin."},
            "metadata": {
                **nullable({"type": "object", "additionalProperties": _TEXT, "maxProperties": 100}),
                "description": "Front matter fields and the texts they must have.",
            },
            "min_score": {
                **nullable({"type": "number", "minimum": 0, "maximum": 1}),
                "description": "The least score of a result. Default 0.",
            },
            "content": {**nullable(_words(Content)), "description": "What a result carries. Default: passage."},
            "wait_for": {**nullable(_SHA), "description": "A commit that must be indexed before the search."},
            "wait_seconds": {**nullable({"type": "number", "minimum": 0}), "description": "How long to wait for it."},
            "explain": {**nullable(_TRUTH), "description": "Whether to give each leg's scores and ranks."},
        },
    ),
    "Freshness": {
        **_object(
            {
                "published": nullable(_SHA),
                "indexed": nullable(_SHA),
                "passages": whole(),
                "vectors": whole(),
            },
            {"alarm": _TEXT},
        ),
        "description": "The published head, the head that searches answer from, and how much has its vector.",
    },
    "Passage": _object(
        {
            "citation": _CITATION,
            "section": _TEXTS,
            "lines": _LINES,
            "score": _NUMBER,
            "content": nullable(_TEXT),
        }
    ),
    "SearchResult": _object(
        {
            "knowledge_item_id": _TEXT,
            "knowledge_revision_id": _SHA,
            "title": _TEXT,
            "content": nullable(_TEXT),
            "reference": _REFERENCE,
            "score": _NUMBER,
            "citation": _CITATION,
            "base": _TEXT,
            "space": _TEXT,
            "locator": _TEXT,
            "section": _TEXTS,
            "lines": _LINES,
            "revision_number": whole(1),
            "published_at": _TIME,
            "tags": _TEXTS,
        },
        {"more_passages": _list(ref("Passage")), "explain": _ANYTHING},
    ),
    "SearchResponse": _object(
        {
            "type": {"const": "knowledge_search"},
            "mode": ref("Mode"),
            "mode_used": ref("Mode"),
            "results": _list(ref("SearchResult")),
            "has_more": _TRUTH,
            "freshness": {"type": "object", "additionalProperties": ref("Freshness")},
        },
        {"fallback_reason": _TEXT, "notes": _TEXTS, "explain": _ANYTHING},
    ),
    "BaseName": _object({"slug": _TEXT, "name": _TEXT, "status": ref("BaseStatus"), "space": _TEXT}),
    "Provenance": _object(
        {
            "author": _TEXT,
            "committer": _TEXT,
            "pushed_by": _TEXT,
            "committed_at": _TIME,
            "published_at": _TIME,
            "message": _TEXT,
            "via": _words(Via),
            "signature": {"type": "string", "enum": ["none", "unverified"]},
        }
    ),
    "Item": _object(
        {
            "type": {"const": "knowledge_item"},
            "knowledge_item_id": _TEXT,
            "knowledge_revision_id": _SHA,
            "reference": _REFERENCE,
            "is_current": _TRUTH,
            "revision_number": whole(1),
            "title": _TEXT,
            "status": ref("ItemStatus"),
            "content": _TEXT,
            "content_format": {"const": "markdown"},
            "content_hash": _HASH,
            "locator": _TEXT,
            "tags": _TEXTS,
            "description": _TEXT,
            "metadata": _ANYTHING,
            "base": ref("BaseName"),
            "source_type": {"type": "string", "enum": ["user_created", "file"]},
            "source": {"description": "Of a file: where the item came from. Else null."},
            "provenance": ref("Provenance"),
        },
        {"lines": _LINES, "excerpt": {"type": "string", "description": "The cited lines."}},
    ),
    "Revision": _object(
        {
            "knowledge_revision_id": _SHA,
            "reference": _REFERENCE,
            "revision_number": whole(1),
            "locator": _TEXT,
            "status": ref("ItemStatus"),
            "is_current": _TRUTH,
            "removed": {"type": "boolean", "description": "This commit took the item's file away."},
            "content_hash": nullable(_HASH),
            "provenance": ref("Provenance"),
        }
    ),
    "RevisionPage": _object(
        {
            "type": {"const": "knowledge_revisions"},
            "knowledge_item_id": _TEXT,
            "base": ref("BaseName"),
            "revisions": _list(ref("Revision")),
            "cursor": nullable(_TEXT),
        }
    ),
    "Diff": _object(
        {
            "type": {"const": "knowledge_diff"},
            "knowledge_item_id": _TEXT,
            "from": _SHA,
            "to": _SHA,
            "diff": {"type": "string", "description": "A unified difference, as Git prints it."},
        }
    ),
    "Problem": _object({"path": _TEXT, "line": whole(), "code": _TEXT, "what": _TEXT, "mend": _TEXT}),
    "Base": _object(
        {
            "slug": _TEXT,
            "name": _TEXT,
            "status": ref("BaseStatus"),
            "space": _TEXT,
            "key": _TEXT,
            "description": _TEXT,
            "items": {"type": "object", "additionalProperties": whole(), "description": "How many of each status."},
            "freshness": ref("Freshness"),
        },
        {
            "admission": _words(Admission),
            "default_status": ref("ItemStatus"),
            "alarm": _TEXT,
            "problems": _list(ref("Problem")),
        },
    ),
    "BaseList": _object({"bases": _list(ref("Base"))}),
    "ItemSummary": _object(
        {
            "knowledge_item_id": _TEXT,
            "knowledge_revision_id": _SHA,
            "reference": _REFERENCE,
            "title": _TEXT,
            "status": ref("ItemStatus"),
            "locator": _TEXT,
            "revision_number": whole(1),
            "tags": _TEXTS,
        }
    ),
    "ItemPage": _object(
        {
            "type": {"const": "knowledge_items"},
            "base": ref("BaseName"),
            "items": _list(ref("ItemSummary")),
            "cursor": nullable(_TEXT),
        }
    ),
    "Status": _object(
        {
            "type": {"const": "status"},
            "version": _TEXT,
            "fresh": _TRUTH,
            "embedder": _TEXT,
            "embedding_problem": nullable(_TEXT),
            "bases": _list(ref("Base")),
        }
    ),
    "Health": _object({"status": {"const": "ok"}}),
    "OpenApi": _ANYTHING,
}
