"""The life of a base: created, changed, archived, restored, exported, destroyed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbgit.access import Action, Principal, Scope, Target, decide
from kbgit.accounts import Accounts
from kbgit.base import SETTINGS_FILE, BaseKey, BaseSettings, BaseStatus
from kbgit.catalogue import Catalogue
from kbgit.errors import InvalidRequest, SpaceNotFound
from kbgit.home import Home, size_below
from kbgit.importing import BaseOptions, Importer, settings_text
from kbgit.index.contract import Index
from kbgit.indexer import Indexer
from kbgit.library.rights import require, require_scope
from kbgit.library.sight import Sight
from kbgit.library.writing import Writing
from kbgit.receipt import Receipt
from kbgit.revision import Via
from kbgit.rows import BaseRow
from kbgit.store.repository import PUBLICATION_LOG

_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Purge:
    """What a permanent deletion takes (or, as a dry run, would take)."""

    base: BaseRow
    items: int
    commits: int
    passages: int
    bytes: int
    done: bool

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "type": "base_purged" if self.done else "base_purge_preview",
            "key": str(self.base.key),
            "items": self.items,
            "commits": self.commits,
            "passages": self.passages,
            "bytes": self.bytes,
        }


class Bases:
    """Administration of bases, for those who may."""

    def __init__(
        self,
        home: Home,
        accounts: Accounts,
        catalogue: Catalogue,
        index: Index,
        indexer: Indexer,
        writing: Writing,
    ) -> None:
        self._home = home
        self._accounts = accounts
        self._catalogue = catalogue
        self._index = index
        self._indexer = indexer
        self._writing = writing
        self.on_purge: Callable[[str], None] = lambda key: None
        """Told the key of a base that is being erased: whoever keeps something of it beside this erases it too."""

    def create(self, key: BaseKey, caller: Principal, options: BaseOptions) -> BaseRow:
        """A new base. Raises `AlreadyExists`, `Forbidden`, `SpaceNotFound`."""
        require_scope(caller, Scope.KNOWLEDGE_READ)
        target = Target(key.space, str(key))
        if not decide(caller, Action.READ_PUBLISHED, target):
            raise SpaceNotFound(f"there is no space {key.space!r}", {"space": key.space})
        require(caller, Action.ADMINISTER_BASE, target)
        self._accounts.require_space(key.space)
        base = Importer(self._home, self._catalogue, caller.user).create(key, options)
        self._accounts.record(caller.user, "base_created", {"base": str(key)})
        self._indexer.on_behind(key)
        return base

    def update(self, key: str, caller: Principal, options: BaseOptions, via: Via) -> Receipt:
        """Change what `options` gives of the base's settings: one commit."""
        base = self._administered(key, caller)
        return self._settle(base, caller, options.given, f"Change the settings of {base.key.slug}", via)

    def set_status(self, key: str, caller: Principal, status: BaseStatus, via: Via) -> Receipt:
        """Archive a base (search and unpinned reads are suspended at once) or restore it; no content changes."""
        base = self._administered(key, caller)
        verb = "Archive" if status is BaseStatus.ARCHIVED else "Restore"
        done = self._settle(base, caller, {"status": status.value}, f"{verb} {base.key.slug}", via)
        self._accounts.record(caller.user, f"base_{verb.lower()}d", {"base": str(base.key)})
        return done

    def export(self, key: str, caller: Principal) -> Iterator[bytes]:
        """The base as a Git bundle: its published branch and its publication log, in chunks."""
        base = self._administered(key, caller)
        repository = self._indexer.repository(base.key)
        refs = [repository.published_branch(), PUBLICATION_LOG]
        present = [ref for ref in refs if repository.ref(ref) is not None]
        if not present:
            raise InvalidRequest(f"{base.key} has published nothing yet, so there is nothing to export")
        bundle = repository.git.run("bundle", "create", "-", "HEAD", *present)
        for start in range(0, len(bundle), _CHUNK):
            yield bundle[start : start + _CHUNK]

    def purge(self, key: str, caller: Principal, *, typed_name: str, dry_run: bool) -> Purge:
        """Destroy a base: repository, catalogue rows, passages, vectors, cached embeddings.

        `typed_name` must be the base's name in full. Raises `InvalidRequest` when it is not.
        """
        base = self._administered(key, caller)
        repository = self._indexer.repository(base.key)
        preview = Purge(
            base=base,
            items=sum(self._catalogue.counts(str(base.key)).values()),
            commits=self._catalogue.commit_count(str(base.key)),
            passages=self._index.state(str(base.key)).passages,
            bytes=size_below(repository.path),
            done=not dry_run,
        )
        if dry_run:
            return preview
        if typed_name != base.key.slug:
            raise InvalidRequest(
                f"permanent deletion needs the base's name in full: {base.key.slug!r}", {"field": "name"}
            )
        with self._writing.alone(base.key):
            # From here on the base is gone: a crash leaves its repository in `deleting`, and the next start goes on.
            doomed = doomed_path(self._home, base.key)
            doomed.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(doomed, ignore_errors=True)
            self._indexer.forget(base.key)
            repository.path.rename(doomed)
            self.finish_purge(base.key)
        self._accounts.record(caller.user, "base_purged", {"base": str(base.key), "items": preview.items})
        return preview

    def finish_purge(self, key: BaseKey) -> None:
        """Erase what is left of a base whose deletion has begun."""
        self._catalogue.remove_base(str(key))
        self._index.drop(str(key))  # and with it the cached vectors that no other base needs
        self.on_purge(str(key))
        shutil.rmtree(doomed_path(self._home, key), ignore_errors=False)

    def finish_purges(self) -> None:
        """Go on with every deletion that a crash interrupted."""
        for path in sorted(self._home.doomed.glob("*/*.git")):
            self.finish_purge(BaseKey.from_path(path.parent.name, path.name))

    def _settle(self, base: BaseRow, caller: Principal, given: dict[str, str], message: str, via: Via) -> Receipt:
        def change(before: bytes | None) -> bytes:
            text = settings_text(before, given)
            BaseSettings.parse(text, base.key.slug)
            return text

        return self._writing.change_file(base.key, caller, SETTINGS_FILE, change, message, via)

    def _administered(self, key: str, caller: Principal) -> BaseRow:
        require_scope(caller, Scope.KNOWLEDGE_READ)
        base = Sight(self._catalogue, caller).one(key)
        require(caller, Action.ADMINISTER_BASE, Target(base.key.space, str(base.key)))
        return base


def doomed_path(home: Home, key: BaseKey) -> Path:
    """Where a base's repository waits for its destruction."""
    return key.repository_path(home.doomed)
