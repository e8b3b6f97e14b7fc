"""Files in: the page that takes them, and what became of documents. The scripts of both use the JSON interface."""

from __future__ import annotations

from flask import Response, render_template, request

from kbgit.documents.contract import Reason, State
from kbgit.documents.row import DocumentRow
from kbgit.errors import Conflict, InvalidRequest, KbgitError, NotFound
from kbgit.item import ItemStatus
from kbgit.web.incoming import base_key, runtime
from kbgit.web.pages.access import gone_to, page_blueprint, page_caller
from kbgit.web.pages.addresses import address_of_base

uploads = page_blueprint("uploads")

PAGE = 50
STATES = {
    State.QUEUED: "Waits to be read",
    State.EXTRACTING: "Is being read",
    State.READY: "Is an item now",
    State.FAILED: "Could not be read",
    State.CANCELLED: "Cancelled; nothing was kept",
}
REASONS = {
    Reason.ENCRYPTED: ("It is protected by a password.", "Save it without one and upload it again."),
    Reason.NO_TEXT_LAYER: (
        "It has no text, only pictures of its pages, as a scan has.",
        "Let a program with text recognition (OCR) make a searchable PDF of it and upload that.",
    ),
    Reason.CORRUPT: (
        "It is damaged, or not of the kind that its name says.",
        "Open it in the program it comes from, save it anew and upload that.",
    ),
    Reason.TOO_LARGE: ("It holds more than the limits allow.", "Divide it and upload its parts."),
    Reason.TIMEOUT: ("Reading it took too long.", "Try again when less is going on, or divide it."),
    Reason.REFUSED: (
        "Its text could not be stored.",
        "Upload it to another folder, or tick the box that replaces what is there.",
    ),
    Reason.CRASHED: (
        "Reading it broke off more often than it is tried again.",
        "Save it in another format, or send it to whoever runs this server.",
    ),
}
"""Why a document failed, and the way out, in words for whoever uploaded it."""


@uploads.get("/bases/<space>/<slug>/upload")
def show_upload(space: str, slug: str) -> str:
    """The page that takes files."""
    base = runtime().writing.base_to_write(base_key(space, slug), page_caller())
    return render_template(
        "upload.html",
        base=base,
        statuses=[ItemStatus.DRAFT, ItemStatus.PUBLISHED],
        words=_words(),
    )


@uploads.get("/bases/<space>/<slug>/documents")
def show_documents(space: str, slug: str) -> Response:
    """What became of a base's documents, newest first."""
    return _documents(base_key(space, slug), None)


@uploads.post("/bases/<space>/<slug>/documents/<document_id>")
def change_document(space: str, slug: str, document_id: str) -> Response:
    """Try a failed document again, or let nothing come of one."""
    caller, key = page_caller(), base_key(space, slug)
    runtime().writing.base_to_write(key, caller)
    row = runtime().documents.document(document_id, caller)
    if row.base != key:
        raise NotFound("there is no such document")
    change = {"retry": runtime().documents.retry, "cancel": runtime().documents.cancel}.get(
        request.form.get("action", "")
    )
    if change is None:
        raise InvalidRequest("field `action` must be one of cancel, retry", {"field": "action"})
    try:
        change(document_id, caller)
    except Conflict as problem:  # it went on meanwhile, which the page then shows
        return _documents(key, problem)
    return gone_to(address_of_base(key, "documents"))


def _documents(key: str, problem: KbgitError | None) -> Response:
    caller = page_caller()
    base = runtime().writing.base_to_write(key, caller)
    after = request.args.get("after") or None
    page = runtime().documents.documents(caller, base=key, state=None, cursor=after, limit=PAGE)
    shown = render_template(
        "documents.html",
        base=base,
        documents=page.documents,
        words_of=words_of,
        problem=problem,
        first=address_of_base(key, "documents") if after else None,
        following=address_of_base(key, "documents", after=page.cursor) if page.cursor else None,
    )
    return Response(shown, problem.http_status if problem else 200, content_type="text/html; charset=utf-8")


def words_of(row: DocumentRow) -> tuple[str, str]:
    """What became of a document, and what may be done about it; the second is empty where nothing need be."""
    if row.state is not State.FAILED or row.reason is None:
        return STATES[row.state], ""
    why, way_out = REASONS[row.reason]
    return f"{STATES[row.state]}. {row.detail or why}", way_out


def _words() -> dict[str, dict[str, object]]:
    """The same for the script of the page."""
    return {
        "states": {state.value: words for state, words in STATES.items()},
        "reasons": {reason.value: list(words) for reason, words in REASONS.items()},
    }
