"""Addressed reads: an item by its id, current or pinned; its history; differences."""

from __future__ import annotations

from dataclasses import dataclass

from kbgit.access import Action, Principal
from kbgit.catalogue import Catalogue
from kbgit.citation import Citation
from kbgit.errors import (
    AmbiguousItem,
    BaseArchived,
    GitFailure,
    InvalidCitation,
    InvalidRequest,
    ItemDeleted,
    ItemNotPublished,
    RevisionNotFound,
)
from kbgit.indexer import Indexer
from kbgit.item import ItemStatus, parse_document, title_of
from kbgit.library.answers import ItemDiff, ItemView, RevisionPage, RevisionSummary
from kbgit.library.sight import Sight, item_not_found
from kbgit.rows import BaseRow, RevisionRow
from kbgit.store.repository import is_sha


@dataclass(frozen=True, slots=True)
class _Place:
    """A visible base in which an item is, or was, to be found."""

    base: BaseRow
    sees_drafts: bool


class Reading:
    """Addressed reads over the catalogue and the repositories."""

    def __init__(self, catalogue: Catalogue, indexer: Indexer) -> None:
        self._catalogue = catalogue
        self._indexer = indexer

    def read(self, item_id: str, caller: Principal | None, *, revision: str | None, base: str | None) -> ItemView:
        """The item as of `revision`, or as it is now."""
        places = self._places(item_id, caller, base)
        if revision is None:
            place, row = self._current(item_id, places)
        else:
            place, row = self._pinned(item_id, places, revision)
        return self._view(place.base, row)

    def revisions(
        self, item_id: str, caller: Principal | None, *, base: str | None, cursor: str | None, limit: int
    ) -> RevisionPage:
        """The item's history, newest first."""
        if not 1 <= limit <= 200:
            raise InvalidRequest("field `limit` must be a whole number from 1 to 200", {"field": "limit"})
        if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 16):
            raise InvalidRequest("field `cursor` is none that an earlier page gave", {"field": "cursor"})
        place = self._one_place(item_id, self._places(item_id, caller, base))
        key = str(place.base.key)
        before = int(cursor) if cursor is not None else None
        shown: list[RevisionSummary] = []
        current = self._catalogue.item(key, item_id)
        # Readers see only what was published, so a page may need more than `limit` rows.
        rows = self._catalogue.revisions(key, item_id, before=before)
        visible = [row for row in rows if row.was_published or place.sees_drafts]
        for row in visible[:limit]:
            provenance = self._catalogue.provenance(key, row.sha)
            if provenance is not None:
                shown.append(
                    RevisionSummary(
                        citation=Citation(item_id, row.sha),
                        number=row.number,
                        locator=row.path,
                        status=row.status,
                        is_current=current is not None and current.revision == row.sha,
                        removed=row.blob is None,
                        content_hash=row.content_hash,
                        provenance=provenance,
                    )
                )
        following = str(visible[limit - 1].position) if len(visible) > limit else None
        if not shown and before is None:
            raise item_not_found(item_id)
        return RevisionPage(item_id, place.base, shown, following)

    def diff(self, item_id: str, caller: Principal | None, *, old: str, new: str, base: str | None) -> ItemDiff:
        """What changed in the item's file from revision `old` to revision `new`."""
        places = self._places(item_id, caller, base)
        place, first = self._pinned(item_id, places, old)
        _, second = self._pinned(item_id, [place], new)
        repository = self._indexer.repository(place.base.key)
        assert first.blob is not None
        assert second.blob is not None
        text = repository.difference(first.blob, second.blob, first.path, second.path)
        return ItemDiff(Citation(item_id, old), Citation(item_id, new), text)

    # Where

    def _places(self, item_id: str, caller: Principal | None, base: str | None) -> list[_Place]:
        """The visible bases in which the item is or was, active ones first. Raises `ItemNotFound`.

        An item of which nothing was ever published is not there for those who may see no drafts.
        """
        sight = Sight(self._catalogue, caller)
        visible = sight.named(base) if base else sight.bases
        holding = set(self._catalogue.bases_with_item(item_id))
        found = []
        for row in visible:
            # A base that published something a moment ago may hold the item now.
            fresh = self._indexer.seen(row)
            if str(row.key) in holding or fresh.head != row.head:
                place = _Place(fresh, sight.may(Action.READ_DRAFTS, fresh))
                if self._shows(place, item_id):
                    found.append(place)
        if not found:
            raise item_not_found(item_id)
        return sorted(found, key=lambda place: (not place.base.active, str(place.base.key)))

    def _one_place(self, item_id: str, places: list[_Place]) -> _Place:
        alive = [place for place in places if self._catalogue.item(str(place.base.key), item_id) is not None]
        if len(alive) > 1:
            raise _ambiguous(item_id, alive)
        return (alive or places)[0]

    def _current(self, item_id: str, places: list[_Place]) -> tuple[_Place, RevisionRow]:
        found: list[tuple[_Place, RevisionRow]] = []
        refusals: list[ItemNotPublished | BaseArchived | ItemDeleted] = []
        for place in places:
            key = str(place.base.key)
            item = self._catalogue.item(key, item_id)
            if item is None:
                details = {"knowledge_item_id": item_id, "base": key}
                refusals.append(ItemDeleted("the item's file was removed; pinned citations still resolve", details))
            elif not place.base.active:
                refusals.append(
                    BaseArchived(
                        f"the base {key!r} is archived; pinned citations still resolve",
                        {"base": key, "knowledge_item_id": item_id},
                    )
                )
            elif item.status is ItemStatus.PUBLISHED:
                row = self._catalogue.revision(key, item_id, item.revision)
                if row is not None:
                    found.append((place, row))
            else:
                details = {"knowledge_item_id": item_id, "status": item.status.value}
                details |= {"knowledge_revision_id": item.revision} if place.sees_drafts else {}
                refusals.append(ItemNotPublished(f"the item is {item.status}; only a pinned read can answer", details))
        if len(found) > 1:
            raise _ambiguous(item_id, [place for place, _ in found])
        if found:
            return found[0]
        raise refusals[0] if refusals else item_not_found(item_id)

    def _shows(self, place: _Place, item_id: str) -> bool:
        """Whether the place has anything of the item that the caller may see."""
        key = str(place.base.key)
        item = self._catalogue.item(key, item_id)
        if item is not None and item.status is ItemStatus.PUBLISHED:
            return True
        return any(row.was_published or place.sees_drafts for row in self._catalogue.revisions(key, item_id))

    def _pinned(self, item_id: str, places: list[_Place], revision: str) -> tuple[_Place, RevisionRow]:
        if not is_sha(revision):
            raise InvalidCitation(f"{revision[:100]!r} is no revision: a full, lower-case commit SHA has 40 hex digits")
        for place in places:
            row = self._catalogue.revision(str(place.base.key), item_id, revision)
            if row is not None and row.blob is not None and (row.was_published or place.sees_drafts):
                return place, row
        raise RevisionNotFound(
            f"{revision} is no revision of {item_id[:200]!r}",
            {"knowledge_item_id": item_id[:200], "knowledge_revision_id": revision},
        )

    def _view(self, base: BaseRow, row: RevisionRow) -> ItemView:
        key = str(base.key)
        assert row.blob is not None
        document = parse_document(self._indexer.repository(base.key).blob(row.blob))
        current = self._catalogue.item(key, row.item_id)
        is_current = current is not None and current.revision == row.sha
        provenance = self._catalogue.provenance(key, row.sha)
        if provenance is None:
            raise GitFailure(
                f"the catalogue of {key} does not know where {row.sha} came from; `kbgit reindex` mends it"
            )
        return ItemView(
            citation=Citation(row.item_id, row.sha),
            is_current=is_current,
            number=row.number,
            title=title_of(document, row.path),
            status=current.status if current is not None and is_current else row.status,
            content=document.content,
            content_hash=document.content_hash,
            locator=row.path,
            tags=document.tags,
            description=document.description,
            metadata=document.metadata,
            base=base,
            provenance=provenance,
        )


def _ambiguous(item_id: str, places: list[_Place]) -> AmbiguousItem:
    keys = sorted(str(place.base.key) for place in places)
    return AmbiguousItem(
        f"{item_id!r} is in several bases; name one with `base`, or pin a revision",
        {"knowledge_item_id": item_id, "bases": keys},
    )
