"""What the library answers with: frozen values that turn themselves into the JSON of the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kbgit.admission import Problem
from kbgit.citation import Citation
from kbgit.frontmatter import Value
from kbgit.item import ItemStatus
from kbgit.place import Stretch
from kbgit.ranking import Mode
from kbgit.revision import Provenance, rfc3339
from kbgit.rows import BaseRow


@dataclass(frozen=True, slots=True)
class PassageHit:
    """A passage of a found item. `content` is None where none was asked for; `quote_hash` is of the cited lines.

    `place` says on which pages, slides or sheet of the original it stood, where the item was made from such a file.
    """

    citation: Citation
    section: tuple[str, ...]
    lines: tuple[int, int]
    score: float
    content: str | None
    quote_hash: str
    place: Stretch | None = None

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "citation": str(self.citation),
            "section": list(self.section),
            "lines": list(self.lines),
            "score": round(self.score, 6),
            "content": self.content,
            "quote_hash": self.quote_hash,
            **({"place": self.place.as_json()} if self.place else {}),
        }


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One found item, by its best passage, whose `place` is that of `PassageHit`."""

    item_id: str
    revision: str
    title: str
    content: str | None
    score: float
    lines: tuple[int, int]
    section: tuple[str, ...]
    base: BaseRow
    locator: str
    number: int
    published_at: int
    tags: tuple[str, ...]
    quote_hash: str
    more_passages: tuple[PassageHit, ...] = ()
    explanation: Mapping[str, Any] | None = None
    place: Stretch | None = None

    @property
    def citation(self) -> Citation:
        """The citation of the best passage, with its lines."""
        return Citation(self.item_id, self.revision, self.lines)

    def as_json(self) -> dict[str, Any]:
        """The API's result object."""
        found: dict[str, Any] = {
            "knowledge_item_id": self.item_id,
            "knowledge_revision_id": self.revision,
            "title": self.title,
            "content": self.content,
            "reference": self.citation.reference,
            "score": round(self.score, 6),
            "citation": str(self.citation),
            "base": self.base.key.slug,
            "space": self.base.key.space,
            "locator": self.locator,
            "section": list(self.section),
            "lines": list(self.lines),
            "revision_number": self.number,
            "published_at": rfc3339(self.published_at),
            "tags": list(self.tags),
            "quote_hash": self.quote_hash,
        }
        if self.place is not None:
            found["place"] = self.place.as_json()
        if self.more_passages:
            found["more_passages"] = [passage.as_json() for passage in self.more_passages]
        if self.explanation is not None:
            found["explain"] = dict(self.explanation)
        return found


@dataclass(frozen=True, slots=True)
class Freshness:
    """How far a base's index is: the published head, the indexed head, and how many passages have their vector."""

    published: str | None
    indexed: str | None
    passages: int
    vectors: int
    alarm: str = ""

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        found: dict[str, Any] = {
            "published": self.published,
            "indexed": self.indexed,
            "passages": self.passages,
            "vectors": self.vectors,
        }
        return {**found, "alarm": self.alarm} if self.alarm else found


@dataclass(frozen=True, slots=True)
class SearchResponse:
    """A page of results. `has_more` says that a larger `offset` finds more."""

    mode: Mode
    mode_used: Mode
    fallback_reason: str | None
    results: Sequence[SearchResult]
    freshness: Mapping[str, Freshness]
    has_more: bool = False
    notes: tuple[str, ...] = ()
    explanation: Mapping[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """The API's answer."""
        found: dict[str, Any] = {
            "type": "knowledge_search",
            "mode": self.mode.value,
            "mode_used": self.mode_used.value,
            "results": [result.as_json() for result in self.results],
            "has_more": self.has_more,
            "freshness": {base: freshness.as_json() for base, freshness in self.freshness.items()},
        }
        if self.fallback_reason is not None:
            found["fallback_reason"] = self.fallback_reason
        if self.notes:
            found["notes"] = list(self.notes)
        if self.explanation is not None:
            found["explain"] = dict(self.explanation)
        return found


@dataclass(frozen=True, slots=True)
class ItemView:
    """An item as of one revision. `source` describes the file it was made from, where it was."""

    citation: Citation
    is_current: bool
    number: int
    title: str
    status: ItemStatus
    content: str
    content_hash: str
    locator: str
    tags: tuple[str, ...]
    description: str
    metadata: Mapping[str, Value]
    base: BaseRow
    provenance: Provenance

    def as_json(self) -> dict[str, Any]:
        """The API's item object."""
        is_file = self.metadata.get("source_type") == "file"
        return {
            "type": "knowledge_item",
            "knowledge_item_id": self.citation.item_id,
            "knowledge_revision_id": self.citation.revision,
            "reference": self.citation.reference,
            "is_current": self.is_current,
            "revision_number": self.number,
            "title": self.title,
            "status": self.status.value,
            "content": self.content,
            "content_format": "markdown",
            "content_hash": self.content_hash,
            "locator": self.locator,
            "tags": list(self.tags),
            "description": self.description,
            "metadata": {k: v for k, v in self.metadata.items() if k not in ("source_type", "source")},
            "base": base_json(self.base),
            "source_type": "file" if is_file else "user_created",
            "source": self.metadata.get("source") if is_file else None,
            "provenance": self.provenance.as_json(),
            **({"lines": list(self.citation.lines), "excerpt": self.excerpt} if self.citation.lines else {}),
        }

    def with_lines(self, start: int, end: int) -> ItemView:
        """The same view, of these lines."""
        return replace(self, citation=self.citation.with_lines(start, end))

    @property
    def excerpt(self) -> str | None:
        """The cited lines, where the citation has lines; fewer where the content ends before them."""
        if self.citation.lines is None:
            return None
        start, end = self.citation.lines
        return "\n".join(self.content.split("\n")[start - 1 : end])


def base_json(base: BaseRow) -> dict[str, Any]:
    """How an answer names a base."""
    return {
        "slug": base.key.slug,
        "name": base.settings.name,
        "status": base.settings.status.value,
        "space": base.key.space,
    }


@dataclass(frozen=True, slots=True)
class RevisionSummary:
    """A line of an item's history. `removed` marks a commit that took the item's file away."""

    citation: Citation
    number: int
    locator: str
    status: ItemStatus
    is_current: bool
    removed: bool
    content_hash: str
    provenance: Provenance

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "knowledge_revision_id": self.citation.revision,
            "reference": self.citation.reference,
            "revision_number": self.number,
            "locator": self.locator,
            "status": self.status.value,
            "is_current": self.is_current,
            "removed": self.removed,
            "content_hash": self.content_hash or None,
            "provenance": self.provenance.as_json(),
        }


@dataclass(frozen=True, slots=True)
class RevisionPage:
    """An item's revisions, newest first; `cursor` asks for the next page, None at the end."""

    item_id: str
    base: BaseRow
    revisions: Sequence[RevisionSummary]
    cursor: str | None

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "type": "knowledge_revisions",
            "knowledge_item_id": self.item_id,
            "base": base_json(self.base),
            "revisions": [revision.as_json() for revision in self.revisions],
            "cursor": self.cursor,
        }


@dataclass(frozen=True, slots=True)
class ItemDiff:
    """What changed between two revisions of an item's file, front matter included, as Git shows it."""

    old: Citation
    new: Citation
    text: str

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "type": "knowledge_diff",
            "knowledge_item_id": self.old.item_id,
            "from": self.old.revision,
            "to": self.new.revision,
            "diff": self.text,
        }


@dataclass(frozen=True, slots=True)
class BaseView:
    """A base with its counts; counts of drafts and archived items are there for those who may see them."""

    row: BaseRow
    counts: Mapping[str, int]
    problems: Sequence[Problem] | None
    freshness: Freshness

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        found: dict[str, Any] = {
            **base_json(self.row),
            "key": str(self.row.key),
            "description": self.row.settings.description,
            "items": dict(self.counts),
            "freshness": self.freshness.as_json(),
        }
        if self.problems is not None:
            found |= {
                "admission": self.row.settings.admission.value,
                "default_status": self.row.settings.default_status.value,
                "alarm": self.row.alarm,
                "problems": [
                    {"path": p.path, "line": p.line, "code": p.code, "what": p.what, "mend": p.mend}
                    for p in self.problems
                ],
            }
        return found


@dataclass(frozen=True, slots=True)
class ItemSummary:
    """A line of a base's list of items."""

    citation: Citation
    title: str
    status: ItemStatus
    locator: str
    number: int
    tags: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "knowledge_item_id": self.citation.item_id,
            "knowledge_revision_id": self.citation.revision,
            "reference": self.citation.reference,
            "title": self.title,
            "status": self.status.value,
            "locator": self.locator,
            "revision_number": self.number,
            "tags": list(self.tags),
        }


@dataclass(frozen=True, slots=True)
class ItemPage:
    """A page of a base's items, by id; `cursor` asks for the next, None at the end."""

    base: BaseRow
    items: Sequence[ItemSummary]
    cursor: str | None

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "type": "knowledge_items",
            "base": base_json(self.base),
            "items": [item.as_json() for item in self.items],
            "cursor": self.cursor,
        }


@dataclass(frozen=True, slots=True)
class Status:
    """How things stand, as far as the caller may know."""

    version: str
    embedder: str
    embedding_problem: str | None
    bases: Sequence[BaseView]

    @property
    def is_fresh(self) -> bool:
        """Every base is indexed at its published head, with every vector, and without alarm."""
        return all(
            view.freshness.published == view.freshness.indexed
            and (self.embedder == "none" or view.freshness.vectors == view.freshness.passages)
            and not view.row.alarm
            for view in self.bases
        )

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "type": "status",
            "version": self.version,
            "fresh": self.is_fresh,
            "embedder": self.embedder,
            "embedding_problem": self.embedding_problem,
            "bases": [view.as_json() for view in self.bases],
        }
