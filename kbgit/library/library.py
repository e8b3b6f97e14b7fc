"""The face of the library."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from kbgit import __version__
from kbgit.access import Action, Principal, Scope
from kbgit.catalogue import Catalogue
from kbgit.citation import Citation
from kbgit.config import Settings
from kbgit.embedding.contract import Embedder
from kbgit.errors import InvalidRequest, KnowledgeRuntimeDisabled
from kbgit.index.contract import Index
from kbgit.indexer import Indexer
from kbgit.item import ItemStatus
from kbgit.library.answers import (
    BaseView,
    ItemDiff,
    ItemPage,
    ItemSummary,
    ItemView,
    RevisionPage,
    SearchResponse,
    Status,
)
from kbgit.library.change_page import ChangePage
from kbgit.library.changes import Changes
from kbgit.library.reading import Reading
from kbgit.library.request import SearchRequest
from kbgit.library.rights import require_scope
from kbgit.library.searching import Searching
from kbgit.library.sight import Sight
from kbgit.library.verdict import Verdict
from kbgit.library.verifying import Verifying
from kbgit.ranking import Mode
from kbgit.rows import BaseRow


class Library:
    """Search and addressed reads, for callers whose rights are decided here and nowhere above.

    Every method raises `KnowledgeRuntimeDisabled` where the knowledge runtime is off.
    """

    def __init__(
        self,
        settings: Settings,
        catalogue: Catalogue,
        index: Index,
        embedder: Embedder | None,
        indexer: Indexer,
    ) -> None:
        self.on_search: Callable[[Mode, Mode, float], None] = lambda mode, used, seconds: None
        """Told of each search: the mode that was asked for, the one that answered, and the seconds it took."""
        self._settings = settings
        self._catalogue = catalogue
        self._index = index
        self._indexer = indexer
        self._searching = Searching(settings, catalogue, index, embedder, indexer)
        self._reading = Reading(catalogue, indexer)
        self._verifying = Verifying(catalogue, indexer)
        self._changes = Changes(catalogue, indexer)

    def _require_runtime(self, caller: Principal | None) -> None:
        """The runtime is on, and the caller's token is one for reading. That it is not says nothing about any base."""
        if not self._settings.knowledge_enabled:
            raise KnowledgeRuntimeDisabled("the knowledge runtime is off; the setting knowledge_enabled turns it on")
        if caller is not None:
            require_scope(caller, Scope.KNOWLEDGE_READ)

    def search(self, request: SearchRequest, caller: Principal | None) -> SearchResponse:
        """A page of current, published items. Raises `BaseNotFound`, `BaseArchived`, `TimedOut`."""
        self._require_runtime(caller)
        started = time.perf_counter()
        found = self._searching.search(request, caller)
        if request.wait_for is None:  # with it, most of the time is waiting
            self.on_search(found.mode, found.mode_used, time.perf_counter() - started)
        return found

    def read(
        self, item_id: str, caller: Principal | None, *, revision: str | None = None, base: str | None = None
    ) -> ItemView:
        """The item as of `revision` (a full SHA), or its current revision.

        Raises `ItemNotFound`, `RevisionNotFound`, `ItemNotPublished`, `ItemDeleted`, `BaseArchived`, `AmbiguousItem`.
        """
        self._require_runtime(caller)
        return self._reading.read(item_id, caller, revision=revision, base=base)

    def resolve(self, reference: str, caller: Principal | None, *, base: str | None = None) -> ItemView:
        """What a citation cites; its lines, if it has some, are the view's `excerpt`. Raises `InvalidCitation` too."""
        self._require_runtime(caller)
        citation = Citation.parse(reference)
        view = self._reading.read(citation.item_id, caller, revision=citation.revision, base=base)
        if citation.lines is None:
            return view
        return view.with_lines(*citation.lines)

    def revisions(
        self,
        item_id: str,
        caller: Principal | None,
        *,
        base: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> RevisionPage:
        """A page of the item's history, newest first."""
        self._require_runtime(caller)
        return self._reading.revisions(item_id, caller, base=base, cursor=cursor, limit=limit)

    def diff(self, item_id: str, caller: Principal | None, *, old: str, new: str, base: str | None = None) -> ItemDiff:
        """What changed in the item's file from revision `old` to revision `new`."""
        self._require_runtime(caller)
        return self._reading.diff(item_id, caller, old=old, new=new, base=base)

    # Citations, later

    def verify(
        self,
        citations: Sequence[str | Citation],
        caller: Principal | None,
        *,
        quote_hashes: Mapping[str, str] | None = None,
        differences: bool = True,
    ) -> list[Verdict]:
        """What became of what each citation cites, in their order; see `kbgit.library.verifying`."""
        self._require_runtime(caller)
        return self._verifying.verify(citations, caller, quote_hashes=quote_hashes, differences=differences)

    def changes(
        self,
        caller: Principal | None,
        *,
        since_commit: str | None = None,
        since_time: int | None = None,
        citations: Sequence[str] = (),
        bases: Sequence[str] = (),
        cursor: str | None = None,
        limit: int = 50,
    ) -> ChangePage:
        """A page of what changed since a commit, a time or some citations; see `kbgit.library.changes`."""
        self._require_runtime(caller)
        return self._changes.changes(
            caller,
            since_commit=since_commit,
            since_time=since_time,
            citations=citations,
            bases=bases,
            cursor=cursor,
            limit=limit,
        )

    # Bases

    def bases(self, caller: Principal | None) -> list[BaseView]:
        """The bases the caller may see."""
        self._require_runtime(caller)
        sight = Sight(self._catalogue, caller)
        return [self._base_view(sight, row) for row in sight.bases]

    def base(self, key: str, caller: Principal | None) -> BaseView:
        """One base by its key. Raises `BaseNotFound`."""
        self._require_runtime(caller)
        sight = Sight(self._catalogue, caller)
        return self._base_view(sight, sight.one(key))

    def items(
        self,
        key: str,
        caller: Principal | None,
        *,
        status: str | None = None,
        prefix: str = "",
        cursor: str | None = None,
        limit: int = 50,
    ) -> ItemPage:
        """A page of a base's items by id: published ones, and for writers also drafts and archived ones."""
        self._require_runtime(caller)
        if not 1 <= limit <= 200:
            raise InvalidRequest("field `limit` must be a whole number from 1 to 200", {"field": "limit"})
        if status is not None and status not in {one.value for one in ItemStatus}:
            known = ", ".join(one.value for one in ItemStatus)
            raise InvalidRequest(f"field `status` must be one of {known}", {"field": "status"})
        sight = Sight(self._catalogue, caller)
        base = sight.one(key)
        shown = set(ItemStatus) if sight.may(Action.READ_DRAFTS, base) else {ItemStatus.PUBLISHED}
        if status is not None:
            shown &= {ItemStatus(status)}
        rows = (
            self._catalogue.items(key, statuses=sorted(shown), prefix=prefix, after=cursor or "", limit=limit + 1)
            if shown
            else []
        )
        summaries = [
            ItemSummary(Citation(row.item_id, row.revision), row.title, row.status, row.path, row.number, row.tags)
            for row in rows[:limit]
        ]
        following = rows[limit - 1].item_id if len(rows) > limit else None
        return ItemPage(base, summaries, following)

    def item_finder(self, key: str, caller: Principal | None) -> Callable[[str], str | None]:
        """What gives, for one answer, the id of the item of a base whose file is at a path.

        It gives None where there is none, and for one the caller may not see. Raises `BaseNotFound`.
        """
        self._require_runtime(caller)
        sight = Sight(self._catalogue, caller)
        sees_drafts = sight.may(Action.READ_DRAFTS, sight.one(key))

        def find(path: str) -> str | None:
            for row in self._catalogue.items_at(key, [path]):
                if row.status is ItemStatus.PUBLISHED or sees_drafts:
                    return row.item_id
            return None

        return find

    def status(self, caller: Principal | None) -> Status:
        """How things stand in the bases the caller may see. Nobody in particular learns the version, and no more."""
        may_see = caller is not None and (caller.operator or Scope.KNOWLEDGE_READ in caller.scopes)
        return Status(
            version=__version__,
            embedder=self._settings.embedder if may_see else "",
            embedding_problem=self._indexer.embedding_problem if may_see else None,
            bases=self.bases(caller) if may_see and self._settings.knowledge_enabled else [],
        )

    def _base_view(self, sight: Sight, row: BaseRow) -> BaseView:
        row = self._indexer.seen(row)  # as its branch is: what nobody has noticed yet is not fresh
        key = str(row.key)
        counts = self._catalogue.counts(key)
        sees_drafts = sight.may(Action.READ_DRAFTS, row)
        if not sees_drafts:
            counts = {ItemStatus.PUBLISHED.value: counts[ItemStatus.PUBLISHED.value]}
        freshness = next(iter(self._searching.freshness([row]).values()))
        problems = self._catalogue.problems(key) if sees_drafts else None
        return BaseView(row, counts, problems, freshness)
