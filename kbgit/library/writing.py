"""Writing without a clone: each change is one commit by the acting user, through the gate that pushes go through.

Nothing is ever overwritten: a change names the revision it starts from, and the branch moves by compare-and-set. Whoever
was slower either starts again from the new head (another item changed) or is told the difference (the same item did).
"""

from __future__ import annotations

import os
import re
import threading
import time
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from kbgit import names
from kbgit.access import Action, Principal, Scope, Target, decide
from kbgit.admission import Limits, Rights, assess, judge, read_settings
from kbgit.base import BaseKey
from kbgit.catalogue import Catalogue
from kbgit.citation import Citation
from kbgit.errors import (
    AlreadyExists,
    AmbiguousItem,
    Conflict,
    GitFailure,
    InvalidRequest,
    StaleRevision,
)
from kbgit.frontmatter import decode
from kbgit.header_edit import NewValue, canonical_content
from kbgit.importing import identity, refused
from kbgit.indexer import Indexer
from kbgit.item import ItemStatus, edit_document, parse_document
from kbgit.library.rights import require, require_scope
from kbgit.library.sight import Sight, item_not_found
from kbgit.publish import Announcement, announce, catch_up, running
from kbgit.receipt import Receipt, receipt
from kbgit.revision import Via
from kbgit.rows import BaseRow, ItemRow
from kbgit.store import Repository

_ATTEMPTS = 50
_BOM = b"\xef\xbb\xbf"
_OWN_FIELDS = frozenset({"id", "title", "status", "tags", "description"})
Files = dict[str, bytes | None]


@dataclass(frozen=True, slots=True)
class Draft:
    """What a writer wants an item to be; None leaves a part as it is (or, for a new item, out).

    `metadata` sets front matter fields; a None in it removes one.
    """

    title: str | None = None
    content: str | None = None
    status: ItemStatus | None = None
    tags: Sequence[str] | None = None
    description: str | None = None
    metadata: Mapping[str, NewValue] = field(default_factory=dict)

    @property
    def fields(self) -> dict[str, NewValue]:
        """The front matter fields to set. Raises `InvalidRequest` for metadata that would set kbgit's own."""
        own = sorted(_OWN_FIELDS & set(self.metadata))
        if own:
            raise InvalidRequest(f"`{own[0]}` is a field of its own, not metadata", {"field": "metadata"})
        given: dict[str, NewValue] = {
            "title": self.title,
            "status": self.status.value if self.status else None,
            "description": self.description,
            "tags": list(self.tags) if self.tags is not None else None,
        }
        return {name: value for name, value in given.items() if value is not None} | dict(self.metadata)


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a change. `citation` is None where the item is gone."""

    item_id: str
    citation: Citation | None
    status: ItemStatus | None
    locator: str
    receipt: Receipt

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "type": "knowledge_written",
            "knowledge_item_id": self.item_id,
            "knowledge_revision_id": self.citation.revision if self.citation else None,
            "reference": self.citation.reference if self.citation else None,
            "status": self.status.value if self.status else None,
            "locator": self.locator,
            "receipt": self.receipt.as_json(),
        }


@dataclass(frozen=True, slots=True)
class ItemText:
    """An item's whole file for its writers, front matter included: text with LF as its only line end, no byte order mark."""

    item_id: str
    revision: str
    title: str
    locator: str
    text: str
    base: BaseRow


class Writing:
    """Changes of items and of a base's settings, one commit each."""

    def __init__(self, catalogue: Catalogue, indexer: Indexer, limits: Limits) -> None:
        self._catalogue = catalogue
        self._indexer = indexer
        self._limits = limits
        # Writers of this process queue for a base instead of racing each other; pushes still race, and are retried.
        self._queues: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    # Items

    def create(
        self, key: str, caller: Principal, draft: Draft, *, locator: str | None, item_id: str | None, via: Via
    ) -> Written:
        """A new item of the base `key`, a draft unless `draft` says otherwise.

        `locator` (default: made from the title) must be free. Raises `AlreadyExists`, `Forbidden`, `BaseNotFound`,
        `PushRefused`.
        """
        base = self.base_to_write(key, caller)
        path = locator or _path_from(draft.title or "", base.settings.subdir)
        fields: dict[str, NewValue] = {"id": item_id} if item_id else {}
        fields |= {"status": ItemStatus.DRAFT.value} | draft.fields
        raw = edit_document(b"", fields, draft.content or "")

        def make(now: BaseRow, repository: Repository) -> Files:
            _check_path(repository, now, path)
            return {path: raw}

        result = self.commit(base.key, caller, make, f"Create {draft.title or path}", via)
        return self._written(result, path)

    def update(
        self,
        item_id: str,
        caller: Principal,
        draft: Draft,
        *,
        base: str | None,
        expected_revision: str,
        via: Via,
        message: str | None = None,
    ) -> Written:
        """Change what `draft` names of the item, and no other byte of its file.

        Raises `StaleRevision` with the difference when the item is no longer at `expected_revision`.
        """
        place, item = self._found(item_id, caller, base, Action.WRITE_ITEMS)

        def make(now: BaseRow, repository: Repository) -> Files:
            fresh = self._still(now, item, expected_revision)
            return {fresh.path: edit_document(repository.blob(fresh.blob), draft.fields, draft.content)}

        result = self.commit(place.key, caller, make, message or f"Change {item.title}", via)
        return self._written(result, item.path)

    def base_to_write(self, key: str, caller: Principal) -> BaseRow:
        """The base, for whoever may write its items. Raises `BaseNotFound`, `Forbidden`."""
        require_scope(caller, Scope.KNOWLEDGE_READ)
        base = Sight(self._catalogue, caller).one(key)
        require(caller, Action.WRITE_ITEMS, _target(base))
        return base

    def text_of(self, item_id: str, caller: Principal, *, base: str | None) -> ItemText:
        """An item's file as text, for whoever may write it. Raises `ItemNotFound`, `AmbiguousItem`, `Forbidden`."""
        place, item = self._found(item_id, caller, base, Action.WRITE_ITEMS)
        text = decode(self._indexer.repository(place.key).blob(item.blob))
        return ItemText(item.item_id, item.revision, item.title, item.path, text, place)

    def create_text(self, key: str, caller: Principal, text: str, *, locator: str | None, via: Via) -> Written:
        """A new item whose file is exactly `text`, with LF; its title gives the path where `locator` does not.

        Raises `DocumentProblem` for a text that cannot be an item, and what `create` raises.
        """
        base = self.base_to_write(key, caller)
        raw = _as_file(text, b"")
        title = parse_document(raw).title or ""
        path = locator or _path_from(title, base.settings.subdir)

        def make(now: BaseRow, repository: Repository) -> Files:
            _check_path(repository, now, path)
            return {path: raw}

        result = self.commit(base.key, caller, make, f"Create {title or path}", via)
        return self._written(result, path)

    def replace_text(
        self, item_id: str, caller: Principal, text: str, *, base: str | None, expected_revision: str, via: Via
    ) -> Written:
        """Make an item's file exactly `text`, but for the line ends and byte order mark that the file has already.

        Nothing is committed when that is what it is. Raises `DocumentProblem` for a text that cannot be an item, and
        what `update` raises.
        """
        place, item = self._found(item_id, caller, base, Action.WRITE_ITEMS)

        def make(now: BaseRow, repository: Repository) -> Files:
            fresh = self._still(now, item, expected_revision)
            raw = _as_file(text, repository.blob(fresh.blob))
            parse_document(raw)
            return {fresh.path: raw}

        result = self.commit(place.key, caller, make, f"Edit {item.title}", via)
        return self._written(result, item.path)

    def set_status(
        self,
        item_id: str,
        caller: Principal,
        status: ItemStatus,
        *,
        base: str | None,
        expected_revision: str | None,
        via: Via,
    ) -> Written:
        """Publish, unpublish (draft), archive or restore (published) an item: one line of its file."""
        place, item = self._found(item_id, caller, base, Action.WRITE_ITEMS)

        def make(now: BaseRow, repository: Repository) -> Files:
            fresh = self._still(now, item, expected_revision)
            return {fresh.path: edit_document(repository.blob(fresh.blob), {"status": status.value})}

        verb = {ItemStatus.PUBLISHED: "Publish", ItemStatus.DRAFT: "Unpublish", ItemStatus.ARCHIVED: "Archive"}[status]
        result = self.commit(place.key, caller, make, f"{verb} {item.title}", via)
        return self._written(result, item.path)

    def delete(
        self, item_id: str, caller: Principal, *, base: str | None, expected_revision: str | None, via: Via
    ) -> Written:
        """Remove an item's file. Its pinned citations keep resolving."""
        place, item = self._found(item_id, caller, base, Action.DELETE_ITEMS)

        def make(now: BaseRow, _: Repository) -> Files:
            return {self._still(now, item, expected_revision).path: None}

        result = self.commit(place.key, caller, make, f"Delete {item.title}", via)
        return Written(item_id, None, None, item.path, result)

    # Settings

    def change_file(
        self,
        key: BaseKey,
        caller: Principal,
        path: str,
        change: Callable[[bytes | None], bytes],
        message: str,
        via: Via,
    ) -> Receipt:
        """Replace one file of a base by what `change` makes of it; the caller's rights are checked by admission."""

        def make(now: BaseRow, repository: Repository) -> Files:
            found = list(repository.git.objects([f"{now.head}:{path}"])) if now.head else []
            before = found[0][2] if found and found[0][1] == "blob" else None
            return {path: change(before)}

        return self.commit(key, caller, make, message, via)

    # The one way to the branch

    def alone(self, key: BaseKey) -> AbstractContextManager[object]:
        """A context in which nobody writes to the base through this library."""
        return self._queues[str(key)]

    def commit(
        self,
        key: BaseKey,
        caller: Principal,
        make: Callable[[BaseRow, Repository], Files],
        message: str,
        via: Via,
    ) -> Receipt:
        """One commit of what `make` gives for the present head: path to bytes, or None to remove; nothing if it is so now.

        `make` runs again when somebody pushed in between; what it raises ends the attempt with nothing changed. Raises
        `PushRefused`, `Conflict`, `BaseNotFound`.
        """
        with self.alone(key), self._indexer.repository(key).kept() as repository:
            for _ in range(_ATTEMPTS):
                self._catalogue.add_base(key)
                base = self._indexer.published(self._catalogue.base(str(key)))
                files = make(base, repository)
                if self._is_as_committed(repository, base, files):
                    return receipt(repository, self._catalogue, base, base.head)
                commit = repository.commit_files(files, parent=base.head, message=message, author=identity(caller.user))
                self._admit(repository, base, commit, caller)
                branch = repository.published_branch()
                at, teller = int(time.time()), running(os.getpid())
                announce(repository, Announcement(branch, base.head, commit, caller.user, via, at, teller))
                try:
                    repository.move_ref(branch, commit, base.head)
                except GitFailure:
                    if repository.head() == base.head:
                        raise
                    continue  # somebody pushed in between: start again from their head
                published = catch_up(repository, self._catalogue, base, self._limits)
                self._indexer.on_behind(key)
                return receipt(repository, self._catalogue, published, base.head)
        raise Conflict(f"{key} changes faster than this change could be made; try again")

    def _is_as_committed(self, repository: Repository, base: BaseRow, files: Files) -> bool:
        """Whether the files are already what they shall become: then there is nothing to commit."""
        if base.head is None:
            return False
        found = repository.git.objects([f"{base.head}:{path}" for path in files])
        return all(
            (None if kind != "blob" else content) == wanted
            for (_, kind, content), wanted in zip(found, files.values(), strict=True)
        )

    def _admit(self, repository: Repository, base: BaseRow, commit: str, caller: Principal) -> None:
        key, slug = str(base.key), base.key.slug
        rights = Rights(
            administer=bool(decide(caller, Action.ADMINISTER_BASE, _target(base))),
            delete=bool(decide(caller, Action.DELETE_ITEMS, _target(base))),
        )
        assessment = assess(
            repository,
            base.head,
            commit,
            slug,
            lambda ids: self._catalogue.paths_by_folded_id(key, ids),
            self._limits,
            self._catalogue.contested_paths(key),
        )
        verdict = judge(repository, base.head, commit, assessment, slug, rights, self._limits)
        if not verdict.admitted:
            raise refused(verdict.refusals)

    # Finding and checking

    def _found(self, item_id: str, caller: Principal, base: str | None, action: Action) -> tuple[BaseRow, ItemRow]:
        """The one visible base that has the item, if the caller may do `action` there."""
        require_scope(caller, Scope.KNOWLEDGE_READ)
        sight = Sight(self._catalogue, caller)
        places = []
        for row in sight.named(base) if base else sight.bases:
            fresh = self._indexer.seen(row)  # one base in trouble does not hide the items of the others
            item = self._catalogue.item(str(row.key), item_id)
            if item is not None and (item.status is ItemStatus.PUBLISHED or sight.may(Action.READ_DRAFTS, row)):
                places.append((fresh, item))
        if not places:
            raise item_not_found(item_id)
        permitted = [place for place in places if decide(caller, action, _target(place[0]))]
        if len(permitted) > 1:
            keys = sorted(str(place.key) for place, _ in permitted)
            details = {"knowledge_item_id": item_id, "bases": keys}
            raise AmbiguousItem(f"{item_id!r} is in several bases; name one with `base`", details)
        place, item = (permitted or places)[0]
        require(caller, action, _target(place))
        return place, item

    def _still(self, now: BaseRow, item: ItemRow, expected: str | None) -> ItemRow:
        """The item as it is now, if it is still at the expected revision (None: at whichever)."""
        fresh = self._catalogue.item(str(now.key), item.item_id)
        if fresh is None:
            raise StaleRevision("the item was removed meanwhile", {"expected": expected, "current": None, "diff": None})
        if expected is not None and fresh.revision != expected:
            old = self._catalogue.revision(str(now.key), item.item_id, expected)
            diff = None
            if old is not None and old.blob is not None:
                repository = self._indexer.repository(now.key)
                diff = repository.difference(old.blob, fresh.blob, old.path, fresh.path)
            raise StaleRevision(
                f"the item is at {fresh.revision} now, not at {expected[:100]}; apply your change to that",
                {"expected": expected[:100], "current": fresh.revision, "diff": diff},
            )
        return fresh

    def _written(self, result: Receipt, path: str) -> Written:
        items = self._catalogue.items_at(str(result.base.key), [path])
        if not items:
            raise GitFailure(f"{names.shown(path)} was committed but is not catalogued; `kbgit reindex` mends it")
        item = items[0]
        return Written(item.item_id, Citation(item.item_id, item.revision), item.status, item.path, result)


def _target(base: BaseRow) -> Target:
    return Target(base.key.space, str(base.key))


def _as_file(text: str, before: bytes) -> bytes:
    """`text` as a file that ends its lines, and begins, as the file `before` did; lines of several kinds become LF."""
    raw = canonical_content(text).encode("utf-8", "surrogatepass")  # a lone surrogate is refused when it is read
    if before.count(b"\r\n") == before.count(b"\n") > 0:
        raw = raw.replace(b"\n", b"\r\n")
    return _BOM + raw if before.startswith(_BOM) else raw


def _path_from(title: str, subdir: str) -> str:
    """A file name from a title: letters and digits of any script, the rest dashes."""
    plain = unicodedata.normalize("NFC", title).strip().lower()
    name = re.sub(r"[^\w]+", "-", plain).strip("-_")[:80].strip("-_")
    if not name:
        raise InvalidRequest("a new item needs a title, or a locator to be stored under", {"field": "title"})
    return f"{subdir}/{name}.md" if subdir else f"{name}.md"


def _check_path(repository: Repository, base: BaseRow, path: str) -> None:
    why = names.fault(path.encode("utf-8", "surrogateescape"))
    parts = path.split("/")
    if why is None and (path.startswith("/") or any(part in ("", ".", "..", ".git") for part in parts)):
        why = "the path leaves the base"
    if why is None:
        why = read_settings(repository, base.head, base.key.slug)[1].why_no_item(path)
    if why:
        raise InvalidRequest(f"no item can be stored at {names.shown(path)!r}: {why}", {"field": "locator"})
    if base.head and repository.has(f"{base.head}:{path}"):
        raise AlreadyExists(f"there is a file {names.shown(path)!r} already", {"locator": path})
