"""An item: as it is, as it was, what changed in between, and its state."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from flask import Response, render_template, request

from kbgit.access import Principal
from kbgit.errors import InvalidRequest, ItemNotPublished, StaleRevision
from kbgit.frontmatter import Value
from kbgit.item import ItemStatus, first_heading
from kbgit.library import ItemView
from kbgit.revision import Via
from kbgit.rows import BaseRow
from kbgit.web.incoming import base_key, runtime
from kbgit.web.markdown import Resolver, render, target_path
from kbgit.web.pages.access import gone_to, page_blueprint, page_caller
from kbgit.web.pages.addresses import address_of_base, address_of_item
from kbgit.web.pages.differences import read_difference

items = page_blueprint("items")

HISTORY_PAGE = 30
CHANGES = {
    "publish": (ItemStatus.PUBLISHED, "published"),
    "unpublish": (ItemStatus.DRAFT, "unpublished"),
    "archive": (ItemStatus.ARCHIVED, "archived"),
    "restore": (ItemStatus.PUBLISHED, "restored"),
}
_LINES = re.compile(r"([1-9][0-9]{0,8})(?:-([1-9][0-9]{0,8}))?")
_SOURCE_FIELDS = frozenset({"source", "source_type"})


@dataclass(frozen=True, slots=True)
class Shown:
    """An item as its page shows it. `is_pinned`: a revision was asked for."""

    view: ItemView
    is_pinned: bool


@items.get("/bases/<space>/<slug>/items/<path:item_id>")
def show_item(space: str, slug: str, item_id: str) -> str:
    """An item, as it is now or as of a revision."""
    caller, key = page_caller(), base_key(space, slug)
    shown = _shown(key, item_id, caller, request.args.get("revision") or None)
    view = shown.view
    lines = _lines(request.args.get("lines", ""), view)
    is_source = request.args.get("view") == "source"
    cited = view.with_lines(*lines).citation if lines else view.citation
    return render_template(
        "item.html",
        view=view,
        base=view.base,
        is_pinned=shown.is_pinned,
        is_source=is_source,
        repeats_title=lines is None and first_heading(view.content) == view.title,
        body=None
        if is_source
        else render(view.content, resolve=resolver(view.base, view.locator, caller), cited=lines),
        source_lines=view.content.removesuffix("\n").split("\n") if is_source else [],
        lines=lines,
        citation=cited,
        metadata=[(name, shown_value(value)) for name, value in view.metadata.items() if name not in _SOURCE_FIELDS],
        original=_original(view),
        changes=_changes(view) if view.is_current else [],
    )


@items.get("/bases/<space>/<slug>/history/<path:item_id>")
def show_history(space: str, slug: str, item_id: str) -> str:
    """An item's revisions, newest first."""
    key, cursor = base_key(space, slug), request.args.get("after") or None
    page = runtime().library.revisions(item_id, page_caller(), base=key, cursor=cursor, limit=HISTORY_PAGE)
    return render_template(
        "history.html",
        item_id=item_id,
        base=page.base,
        revisions=page.revisions,
        first=address_of_item(key, item_id, "history") if cursor else None,
        following=address_of_item(key, item_id, "history", after=page.cursor) if page.cursor else None,
    )


@items.get("/bases/<space>/<slug>/compare/<path:item_id>")
def compare(space: str, slug: str, item_id: str) -> str:
    """Two revisions side by side."""
    caller, key = page_caller(), base_key(space, slug)
    old, new = request.args.get("from", ""), request.args.get("to", "")
    difference = runtime().library.diff(item_id, caller, old=old, new=new, base=key)
    views = [runtime().library.read(item_id, caller, revision=one, base=key) for one in (old, new)]
    return render_template(
        "difference.html",
        item_id=item_id,
        base=views[0].base,
        old=views[0],
        new=views[1],
        blocks=read_difference(difference.text),
    )


@items.post("/bases/<space>/<slug>/state/<path:item_id>")
def change_state(space: str, slug: str, item_id: str) -> Response:
    """Publish, unpublish, archive or restore an item, if it is still what the page showed."""
    caller, key = page_caller(), base_key(space, slug)
    change = CHANGES.get(request.form.get("to", ""))
    status, word = change or (ItemStatus.DRAFT, "")
    # Whoever may not is told that, whatever their form says: with a revision that is none, nothing changes.
    expected = request.form.get("expected_revision", "") if change else ""
    try:
        written = runtime().writing.set_status(
            item_id, caller, status, base=key, expected_revision=expected or "none", via=Via.WEB
        )
    except StaleRevision as stale:
        if not expected:
            raise InvalidRequest(f"send `to` ({', '.join(CHANGES)}) and `expected_revision`", {"field": "to"}) from None
        return stale_page(key, item_id, stale)
    return gone_to(address_of_item(key, written.item_id, done=word))


@items.post("/bases/<space>/<slug>/delete/<path:item_id>")
def delete_item(space: str, slug: str, item_id: str) -> Response:
    """Remove an item's file, if it is still what the page showed."""
    caller, key = page_caller(), base_key(space, slug)
    is_meant = request.form.get("confirmed") == "yes"
    expected = request.form.get("expected_revision", "") if is_meant else "none"
    try:
        runtime().writing.delete(item_id, caller, base=key, expected_revision=expected or "none", via=Via.WEB)
    except StaleRevision as stale:
        if not is_meant:
            raise InvalidRequest("tick the box that says that you mean to delete it", {"field": "confirmed"}) from None
        return stale_page(key, item_id, stale)
    return gone_to(address_of_base(key, done="deleted"))


def stale_page(key: str, item_id: str, stale: StaleRevision) -> Response:
    """What somebody else changed meanwhile; nothing was written."""
    diff = stale.details.get("diff")
    shown = render_template(
        "stale.html",
        item_id=item_id,
        key=key,
        problem=stale,
        blocks=read_difference(diff) if diff else [],
        is_removed=stale.details.get("current") is None,
    )
    return Response(shown, stale.http_status, content_type="text/html; charset=utf-8")


def shown_value(value: Value) -> str:
    """A metadata value in one text."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(shown_value(one) for one in value)
    return "; ".join(f"{name}: {shown_value(one)}" for name, one in value.items())


def _shown(key: str, item_id: str, caller: Principal, revision: str | None) -> Shown:
    """The item; a draft or archived one as it is now, for those who may see it."""
    library = runtime().library
    try:
        return Shown(library.read(item_id, caller, revision=revision, base=key), revision is not None)
    except ItemNotPublished as refusal:
        current = refusal.details.get("knowledge_revision_id")
        if current is None:
            raise
        return Shown(library.read(item_id, caller, revision=current, base=key), False)


def _lines(text: str, view: ItemView) -> tuple[int, int] | None:
    """Lines from an address (`10-24`, or one), where the item has them."""
    match = _LINES.fullmatch(text.replace("L", ""))
    if match is None:
        return None
    start, end = int(match[1]), int(match[2] or match[1])
    last = view.content.removesuffix("\n").count("\n") + 1
    return (start, min(end, last)) if start <= min(end, last) else None


def resolver(base: BaseRow, locator: str, caller: Principal) -> Resolver:
    """Links between the files of a base lead to the pages of its items, as far as the caller may see them.

    `locator` is that of the item with the links. What the caller may see is asked once for all links (where there are any),
    and a link that comes again is not looked up again.
    """
    key = str(base.key)

    @cache
    def finder() -> Callable[[str], str | None]:
        return runtime().library.item_finder(key, caller)

    @cache
    def resolve(link: str) -> str | None:
        path = target_path(locator, link)
        for candidate in (path, f"{path}.md") if path else ():
            if (found := finder()(candidate)) is not None:
                return address_of_item(key, found)
        return None

    return resolve


def _original(view: ItemView) -> dict[str, str] | None:
    """What is known of the file an item was made from."""
    source = view.metadata.get("source")
    if view.metadata.get("source_type") != "file" or not isinstance(source, dict):
        return None
    found = {name: shown_value(value) for name, value in source.items()}
    if found.get("size", "").isdecimal() and len(found["size"]) < 16:
        found["size"] = size_in_words(int(found["size"]))
    return found


def size_in_words(size: int) -> str:
    """`1.4 MB`, from bytes."""
    if size < 1000:
        return f"{size} byte{'s' * (size != 1)}"
    value, unit = size / 1000, "kB"
    for larger in ("MB", "GB"):
        if value >= 1000:
            value, unit = value / 1000, larger
    return f"{value:.1f} {unit}"


def _changes(view: ItemView) -> list[dict[str, Any]]:
    """Which states an item can take from here, the likeliest first."""
    publish = {"to": "publish", "label": "Publish", "is_first": True}
    unpublish = {"to": "unpublish", "label": "Back to draft", "is_first": False}
    archive = {"to": "archive", "label": "Archive", "is_first": False}
    restore = {"to": "restore", "label": "Restore", "is_first": True}
    return {
        ItemStatus.DRAFT: [publish, archive],
        ItemStatus.PUBLISHED: [unpublish, archive],
        ItemStatus.ARCHIVED: [restore, unpublish],
    }[view.status]
