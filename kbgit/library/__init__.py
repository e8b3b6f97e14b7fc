"""The library: search and addressed reads of everything a caller may see. Surfaces call this and nothing below it."""

from kbgit.library.answers import (
    BaseView,
    ItemDiff,
    ItemPage,
    ItemView,
    RevisionPage,
    SearchResponse,
    SearchResult,
    Status,
)
from kbgit.library.library import Library
from kbgit.library.request import SearchRequest

__all__ = [
    "BaseView",
    "ItemDiff",
    "ItemPage",
    "ItemView",
    "Library",
    "RevisionPage",
    "SearchRequest",
    "SearchResponse",
    "SearchResult",
    "Status",
]
