"""Recall: what is known about a question, memory first and knowledge beside it, within a budget of tokens.

    {"type": "recall",
     "sources": {"memory":    {"asked": true, "why_not": null, "count": 2, "left_out": 0, "mode_used": "hybrid",
                               "fallback_reason": null},
                 "knowledge": {"asked": false, "why_not": "the client profile does not allow it", "count": 0, …}},
     "memory": [record objects with `content`, `lines`, `is_whole`, `is_cut`, `score` instead of `text`],
     "knowledge": [search results with `is_cut`],
     "token_budget": 2000, "estimated_tokens": 311, "notes": []}

Both sources score by the same fusion over absolute scales (`kbgit.ranking`), so a budget can compare them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from kbgit.access import Principal, Scope
from kbgit.errors import GitFailure, IndexFailure, InvalidRequest, KnowledgeRuntimeDisabled
from kbgit.library import Library, SearchRequest, SearchResponse, SearchResult
from kbgit.memory.records import MemoryKind
from kbgit.memory.search import MemoryHit, MemoryHits
from kbgit.memory.store import MemoryStore
from kbgit.passage import estimated_tokens
from kbgit.ranking import Mode

MOST_RESULTS = 50
MOST_TOKENS = 1_000_000

_Found = TypeVar("_Found", "Recalled[MemoryHit]", "Recalled[SearchResult]")


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """What to recall. `space`, `project` and `kind` choose records; `bases` chooses knowledge, and empty means all.

    `include_knowledge` asks for knowledge; whether it is searched also depends on the server, the token and the client.
    `memory_limit` and `knowledge_limit` bound the results of each; `token_budget` (None: no bound) those of both.
    """

    query: str
    space: str | None = None
    project: str | None = None
    kind: MemoryKind | None = None
    include_knowledge: bool = True
    bases: tuple[str, ...] = ()
    memory_limit: int = 10
    knowledge_limit: int = 5
    min_score: float = 0.0
    token_budget: int | None = None

    def __post_init__(self) -> None:
        for name in ("memory_limit", "knowledge_limit"):
            if not 1 <= getattr(self, name) <= MOST_RESULTS:
                raise InvalidRequest(f"field `{name}` must be a whole number from 1 to {MOST_RESULTS}", {"field": name})
        if not 0.0 <= self.min_score <= 1.0:
            raise InvalidRequest("field `min_score` must be from 0 to 1", {"field": "min_score"})
        if self.token_budget is not None and not 1 <= self.token_budget <= MOST_TOKENS:
            message = f"field `token_budget` must be a whole number from 1 to {MOST_TOKENS}"
            raise InvalidRequest(message, {"field": "token_budget"})
