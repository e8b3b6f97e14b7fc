"""Items written: each request is one commit by the caller, admitted as a push would be.

Status changes and deletion take the revision they start from where the caller gives one; a change of an item's text or
fields always does.
"""

from __future__ import annotations

from functools import partial

from flask import Response

from kbgit.item import ItemStatus
from kbgit.library import Draft
from kbgit.revision import Via
from kbgit.web.answers import answer
from kbgit.web.api.blueprints import addressed_item, knowledge_blueprint, page_limit, signed_in
from kbgit.web.fields import LONGEST_TEXT, Fields, json_object, optional_json_object
from kbgit.web.incoming import base_key, commit, parameters, runtime

items = knowledge_blueprint("items")

VERBS = {
    "publish": ItemStatus.PUBLISHED,
    "unpublish": ItemStatus.DRAFT,
    "archive": ItemStatus.ARCHIVED,
    "restore": ItemStatus.PUBLISHED,
}
_DRAFT = ("title", "content", "status", "tags", "description", "metadata")


@items.get("/bases/<space>/<slug>/items")
def list_items(space: str, slug: str) -> Response:
    """A page of a base's items."""
    given = parameters("status", "prefix", "cursor", "limit")
    return answer(
        runtime().library.items(
            base_key(space, slug),
            signed_in(),
            status=given.get("status"),
            prefix=given.get("prefix", ""),
            cursor=given.get("cursor"),
            limit=page_limit(given),
        )
    )


@items.post("/bases/<space>/<slug>/items")
def create_item(space: str, slug: str) -> Response:
    """A new item; a draft, unless its status says otherwise."""
    parameters()
    body = json_object(*_DRAFT, "locator", "id")
    written = runtime().writing.create(
        base_key(space, slug),
        signed_in(),
        _draft(body),
        locator=body.text("locator"),
        item_id=body.text("id"),
        via=Via.API,
    )
    return answer(written, 201)


@items.patch("/knowledge/items/<path:item_id>")
@items.patch("/knowledge/item")
def change_item(item_id: str | None = None) -> Response:
    """Change what the body names of an item, and no other byte of its file."""
    item, given = addressed_item(item_id, "base")
    body = json_object(*_DRAFT, "message", required=("expected_revision",))
    written = runtime().writing.update(
        item,
        signed_in(),
        _draft(body),
        base=given.get("base"),
        expected_revision=body.commit("expected_revision") or "",
        via=Via.API,
        message=body.text("message"),
    )
    return answer(written)


def _set_status(status: ItemStatus, item_id: str | None = None) -> Response:
    item, given = addressed_item(item_id, "base")
    expected = optional_json_object("expected_revision").commit("expected_revision")
    return answer(
        runtime().writing.set_status(
            item, signed_in(), status, base=given.get("base"), expected_revision=expected, via=Via.API
        )
    )


for _verb, _status in VERBS.items():
    _move = partial(_set_status, _status)
    items.add_url_rule(f"/knowledge/items/<path:item_id>/{_verb}", f"{_verb}_item", _move, methods=["POST"])
    items.add_url_rule(f"/knowledge/item/{_verb}", f"{_verb}_item", _move, methods=["POST"])


@items.delete("/knowledge/items/<path:item_id>")
@items.delete("/knowledge/item")
def delete_item(item_id: str | None = None) -> Response:
    """Remove an item's file; its pinned citations keep resolving."""
    item, given = addressed_item(item_id, "base", "expected_revision")
    return answer(
        runtime().writing.delete(
            item,
            signed_in(),
            base=given.get("base"),
            expected_revision=commit("expected_revision", given.get("expected_revision")),
            via=Via.API,
        )
    )


def _draft(body: Fields) -> Draft:
    return Draft(
        title=body.text("title"),
        content=body.text("content", LONGEST_TEXT),
        status=body.word("status", ItemStatus),
        tags=body.texts("tags"),
        description=body.text("description"),
        metadata=body.metadata("metadata"),
    )
