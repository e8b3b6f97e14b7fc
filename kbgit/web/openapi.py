"""The OpenAPI 3.1 description of the JSON interface. Tests hold every route and real answers to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kbgit import __version__
from kbgit import errors as e
from kbgit.web import errors as h
from kbgit.web.schemas import SCHEMAS, ref, whole

Json = dict[str, Any]
ErrorClass = type[e.KbgitError]

_ANY_ANSWER: tuple[ErrorClass, ...] = (
    e.InvalidRequest,
    h.RequestTimeout,
    e.TooLarge,
    h.UnsupportedMediaType,
    h.Stopping,
    e.KbgitError,
    e.HomeProblem,
    e.GitFailure,
    e.HistoryRewritten,
    e.IndexFailure,
    e.IndexDamaged,
)
_SIGNED_IN: tuple[ErrorClass, ...] = (e.Unauthenticated, e.Forbidden, e.KnowledgeRuntimeDisabled)
_ITEM: tuple[ErrorClass, ...] = (
    e.BaseNotFound,
    e.ItemNotFound,
    e.RevisionNotFound,
    e.InvalidCitation,
    e.AmbiguousItem,
    e.BaseArchived,
    e.ItemNotPublished,
    e.ItemDeleted,
)
_BASE: tuple[ErrorClass, ...] = (e.InvalidName, e.BaseNotFound)


def _parameter(name: str, description: str, schema: Json, *, where: str = "query", required: bool = False) -> Json:
    return {"name": name, "in": where, "required": required, "description": description, "schema": schema}


_TEXT: Json = {"type": "string"}
_SHA: Json = {"type": "string", "pattern": "^[0-9a-f]{40}$"}
_ITEM_IN_PATH = _parameter(
    "item_id",
    "The item's id; its slashes may be written as they are or as %2F. An id that itself ends in /revisions or /diff is "
    "reached through /item?id= instead.",
    _TEXT,
    where="path",
    required=True,
)
_ITEM_IN_QUERY = _parameter("id", "The item's id.", _TEXT, required=True)
_IN_BASE = _parameter("base", "The slug or key of the base in which to look, where an id is in several.", _TEXT)
_REVISION = _parameter("revision", "Pins the revision; without it, the current one.", _SHA)
_CURSOR = _parameter("cursor", "The `cursor` of the page before.", _TEXT)
_LIMIT = _parameter("limit", "The most entries of a page.", {**whole(1, 200), "default": 50})
_FROM = _parameter("from", "The older revision.", _SHA, required=True)
_TO = _parameter("to", "The newer revision.", _SHA, required=True)
_BASE_IN_PATH = [
    _parameter(
        "space",
        "The base's space as in Git's addresses (`platform`, `~ada`), or in full (`team:platform`, `personal:ada`).",
        _TEXT,
        where="path",
        required=True,
    ),
    _parameter("slug", "The base's slug.", _TEXT, where="path", required=True),
]


def _answers(schema: str, errors: Sequence[ErrorClass]) -> Json:
    """Responses by status; those of errors name the codes they may carry."""
    found: Json = {"200": {"description": "Done.", "content": {"application/json": {"schema": ref(schema)}}}}
    by_status: dict[int, list[ErrorClass]] = {}
    for error in dict.fromkeys(errors):
        by_status.setdefault(error.http_status, []).append(error)
    for status, classes in sorted(by_status.items()):
        codes = [error.code for error in classes]
        narrowed = {"properties": {"error": {"properties": {"code": {"enum": codes}}}}}
        found[str(status)] = {
            "description": " ".join((error.__doc__ or "").partition("\n")[0] for error in classes),
            "content": {"application/json": {"schema": {"allOf": [ref("Error"), narrowed]}}},
        }
        if status == e.Unauthenticated.http_status:
            found[str(status)]["headers"] = {"WWW-Authenticate": {"schema": _TEXT}}
    return found


def _operation(
    name: str,
    summary: str,
    schema: str,
    *,
    parameters: Sequence[Json] = (),
    errors: Sequence[ErrorClass] = (),
    signed_in: bool = True,
    body: str | None = None,
) -> Json:
    found: Json = {"operationId": name, "summary": summary}
    if parameters:
        found["parameters"] = list(parameters)
    if body is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": ref(body)}}}
    found["responses"] = _answers(schema, (*_ANY_ANSWER, *(_SIGNED_IN if signed_in else ()), *errors))
    if not signed_in:
        found["security"] = [{}]
    return found


def _item_operations(where: Json, suffix: str) -> Mapping[str, Json]:
    """The three operations on an item, addressed by path or by query: path below the item → operation."""
    return {
        "": _operation(
            f"readItem{suffix}",
            "An item as it is now, or as of a revision.",
            "Item",
            parameters=[where, _REVISION, _IN_BASE],
            errors=_ITEM,
        ),
        "/revisions": _operation(
            f"listRevisions{suffix}",
            "A page of an item's revisions, newest first.",
            "RevisionPage",
            parameters=[where, _IN_BASE, _CURSOR, _LIMIT],
            errors=_ITEM,
        ),
        "/diff": _operation(
            f"compareRevisions{suffix}",
            "What changed in an item's file between two revisions.",
            "Diff",
            parameters=[where, _FROM, _TO, _IN_BASE],
            errors=_ITEM,
        ),
    }


_PATHS: Json = {
    "/api/v1/knowledge/search": {
        "post": _operation(
            "searchKnowledge",
            "Search the published items that the caller may see.",
            "SearchResponse",
            body="SearchRequest",
            errors=(e.BaseNotFound, e.SpaceNotFound, e.BaseArchived, e.TimedOut),
        )
    },
    "/api/v1/knowledge/resolve": {
        "get": _operation(
            "resolveReference",
            "What a citation cites, with an excerpt where it names lines.",
            "Item",
            parameters=[
                _parameter(
                    "reference", "knowledge:<item-id>@<sha>, with or without #L<from>-L<to>.", _TEXT, required=True
                ),
                _IN_BASE,
            ],
            errors=_ITEM,
        )
    },
    **{
        f"/api/v1/knowledge/items/{{item_id}}{below}": {"get": operation}
        for below, operation in _item_operations(_ITEM_IN_PATH, "").items()
    },
    **{
        f"/api/v1/knowledge/item{below}": {"get": operation}
        for below, operation in _item_operations(_ITEM_IN_QUERY, "ById").items()
    },
    "/api/v1/bases": {"get": _operation("listBases", "The bases that the caller may see.", "BaseList")},
    "/api/v1/bases/{space}/{slug}": {
        "get": _operation("showBase", "One base.", "Base", parameters=_BASE_IN_PATH, errors=_BASE)
    },
    "/api/v1/bases/{space}/{slug}/items": {
        "get": _operation(
            "listItems",
            "A page of a base's items, by id; drafts and archived items for those who may see them.",
            "ItemPage",
            parameters=[
                *_BASE_IN_PATH,
                _parameter("status", "Only items of this status.", ref("ItemStatus")),
                _parameter("prefix", "Only items whose locator begins so.", _TEXT),
                _CURSOR,
                _LIMIT,
            ],
            errors=_BASE,
        )
    },
    "/api/v1/status": {
        "get": _operation(
            "showStatus",
            "How things stand, in the bases that the caller (if there is one) may see.",
            "Status",
            errors=(e.Unauthenticated,),
            signed_in=False,
        )
    },
    "/api/v1/openapi.json": {
        "get": _operation("showOpenApi", "This description.", "OpenApi", signed_in=False),
    },
    "/healthz": {"get": _operation("showHealth", "That the server answers.", "Health", signed_in=False)},
}
_PATHS["/api/v1/status"]["get"]["security"] = [{"token": []}, {}]

DOCUMENT: Json = {
    "openapi": "3.1.0",
    "info": {
        "title": "kbgit",
        "version": __version__,
        "description": "A team's knowledge in Git, answered with exact citations.",
        "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    },
    "security": [{"token": []}],
    "paths": _PATHS,
    "components": {
        "securitySchemes": {
            "token": {"type": "http", "scheme": "bearer", "description": "A kbgit token, in the Authorization header."}
        },
        "schemas": SCHEMAS,
    },
}
