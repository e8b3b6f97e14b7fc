"""Checking a citation: what became of what it cites, in words, and the cited lines."""

from __future__ import annotations

from flask import render_template, request

from kbgit.access import Principal
from kbgit.errors import KbgitError
from kbgit.library import ItemView
from kbgit.library.verdict import Reason, State, Verdict
from kbgit.web.incoming import runtime
from kbgit.web.pages.access import page_blueprint, page_caller
from kbgit.web.pages.differences import read_difference

citations = page_blueprint("citations")

WORDS = {
    State.EXACT: "It stands. What it cites is word for word in the item as it is now.",
    State.MOVED: "It stands, in another place: the same lines are elsewhere in the item now.",
    State.CHANGED: "What it cites was changed since. The citation still shows what was written then.",
    State.SUPERSEDED: "The item was changed since. The citation still shows what was written then.",
    State.ARCHIVED: "What it cites was taken out of use. The citation still shows what was written then.",
    State.DELETED: "The item was removed. The citation still shows what was written then.",
    State.UNKNOWN: "It cites nothing that you may see.",
}
"""What a verdict says to a reader."""
REASONS = {
    Reason.MALFORMED: "It is not of the form knowledge:<item>@<40 hex digits>, with lines or without: #L10-L24.",
    Reason.NOT_FOUND: "No such item or revision is there for you.",
    Reason.NO_SUCH_LINES: "Its revision does not have these lines.",
    Reason.BASE: "Its base is archived.",
    Reason.ITEM: "The item is archived.",
    Reason.UNPUBLISHED: "The item was taken back and is a draft.",
}


@citations.get("/cite")
def show_citation() -> str:
    """The box, and the verdict on what was put into it."""
    caller = page_caller()
    reference = request.args.get("reference", "").strip()
    verdict = runtime().library.verify([reference], caller)[0] if reference else None
    view = _cited(reference, caller) if verdict and verdict.state is not State.UNKNOWN else None
    return render_template(
        "citation.html",
        reference=reference,
        verdict=verdict,
        words=WORDS,
        reasons=REASONS,
        view=view,
        cited_lines=_numbered(view) if view else [],
        differences=_differences(verdict) if verdict else [],
    )


def _cited(reference: str, caller: Principal) -> ItemView | None:
    try:
        return runtime().library.resolve(reference, caller)
    except KbgitError as error:
        if error.http_status >= 500:
            raise
        return None


def _numbered(view: ItemView) -> list[tuple[int, str]]:
    """The cited lines with their numbers; the first ones of a citation without lines."""
    start, end = view.citation.lines or (1, 40)
    return list(enumerate(view.content.removesuffix("\n").split("\n"), 1))[start - 1 : end]


def _differences(verdict: Verdict) -> list[tuple[str, list[object]]]:
    """Section → the rows of what changed in it."""
    return [
        (" › ".join(one.section) or "Before the first heading", list(read_difference(one.text)))
        for one in verdict.differences
    ]
