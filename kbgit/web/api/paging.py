"""Pages of lists that the library gives whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from kbgit.errors import InvalidRequest
from kbgit.web.api.blueprints import page_limit

_MOST = 200
Row = TypeVar("Row")


def page(rows: Mapping[str, Row], given: dict[str, str]) -> tuple[list[Row], str | None]:
    """The rows after the one whose key is the parameter `cursor`, at most `limit`; and the next page's cursor.

    Rows by key, in order of their keys: that of a row which is gone meanwhile is a cursor still.
    """
    limit = page_limit(given)
    if not 1 <= limit <= _MOST:
        raise InvalidRequest(f"parameter `limit` must be a whole number from 1 to {_MOST}", {"parameter": "limit"})
    after = given.get("cursor", "")
    keys = [key for key in rows if key > after]
    shown = keys[:limit]
    return [rows[key] for key in shown], shown[-1] if len(keys) > limit else None
