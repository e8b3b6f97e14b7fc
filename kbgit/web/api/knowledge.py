"""Search, citations, and items as they are and as they were."""

from __future__ import annotations

from flask import Response

from kbgit.library import SearchRequest
from kbgit.web.answers import answer
from kbgit.web.api.blueprints import addressed_item, knowledge_blueprint, page_limit, signed_in
from kbgit.web.incoming import json_body, parameters, runtime

knowledge = knowledge_blueprint("knowledge")


@knowledge.post("/knowledge/search")
def search() -> Response:
    """Search what the caller may see."""
    parameters()
    request = SearchRequest.from_json(json_body(), runtime().home.settings)
    return answer(runtime().library.search(request, signed_in()))


@knowledge.get("/knowledge/resolve")
def resolve() -> Response:
    """What a citation cites."""
    given = parameters("base", required=("reference",))
    return answer(runtime().library.resolve(given["reference"], signed_in(), base=given.get("base")))


@knowledge.get("/knowledge/items/<path:item_id>")
@knowledge.get("/knowledge/item")
def read_item(item_id: str | None = None) -> Response:
    """An item, as it is or as of a revision."""
    item, given = addressed_item(item_id, "revision", "base")
    return answer(runtime().library.read(item, signed_in(), revision=given.get("revision"), base=given.get("base")))


@knowledge.get("/knowledge/items/<path:item_id>/revisions")
@knowledge.get("/knowledge/item/revisions")
def list_revisions(item_id: str | None = None) -> Response:
    """A page of an item's history."""
    item, given = addressed_item(item_id, "base", "cursor", "limit")
    return answer(
        runtime().library.revisions(
            item, signed_in(), base=given.get("base"), cursor=given.get("cursor"), limit=page_limit(given)
        )
    )


@knowledge.get("/knowledge/items/<path:item_id>/diff")
@knowledge.get("/knowledge/item/diff")
def compare_revisions(item_id: str | None = None) -> Response:
    """What changed between two revisions."""
    item, given = addressed_item(item_id, "base", required=("from", "to"))
    return answer(runtime().library.diff(item, signed_in(), old=given["from"], new=given["to"], base=given.get("base")))
