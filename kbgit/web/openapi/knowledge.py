"""Search, citations, and items as they are and as they were."""

from __future__ import annotations

from kbgit import errors as e
from kbgit.item import ItemStatus
from kbgit.library.request import Content
from kbgit.place import PlaceKind
from kbgit.ranking import Mode
from kbgit.revision import Via
from kbgit.web.openapi.operations import IN_BASE, ITEM_ADDRESSES, PAGE, ErrorClass, operation, parameter
from kbgit.web.openapi.shapes import (
    ANYTHING,
    CURSOR,
    HASH,
    LINES,
    NUMBER,
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

OF_ITEMS: tuple[ErrorClass, ...] = (
    e.BaseNotFound,
    e.ItemNotFound,
    e.RevisionNotFound,
    e.InvalidCitation,
    e.AmbiguousItem,
    e.BaseArchived,
    e.ItemNotPublished,
    e.ItemDeleted,
)
_CITATION: Json = {"type": "string", "pattern": "^knowledge:.+@[0-9a-f]{40}#L[0-9]+-L[0-9]+$"}
_TEXT_OR_TEXTS: Json = {"anyOf": [TEXT, listed(TEXT, 100), {"type": "null"}]}

SCHEMAS: Json = {
    "ItemStatus": words(ItemStatus),
    "Mode": words(Mode),
    "SearchRequest": closed(
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
            "locator": {**nullable(TEXT), "description": "How the item's path in its base must begin."},
            "metadata": {
                **nullable({"type": "object", "additionalProperties": TEXT, "maxProperties": 100}),
                "description": "Front matter fields and the texts they must have.",
            },
            "min_score": {
                **nullable({"type": "number", "minimum": 0, "maximum": 1}),
                "description": "The least score of a result. Default 0.",
            },
            "content": {**nullable(words(Content)), "description": "What a result carries. Default: passage."},
            "wait_for": {**nullable(SHA), "description": "A commit that must be indexed before the search."},
            "wait_seconds": {**nullable({"type": "number", "minimum": 0}), "description": "How long to wait for it."},
            "explain": {**nullable(TRUTH), "description": "Whether to give each leg's scores and ranks."},
        },
    ),
    "Freshness": {
        **closed(
            {
                "published": nullable(SHA),
                "indexed": nullable(SHA),
                "passages": whole(),
                "vectors": whole(),
            },
            {"alarm": TEXT},
        ),
        "description": "The published head, the head that searches answer from, and how much has its vector.",
    },
    "Passage": closed(
        {
            "citation": _CITATION,
            "section": TEXTS,
            "lines": LINES,
            "score": NUMBER,
            "content": nullable(TEXT),
            "quote_hash": TEXT,
        },
        {"place": ref("Place")},
    ),
    "Place": described(
        closed({"kind": words(PlaceKind), "from": TEXT, "to": TEXT, "label": TEXT}),
        "The pages, slides or sheet of the original document; `label` is for people: `page 12`.",
    ),
    "SearchResult": closed(
        {
            "knowledge_item_id": TEXT,
            "knowledge_revision_id": SHA,
            "title": TEXT,
            "content": nullable(TEXT),
            "reference": REFERENCE,
            "score": NUMBER,
            "citation": _CITATION,
            "base": TEXT,
            "space": TEXT,
            "locator": TEXT,
            "section": TEXTS,
            "lines": LINES,
            "revision_number": whole(1),
            "published_at": TIME,
            "tags": TEXTS,
            "quote_hash": TEXT,
        },
        {"place": ref("Place"), "more_passages": listed(ref("Passage")), "explain": ANYTHING},
    ),
    "SearchResponse": closed(
        {
            "type": {"const": "knowledge_search"},
            "mode": ref("Mode"),
            "mode_used": ref("Mode"),
            "results": listed(ref("SearchResult")),
            "has_more": TRUTH,
            "freshness": {"type": "object", "additionalProperties": ref("Freshness")},
        },
        {"fallback_reason": TEXT, "notes": TEXTS, "explain": ANYTHING},
    ),
    "BaseName": closed({"slug": TEXT, "name": TEXT, "status": ref("BaseStatus"), "space": TEXT}),
    "Provenance": closed(
        {
            "author": TEXT,
            "committer": TEXT,
            "pushed_by": TEXT,
            "committed_at": TIME,
            "published_at": TIME,
            "message": TEXT,
            "via": words(Via),
            "signature": {"type": "string", "enum": ["none", "unverified"]},
        }
    ),
    "Item": closed(
        {
            "type": {"const": "knowledge_item"},
            "knowledge_item_id": TEXT,
            "knowledge_revision_id": SHA,
            "reference": REFERENCE,
            "is_current": TRUTH,
            "revision_number": whole(1),
            "title": TEXT,
            "status": ref("ItemStatus"),
            "content": TEXT,
            "content_format": {"const": "markdown"},
            "content_hash": HASH,
            "locator": TEXT,
            "tags": TEXTS,
            "description": TEXT,
            "metadata": ANYTHING,
            "base": ref("BaseName"),
            "source_type": {"type": "string", "enum": ["user_created", "file"]},
            "source": {"description": "Of a file: where the item came from. Else null."},
            "provenance": ref("Provenance"),
        },
        {"lines": LINES, "excerpt": {"type": "string", "description": "The cited lines."}},
    ),
    "Revision": closed(
        {
            "knowledge_revision_id": SHA,
            "reference": REFERENCE,
            "revision_number": whole(1),
            "locator": TEXT,
            "status": ref("ItemStatus"),
            "is_current": TRUTH,
            "removed": {"type": "boolean", "description": "This commit took the item's file away."},
            "content_hash": nullable(HASH),
            "provenance": ref("Provenance"),
        }
    ),
    "RevisionPage": closed(
        {
            "type": {"const": "knowledge_revisions"},
            "knowledge_item_id": TEXT,
            "base": ref("BaseName"),
            "revisions": listed(ref("Revision")),
            "cursor": CURSOR,
        }
    ),
    "Diff": closed(
        {
            "type": {"const": "knowledge_diff"},
            "knowledge_item_id": TEXT,
            "from": SHA,
            "to": SHA,
            "diff": {"type": "string", "description": "A unified difference, as Git prints it."},
        }
    ),
}

_FROM = parameter("from", "The older revision.", SHA, required=True)
_TO = parameter("to", "The newer revision.", SHA, required=True)


def _reads(address: str, where: Json, suffix: str) -> Json:
    return {
        f"/api/v1/knowledge/{address}": {
            "get": operation(
                f"readItem{suffix}",
                "An item as it is now, or as of a revision.",
                "Item",
                parameters=[
                    where,
                    parameter("revision", "Pins the revision; without it, the current one.", SHA),
                    IN_BASE,
                ],
                errors=OF_ITEMS,
            )
        },
        f"/api/v1/knowledge/{address}/revisions": {
            "get": operation(
                f"listRevisions{suffix}",
                "A page of an item's revisions, newest first.",
                "RevisionPage",
                parameters=[where, IN_BASE, *PAGE],
                errors=OF_ITEMS,
            )
        },
        f"/api/v1/knowledge/{address}/diff": {
            "get": operation(
                f"compareRevisions{suffix}",
                "What changed in an item's file between two revisions.",
                "Diff",
                parameters=[where, _FROM, _TO, IN_BASE],
                errors=OF_ITEMS,
            )
        },
    }


PATHS: Json = {
    "/api/v1/knowledge/search": {
        "post": operation(
            "searchKnowledge",
            "Search the published items that the caller may see.",
            "SearchResponse",
            body="SearchRequest",
            errors=(e.BaseNotFound, e.SpaceNotFound, e.BaseArchived, e.TimedOut),
        )
    },
    "/api/v1/knowledge/resolve": {
        "get": operation(
            "resolveReference",
            "What a citation cites, with an excerpt where it names lines.",
            "Item",
            parameters=[
                parameter(
                    "reference", "knowledge:<item-id>@<sha>, with or without #L<from>-L<to>.", TEXT, required=True
                ),
                IN_BASE,
            ],
            errors=OF_ITEMS,
        )
    },
    **_reads(*ITEM_ADDRESSES[0]),
    **_reads(*ITEM_ADDRESSES[1]),
}
