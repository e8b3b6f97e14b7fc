"""Recall: what is known about a question, memory first and knowledge beside it, within a budget of tokens.

    {"type": "recall",
     "sources": {"memory":    {"asked": true, "why_not": null, "count": 2, "left_out": 0, "mode_used": "hybrid",
                               "fallback_reason": null},
                 "knowledge": {"asked": false, "why_not": "the client profile does not allow it", "count": 0, …}},
     "memory": [record objects with `content`, `lines`, `is_whole`, `is_cut`, `score` instead of `text`],
     "knowledge": [search results with `is_cut`, without `more_passages`],
     "token_budget": 2000, "estimated_tokens": 311, "notes": []}

A source with both `asked` and `why_not` was asked and failed. `left_out` counts what was found and did not fit the budget.

Both sources score by the same fusion over absolute scales (`kbgit.ranking`), so a budget can compare them.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kbgit.access import Principal, Scope
from kbgit.errors import GitFailure, HomeProblem, IndexFailure, InvalidRequest, KnowledgeRuntimeDisabled, TimedOut
from kbgit.library import Library, SearchRequest, SearchResponse, SearchResult
from kbgit.memory.records import MemoryKind
from kbgit.memory.search import MemoryHit, MemoryHits
from kbgit.memory.store import MemoryStore
from kbgit.passage import estimated_tokens
from kbgit.ranking import Mode

MOST_RESULTS = 50
MOST_TOKENS = 1_000_000


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


@dataclass(frozen=True, slots=True)
class RecalledRecord:
    """A record that answers, with who wrote it, through what, and when. `is_cut`: `content` ends before it should."""

    hit: MemoryHit
    content: str
    is_cut: bool = False

    @property
    def score(self) -> float:
        """Relevance, from 0 to 1."""
        return self.hit.score

    @property
    def title(self) -> str:
        """The record's title; empty when it has none."""
        return self.hit.record.title

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "source": "memory",
            **self.hit.record.as_json(with_text=False),
            "content": self.content,
            "lines": list(self.hit.lines),
            "is_whole": self.hit.is_whole and not self.is_cut,
            "is_cut": self.is_cut,
            "score": round(self.score, 6),
        }


@dataclass(frozen=True, slots=True)
class RecalledItem:
    """A knowledge item that answers, with its citation. `is_cut`: `content` ends before the cited lines do."""

    result: SearchResult
    content: str
    is_cut: bool = False

    @property
    def score(self) -> float:
        """Relevance, from 0 to 1."""
        return self.result.score

    @property
    def title(self) -> str:
        """The item's title."""
        return self.result.title

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"source": "knowledge", **self.result.as_json(), "content": self.content, "is_cut": self.is_cut}


Recalled = RecalledRecord | RecalledItem


@dataclass(frozen=True, slots=True)
class SourceReport:
    """Whether a source was asked, why not (or why it failed), and what came of it."""

    asked: bool
    why_not: str | None
    count: int = 0
    left_out: int = 0
    mode_used: Mode | None = None
    fallback_reason: str | None = None
    freshness: Mapping[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """JSON-ready; `freshness` is there for knowledge that was asked."""
        found: dict[str, Any] = {
            "asked": self.asked,
            "why_not": self.why_not,
            "count": self.count,
            "left_out": self.left_out,
            "mode_used": None if self.mode_used is None else self.mode_used.value,
            "fallback_reason": self.fallback_reason,
        }
        return found if self.freshness is None else {**found, "freshness": dict(self.freshness)}


@dataclass(frozen=True, slots=True)
class RecallAnswer:
    """What was recalled: records first, then items, each best first. `estimated_tokens` is that of titles and contents."""

    records: Sequence[RecalledRecord]
    items: Sequence[RecalledItem]
    memory: SourceReport
    knowledge: SourceReport
    token_budget: int | None
    estimated_tokens: int
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The answer as the module describes it."""
        return {
            "type": "recall",
            "sources": {"memory": self.memory.as_json(), "knowledge": self.knowledge.as_json()},
            "memory": [record.as_json() for record in self.records],
            "knowledge": [item.as_json() for item in self.items],
            "token_budget": self.token_budget,
            "estimated_tokens": self.estimated_tokens,
            "notes": list(self.notes),
        }


class Recall:
    """Recall over the memory and the library of one home."""

    def __init__(self, memory: MemoryStore, library: Library) -> None:
        self._memory = memory
        self._library = library

    def recall(
        self,
        request: RecallRequest,
        caller: Principal,
        *,
        profile_allows_knowledge: bool,
        knowledge_configured: bool,
    ) -> RecallAnswer:
        """What the caller may know about the query.

        `profile_allows_knowledge` is what the contract says of the client's profile, `knowledge_configured` whether recall
        shall search knowledge on this server at all. A source that is not asked or fails leaves the other's answer whole.
        Raises `SpaceNotFound`, `BaseNotFound`, `BaseArchived` for what the request names and the caller cannot have.
        """
        hits, memory = self._from_memory(request, caller)
        response, knowledge = self._from_knowledge(
            request,
            caller,
            _why_no_knowledge(request, caller, profile_allows_knowledge, knowledge_configured),
        )
        records = [RecalledRecord(hit, hit.content) for hit in hits.hits] if hits else []
        items = [
            RecalledItem(replace(result, more_passages=()), result.content or "")
            for result in (response.results if response else [])
        ]
        kept = _within(request.token_budget, [*records, *items])
        kept_records = [one for one in kept if isinstance(one, RecalledRecord)]
        kept_items = [one for one in kept if isinstance(one, RecalledItem)]
        return RecallAnswer(
            records=kept_records,
            items=kept_items,
            memory=replace(memory, count=len(kept_records), left_out=len(records) - len(kept_records)),
            knowledge=replace(knowledge, count=len(kept_items), left_out=len(items) - len(kept_items)),
            token_budget=request.token_budget,
            estimated_tokens=math.ceil(sum(map(_tokens, kept))),
            notes=_notes(hits, response),
        )

    def _from_memory(self, request: RecallRequest, caller: Principal) -> tuple[MemoryHits | None, SourceReport]:
        why_not = _why_no_memory(caller)
        if why_not is not None:
            return None, SourceReport(False, why_not)
        try:
            hits = self._memory.search(
                request.query,
                caller,
                space=request.space,
                project=request.project,
                kind=request.kind,
                limit=request.memory_limit,
                min_score=request.min_score,
            )
        except (HomeProblem, IndexFailure) as error:
            return None, SourceReport(True, f"it failed: {error.message}")
        return hits, SourceReport(True, None, mode_used=hits.mode_used, fallback_reason=hits.fallback_reason)

    def _from_knowledge(
        self, request: RecallRequest, caller: Principal, why_not: str | None
    ) -> tuple[SearchResponse | None, SourceReport]:
        if why_not is not None:
            return None, SourceReport(False, why_not)
        search = SearchRequest(
            query=request.query,
            bases=request.bases,
            limit=request.knowledge_limit,
            min_score=request.min_score,
        )
        try:
            response = self._library.search(search, caller)
        except KnowledgeRuntimeDisabled as error:
            return None, SourceReport(False, error.message)
        except (GitFailure, IndexFailure, TimedOut) as error:
            return None, SourceReport(True, f"it failed: {error.message}")
        return response, SourceReport(
            True,
            None,
            mode_used=response.mode_used,
            fallback_reason=response.fallback_reason,
            freshness={base: freshness.as_json() for base, freshness in response.freshness.items()},
        )


def _why_no_memory(caller: Principal) -> str | None:
    if caller.operator:
        return None
    if Scope.MEMORY_READ not in caller.scopes:
        return f"the token lacks the scope {Scope.MEMORY_READ}"
    if caller.bases is not None:
        return "the token is limited to bases, and memory is in none"
    return None


def _why_no_knowledge(
    request: RecallRequest, caller: Principal, profile_allows_knowledge: bool, knowledge_configured: bool
) -> str | None:
    if not request.include_knowledge:
        return "the request did not ask for it"
    if not knowledge_configured:
        return "recall is not configured to search knowledge"
    if not profile_allows_knowledge:
        return "the client's profile does not allow it"
    if not caller.operator and Scope.KNOWLEDGE_READ not in caller.scopes:
        return f"the token lacks the scope {Scope.KNOWLEDGE_READ}"
    return None


def _notes(hits: MemoryHits | None, response: SearchResponse | None) -> tuple[str, ...]:
    notes = response.notes if response else ()
    if hits and hits.problems:
        return (f"files of memory that cannot be read, and are left out: {len(hits.problems)}", *notes)
    return notes


# The budget


def _within(budget: int | None, found: Sequence[Recalled]) -> list[Recalled]:
    """What fits the budget, in the order of `found`: the least relevant goes first, wherever it stands.

    Nothing that is kept is less relevant than anything that is left out. Only where the most relevant alone is over the
    budget is its text cut, and says so. Of equally relevant ones those that come first are kept.
    """
    if budget is None:
        return list(found)
    kept: dict[int, Recalled] = {}
    left = float(budget)
    for place in sorted(range(len(found)), key=lambda place: -found[place].score):
        tokens = _tokens(found[place])
        if tokens > left:
            if not kept:
                kept[place] = _cut(found[place], left)
            break
        kept[place] = found[place]
        left -= tokens
    return [kept[place] for place in sorted(kept)]


def _tokens(one: Recalled) -> float:
    return estimated_tokens(one.title) + estimated_tokens(one.content)


def _cut(one: Recalled, budget: float) -> Recalled:
    """The beginning of its content that fits `budget` together with its title, up to a whole word where there is one."""
    room = budget - estimated_tokens(one.title)
    end = bisect_right(range(1, len(one.content) + 1), room, key=lambda length: estimated_tokens(one.content[:length]))
    content = one.content[:end]
    space = content.rfind(" ")
    return replace(one, content=content[:space] if space > 0 else content, is_cut=True)
