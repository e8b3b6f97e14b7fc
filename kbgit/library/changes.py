"""What changed since a commit, a time, or what citations cite: by item and by section, so that only that is read again.

Two states of a base are compared, the one of then and the one of now, and not what happened between them: an item that was
changed and changed back is not named. Which files differ is one tree difference of Git; what they were and are as items is
in the catalogue; contents are read for the listed page alone. Per item, as the caller may see it:

- `added`: it is published and was not there (or was a draft);
- `changed`: its content, title, tags or other fields are others; `sections` says where the content is;
- `renamed`: its file is elsewhere and its content the same;
- `archived`: it was published and is archived now, or unpublished;
- `restored`: it was archived and is published;
- `removed`: its file is gone.

For those who may see drafts, a draft counts like what is published. An archived base lists no items: `bases` says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from kbgit import names
from kbgit.access import Action, Principal
from kbgit.admission import read_settings
from kbgit.base import SETTINGS_FILE, BaseSettings, BaseStatus, TreeRules
from kbgit.catalogue import Catalogue
from kbgit.citation import Citation
from kbgit.errors import InvalidCitation, InvalidRequest, RevisionNotFound
from kbgit.indexer import Indexer
from kbgit.item import ItemStatus, parse_document
from kbgit.library.change_page import BaseChange, ChangeOfItem, ChangePage, ItemChange
from kbgit.library.sections import changed_sections
from kbgit.library.sight import Sight
from kbgit.rows import BaseRow, ItemRow, RevisionRow
from kbgit.store.repository import is_sha

MOST_CHANGES = 200
_SETTINGS_FILES = (SETTINGS_FILE.encode(), b"index.md")


@dataclass(frozen=True, slots=True)
class _Then:
    """A state to compare with: a commit (None: nothing yet) and the settings it had."""

    head: str | None
    settings: BaseSettings
    rules: TreeRules


@dataclass(frozen=True, slots=True)
class _Difference:
    """An item then and now. `was` is its status then, as the caller saw it; None where it was not to be seen."""

    base: BaseRow
    item_id: str
    old: RevisionRow | None
    was: ItemStatus | None
    new: ItemRow | None
    sees_drafts: bool

    @property
    def kind(self) -> ChangeOfItem | None:
        """None where nothing changed for the caller."""
        shown = {ItemStatus.PUBLISHED, ItemStatus.DRAFT} if self.sees_drafts else {ItemStatus.PUBLISHED}
        if self.new is None:
            return ChangeOfItem.REMOVED if self.was else None
        if self.new.status not in shown:
            return ChangeOfItem.ARCHIVED if self.was in shown else None
        if self.old is None or self.was not in shown:
            return ChangeOfItem.RESTORED if self.was else ChangeOfItem.ADDED
        if self.old.content_hash != self.new.content_hash:
            return ChangeOfItem.CHANGED
        if self.old.path != self.new.path:
            return ChangeOfItem.RENAMED
        is_same = self.old.blob == self.new.blob and self.was is self.new.status
        return None if is_same else ChangeOfItem.CHANGED

    def change(self, kind: ChangeOfItem) -> ItemChange:
        """The change, without its sections."""
        old, new = self.old, self.new
        old_is_readable = old is not None and (old.was_published or self.sees_drafts)
        new_is_readable = new is not None and (new.status is ItemStatus.PUBLISHED or self.sees_drafts)
        return ItemChange(
            kind=kind,
            base=self.base,
            item_id=self.item_id,
            title=new.title if new is not None and new_is_readable else None,
            old=Citation(self.item_id, old.sha) if old is not None and old_is_readable else None,
            new=Citation(self.item_id, new.revision) if new is not None and new_is_readable else None,
            old_locator=old.path if old is not None and old_is_readable else None,
            locator=new.path if new is not None and new_is_readable else None,
            status=new.status if new is not None else None,
        )


class Changes:
    """What changed since then, for a caller."""

    def __init__(self, catalogue: Catalogue, indexer: Indexer) -> None:
        self._catalogue = catalogue
        self._indexer = indexer

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
        """A page of what changed since exactly one of: a commit, a time (seconds since the epoch), some citations.

        A commit is looked for in the histories that the caller may see, and only bases that have it are compared. A time
        means what was published then. Citations mean the items they cite, each as of the oldest revision cited. Raises
        `InvalidRequest`, `BaseNotFound`, `RevisionNotFound`.
        """
        if (since_commit is not None) + (since_time is not None) + bool(citations) != 1:
            raise InvalidRequest("give one of `since_commit`, `since_time` and `citations`")
        if not 1 <= limit <= MOST_CHANGES:
            raise InvalidRequest(f"field `limit` must be a whole number from 1 to {MOST_CHANGES}", {"field": "limit"})
        sight = Sight(self._catalogue, caller)
        chosen = [self._indexer.seen(base) for base in sight.chosen(bases, ())]
        unknown: Sequence[str] = ()
        found: Iterable[_Difference]
        if citations:
            compared, found, unknown = self._since_citations(sight, chosen, citations)
        else:
            states = self._states(chosen, since_commit, since_time)
            compared = [BaseChange(base, then.head, then.settings.status is BaseStatus.ACTIVE) for base, then in states]
            after_base = _after(cursor)[0]
            found = (
                difference
                for base, then in states
                if base.active and str(base.key) >= after_base
                for difference in self._differences(base, then, sight.may(Action.READ_DRAFTS, base))
            )
        page, following = _page(found, cursor, limit)
        return ChangePage(compared, self._with_sections(page), following, unknown)

    # Then

    def _states(
        self, bases: Sequence[BaseRow], since_commit: str | None, since_time: int | None
    ) -> list[tuple[BaseRow, _Then]]:
        """The bases to compare, and each one's state then."""
        heads: list[tuple[BaseRow, str | None]]
        if since_commit is None:
            assert since_time is not None
            heads = [(base, self._catalogue.head_at(str(base.key), since_time)) for base in bases]
        else:
            if not is_sha(since_commit):
                raise InvalidRequest("field `since_commit` must be a full, lower-case SHA", {"field": "since_commit"})
            known = [base for base in bases if self._catalogue.commit_position(str(base.key), since_commit) is not None]
            if not known:
                raise RevisionNotFound(f"no base in sight has published the commit {since_commit}")
            heads = [(base, since_commit) for base in known]
        states = []
        for base, head in heads:
            settings, rules, _ = read_settings(self._indexer.repository(base.key), head, base.key.slug)
            states.append((base, _Then(head, settings, rules)))
        return states

    def _differences(self, base: BaseRow, then: _Then, sees_drafts: bool) -> Iterator[_Difference]:
        """The items of files that differ between the two trees, by id."""
        if then.head == base.head or base.head is None:
            return
        key = str(base.key)
        repository = self._indexer.repository(base.key)
        changes = repository.changes(then.head, base.head)
        if then.head is not None and any(change.path in _SETTINGS_FILES for change in changes):
            # Other settings make items, or publish them, without a change of their files.
            before = [(entry.path, entry.sha) for entry in repository.tree(then.head)]
            now = self._catalogue.items(key)
        else:
            before = [(change.path, change.old.sha) for change in changes if change.old]
            paths = (names.decoded(change.path) for change in changes if change.new)
            now = self._catalogue.items_at(key, [path for path in paths if path is not None])
        old = self._items_then(key, before, then)
        new = {item.item_id: item for item in now}
        for item_id in sorted(old.keys() | new.keys()):
            row = old.get(item_id)
            was = self._status_then(row, new.get(item_id), then, sees_drafts) if row else None
            yield _Difference(base, item_id, row, was, new.get(item_id), sees_drafts)

    def _items_then(self, key: str, files: Sequence[tuple[bytes, str]], then: _Then) -> dict[str, RevisionRow]:
        if then.head is None:
            return {}
        decoded = ((names.decoded(path), blob) for path, blob in files)
        wanted = [(path, blob) for path, blob in decoded if path is not None and then.rules.is_item(path)]
        until = self._catalogue.commit_position(key, then.head)
        assert until is not None
        found: dict[str, RevisionRow] = {}
        for row in self._catalogue.revisions_of_files(key, wanted, until=until):
            if row.item_id not in found or row.position > found[row.item_id].position:
                found[row.item_id] = row
        return found

    def _status_then(self, old: RevisionRow, new: ItemRow | None, then: _Then, sees_drafts: bool) -> ItemStatus | None:
        """The item's status then; None if the caller could not know of it."""
        status = old.status
        # A file without a status of its own had the one that the settings of then gave it.
        if new is not None and new.blob == old.blob:
            status = new.declared_status or then.settings.default_status
        elif status is ItemStatus.DRAFT and old.was_published:  # so nothing in it says draft
            status = then.settings.default_status
        if sees_drafts or status is ItemStatus.PUBLISHED:
            return status
        earlier = self._catalogue.revisions(old.base, old.item_id, before=old.position)
        is_known = status is ItemStatus.ARCHIVED and any(row.was_published for row in earlier)
        return status if is_known else None

    # Citations

    def _since_citations(
        self, sight: Sight, bases: Sequence[BaseRow], citations: Sequence[str]
    ) -> tuple[list[BaseChange], list[_Difference], list[str]]:
        parsed = {text: _pinned(text) for text in citations}
        wanted = {pin for pin in parsed.values() if pin is not None}
        found: dict[tuple[str, str], _Difference] = {}
        known: set[tuple[str, str]] = set()
        compared = []
        for base in bases:
            key, sees_drafts = str(base.key), sight.may(Action.READ_DRAFTS, base)
            rows = self._catalogue.revisions_named(key, wanted)
            rows = {pin: row for pin, row in rows.items() if row.blob and (row.was_published or sees_drafts)}
            items = self._catalogue.items_named(key, {item_id for item_id, _ in rows})
            known |= rows.keys()
            if rows:
                compared.append(BaseChange(base, None, base.active))
            for (item_id, _), row in rows.items() if base.active else ():
                earlier = found.get((key, item_id))
                if earlier is None or earlier.old is None or row.position < earlier.old.position:
                    # What a reader can cite was published, whatever its file said when it was written.
                    was = row.status if sees_drafts else ItemStatus.PUBLISHED
                    found[key, item_id] = _Difference(base, item_id, row, was, items.get(item_id), sees_drafts)
        return compared, [found[place] for place in sorted(found)], [t for t, pin in parsed.items() if pin not in known]

    # The page

    def _with_sections(self, page: Sequence[tuple[ItemChange, _Difference]]) -> list[ItemChange]:
        """Contents are read here, of the listed items alone."""
        wanted: defaultdict[str, list[str]] = defaultdict(list)
        for change, difference in page:
            wanted[str(change.base.key)] += _contents(change, difference)
        texts: dict[tuple[str, str], str] = {}
        for key, blobs in wanted.items():
            base = next(change.base for change, _ in page if str(change.base.key) == key)
            for blob, raw in self._indexer.repository(base.key).blobs(dict.fromkeys(blobs)):
                texts[key, blob] = parse_document(raw).content
        found = []
        for change, difference in page:
            pair = _contents(change, difference)
            if pair:
                old, new = (texts[str(change.base.key), blob] for blob in pair)
                change = replace(change, sections=changed_sections(old, new))
            found.append(change)
        return found


def _pinned(text: str) -> tuple[str, str] | None:
    try:
        text.encode()  # JSON can spell what is no text, a lone surrogate
        citation = Citation.parse(text)
    except (InvalidCitation, UnicodeEncodeError):
        return None
    return (citation.item_id, citation.revision) if citation.revision else None


def _contents(change: ItemChange, difference: _Difference) -> list[str]:
    """The blobs of both contents, where both may be read and differ."""
    old, new = difference.old, difference.new
    if old is None or new is None or old.blob is None or not (change.old and change.new):
        return []
    return [old.blob, new.blob] if old.content_hash != new.content_hash else []


def _after(cursor: str | None) -> tuple[str, str]:
    """The base and the item after which a page begins."""
    key, _, item_id = (cursor or "").partition(" ")  # a key has no blank
    return key, item_id


def _page(
    differences: Iterable[_Difference], cursor: str | None, limit: int
) -> tuple[list[tuple[ItemChange, _Difference]], str | None]:
    """The first `limit` changes after `cursor`, and the cursor after them."""
    after = _after(cursor)
    page: list[tuple[ItemChange, _Difference]] = []
    for difference in differences:
        kind = difference.kind
        if kind is None or (str(difference.base.key), difference.item_id) <= after:
            continue
        if len(page) == limit:
            last = page[-1][1]
            return page, f"{last.base.key} {last.item_id}"
        page.append((difference.change(kind), difference))
    return page, None
