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
from kbgit.library.bases import Bases, Purge
from kbgit.library.filing import FiledFile, Filing, FilingResult, Outcome
from kbgit.library.library import Library
from kbgit.library.people import AuditPage, People, SpaceView, token_json
from kbgit.library.request import SearchRequest
from kbgit.library.writing import Draft, ItemText, Writing, Written

__all__ = [
    "AuditPage",
    "BaseView",
    "Bases",
    "Draft",
    "FiledFile",
    "Filing",
    "FilingResult",
    "ItemDiff",
    "ItemPage",
    "ItemText",
    "ItemView",
    "Library",
    "Outcome",
    "People",
    "Purge",
    "RevisionPage",
    "SearchRequest",
    "SearchResponse",
    "SearchResult",
    "SpaceView",
    "Status",
    "Writing",
    "Written",
    "token_json",
]
