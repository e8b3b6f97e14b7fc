"""The JSON interface: addresses to calls of the library, its answers to JSON. `openapi` describes every one of them.

An item's id may contain anything but control characters, slashes too. `/items/<id>` takes it as it is, percent-encoded where
an address needs that; only an id that itself ends in `/revisions` or `/diff` is out of its reach, and every id is in that
of `/item?id=<id>`, `/item/revisions?id=` and `/item/diff?id=`.
"""

from __future__ import annotations

from typing import Any, Protocol

from flask import Blueprint, Response, g

from kbgit.access import Principal
from kbgit.errors import KnowledgeRuntimeDisabled
from kbgit.library import SearchRequest
from kbgit.web.asgi import encoded
from kbgit.web.incoming import base_key, caller, caller_if_any, json_body, parameters, runtime, whole_number
from kbgit.web.openapi import DOCUMENT

PREFIX = "/api/v1"
_PAGE = 50

public = Blueprint("public", __name__)
"""Answers anybody."""
knowledge = Blueprint("knowledge", __name__, url_prefix=PREFIX)
"""Answers signed-in callers, while the knowledge runtime is on."""


class Answer(Protocol):
    """What the library answers with."""

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        ...


def json_response(payload: object, status: int = 200) -> Response:
    """A JSON answer."""
    return Response(encoded(payload), status, content_type="application/json")


def _answer(found: Answer) -> Response:
    return json_response(found.as_json())


@knowledge.before_request
def _sign_in() -> None:
    g.caller = caller()
    if not runtime().home.settings.knowledge_enabled:
        raise KnowledgeRuntimeDisabled("the knowledge runtime is off; the setting knowledge_enabled turns it on")


def _caller() -> Principal:
    found = g.caller
    assert isinstance(found, Principal)
    return found


# Search and citations


@knowledge.post("/knowledge/search")
def search() -> Response:
    """Search what the caller may see."""
    parameters()
    request = SearchRequest.from_json(json_body(), runtime().home.settings)
    return _answer(runtime().library.search(request, _caller()))


@knowledge.get("/knowledge/resolve")
def resolve() -> Response:
    """What a citation cites."""
    given = parameters("base", required=("reference",))
    return _answer(runtime().library.resolve(given["reference"], _caller(), base=given.get("base")))


# Items


@knowledge.get("/knowledge/items/<path:item_id>")
def read_item(item_id: str) -> Response:
    """An item, as it is or as of a revision."""
    given = parameters("revision", "base")
    return _read(item_id, given)


@knowledge.get("/knowledge/item")
def read_item_by_id() -> Response:
    """The same, for any id."""
    given = parameters("revision", "base", required=("id",))
    return _read(given["id"], given)


def _read(item_id: str, given: dict[str, str]) -> Response:
    library = runtime().library
    return _answer(library.read(item_id, _caller(), revision=given.get("revision"), base=given.get("base")))


@knowledge.get("/knowledge/items/<path:item_id>/revisions")
def list_revisions(item_id: str) -> Response:
    """A page of an item's history."""
    return _revisions(item_id, parameters("base", "cursor", "limit"))


@knowledge.get("/knowledge/item/revisions")
def list_revisions_by_id() -> Response:
    """The same, for any id."""
    given = parameters("base", "cursor", "limit", required=("id",))
    return _revisions(given["id"], given)


def _revisions(item_id: str, given: dict[str, str]) -> Response:
    limit = whole_number("limit", given.get("limit"), _PAGE)
    return _answer(
        runtime().library.revisions(item_id, _caller(), base=given.get("base"), cursor=given.get("cursor"), limit=limit)
    )


@knowledge.get("/knowledge/items/<path:item_id>/diff")
def compare_revisions(item_id: str) -> Response:
    """What changed between two revisions."""
    return _diff(item_id, parameters("base", required=("from", "to")))


@knowledge.get("/knowledge/item/diff")
def compare_revisions_by_id() -> Response:
    """The same, for any id."""
    given = parameters("base", required=("id", "from", "to"))
    return _diff(given["id"], given)


def _diff(item_id: str, given: dict[str, str]) -> Response:
    library = runtime().library
    return _answer(library.diff(item_id, _caller(), old=given["from"], new=given["to"], base=given.get("base")))


# Bases


@knowledge.get("/bases")
def list_bases() -> Response:
    """The bases the caller may see."""
    parameters()
    return json_response({"bases": [base.as_json() for base in runtime().library.bases(_caller())]})


@knowledge.get("/bases/<space>/<slug>")
def show_base(space: str, slug: str) -> Response:
    """One base."""
    parameters()
    return _answer(runtime().library.base(base_key(space, slug), _caller()))


@knowledge.get("/bases/<space>/<slug>/items")
def list_items(space: str, slug: str) -> Response:
    """A page of a base's items."""
    given = parameters("status", "prefix", "cursor", "limit")
    return _answer(
        runtime().library.items(
            base_key(space, slug),
            _caller(),
            status=given.get("status"),
            prefix=given.get("prefix", ""),
            cursor=given.get("cursor"),
            limit=whole_number("limit", given.get("limit"), _PAGE),
        )
    )


# For anybody


@public.get("/api/v1/status")
def show_status() -> Response:
    """How things stand, as far as the caller (if any) may know."""
    parameters()
    return _answer(runtime().library.status(caller_if_any()))


@public.get("/api/v1/openapi.json")
def show_openapi() -> Response:
    """The description of this interface."""
    parameters()
    return json_response(DOCUMENT)


@public.get("/healthz")
def show_health() -> Response:
    """That the server answers."""
    parameters()
    return json_response({"status": "ok"})
