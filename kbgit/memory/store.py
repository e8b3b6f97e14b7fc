"""The memory store: what callers may do with records, and that nobody sees what is not theirs to see.

Memory is independent of the bases. Nothing here reads or writes a base: a linked document is a reference, kept as text.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Lock, RLock

from kbgit.access import Action, Principal
from kbgit.citation import SCHEME, Citation
from kbgit.errors import EmbeddingFailure, Forbidden, HomeProblem, InvalidRequest, NotFound, TooLarge
from kbgit.memory.answers import ProjectView, RecordPage
from kbgit.memory.export import ExportedProject, MemoryExport
from kbgit.memory.files import Contents, ProjectFiles, projects_in, spaces_in
from kbgit.memory.records import (
    MemoryKind,
    MemoryLimits,
    MemoryProblem,
    MemoryRecord,
    NewRecord,
    ProjectKey,
    is_record_id,
    new_record,
)
from kbgit.memory.rights import may, may_forget, require, require_scope
from kbgit.memory.search import MemoryHits, MemorySearch, passages_of

_CURSOR = re.compile(r"(?P<created_at>-?[0-9]{1,15}):(?P<id>mem_[0-9a-f]{24})")
_MOST_LISTED = 200

Audit = Callable[[str, str, Mapping[str, object]], None]
"""Records an event: who, what, details."""

log = logging.getLogger(__name__)


class MemoryStore:
    """The memory of one home, below `directory`, which belongs to nothing else.

    Every method that takes a `caller` raises `SpaceNotFound` for a space the caller may not see, `NotFound` for a record
    that is not there or not theirs to see, `Forbidden` (with `details.rule`) where they see but may not act or where
    their token lacks the scope, and `HomeProblem` when files cannot be read or written. `audit` is told what is forgotten.
    """

    def __init__(
        self,
        directory: Path,
        search: MemorySearch,
        *,
        clock: Callable[[], float] = time.time,
        limits: MemoryLimits | None = None,
        audit: Audit | None = None,
    ) -> None:
        self._directory = directory
        self._search = search
        self._clock = clock
        self._limits = limits or MemoryLimits()
        self._audit = audit
        self._projects: dict[ProjectKey, _Project] = {}
        self._lock = Lock()

    # Records

    def remember(self, new: NewRecord, caller: Principal) -> MemoryRecord:
        """Keep a record, durably. It is found by its words at once, and by its meaning if it can be embedded.

        Raises `InvalidRequest`, `InvalidName`, `TooLarge` for a text or a project that is too large.
        """
        record = new_record(new, caller.user, self._clock(), self._limits)
        require(caller, Action.WRITE_MEMORY, record.project.space)
        project = self._project(record.project)
        with project.changing():
            if len(_alive(project.files.read(), self._clock()).records) >= self._limits.records_per_project:
                limit = self._limits.records_per_project
                raise TooLarge(f"a project has at most {limit} records; forget some", {"limit": limit})
            project.files.write(record)
            stored = self._current(project).records[record.id]
        try:
            self._embed(project, {passage.vector_key for passage in passages_of(stored)})
        except EmbeddingFailure as error:
            log.warning("%s is found by its words only for now: %s", record.id, error.message)
        return stored

    def get(self, record_id: str, caller: Principal) -> MemoryRecord:
        """A record by its id."""
        project = self._holding(record_id, caller)
        record = project.files.read().records.get(record_id)
        if record is None or record.is_expired(self._clock()):
            raise _not_found(record_id)
        return record

    def records(
        self,
        caller: Principal,
        *,
        space: str | None = None,
        project: str | None = None,
        kind: MemoryKind | None = None,
        query: str = "",
        cursor: str | None = None,
        limit: int = 50,
    ) -> RecordPage:
        """A page of records. Without `space`, of all the caller may see; `query` keeps those with all its words in their
        title, text or tags."""
        _check_limit(limit)
        before = _position(cursor)
        words = query.casefold().split()
        found: list[MemoryRecord] = []
        problems: list[MemoryProblem] = []
        for _, contents in self._contents(caller, space, project):
            problems += contents.problems
            found += [
                record
                for record in contents.records.values()
                if (kind is None or record.kind is kind)
                and (before is None or _place(record) < before)
                and _has_words(record, words)
            ]
        found.sort(key=_place, reverse=True)
        following = _cursor(found[limit - 1]) if len(found) > limit else None
        return RecordPage(found[:limit], following, problems)

    def search(
        self,
        query: str,
        caller: Principal,
        *,
        space: str | None = None,
        project: str | None = None,
        kind: MemoryKind | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> MemoryHits:
        """The records that answer `query` best, from those that `records` would list."""
        _check_limit(limit)
        searched: dict[ProjectKey, Mapping[str, MemoryRecord]] = {}
        problems: list[MemoryProblem] = []
        for key, contents in self._contents(caller, space, project, synchronised=True):
            problems += contents.problems
            searched[key] = {i: record for i, record in contents.records.items() if kind is None or record.kind is kind}
        found = self._search.search(query, searched, limit=limit, min_score=min_score)
        return replace(found, problems=tuple(problems))

    def forget(self, record_id: str, caller: Principal) -> None:
        """Remove a record: its file, what is indexed of it, and its vectors.

        In a team's space its author may, and the space's owners and administrators; a file that cannot be read has no
        author. Raises `IndexFailure` when the vectors could not be erased; then the record is gone, and a sweep will.
        """
        project = self._holding(record_id, caller)
        require(caller, Action.WRITE_MEMORY, project.key.space)
        with project.changing():
            contents = project.files.read()
            record = contents.records.get(record_id)
            if record is None and not contents.unreadable(record_id):
                raise _not_found(record_id)
            if not may_forget(caller, project.key.space, record):
                rule = "a record is forgotten by its author, or by an owner or administrator of its space"
                raise Forbidden(rule, {"rule": rule})
            project.files.remove([record_id])
            self._current(project)
        if self._audit is not None:
            self._audit(caller.user, "memory_forgotten", {"record": record_id, "project": str(project.key)})
        self._search.erase([record] if record else [])

    def export(self, caller: Principal, *, space: str | None = None, project: str | None = None) -> MemoryExport:
        """Everything the caller may see, or that of one space or project. Expired records are not there any more."""
        projects: list[ExportedProject] = []
        problems: list[MemoryProblem] = []
        for key, contents in self._contents(caller, space, project):
            projects.append(ExportedProject(key, sorted(contents.records.values(), key=_place), contents.documents))
            problems += contents.problems
        return MemoryExport(int(self._clock()), projects, problems)

    # Projects

    def projects(self, caller: Principal, *, space: str | None = None) -> list[ProjectView]:
        """The projects the caller may see, by key."""
        return [ProjectView.of(key, contents) for key, contents in self._contents(caller, space, None)]

    def project(self, key: ProjectKey, caller: Principal) -> ProjectView:
        """One project; one without records or documents is empty."""
        for _, contents in self._contents(caller, key.space, key.slug):
            return ProjectView.of(key, contents)
        return ProjectView.of(key, Contents({}, (), ()))

    def link(self, key: ProjectKey, reference: str, caller: Principal) -> ProjectView:
        """Link a document, by its citation or item id, to a project. Linking it again changes nothing.

        The reference is kept as text and not looked up. Raises `InvalidCitation`, `TooLarge`.
        """
        linked = _reference(reference)
        require(caller, Action.WRITE_MEMORY, key.space)
        project = self._project(key)
        with project.changing():
            project.files.change_documents(lambda before: before if linked in before else (*before, linked))
            return ProjectView.of(key, _alive(project.files.read(), self._clock()))

    def unlink(self, key: ProjectKey, reference: str, caller: Principal) -> ProjectView:
        """Remove a link; the document stays as it is. Raises `NotFound` when it is not linked."""
        linked = _reference(reference)
        require(caller, Action.WRITE_MEMORY, key.space)
        project = self._project(key)

        def without(before: tuple[str, ...]) -> tuple[str, ...]:
            if linked not in before:
                raise NotFound(f"{linked!r} is not linked to {key}", {"reference": linked})
            return tuple(one for one in before if one != linked)

        with project.changing():
            project.files.change_documents(without)
            return ProjectView.of(key, _alive(project.files.read(), self._clock()))

    # Upkeep, by whoever owns the home

    def forget_expired(self) -> int:
        """Remove the files, index entries and vectors of working records whose time is over. How many there were."""
        forgotten: list[MemoryRecord] = []
        for project in self._all():
            with self._reported(project):
                if self._expired(project):
                    with project.changing():
                        expired = self._expired(project)  # as they are now that nobody else changes them
                        project.files.remove([record.id for record in expired])
                        self._current(project)
                    forgotten += expired
        self._search.erase(forgotten)
        return len(forgotten)

    def sweep(self) -> None:
        """Forget what has expired, and remove what crashes left: half-written files, vectors of records that are gone.
        For the start of a server, and rarely afterwards: it reads every record."""
        self.forget_expired()
        kept: list[MemoryRecord] = []
        for project in self._all():
            with self._reported(project), project.changing():
                project.files.sweep()
                kept += project.files.read().records.values()
        self._search.prune(kept)

    def embed_some(self) -> bool:
        """Embed one batch of passages that have no vector. Whether there may be more. Raises `EmbeddingFailure`.

        A record has none that was written by hand, or when the embedder was another one or could not be used.
        """
        if self._search.can_embed:
            for project in self._all():
                with self._reported(project):
                    self._current(project)
                    if self._embed(project, None):
                        return True
        return False

    # Inside

    @contextmanager
    def _reported(self, project: _Project) -> Iterator[None]:
        """Upkeep goes on with the others where one project's files fail."""
        try:
            yield
        except HomeProblem as error:
            log.error("%s: %s", project.key, error.message)

    def _project(self, key: ProjectKey) -> _Project:
        with self._lock:
            found = self._projects.get(key)
            if found is None:
                found = _Project(self._directory, key)
                self._projects[key] = found
            return found

    def _all(self) -> Iterator[_Project]:
        for space in spaces_in(self._directory):
            for key in projects_in(self._directory, space):
                yield self._project(key)

    def _chosen(self, caller: Principal, space: str | None, project: str | None) -> Iterator[_Project]:
        """The projects of `space` (None: of every space the caller may see), or those of them called `project`."""
        if space is not None:
            ProjectKey(space, "x" if project is None else project)
            require(caller, Action.READ_MEMORY, space)
            spaces: Iterable[str] = [space]
        else:
            ProjectKey("team:x", "x" if project is None else project)
            require_scope(caller, Action.READ_MEMORY)
            spaces = [one for one in spaces_in(self._directory) if may(caller, Action.READ_MEMORY, one)]
        for one in spaces:
            for key in projects_in(self._directory, one):
                if project is None or key.slug == project:
                    yield self._project(key)

    def _contents(
        self, caller: Principal, space: str | None, project: str | None, *, synchronised: bool = False
    ) -> Iterator[tuple[ProjectKey, Contents]]:
        """What the chosen projects hold now. One that cannot be read is a problem of its own and spoils no other."""
        for chosen in self._chosen(caller, space, project):
            try:
                contents = self._current(chosen) if synchronised else _alive(chosen.files.read(), self._clock())
            except HomeProblem as error:
                contents = Contents({}, (), (MemoryProblem(chosen.key, "", error.message),))
            yield chosen.key, contents

    def _current(self, project: _Project) -> Contents:
        """What the project holds now, and the index with it."""
        with project.lock:
            contents = _alive(project.files.read(), self._clock())
            self._search.synchronise(project.key, contents.records)
        return contents

    def _expired(self, project: _Project) -> list[MemoryRecord]:
        now = self._clock()
        return [record for record in project.files.read().records.values() if record.is_expired(now)]

    def _embed(self, project: _Project, wanted: set[str] | None) -> bool:
        """Embed passages of a project that have no vector, or the `wanted` of them. Whether there were any."""
        pending = self._search.pending(project.key, None if wanted is None else len(wanted))
        texts = {key: text for key, text in pending.items() if wanted is None or key in wanted}
        if not texts:
            return False
        vectors = self._search.embedded(texts)
        with project.lock:
            # Only of what is still there: a record may have been forgotten while its vector was made.
            self._current(project)
            awaited = self._search.awaited(project.key)
            self._search.keep(project.key, {key: vector for key, vector in vectors.items() if key in awaited})
        return True

    def _holding(self, record_id: str, caller: Principal) -> _Project:
        """The project that has the record's file, among those the caller may see."""
        require_scope(caller, Action.READ_MEMORY)
        if is_record_id(record_id):
            for project in self._chosen(caller, None, None):
                if project.files.has(record_id):
                    return project
        raise _not_found(record_id)


class _Project:
    """A project's files, and the lock under which they, the index and the vectors change together."""

    def __init__(self, directory: Path, key: ProjectKey) -> None:
        self.key = key
        self.files = ProjectFiles(directory, key)
        self.lock = RLock()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the lock of this process, and that of the directory against others."""
        with self.lock, self.files.changing():
            yield


# Values


def _not_found(record_id: str) -> NotFound:
    return NotFound(f"there is no record {record_id[:100]!r}", {"record": record_id[:100]})


def _alive(contents: Contents, now: float) -> Contents:
    """Without records whose time is over."""
    return replace(contents, records={i: one for i, one in contents.records.items() if not one.is_expired(now)})


def _reference(text: str) -> str:
    """A linked document's reference: a citation, or an item's id made one. Raises `InvalidCitation`."""
    return str(Citation.parse(text if text.startswith(SCHEME) else SCHEME + text))


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= _MOST_LISTED:
        raise InvalidRequest(f"field `limit` must be a whole number from 1 to {_MOST_LISTED}", {"field": "limit"})


def _place(record: MemoryRecord) -> tuple[int, str]:
    return record.created_at, record.id


def _cursor(record: MemoryRecord) -> str:
    return f"{record.created_at}:{record.id}"


def _position(cursor: str | None) -> tuple[int, str] | None:
    if cursor is None:
        return None
    match = _CURSOR.fullmatch(cursor)
    if match is None:
        raise InvalidRequest("field `cursor` is none that an earlier page gave", {"field": "cursor"})
    return int(match["created_at"]), match["id"]


def _has_words(record: MemoryRecord, words: Sequence[str]) -> bool:
    if not words:
        return True
    searched = "\n".join((record.title, record.text, *record.tags)).casefold()
    return all(word in searched for word in words)
