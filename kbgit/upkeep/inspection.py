"""Inspecting a home: everything is computed from Git anew and compared with what the home has stored.

Nothing is changed, and a server may run meanwhile: what it publishes during the inspection is no finding. Each base is
compared at the publication that its catalogue was at when the inspection began, and at the one that its index is at.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbgit.base import BaseKey
from kbgit.catalogue import VERSION
from kbgit.errors import GitFailure, IndexFailure, KbgitError
from kbgit.home import Home
from kbgit.index.embedded import directory_name
from kbgit.rebuilding import scratch_prefix
from kbgit.store import Repository
from kbgit.upkeep.archive import scratch_place
from kbgit.upkeep.derivation import Derivation, catalogued, check_citations
from kbgit.upkeep.finding import Finding
from kbgit.upkeep.indexes import OpenedIndex, check_lexical, check_vectors, open_index
from kbgit.upkeep.reading import copy_database, damage_of, read_only
from kbgit.upkeep.repositories import Log, check_repository, patient
from kbgit.upkeep.stores import check_stores

Progress = Callable[[str, int, int], None]
"""Told what is done next, how many steps are done, of how many."""

CATALOGUE = "catalogue.sqlite"
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Inspection:
    """What an inspection found, in the bases that it looked at."""

    bases: Collection[str]
    findings: tuple[Finding, ...]
    full: bool

    @property
    def is_sound(self) -> bool:
        """Whether nobody has to do anything."""
        return not any(finding.is_fault for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "type": "home_verified",
            "sound": self.is_sound,
            "full": self.full,
            "bases": list(self.bases),
            "findings": [finding.as_json() for finding in self.findings],
        }


def inspect(
    home: Home,
    *,
    is_served: bool,
    bases: Collection[BaseKey] | None = None,
    full: bool = False,
    progress: Progress = lambda *_: None,
) -> Inspection:
    """Look at a home: at `bases` alone when they are given, else at everything.

    `full` reads every object, revision and posting; otherwise Git checks that nothing is missing, and samples are taken.
    """
    every = home.base_keys()
    keys = [key for key in every if bases is None or key in bases]
    findings: list[Finding] = []
    with tempfile.TemporaryDirectory(prefix=scratch_prefix(), dir=scratch_place(home.path)) as name:
        scratch = Path(name)
        told, copy = _catalogue(home, scratch)
        findings += told
        known = {key: (head, entry) for key, head, entry in catalogued(copy)} if copy else {}
        for number, key in enumerate(keys):
            progress(f"inspecting {key}", number, len(keys) + 1)
            findings += _Base(home, key, scratch, copy, known, full=full, is_served=is_served).findings()
        if bases is None:
            progress("inspecting accounts and memory", len(keys), len(keys) + 1)
            findings += check_stores(home, every, known if copy else None, is_served=is_served)
            findings += _missing(known, every, home)
    return Inspection([str(key) for key in keys], tuple(findings), full)


def _catalogue(home: Home, scratch: Path) -> tuple[list[Finding], Path | None]:
    """A copy of the catalogue as it is now, if it can be read."""
    path = home.path / CATALOGUE
    if not path.is_file():
        return [Finding("catalogue_missing", f"{path} is not there", CATALOGUE)], None
    copy = scratch / "copy-of-catalogue.sqlite"
    try:
        if damage := damage_of(path):
            return [Finding("catalogue_damaged", damage, CATALOGUE)], None
        copy_database(path, copy)
        with read_only(copy) as connection:
            version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version != VERSION:
            return [
                Finding("catalogue_damaged", f"it is empty, or of version {version}, not {VERSION}", CATALOGUE)
            ], None
        list(catalogued(copy))
    except sqlite3.Error as error:
        return [Finding("catalogue_damaged", str(error), CATALOGUE)], None
    return [], copy


def _missing(known: Mapping[str, object], keys: Collection[BaseKey], home: Home) -> Iterator[Finding]:
    for key in sorted(known.keys() - {str(key) for key in keys}):
        path = BaseKey.parse(key).repository_path(home.repositories)
        doomed = BaseKey.parse(key).repository_path(home.doomed)
        if not path.exists() and not doomed.exists():
            yield Finding("repository_missing", f"{path} is not there", str(path.relative_to(home.path)), key)


class _Base:
    """The inspection of one base."""

    def __init__(
        self,
        home: Home,
        key: BaseKey,
        scratch: Path,
        copy: Path | None,
        known: Mapping[str, tuple[str | None, str | None]],
        *,
        full: bool,
        is_served: bool,
    ) -> None:
        self._home = home
        self._key = key
        self._scratch = scratch
        self._copy = copy
        self._head, self._entry = known.get(str(key), (None, None))
        self._full = full
        self._is_served = is_served

    def findings(self) -> Iterator[Finding]:
        """Everything that is wrong with the base. What cannot be relied on is not compared with."""
        try:
            repository = patient(self._home, self._key)
        except KbgitError:
            return  # deleted since the home was listed
        try:
            log, found = check_repository(self._home, self._key, repository, self._head, full=self._full)
            yield from found
            if log is not None:
                yield from self._derived(repository, log)
        except GitFailure as error:
            if repository.path.exists():
                where = str(repository.path.relative_to(self._home.path))
                yield Finding("repository_damaged", error.message, where, str(self._key))
        finally:
            repository.close()

    def _derived(self, repository: Repository, log: Log) -> Iterator[Finding]:
        """Catalogue and index, each at its own place in the log, of which each entry is replayed once."""
        key = str(self._key)
        places = {entry.sha: place for place, entry in enumerate(log.entries)}
        derived = Derivation(repository, self._key, self._scratch, self._home.limits)
        try:
            opened, wrong = self._index()
            yield from wrong
            steps: list[tuple[int, str]] = []
            if self._copy is not None:
                if self._entry in places:
                    steps.append((places[self._entry], "catalogue"))
                elif self._entry is not None and self._is_later(repository, log):
                    steps.append((-1, "published meanwhile"))
                elif self._head not in log.heads:
                    where = str(repository.path.relative_to(self._home.path))
                    if self._entry is not None:
                        yield Finding("repository_replaced", f"{self._head} is not in its log", where, key)
                else:
                    what = f"its last publication, {self._entry}, is none of the publication log"
                    yield Finding("catalogue_differs", what, CATALOGUE, key)
                if self._entry != (log.entries[-1].sha if log.entries else None) and self._entry in (None, *places):
                    yield Finding("catalogue_behind", f"{len(log.entries)} entries in the log", CATALOGUE, key)
            if opened is not None:
                heads = log.heads
                if opened.snapshot.head in heads:
                    # A head that was published twice, before and after a rewrite, is looked at where it was last.
                    steps.append((len(heads) - 1 - heads[::-1].index(opened.snapshot.head), "index"))
                elif not self._is_served:
                    what = f"it was built from {opened.snapshot.head}, which was never published"
                    yield Finding("index_differs", what, f"index/{directory_name(key)}", key)
            for place, what in sorted(steps):
                if place >= 0:
                    derived.advance(log.entries[place].sha)
                if what == "catalogue" and self._copy is not None:
                    yield from derived.differences(self._copy)
                elif what == "index" and opened is not None:
                    yield from self._compared(opened, derived, is_last=place == len(log.entries) - 1)
            derived.advance(log.entries[-1].sha if log.entries else None)
            if opened is None and not wrong and derived.catalogue.published(key):
                yield Finding("index_missing", "it is yet to be built", f"index/{directory_name(key)}", key)
            yield from check_citations(derived, full=self._full)
        finally:
            derived.close()

    def _is_later(self, repository: Repository, log: Log) -> bool:
        """Whether the catalogue's entry follows those that were read."""
        return self._entry in {entry.sha for entry in repository.log_entries()} - {entry.sha for entry in log.entries}

    def _index(self) -> tuple[OpenedIndex | None, list[Finding]]:
        key = str(self._key)
        for attempt in range(_ATTEMPTS):
            try:
                return open_index(self._home.index_directory, key), []
            except (IndexFailure, OSError) as problem:
                # A server may just have replaced what was looked at.
                if not self._is_served or attempt == _ATTEMPTS - 1:
                    return None, [Finding("index_damaged", str(problem), f"index/{directory_name(key)}", key)]
        raise AssertionError

    def _compared(self, opened: OpenedIndex, derived: Derivation, *, is_last: bool) -> Iterator[Finding]:
        key = str(self._key)
        if not is_last:
            yield Finding("index_behind", f"it is at {opened.snapshot.head}", f"index/{directory_name(key)}", key)
        try:
            wanted, found = check_lexical(opened, derived, full=self._full)
            yield from found
        except IndexFailure as problem:
            yield Finding("index_damaged", problem.message, f"index/{directory_name(key)}", key)
            return
        if not found:
            cache = self._home.path / "vectors.sqlite"
            yield from check_vectors(opened, key, wanted, cache, self._scratch)
