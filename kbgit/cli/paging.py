"""Lists that come in pages, put together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MOST = 200
"""Rows of a page: the most that the API gives."""

Ask = Callable[[str | None, int], dict[str, Any]]
"""A page: after a cursor (None: the first), of at most so many rows."""


def first(ask: Ask, rows: str, limit: int | None = None) -> dict[str, Any]:
    """The first `limit` rows (None: all) as one page, whose cursor goes on after them. Rows are called `rows` in a page."""
    found = ask(None, MOST if limit is None else min(MOST, limit))
    while found["cursor"] is not None and (limit is None or len(found[rows]) < limit):
        page = ask(found["cursor"], MOST if limit is None else min(MOST, limit - len(found[rows])))
        found[rows].extend(page[rows])
        found["cursor"] = page["cursor"]
    return found
