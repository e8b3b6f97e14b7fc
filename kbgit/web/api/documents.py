"""Documents: uploaded, listed, followed, cancelled, tried again. `uploads` brings the bytes."""

from __future__ import annotations

from flask import Response, request

from kbgit.errors import InvalidRequest
from kbgit.revision import Via
from kbgit.web.answers import answer, json_response
from kbgit.web.api.blueprints import knowledge_blueprint, page_limit, signed_in
from kbgit.web.incoming import base_key, parameters, runtime, truth, whole_number
from kbgit.web.uploads import ticket_of

documents = knowledge_blueprint("documents")


@documents.post("/bases/<space>/<slug>/documents")
def upload_document(space: str, slug: str) -> Response:
    """Take a document in. Asked twice: whether it may come, and when it has."""
    given = parameters("folder", "replace", required=("name",))
    ticket = ticket_of(request.environ.get("asgi.scope", {}))
    refusal = ticket.refusal if ticket else None
    wish = runtime().documents.admit(
        base_key(space, slug),
        signed_in(),
        name=given["name"],
        folder=given.get("folder", ""),
        replace=truth("replace", given.get("replace"), default=False),
        size=ticket.size if ticket and not refusal else None,
    )
    if ticket is None:
        raise InvalidRequest("send the file as the request's body")
    if refusal is not None:  # what is wrong with the body is told to those alone who may send one
        raise refusal
    if ticket.arrived is None:
        ticket.is_admitted = True
        return Response(status=204)
    via = Via.API if "Authorization" in request.headers else Via.WEB
    return answer(runtime().documents.accept(wish, signed_in(), ticket.arrived, via), 202)


@documents.get("/documents")
def list_documents() -> Response:
    """A page of documents."""
    given = parameters("base", "state", "cursor", "limit")
    return answer(
        runtime().documents.documents(
            signed_in(),
            base=given.get("base"),
            state=given.get("state"),
            cursor=given.get("cursor"),
            limit=page_limit(given),
        )
    )


@documents.get("/documents/events")
def list_events() -> Response:
    """What happened to documents."""
    given = parameters("after", "wait")
    wait = whole_number("wait", given.get("wait"), 0)
    return answer(runtime().documents.events(signed_in(), after=given.get("after"), wait=wait))


@documents.get("/documents/<document_id>")
def show_document(document_id: str) -> Response:
    """One document."""
    parameters()
    return answer(runtime().documents.document(document_id, signed_in()))


@documents.post("/documents/<document_id>/cancel")
def cancel_document(document_id: str) -> Response:
    """Let nothing come of a document."""
    parameters()
    return answer(runtime().documents.cancel(document_id, signed_in()))


@documents.post("/documents/<document_id>/retry")
def retry_document(document_id: str) -> Response:
    """Queue a failed document again."""
    parameters()
    return answer(runtime().documents.retry(document_id, signed_in()))


@documents.get("/file-types")
def list_file_types() -> Response:
    """Which files can come in."""
    parameters()
    return json_response(runtime().documents.file_types())
