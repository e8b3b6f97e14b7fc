"""Items listed and written."""

from __future__ import annotations

from kbgit import errors as e
from kbgit.item import ItemStatus
from kbgit.web.openapi.operations import (
    BASE_IN_PATH,
    IN_BASE,
    ITEM_ADDRESSES,
    OF_BASES,
    OF_WRITING,
    PAGE,
    ErrorClass,
    operation,
    parameter,
)
from kbgit.web.openapi.shapes import (
    CURSOR,
    REFERENCE,
    SHA,
    TEXT,
    TEXTS,
    Json,
    closed,
    described,
    listed,
    nullable,
    ref,
    whole,
)

_OF_CHANGES: tuple[ErrorClass, ...] = (
    e.NotFound,
    e.BaseNotFound,
    e.ItemNotFound,
    e.AmbiguousItem,
    e.StaleRevision,
    *OF_WRITING,
)
_METADATA: Json = {
    "type": "object",
    "additionalProperties": {"anyOf": [TEXT, TEXTS, {"type": "null"}]},
    "maxProperties": 200,
}
_DRAFT: Json = {
    "title": nullable(TEXT),
    "content": described(nullable(TEXT), "Markdown, without front matter."),
    "status": nullable(ref("ItemStatus")),
    "tags": nullable(listed(TEXT, 200)),
    "description": nullable(TEXT),
    "metadata": described(nullable(_METADATA), "Other front matter fields; null removes one."),
}
_EXPECTED = described(SHA, "The revision that the change starts from.")

SCHEMAS: Json = {
    "ItemSummary": closed(
        {
            "knowledge_item_id": TEXT,
            "knowledge_revision_id": SHA,
            "reference": REFERENCE,
            "title": TEXT,
            "status": ref("ItemStatus"),
            "locator": TEXT,
            "revision_number": whole(1),
            "tags": TEXTS,
        }
    ),
    "ItemPage": closed(
        {
            "type": {"const": "knowledge_items"},
            "base": ref("BaseName"),
            "items": listed(ref("ItemSummary")),
            "cursor": CURSOR,
        }
    ),
    "NewItem": closed(
        {},
        {
            **_DRAFT,
            "locator": described(
                nullable(TEXT), "Its path in the base, ending in .md; by default made from the title."
            ),
            "id": described(nullable(TEXT), "An id of its own, which survives renames."),
        },
    ),
    "ItemChange": closed(
        {"expected_revision": _EXPECTED}, {**_DRAFT, "message": described(nullable(TEXT), "What the commit says.")}
    ),
    "ExpectedRevision": closed({}, {"expected_revision": nullable(_EXPECTED)}),
    "TouchedItem": closed({"knowledge_item_id": TEXT, "locator": TEXT, "title": TEXT, "citation": REFERENCE}),
    "Receipt": described(
        closed(
            {
                "base": TEXT,
                "head": nullable(SHA),
                **{status.value: listed(ref("TouchedItem")) for status in ItemStatus},
                "removed": TEXTS,
                "problems": listed(ref("Problem")),
                "not_items": listed(closed({"path": TEXT, "why": TEXT})),
            }
        ),
        "What a change made of each file it touched: the receipt that a push shows.",
    ),
    "Written": closed(
        {
            "type": {"const": "knowledge_written"},
            "knowledge_item_id": TEXT,
            "knowledge_revision_id": nullable(SHA),
            "reference": nullable(REFERENCE),
            "status": nullable(ref("ItemStatus")),
            "locator": TEXT,
            "receipt": ref("Receipt"),
        }
    ),
}

_VERBS = {
    "publish": "Publish a draft or archived item.",
    "unpublish": "Make an item a draft again.",
    "archive": "Take an item out of search; its pinned citations keep resolving.",
    "restore": "Publish an archived item again.",
}


def _changes(address: str, where: Json, suffix: str) -> Json:
    """Path → operations on an item."""
    moves = {
        f"/api/v1/knowledge/{address}/{verb}": {
            "post": operation(
                f"{verb}Item{suffix}",
                summary,
                "Written",
                parameters=[where, IN_BASE],
                body="ExpectedRevision",
                body_required=False,
                errors=_OF_CHANGES,
            )
        }
        for verb, summary in _VERBS.items()
    }
    change = operation(
        f"changeItem{suffix}",
        "Change what the body names of an item, and no other byte of its file. `stale_revision` tells the difference when "
        "the item is no longer at `expected_revision`; nothing is written then.",
        "Written",
        parameters=[where, IN_BASE],
        body="ItemChange",
        errors=_OF_CHANGES,
    )
    delete = operation(
        f"deleteItem{suffix}",
        "Remove an item's file. Its pinned citations keep resolving.",
        "Written",
        parameters=[
            where,
            IN_BASE,
            parameter("expected_revision", "The revision that the caller has seen.", SHA),
        ],
        errors=_OF_CHANGES,
    )
    return {f"/api/v1/knowledge/{address}": {"patch": change, "delete": delete}, **moves}


PATHS: Json = {
    "/api/v1/bases/{space}/{slug}/items": {
        "get": operation(
            "listItems",
            "A page of a base's items, by id; drafts and archived items for those who may see them.",
            "ItemPage",
            parameters=[
                *BASE_IN_PATH,
                parameter("status", "Only items of this status.", ref("ItemStatus")),
                parameter("prefix", "Only items whose locator begins so.", TEXT),
                *PAGE,
            ],
            errors=OF_BASES,
        ),
        "post": operation(
            "createItem",
            "A new item; a draft, unless its status says otherwise.",
            "Written",
            parameters=BASE_IN_PATH,
            body="NewItem",
            status=201,
            errors=(*OF_BASES, e.AlreadyExists, *OF_WRITING),
        ),
    },
    **_changes(*ITEM_ADDRESSES[0]),
    **_changes(*ITEM_ADDRESSES[1]),
}
