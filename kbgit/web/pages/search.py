"""The first page: search, and below it the bases that one may see."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from flask import render_template, request

from kbgit.access import Principal, personal_space
from kbgit.errors import KbgitError, SpaceNotFound
from kbgit.library import BaseView, SearchRequest, SearchResponse
from kbgit.library.highlight import highlight
from kbgit.place import read_mark
from kbgit.ranking import Mode
from kbgit.web.incoming import runtime, space_key
from kbgit.web.pages.access import page_blueprint, page_caller
from kbgit.web.pages.addresses import address_of_search, space_word

search = page_blueprint("search")

PAGE = 10
MODES = {
    Mode.HYBRID: "words and meaning",
    Mode.SEMANTIC: "meaning",
    Mode.LEXICAL: "exact words",
    Mode.RRF: "words and meaning, by rank",
}
_EXCERPT = 420
_BEFORE_HIT = 90
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+")
_FENCE = re.compile(r" {0,3}(?:`{3,}|~{3,})")
Segments = list[tuple[str, bool]]
"""A text in pieces, and whether each is what was asked for."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The search form as it was sent, in texts."""

    q: str = ""
    mode: str = Mode.HYBRID.value
    space: str = ""
    base: str = ""
    tag: str = ""
    locator: str = ""
    exclude: str = ""
    offset: str = ""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Asked:
        """What an address says; unknown fields are somebody else's."""
        return cls(**{one.name: given[one.name].strip() for one in fields(cls) if given.get(one.name, "").strip()})

    @property
    def is_filtered(self) -> bool:
        """Whether less is searched than there is."""
        return bool(self.base or self.tag or self.locator or self.exclude or self.space)

    @property
    def start(self) -> int:
        """How many results are before this page."""
        return int(self.offset) if self.offset.isascii() and self.offset.isdecimal() and len(self.offset) < 6 else 0

    def request(self, space: str | None) -> dict[str, Any]:
        """The body of the search that this asks for."""
        found: dict[str, Any] = {
            "query": self.q,
            "mode": self.mode,
            "spaces": [space] if space else [],
            "bases": [self.base] if self.base else [],
            "tags": [tag.strip() for tag in self.tag.split(",") if tag.strip()],
            "locator": self.locator,
            "exclude": self.exclude.split() if '"' not in self.exclude else [self.exclude.replace('"', "").strip()],
            "limit": PAGE,
            "offset": self.start,
            "explain": True,
        }
        return found

    def address(self, **changed: str) -> str:
        """The search page with this form, but for what is changed."""
        given = {one.name: getattr(self, one.name) for one in fields(self)} | changed
        if given["mode"] == Mode.HYBRID.value:
            given["mode"] = ""
        return address_of_search(**{name: value or None for name, value in given.items()})


@search.get("/")
def show_search() -> str:
    """Search in everything one may see, or in a space; and the bases there."""
    return _page(Asked.of(request.args), page_caller())


@search.get("/me")
def show_own() -> str:
    """Search in one's personal space, and its bases."""
    caller = page_caller()
    asked = Asked.of({**request.args.to_dict(), "space": space_word(personal_space(caller.user))})
    return _page(asked, caller)


def _page(asked: Asked, caller: Principal) -> str:
    space = _space(asked.space, caller)
    bases = runtime().library.bases(caller)
    response: SearchResponse | None = None
    problem: KbgitError | None = None
    if asked.q:
        try:
            wanted = SearchRequest.from_json(asked.request(space), runtime().home.settings)
            response = runtime().library.search(wanted, caller)
        except KbgitError as error:
            if error.http_status >= 500:
                raise
            problem = error
    return render_template(
        "search.html",
        asked=asked,
        space=space,
        modes=MODES,
        bases=bases,
        knowledge=_by_space(bases, space, caller),
        response=response,
        problem=problem,
        excerpt=lambda text: excerpt(text or "", asked.q),
        marked=lambda text: highlight(text, asked.q),
        lagging=_lagging(response) if response else [],
        previous=asked.address(offset=str(max(0, asked.start - PAGE))) if asked.start else None,
        following=asked.address(offset=str(asked.start + PAGE)) if response and response.has_more else None,
    )


def _space(word: str, caller: Principal) -> str | None:
    """The key of the space that is asked for, if the caller is in it. Raises `SpaceNotFound`."""
    if not word:
        return None
    key = space_key(word)
    # One's own space is no secret, though a token that is limited to bases elsewhere shows nothing of it.
    if key not in runtime().people.roles(caller) and key != personal_space(caller.user):
        raise SpaceNotFound(f"there is no space {word[:200]!r}", {"space": word[:200]})
    return key


def _by_space(bases: Sequence[BaseView], space: str | None, caller: Principal) -> dict[str, list[BaseView]]:
    """Space → its bases, of the spaces to be shown: the caller's own first, then teams by name, empty ones too."""
    shown = [space] if space else sorted(runtime().people.roles(caller), key=lambda key: (key.startswith("team:"), key))
    return {key: [view for view in bases if view.row.key.space == key] for key in shown}


def _lagging(response: SearchResponse) -> list[str]:
    """What the index has not caught up with, in words."""
    found = []
    for name, state in response.freshness.items():
        if state.alarm:
            found.append(f"{name} needs an operator: {state.alarm}")
        if state.published != state.indexed:
            found.append(f"{name}: the latest change is still being indexed")
        elif response.mode_used is not Mode.LEXICAL and state.vectors < state.passages:
            found.append(f"{name}: the meaning of {state.passages - state.vectors} passages is still being computed")
    return found


def excerpt(text: str, query: str) -> Segments:
    """A passage as running text around its first hit: without marks of Markdown that mean nothing here."""
    plain = " ".join(" ".join(_plain_lines(text)).split())
    pieces = highlight(plain, query)
    before = 0
    for piece, is_hit in pieces:
        if is_hit:
            break
        before += len(piece)
    else:
        before = 0
    start = 0
    if len(plain) > _EXCERPT and before > _BEFORE_HIT:
        start = plain.rfind(" ", 0, min(before - _BEFORE_HIT, len(plain) - _EXCERPT)) + 1
    end = len(plain)
    if end - start > _EXCERPT:
        end = plain.rfind(" ", start + 1, start + _EXCERPT)
        end = end if end > start else start + _EXCERPT
    return [("… ", False)] * (start > 0) + _cut(pieces, start, end) + [(" …", False)] * (end < len(plain))


def _plain_lines(text: str) -> list[str]:
    lines = [line for line in text.split("\n") if read_mark(line) is None and not _FENCE.match(line)]
    return [_HEADING.sub("", line) + " ·" if _HEADING.match(line) else line for line in lines]


def _cut(pieces: Segments, start: int, end: int) -> Segments:
    found: Segments = []
    at = 0
    for piece, is_hit in pieces:
        kept = piece[max(0, start - at) : max(0, end - at)]
        if kept:
            found.append((kept, is_hit))
        at += len(piece)
    return found
