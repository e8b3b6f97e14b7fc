"""Writing items: the whole file as text, its preview, and what is wrong with it while it is typed.

The form works without scripts: each of its buttons sends the text, and the answer is the form again or the item. A text that
is refused comes back exactly as it was sent, whatever the reason: nothing that somebody typed is lost.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import unified_diff
from typing import Any

from flask import Response, render_template, request

from kbgit.access import Principal
from kbgit.errors import DocumentProblem, InvalidRequest, KbgitError, PushRefused, StaleRevision
from kbgit.frontmatter import split_header
from kbgit.header_edit import NewValue, canonical_content
from kbgit.item import Document, ItemStatus, edit_document, parse_document
from kbgit.library import ItemText
from kbgit.revision import Via
from kbgit.rows import BaseRow
from kbgit.web.answers import json_response
from kbgit.web.fields import LONGEST_TEXT, json_object
from kbgit.web.incoming import base_key, runtime
from kbgit.web.markdown import render
from kbgit.web.pages.access import gone_to, page_blueprint, page_caller
from kbgit.web.pages.addresses import address_of_base, address_of_item
from kbgit.web.pages.differences import Block, read_difference
from kbgit.web.pages.items import resolver

editor = page_blueprint("editor")

FIELDS = ("title", "description", "tags", "status")
"""What the form sets in the front matter for those who would rather not write it."""
STATUSES = tuple(status.value for status in ItemStatus)
_NEW = "---\ntitle:\nstatus: draft\ntags: []\n---\n"
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # scripts in which a character counts as a word
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
# A comparison takes time by the product of both lengths, in lines without those that both begin and end with.
_MOST_COMPARED = 1_500
# What may come back as the form, with what is wrong beside the text.
_ANSWERED_HERE = frozenset({"already_exists", "document_problem", "invalid_request", "push_refused", "stale_revision"})


@dataclass(frozen=True, slots=True)
class Form:
    """The form as it is sent and shown. `item_id` and `expected` are None for a new item."""

    base: BaseRow
    text: str
    item_id: str | None = None
    expected: str | None = None
    title: str = ""
    locator: str = ""
    path: str = ""
    problem: KbgitError | None = None
    blocks: list[Block] = field(default_factory=list)
    is_removed: bool = False
    has_preview: bool = False
    is_set: bool = False


@editor.get("/bases/<space>/<slug>/new")
def show_new(space: str, slug: str) -> Response:
    """The form for a new item."""
    base = runtime().writing.base_to_write(base_key(space, slug), page_caller())
    return _page(Form(base, _NEW))


@editor.post("/bases/<space>/<slug>/new")
def create(space: str, slug: str) -> Response:
    """Preview a new item, set its front matter, or create it."""
    caller = page_caller()
    base = runtime().writing.base_to_write(base_key(space, slug), caller)
    sent = Form(base, _text(), path=request.form.get("path", "").strip())
    try:
        sent = replace(sent, text=_with_fields(sent.text, request.form))
        if answered := _without_saving(sent):
            return answered
        made = runtime().writing.create_text(str(base.key), caller, sent.text, locator=_locator(sent.path), via=Via.WEB)
    except KbgitError as problem:
        return _refused(sent, problem)
    return gone_to(address_of_item(base.key, made.item_id, done="created"))


@editor.get("/bases/<space>/<slug>/edit/<path:item_id>")
def show_edit(space: str, slug: str, item_id: str) -> Response:
    """The form for an item, as it is now."""
    found = runtime().writing.text_of(item_id, page_caller(), base=base_key(space, slug))
    return _page(_form_of(found, found.text, found.revision))


@editor.post("/bases/<space>/<slug>/edit/<path:item_id>")
def save(space: str, slug: str, item_id: str) -> Response:
    """Preview an item, set its front matter, or save it if it is still what the writer saw."""
    caller, key = page_caller(), base_key(space, slug)
    base = runtime().writing.base_to_write(key, caller)
    text, expected = _text(), request.form.get("expected_revision", "")
    try:
        now = runtime().writing.text_of(item_id, caller, base=key)
    except KbgitError as problem:
        if problem.code != "item_not_found" or not expected:
            raise
        # It was removed while somebody wrote: their text becomes a new item, if they want.
        return _page(Form(base, text, problem=_removed(expected), is_removed=True, path=""), 409)
    sent = _form_of(now, text, expected)
    try:
        sent = replace(sent, text=_with_fields(text, request.form))
        if answered := _without_saving(sent):
            return answered
        saved = runtime().writing.replace_text(
            item_id, caller, sent.text, base=key, expected_revision=expected or "none", via=Via.WEB
        )
    except StaleRevision as stale:
        return _stale(sent, stale, caller)
    except KbgitError as problem:
        return _refused(sent, problem)
    return gone_to(address_of_item(key, saved.item_id, done="changed"))


@editor.post("/bases/<space>/<slug>/preview")
def preview(space: str, slug: str) -> Response:
    """The text that a page sends as it is typed: as HTML, with what is wrong, its title and how many words it has.

    With `fields`, which are those of the form, also the text with them set.
    """
    caller = page_caller()
    base = runtime().writing.base_to_write(base_key(space, slug), caller)
    body = json_object("item_id", "locator", "fields", required=("text",))
    text = canonical_content(body.text("text", LONGEST_TEXT) or "")
    refusal: DocumentProblem | None = None
    try:
        text = _with_fields(
            text, {name: value for name, value in body.metadata("fields").items() if isinstance(value, str)}
        )
    except DocumentProblem as problem:
        refusal = problem
    found = _preview(base, text, body.text("item_id"), body.text("locator") or "", caller)
    if refusal is not None and not found["problems"]:
        found["problems"] = [_problem(refusal)]
    return json_response({**found, "text": text if refusal is None and body.metadata("fields") else None})


# The text and what it says


def _preview(base: BaseRow, text: str, item_id: str | None, locator: str, caller: Principal) -> dict[str, Any]:
    problems: list[dict[str, Any]] = []
    document: Document | None = None
    try:
        document = parse_document(text.encode())
    except DocumentProblem as problem:
        problems.append(_problem(problem))
    content = document.content if document else _body_of(text)
    if document is not None:
        problems += _notes(document, item_id)
    return {
        "html": str(render(content, resolve=resolver(base, locator, caller))),
        "problems": problems,
        "title": document.title or "" if document else "",
        "status": (document.status or base.settings.default_status).value if document else None,
        "words": len(_WORD.findall(content)),
    }


def _notes(document: Document, item_id: str | None) -> list[dict[str, Any]]:
    """What is no mistake, and yet may not be meant."""
    notes = []
    if document.title is None:
        notes.append(_note(1, "it has no title yet", "write one in the front matter, or a heading"))
    if item_id is not None and document.explicit_id is not None and document.explicit_id != item_id:
        line = document.field_lines.get("id", 1)
        notes.append(_note(line, f"this makes it another item than {item_id}", "its old id will no longer be found"))
    return notes


def _problem(problem: DocumentProblem) -> dict[str, Any]:
    found = {"line": problem.line, "column": problem.column, "what": problem.what, "mend": problem.mend}
    return {"kind": "problem", **found}


def _note(line: int, what: str, mend: str) -> dict[str, Any]:
    return {"kind": "note", "line": line, "column": None, "what": what, "mend": mend}


def _body_of(text: str) -> str:
    """What is below a front matter that cannot be read; the whole text where it is not even closed."""
    try:
        return text[split_header(text)[1] :]
    except DocumentProblem:
        return text


# The form


def _text() -> str:
    """What was typed, with the line ends that it was typed with: a browser sends CR LF for each of them."""
    if "text" not in request.form:
        raise InvalidRequest("field `text` is missing", {"field": "text"})
    return canonical_content(request.form["text"])


def _locator(path: str) -> str | None:
    if not path:
        return None
    return path if path.lower().endswith(".md") else f"{path}.md"


def _form_of(found: ItemText, text: str, expected: str) -> Form:
    return Form(found.base, text, found.item_id, expected, found.title, found.locator)


def _without_saving(sent: Form) -> Response | None:
    """The answer to every button but the one that saves."""
    match request.form.get("action", "save"):
        case "preview":
            return _page(replace(sent, has_preview=True))
        case "fields":
            return _page(replace(sent, is_set=True))
        case "save":
            return None
        case _:
            raise InvalidRequest("field `action` must be one of fields, preview, save", {"field": "action"})


def _with_fields(text: str, given: Mapping[str, str]) -> str:
    """The text with those front matter fields set that differ from what the form showed; an empty one is taken out.

    What the form showed is sent along as `was_…`, so that fields that nobody touched undo nothing that was typed.
    Raises `DocumentProblem`.
    """
    changed: dict[str, NewValue] = {}
    for name in FIELDS:
        value, was = (" ".join(given.get(key, "").split()) for key in (name, f"was_{name}"))
        if value == was:
            continue
        if name == "tags":
            changed[name] = [tag for one in value.split(",") if (tag := one.strip())] or None
        else:
            changed[name] = value or None
    return edit_document(text.encode(), changed).decode("utf-8") if changed else text


def _fields_of(document: Document) -> dict[str, str]:
    title = document.fields.get("title", "")
    status = document.status.value if document.status else ""
    return {
        "title": " ".join(title.split()) if isinstance(title, str) else "",
        "description": " ".join(document.description.split()),
        "tags": ", ".join(document.tags),
        "status": status,
    }


def _refused(sent: Form, problem: KbgitError) -> Response:
    """The form again, with the text as it was sent and everything that is wrong with it; other failures go their way."""
    if problem.code not in _ANSWERED_HERE:
        raise problem
    return _page(replace(sent, problem=problem), problem.http_status)


def _stale(sent: Form, stale: StaleRevision, caller: Principal) -> Response:
    """Their text beside the writer's. Saving again starts from theirs, so it is the writer who decides."""
    assert sent.item_id is not None
    now = runtime().writing.text_of(sent.item_id, caller, base=str(sent.base.key))
    blocks = read_difference(_difference(now.text, sent.text))
    return _page(replace(sent, problem=stale, blocks=blocks, expected=now.revision, title=now.title), stale.http_status)


def _removed(expected: str) -> StaleRevision:
    return StaleRevision("the item was removed meanwhile", {"expected": expected[:100], "current": None, "diff": None})


def _difference(old: str, new: str) -> str:
    """A unified difference; empty where it would take too long."""
    before, after = old.split("\n"), new.split("\n")
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    if max(len(before), len(after)) - start - end > _MOST_COMPARED:
        return ""
    return "\n".join(unified_diff(before, after, lineterm=""))


def _page(form: Form, status: int = 200) -> Response:
    caller = page_caller()
    fields = {"title": "", "description": "", "tags": "", "status": ""}
    try:
        fields = _fields_of(parse_document(form.text.encode()))
    except DocumentProblem as problem:
        if form.problem is None and form.has_preview:
            form = replace(form, problem=problem)
    if isinstance(form.problem, PushRefused | DocumentProblem):
        form = replace(form, has_preview=True)
    shown = render_template(
        "editor.html",
        form=form,
        base=form.base,
        fields=fields,
        statuses=STATUSES,
        preview=_preview(form.base, form.text, form.item_id, form.locator, caller) if form.has_preview else None,
        action=address_of_item(form.base.key, form.item_id, "edit")
        if form.item_id
        else address_of_base(form.base.key, "new"),
        preview_address=address_of_base(form.base.key, "preview"),
        back=address_of_item(form.base.key, form.item_id) if form.item_id else address_of_base(form.base.key),
    )
    return Response(shown, status, content_type="text/html; charset=utf-8")
