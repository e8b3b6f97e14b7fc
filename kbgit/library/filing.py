"""Files imported into a base: each an item, all of one call in one commit, and running it again changes only what changed.

An item remembers in `source` what it was made from. The same file again changes nothing. A changed file changes the item's
text, unless somebody has edited that since: then it is a conflict, which `replace` decides. What people did to the front
matter (tags, status, title) stays in any case. One bad file is refused for itself and stops no other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from kbgit import names
from kbgit.access import Principal
from kbgit.admission import Limits
from kbgit.catalogue import Catalogue
from kbgit.citation import Citation
from kbgit.errors import Conflict, InvalidRequest, KbgitError, PushRefused, TooLarge
from kbgit.importing import locator_of
from kbgit.importing.text import Converted, convert
from kbgit.indexer import Indexer
from kbgit.item import ItemStatus, item_id, parse_document
from kbgit.library.filing_merge import created, is_made_from, updated
from kbgit.library.filing_places import Places
from kbgit.library.writing import Files, Writing
from kbgit.revision import Via
from kbgit.rows import BaseRow, ItemRow
from kbgit.store import Repository

MOST_FILES = 1000
"""Files of one call."""
LONGEST_NAME = 1024
_UNWRITABLE = re.compile("[\x00\ud800-\udfff]")
_SPARE = 4  # a file of so many times an item's size may still become one: UTF-32, or markup


class Outcome(StrEnum):
    """What became of one file."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


@dataclass(slots=True)
class FiledFile:
    """One file's outcome. A refused one has an `error` and no citation; a dry run's new item has no citation either."""

    name: str
    outcome: Outcome
    locator: str
    notes: tuple[str, ...] = ()
    error: KbgitError | None = None
    item: ItemRow | None = None

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        item = self.item
        return {
            "name": self.name,
            "outcome": self.outcome.value,
            "locator": self.locator,
            "knowledge_item_id": item.item_id if item else None,
            "reference": str(Citation(item.item_id, item.revision)) if item else None,
            "status": item.status.value if item else None,
            "notes": list(self.notes),
            "error": self.error.as_json()["error"] if self.error else None,
        }


@dataclass(frozen=True, slots=True)
class FilingResult:
    """What became of each file, in the order in which they were given. `head` is the base's, afterwards."""

    base: str
    head: str | None
    dry_run: bool
    files: Sequence[FiledFile]

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "type": "knowledge_files_imported",
            "base": self.base,
            "head": self.head,
            "dry_run": self.dry_run,
            "counts": {outcome.value: sum(file.outcome is outcome for file in self.files) for outcome in Outcome},
            "files": [file.as_json() for file in self.files],
        }


@dataclass(frozen=True, slots=True)
class _Wish:
    """What the caller asks for."""

    folder: str
    status: ItemStatus
    replace: bool


@dataclass(frozen=True, slots=True)
class _Given:
    """A file as it was given; `converted` is what it becomes, or why it becomes nothing."""

    name: str
    converted: Converted | KbgitError


@dataclass
class _Plan:
    """What a head would become: outcomes in order, and the files that change."""

    now: BaseRow
    outcomes: list[FiledFile] = field(default_factory=list)
    files: Files = field(default_factory=dict)


class _NothingToCommit(Exception):
    """Ends a commit's attempt before there is one."""


class Filing:
    """Files into bases, for those who may write there."""

    def __init__(self, catalogue: Catalogue, indexer: Indexer, writing: Writing, limits: Limits) -> None:
        self._catalogue = catalogue
        self._indexer = indexer
        self._writing = writing
        self._limits = limits

    def import_files(
        self,
        key: str,
        caller: Principal,
        files: Sequence[tuple[str, bytes]],
        *,
        folder: str = "",
        status: ItemStatus = ItemStatus.DRAFT,
        replace: bool = False,
        dry_run: bool = False,
        via: Via = Via.IMPORT,
    ) -> FilingResult:
        """Make items of `files`, (relative name with `/`, content) each, below `folder` of the base `key`.

        New items get `status`, unless a Markdown file says its own. `replace` overwrites what somebody edited since, or
        what no import put there. With `dry_run` nothing is written. Raises `BaseNotFound`, `Forbidden`, `InvalidRequest`
        for too many files; what is wrong with one file is in its outcome.
        """
        if len(files) > MOST_FILES:
            raise InvalidRequest(f"{len(files):,} files at once; at most {MOST_FILES:,}", {"limit": MOST_FILES})
        base = self._writing.base_to_write(key, caller)
        wish = _Wish(folder, status, replace)
        given = [self._given(name, content) for name, content in files]
        refused: dict[str, KbgitError] = {}
        plan = _Plan(base)

        def make(now: BaseRow, repository: Repository) -> Files:
            nonlocal plan
            plan = self._plan(now, repository, given, wish, refused)
            if dry_run or not plan.files:
                raise _NothingToCommit
            return plan.files

        message = f"Import {names.shown(files[0][0])[:200]}" if len(files) == 1 else f"Import {len(files):,} files"
        while True:
            try:
                head = self._writing.commit(base.key, caller, make, message, via).base.head
            except _NothingToCommit:
                head = plan.now.head
            except PushRefused as refusal:
                # The gate's word on single files: those stay out, and the others are tried again.
                found = _by_path(refusal, plan.files.keys() - refused.keys())
                if not found:
                    raise
                refused |= found
                continue
            break
        self._cite(plan, status)
        return FilingResult(str(base.key), head, dry_run, plan.outcomes)

    def _given(self, name: str, content: bytes) -> _Given:
        name = _UNWRITABLE.sub("\ufffd", name)[:LONGEST_NAME]
        try:
            if len(content) > self._limits.item_bytes * _SPARE:
                raise self._too_large(len(content))
            return _Given(name, convert(name, content))
        except KbgitError as error:
            return _Given(name, error)

    def _too_large(self, size: int) -> TooLarge:
        most = self._limits.item_bytes
        return TooLarge(f"{size:,} bytes; an item has at most {most:,}, so split the file", {"limit": most})

    def _plan(
        self,
        now: BaseRow,
        repository: Repository,
        given: Sequence[_Given],
        wish: _Wish,
        refused: Mapping[str, KbgitError],
    ) -> _Plan:
        """What the head `now` would become."""
        folder = "/".join(part for part in (now.settings.subdir, wish.folder) if part)
        places = [locator_of(file.name, folder) for file in given]
        tree = Places(repository, now, places)
        plan = _Plan(now)
        for file, place in zip(given, places, strict=True):
            outcome = FiledFile(file.name, Outcome.REFUSED, place)
            plan.outcomes.append(outcome)
            try:
                if isinstance(file.converted, KbgitError):
                    raise file.converted
                tree.claim(place)
                if place in refused:
                    raise refused[place]
                self._settle(plan, outcome, file.converted, tree.before.get(place), wish)
            except KbgitError as error:
                outcome.error = error
        self._refuse_taken_ids(plan)
        return plan

    def _settle(self, plan: _Plan, outcome: FiledFile, converted: Converted, before: bytes | None, wish: _Wish) -> None:
        """Decide about one file that has a place. Raises what refuses it."""
        if before is None:
            raw, notes = created(converted, wish.status)
            kind = Outcome.CREATED
        elif is_made_from(before, converted.source):
            outcome.outcome, outcome.notes = Outcome.UNCHANGED, converted.notes
            return
        else:
            item = next(iter(self._catalogue.items_at(str(plan.now.key), [outcome.locator])), None)
            history = self._texts_of(plan.now, item) if item else iter(())
            raw, notes = updated(converted, before, history, outcome.locator, replace=wish.replace, status=wish.status)
            kind = Outcome.UPDATED
        if len(raw) > self._limits.item_bytes:
            raise self._too_large(len(raw))
        outcome.outcome, outcome.notes = kind, (*converted.notes, *notes)
        plan.files[outcome.locator] = raw

    def _texts_of(self, base: BaseRow, item: ItemRow) -> Iterator[bytes]:
        """An item's files, newest first, back to where it was removed."""
        repository = self._indexer.repository(base.key)
        for revision in self._catalogue.revisions(str(base.key), item.item_id):
            if revision.blob is None:
                return
            yield repository.blob(revision.blob)

    def _refuse_taken_ids(self, plan: _Plan) -> None:
        """Refuse new files whose id is somebody else's, or an earlier one's of the same call."""
        slug, key = plan.now.key.slug, str(plan.now.key)
        ids: dict[str, str] = {}
        for outcome in plan.outcomes:
            raw = plan.files.get(outcome.locator)
            if raw is None or outcome.outcome is Outcome.REFUSED:
                continue
            found = item_id(parse_document(raw), slug, outcome.locator)
            folded = found.casefold()
            holder = ids.get(folded) or self._catalogue.paths_by_folded_id(key, [folded]).get(folded)
            if holder not in (None, outcome.locator):
                details = {"knowledge_item_id": found, "locator": holder}
                outcome.error = Conflict(f"its id {found!r} is also that of {names.shown(holder)}", details)
                outcome.outcome = Outcome.REFUSED
                del plan.files[outcome.locator]
            else:
                ids[folded] = outcome.locator

    def _cite(self, plan: _Plan, status: ItemStatus) -> None:
        """Name the items as they are now, and say where one has not the status that was asked for."""
        kept = [file for file in plan.outcomes if file.outcome is not Outcome.REFUSED]
        items = self._catalogue.items_at(str(plan.now.key), [file.locator for file in kept])
        by_path = {item.path: item for item in items}
        for file in kept:
            file.item = by_path.get(file.locator)
            if file.item and status is ItemStatus.PUBLISHED and file.outcome is not Outcome.CREATED:
                is_hidden = file.item.status is not ItemStatus.PUBLISHED
                file.notes += (f"stays as it is, {file.item.status}; publish it by itself",) * is_hidden


def _by_path(refusal: PushRefused, paths: set[str]) -> dict[str, KbgitError]:
    """The gate's problems that are of one of these files each, as that file's error."""
    listed: dict[str, list[dict[str, Any]]] = {}
    for problem in refusal.details.get("problems", ()):
        if problem["path"] in paths:
            listed.setdefault(problem["path"], []).append(problem)
    return {
        path: PushRefused("; ".join(f"{one['what']}; {one['mend']}" for one in problems), {"problems": problems})
        for path, problems in listed.items()
    }
