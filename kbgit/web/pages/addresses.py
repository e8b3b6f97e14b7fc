"""Addresses of pages. A base's are below `/bases/<space>/<slug>`, written as in Git's addresses (`platform`, `~ada`).

An item's id comes last in its addresses, because it may hold slashes and whatever else a path may: `items/<id>` is its
page, `history/<id>` its history, and so on.
"""

from __future__ import annotations

from urllib.parse import quote, urlencode

from kbgit.access import PERSONAL, TEAM
from kbgit.base import BaseKey


def space_word(space: str) -> str:
    """A space's key as an address has it: `platform` for a team, `~ada` for somebody's own."""
    return "~" + space.removeprefix(PERSONAL) if space.startswith(PERSONAL) else space.removeprefix(TEAM)


def address_of_base(key: BaseKey | str, below: str = "", **query: str | None) -> str:
    """The page of a base, or one below it."""
    space, _, slug = str(key).rpartition("/")
    path = f"/bases/{quote(space_word(space), safe='~')}/{quote(slug, safe='')}"
    return _with_query(f"{path}/{below}" if below else path, query)


def address_of_item(
    key: BaseKey | str,
    item_id: str,
    view: str = "items",
    *,
    lines: tuple[int, int] | None = None,
    **query: str | None,
) -> str:
    """A page of an item: `items`, `history`, `compare`, `edit`, … `lines` (1-based, inclusive) marks these lines of it."""
    path = address_of_base(key, f"{view}/{quote(item_id, safe='/')}")
    if lines is None:
        return _with_query(path, query)
    return _with_query(path, {**query, "lines": f"{lines[0]}-{lines[1]}"}) + "#cited"


def address_of_space(space: str) -> str:
    """The bases of a space."""
    if space.startswith(PERSONAL):
        return "/me#knowledge"
    return f"/?{urlencode({'space': space.removeprefix(TEAM)})}#knowledge"


def address_of_search(**query: str | None) -> str:
    """The search page with these fields filled in."""
    return _with_query("/", query)


def local_path(text: str) -> str:
    """`text` if it is an address of this server without a host, which a redirect may follow; else the first page."""
    is_plain = text.isascii() and text.isprintable() and "\\" not in text
    return text if is_plain and text.startswith("/") and not text.startswith("//") else "/"


def _with_query(path: str, query: dict[str, str | None]) -> str:
    given = {name.rstrip("_"): value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path
