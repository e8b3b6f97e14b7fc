"""What operations are put together from: parameters, bodies, answers by status."""

from __future__ import annotations

from collections.abc import Sequence

from kbgit import errors as e
from kbgit.web import errors as h
from kbgit.web.openapi.shapes import TEXT, Json, ref, whole

ErrorClass = type[e.KbgitError]

_ANY_ANSWER: tuple[ErrorClass, ...] = (
    e.InvalidRequest,
    h.Misdirected,
    h.ForeignOrigin,
    h.RateLimited,
    h.RequestTimeout,
    e.TooLarge,
    h.UnsupportedMediaType,
    h.Stopping,
    h.Overloaded,
    e.KbgitError,
    e.HomeProblem,
    e.GitFailure,
    e.HistoryRewritten,
    e.IndexFailure,
    e.IndexDamaged,
)
SIGNED_IN: tuple[ErrorClass, ...] = (e.Unauthenticated, e.Forbidden, h.CrossSiteRequest)
KNOWLEDGE: tuple[ErrorClass, ...] = (*SIGNED_IN, e.KnowledgeRuntimeDisabled)
OF_BASES: tuple[ErrorClass, ...] = (e.InvalidName, e.BaseNotFound)
OF_WRITING: tuple[ErrorClass, ...] = (e.Conflict, e.DocumentProblem, e.PushRefused, e.TimedOut)


def parameter(name: str, description: str, schema: Json, *, where: str = "query", required: bool = False) -> Json:
    """A parameter of the query string, or of the path."""
    return {"name": name, "in": where, "required": required, "description": description, "schema": schema}


ITEM_IN_PATH = parameter(
    "item_id",
    "The item's id; its slashes may be written as they are or as %2F. An id that itself ends like an address below it "
    "(/revisions, /publish) is reached through /item?id= instead.",
    TEXT,
    where="path",
    required=True,
)
ITEM_IN_QUERY = parameter("id", "The item's id.", TEXT, required=True)
ITEM_ADDRESSES = (("items/{item_id}", ITEM_IN_PATH, ""), ("item", ITEM_IN_QUERY, "ById"))
"""The two ways to address an item: where, by which parameter, and what is added to the operation's name."""
IN_BASE = parameter("base", "The slug or key of the base in which to look, where an id is in several.", TEXT)
PAGE = (
    parameter("cursor", "The `cursor` of the page before.", TEXT),
    parameter("limit", "The most entries of a page.", {**whole(1, 200), "default": 50}),
)
SPACE_IN_PATH = parameter(
    "space",
    "The space as in Git's addresses (`platform`, `~ada`), or in full (`team:platform`, `personal:ada`).",
    TEXT,
    where="path",
    required=True,
)
BASE_IN_PATH = (SPACE_IN_PATH, parameter("slug", "The base's slug.", TEXT, where="path", required=True))


def operation(
    name: str,
    summary: str,
    schema: str,
    *,
    parameters: Sequence[Json] = (),
    errors: Sequence[ErrorClass] = (),
    callers: Sequence[ErrorClass] = KNOWLEDGE,
    body: str | None = None,
    body_required: bool = True,
    status: int = 200,
    content_type: str = "application/json",
) -> Json:
    """An operation that answers with the schema of that name. `callers` are the errors of who may call; none: anybody."""
    found: Json = {"operationId": name, "summary": summary}
    if parameters:
        found["parameters"] = list(parameters)
    if body is not None:
        content = {"application/json": {"schema": ref(body)}}
        found["requestBody"] = {"required": body_required, "content": content}
    done = {"description": "Done.", "content": {content_type: {"schema": ref(schema)}}}
    found["responses"] = {str(status): done, **_refusals((*_ANY_ANSWER, *callers, *errors))}
    if not callers:
        found["security"] = [{}]
    return found


def _refusals(errors: Sequence[ErrorClass]) -> Json:
    """Error responses by status, which name the codes they may carry."""
    by_status: dict[int, list[ErrorClass]] = {}
    for error in dict.fromkeys(errors):
        by_status.setdefault(error.http_status, []).append(error)
    found: Json = {}
    for status, classes in sorted(by_status.items()):
        codes = [error.code for error in classes]
        narrowed = {"properties": {"error": {"properties": {"code": {"enum": codes}}}}}
        found[str(status)] = {
            "description": " ".join((error.__doc__ or "").partition("\n")[0] for error in classes),
            "content": {"application/json": {"schema": {"allOf": [ref("Error"), narrowed]}}},
        }
        if status in (e.Unauthenticated.http_status, e.Forbidden.http_status):
            found[str(status)]["headers"] = {"WWW-Authenticate": {"schema": TEXT}}
    return found
