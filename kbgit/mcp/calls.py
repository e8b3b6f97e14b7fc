"""What agents ask, answered as JSON. The tools of MCP and the REST routes of the same names both end here.

Rights are decided below, in `library` and `memory`; here arguments are checked, and answers are cut to what fits a model's
context, saying how to get the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from kbgit.access import Principal
from kbgit.citation import SCHEME, Citation
from kbgit.config import Settings
from kbgit.errors import InvalidRequest
from kbgit.library import ItemView, Library, SearchRequest
from kbgit.library.citing import content_lines
from kbgit.mcp.arguments import checked
from kbgit.mcp.contract import Profile
from kbgit.mcp.schemas import LONGEST_READ, Json
from kbgit.memory import MemoryKind, MemoryStore, NewRecord, Recall, RecallRequest


@dataclass(frozen=True, slots=True)
class Agent:
    """Who asks: the caller, the profile of their client, and what that client calls itself."""

    caller: Principal
    profile: Profile
    client: str = ""


Call = Callable[[object, Agent], Json]


class Calls:
    """The tools over one home. Each takes arguments as JSON and answers with JSON; failures are `KbgitError`s."""

    def __init__(self, settings: Settings, library: Library, memory: MemoryStore, recall: Recall) -> None:
        self._settings = settings
        self._library = library
        self._memory = memory
        self._recall = recall
        self.by_name: Mapping[str, Call] = MappingProxyType(
            {
                "search_knowledge": self.search_knowledge,
                "read_knowledge": self.read_knowledge,
                "knowledge_history": self.knowledge_history,
                "verify_citations": self.verify_citations,
                "knowledge_changes": self.knowledge_changes,
                "recall_context": self.recall_context,
                "remember": self.remember,
                "forget": self.forget,
            }
        )

    # Knowledge

    def search_knowledge(self, arguments: object, agent: Agent) -> Json:
        """A page of results; `next_offset` asks for the next."""
        given = {"limit": 8, **checked("search_knowledge", arguments)}
        request = SearchRequest.from_json(given, self._settings)
        response = self._library.search(request, agent.caller)
        following = request.offset + len(response.results) if response.has_more else None
        return {**response.as_json(), "next_offset": following}

    def read_knowledge(self, arguments: object, agent: Agent) -> Json:
        """An item's lines, as many as fit an answer; `next_lines` asks for more."""
        given = checked("read_knowledge", arguments)
        citation = _cited(given)
        view = self._library.read(citation.item_id, agent.caller, revision=citation.revision, base=given.get("base"))
        return _excerpt(view, citation.lines)

    def knowledge_history(self, arguments: object, agent: Agent) -> Json:
        """A page of an item's revisions."""
        given = checked("knowledge_history", arguments)
        page = self._library.revisions(
            given["item_id"],
            agent.caller,
            base=given.get("base"),
            cursor=given.get("cursor"),
            limit=given.get("limit", 20),
        )
        return page.as_json()

    def verify_citations(self, arguments: object, agent: Agent) -> Json:
        """A verdict on each citation."""
        given = checked("verify_citations", arguments)
        verdicts = self._library.verify(
            given["citations"],
            agent.caller,
            quote_hashes=given.get("quote_hashes"),
            differences=given.get("differences", True),
        )
        return {
            "type": "citation_verdicts",
            "holds": all(verdict.holds for verdict in verdicts),
            "counts": dict(Counter(verdict.state.value for verdict in verdicts)),
            "verdicts": [verdict.as_json() for verdict in verdicts],
        }

    def knowledge_changes(self, arguments: object, agent: Agent) -> Json:
        """A page of what changed."""
        given = checked("knowledge_changes", arguments)
        since = given.get("since_time")
        page = self._library.changes(
            agent.caller,
            since_commit=given.get("since_commit"),
            since_time=None if since is None else _seconds(since),
            citations=given.get("since_citations", ()),
            bases=given.get("bases", ()),
            cursor=given.get("cursor"),
            limit=given.get("limit", 50),
        )
        return page.as_json()

    # Memory

    def recall_context(self, arguments: object, agent: Agent) -> Json:
        """Records, and knowledge beside them where that is configured, in scope and in profile."""
        given = checked("recall_context", arguments)
        if len(given["query"]) > self._settings.query_max_chars:
            raise InvalidRequest(
                f"field `query` has {len(given['query'])} characters; at most {self._settings.query_max_chars} are allowed",
                {"field": "query"},
            )
        kind = given.get("kind")
        fields = {**given, "kind": MemoryKind(kind) if kind else None, "bases": tuple(given.get("bases", ()))}
        answer = self._recall.recall(
            RecallRequest(**fields),
            agent.caller,
            profile_allows_knowledge=agent.profile.reads_knowledge,
            knowledge_configured=self._settings.recall_knowledge,
        )
        return answer.as_json()

    def remember(self, arguments: object, agent: Agent) -> Json:
        """Keep a record, attributed to the caller and their client."""
        given = checked("remember", arguments)
        client = given.pop("client", None) or agent.client
        kind = MemoryKind(given.pop("kind", MemoryKind.KNOWLEDGE.value))
        record = self._memory.remember(NewRecord(**given, client=client, kind=kind), agent.caller)
        return {"type": "memory_record", **record.as_json()}

    def forget(self, arguments: object, agent: Agent) -> Json:
        """Remove a record."""
        given = checked("forget", arguments)
        self._memory.forget(given["id"], agent.caller)
        return {"type": "memory_forgotten", "id": given["id"]}


def _cited(given: Json) -> Citation:
    """What `read_knowledge` is asked for. Raises `InvalidRequest`, `InvalidCitation`."""
    if ("citation" in given) == ("item_id" in given):
        raise InvalidRequest("give either `citation` or `item_id`", {"field": "citation"})
    if "citation" in given:
        if "revision" in given:
            raise InvalidRequest(
                "a citation names its revision itself; `revision` goes with `item_id`", {"field": "revision"}
            )
        text = given["citation"]
        citation = Citation.parse(text if text.startswith(SCHEME) else SCHEME + text)
    else:
        citation = Citation(given["item_id"], given.get("revision"))
    if "lines" in given:
        start, end = given["lines"]
        if end < start:
            raise InvalidRequest("field `lines` ends before it starts; write [first, last]", {"field": "lines"})
        citation = citation.with_lines(start, end)
    return citation


def _excerpt(view: ItemView, lines: tuple[int, int] | None) -> Json:
    """The item's JSON with the asked lines as its content, up to `LONGEST_READ` characters, cut at the end of a line."""
    every = content_lines(view.content)
    start, end = lines or (1, len(every))
    if start > len(every):
        raise InvalidRequest(f"the item has {len(every)} lines, so there is no line {start}", {"field": "lines"})
    end = min(end, len(every))
    last, room = start - 1, LONGEST_READ
    while last < end and (len(every[last]) < room or last == start - 1):
        room -= len(every[last]) + 1
        last += 1
    content = "\n".join(every[start - 1 : last])
    citation = view.citation.with_lines(start, last)
    return {
        **view.as_json(),
        "content": content[:LONGEST_READ],
        "is_cut": len(content) > LONGEST_READ,
        "citation": str(citation),
        "lines": [start, last],
        "line_count": len(every),
        "next_lines": [last + 1, end] if last < end else None,
    }


def _seconds(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError(text)
        return int(moment.timestamp())
    except (ValueError, OverflowError):
        wrong = "field `since_time` must be a time with its zone, such as 2026-11-30T12:00:00Z"
        raise InvalidRequest(wrong, {"field": "since_time"}) from None
