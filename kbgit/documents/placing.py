"""Making an item of an extracted document: one commit by its uploader, with the rights they have at that moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from kbgit import names
from kbgit.access import Action, Target
from kbgit.accounts import Accounts
from kbgit.admission import read_settings
from kbgit.base import BaseKey
from kbgit.catalogue import Catalogue
from kbgit.documents.contract import Extracted
from kbgit.documents.row import NewDocument
from kbgit.errors import AlreadyExists, GitFailure, InvalidRequest
from kbgit.importing import SourceFile, digest_of
from kbgit.indexer import Indexer
from kbgit.item import ItemStatus, edit_document
from kbgit.library import Writing
from kbgit.library.rights import require
from kbgit.rows import BaseRow, ItemRow
from kbgit.store import Repository

_LONGEST_TITLE = 300


@dataclass(frozen=True, slots=True)
class Placed:
    """The item that holds a document's text."""

    item_id: str
    revision: str


class _ThereAlready(Exception):
    """The item was made from these very bytes: there is nothing to commit."""

    def __init__(self, item: ItemRow) -> None:
        super().__init__(item.item_id)
        self.item = item


class Placing:
    """Knows where the documents of a home's bases go, and what is there."""

    def __init__(self, accounts: Accounts, catalogue: Catalogue, indexer: Indexer, writing: Writing) -> None:
        self._accounts = accounts
        self._catalogue = catalogue
        self._indexer = indexer
        self._writing = writing

    def existing(self, new: NewDocument) -> Placed | None:
        """The item that these bytes are already; None where the place is free, or may be written over.

        Raises `AlreadyExists` for a place that something else holds, `BaseNotFound`.
        """
        base = self._indexer.published(self._catalogue.base(new.base))
        try:
            self._check(base, self._indexer.repository(base.key), new)
        except _ThereAlready as there:
            return Placed(there.item.item_id, there.item.revision)
        return None

    def place(self, new: NewDocument, extracted: Extracted) -> Placed:
        """Commit the text as a draft, or as a new revision where it replaces; nothing where the same bytes are there.

        Raises `Forbidden`, `NotFound` (the uploader or the base is gone), `AlreadyExists`, `PushRefused`, `Conflict`,
        `DocumentProblem`.
        """
        key = BaseKey.parse(new.base)
        uploader = self._accounts.principal(new.uploader)
        require(uploader, Action.WRITE_ITEMS, Target(key.space, new.base))

        def make(now: BaseRow, repository: Repository) -> dict[str, bytes | None]:
            before = self._check(now, repository, new)
            return {new.locator: written(before, new.source, extracted)}

        try:
            self._writing.commit(key, uploader, make, f"Import {_shown(new.source.name)}", new.via)
        except _ThereAlready as there:
            return Placed(there.item.item_id, there.item.revision)
        items = self._catalogue.items_at(new.base, [new.locator])
        if not items:
            raise GitFailure(
                f"{names.shown(new.locator)} was committed but is not catalogued; `kbgit reindex` mends it"
            )
        return Placed(items[0].item_id, items[0].revision)

    def _check(self, base: BaseRow, repository: Repository, new: NewDocument) -> bytes | None:
        """The file that is to be written over; None where there is none. Raises `_ThereAlready`, `AlreadyExists`."""
        why = read_settings(repository, base.head, base.key.slug)[1].why_no_item(new.locator)
        if why:
            raise InvalidRequest(f"no item can be stored at {names.shown(new.locator)!r}: {why}", {"field": "name"})
        items = self._catalogue.items_at(new.base, [new.locator])
        if items and digest_of(items[0].metadata) == new.source.sha256:
            raise _ThereAlready(items[0])
        is_taken = bool(items) or bool(
            base.head and repository.git.succeeds_quietly("cat-file", "-e", f"{base.head}:{new.locator}")
        )
        if is_taken and not (items and new.replace):
            raise AlreadyExists(
                f"there is a file {names.shown(new.locator)!r} already, made from something else; "
                "upload with `replace=true` to make this its new revision",
                {"locator": new.locator},
            )
        return repository.blob(items[0].blob) if items else None


def written(before: bytes | None, source: SourceFile, extracted: Extracted) -> bytes:
    """The item's file: a new draft, or the file `before` with its body and its source replaced and nothing else."""
    fields: dict[str, str | Sequence[str] | Mapping[str, str] | None] = {}
    if before is None:
        fields = {"title": extracted.title or title_of(source.name), "status": ItemStatus.DRAFT.value}
    return edit_document(before or b"", {**fields, **source.fields}, extracted.markdown)


def title_of(name: str) -> str:
    """A title from a file's name: its last part without suffix, on one line."""
    last = PurePosixPath(name.replace("\\", "/")).name
    stem = PurePosixPath(last).stem or last or name
    return " ".join(stem.split())[:_LONGEST_TITLE].strip() or "Untitled"


def _shown(name: str) -> str:
    """A name as a commit's message can hold it."""
    return names.shown(" ".join(name.split()))[:200] or "a document"
