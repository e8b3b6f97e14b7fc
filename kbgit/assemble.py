"""Putting a home's parts together: the only place that names a backend."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from io import TextIOWrapper
from pathlib import Path

from kbgit.accounts import Accounts
from kbgit.base import BaseKey
from kbgit.catalogue import Catalogue
from kbgit.documents.placing import Placing
from kbgit.documents.service import Documents
from kbgit.embedding.cache import VectorCache
from kbgit.embedding.contract import Embedder
from kbgit.embedding.factory import open_embedder
from kbgit.errors import EmbeddingFailure, HomeLocked, KbgitError
from kbgit.home import Home
from kbgit.index.apart import Apart
from kbgit.index.contract import Index
from kbgit.index.embedded import EmbeddedIndex
from kbgit.index.memory import MemoryIndex
from kbgit.index.writer import HERE
from kbgit.indexer import Background, Indexer, Progress, at_most_every, when_idle_for
from kbgit.library import Bases, Filing, Library, People, Writing
from kbgit.memory import MemorySearch, MemoryStore, Recall
from kbgit.memory.version import bring_to_version
from kbgit.rebuilding import SCRATCH, RebuildOrders
from kbgit.sessions import Sessions
from kbgit.store.litter import Litter
from kbgit.watch import Watcher

LOCK_FILE = "index.lock"
_CHORES_SECONDS = 3600.0
_MEMORY_SECONDS = 60.0
_ORPHAN_SECONDS = 10.0
_LOOK_SECONDS = 0.02

log = logging.getLogger(__name__)


class HomeLock:
    """One process owns a home's index. The lock dies with its holder, and with what still writes for it."""

    def __init__(self, path: Path) -> None:
        self._file: TextIOWrapper = open(path / LOCK_FILE, "a+")  # noqa: SIM115 - held as long as the index is open
        give_up = time.monotonic() + _ORPHAN_SECONDS
        while not self._is_taken():
            self._file.seek(0)
            owner = self._file.read().strip() or "unknown"
            # Of an owner that was killed, the process that writes its index may still be about to end.
            if not has_ended(owner) or time.monotonic() > give_up:
                self._file.close()
                raise HomeLocked(
                    f"process {owner} owns the index of {path}; use it through that server, or stop it", {"pid": owner}
                )
            time.sleep(_LOOK_SECONDS)
        self._file.seek(0)
        self._file.truncate()
        self._file.write(str(os.getpid()))
        self._file.flush()

    def _is_taken(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def fileno(self) -> int:
        """The descriptor of the lock: whoever inherits it holds the lock as well."""
        return self._file.fileno()

    def release(self) -> None:
        """Let others own the index."""
        self._file.close()


def has_ended(pid: str) -> bool:
    """Whether there is no process of this number any more."""
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (ValueError, PermissionError):
        return False
    return False


@dataclass
class Runtime:
    """A home, opened: everything a surface needs."""

    home: Home
    accounts: Accounts
    sessions: Sessions
    catalogue: Catalogue
    index: Index
    indexer: Indexer
    library: Library
    writing: Writing
    filing: Filing
    bases: Bases
    people: People
    memory: MemoryStore
    recall: Recall
    documents: Documents
    embedder: Embedder | None
    _cache: VectorCache
    _memory_cache: VectorCache
    _lock: HomeLock
    _background: Background
    _watcher: Watcher

    def start(self) -> None:
        """Start indexing, embedding and watching in the background, with a sweep that catches up."""
        self.bases.finish_purges()
        self.indexer.on_behind = self.notice_push
        self._background.start()
        self._watcher.start()
        self.documents.start()
        try:
            self.memory.sweep()
        except KbgitError as error:  # whatever is wrong with memory, the bases are served
            log.warning("memory is not swept: %s", error.message)

    def notice_push(self, key: BaseKey) -> None:
        """A base may have moved."""
        self._background.notice(key)

    @property
    def waiting_notices(self) -> int:
        """How many bases have moved and are not looked at yet."""
        return self._background.waiting

    def stop(self) -> None:
        """Finish what is at hand and release everything."""
        self.documents.stop()
        self.indexer.close()
        self._watcher.stop()
        if self.embedder is not None:
            self.embedder.close()  # first: the background may be waiting for one that does not answer
        self._background.stop()
        self.index.close()
        self._cache.close()
        self._memory_cache.close()
        self.catalogue.close()
        self.accounts.close()
        self.sessions.close()
        self._lock.release()


def open_runtime(
    home: Home,
    *,
    progress: Callable[[Progress], None] = lambda _: None,
    api_key: str | None = None,
    apart: Mapping[str, str] | None = None,
) -> Runtime:
    """Open a home, taking its lock. Raises `HomeLocked` while another process owns it.

    With `apart`, an environment, the index is written in a process beside this one, which is given what it needs of that.
    """
    with ExitStack() as undo:
        lock = HomeLock(home.path)
        undo.callback(lock.release)
        for scratch in home.path.glob(f"{SCRATCH}*"):  # of an owner that was killed, with text that may be purged since
            shutil.rmtree(scratch, ignore_errors=True)
        home.remove_unfinished()
        accounts = home.accounts()
        undo.callback(accounts.close)
        catalogue = home.catalogue()
        undo.callback(catalogue.close)
        settings = home.settings
        sessions = Sessions(
            home.path / "sessions.sqlite", hours=settings.session_hours, idle_minutes=settings.session_idle_minutes
        )
        undo.callback(sessions.close)
        embedder, embedding_problem = _embedder(home, api_key)
        if embedder is not None:
            undo.callback(embedder.close)
        cache = VectorCache(home.path / "vectors.sqlite")
        undo.callback(cache.close)
        index = EmbeddedIndex(
            home.index_directory,
            fingerprint=embedder.fingerprint if embedder else None,
            dimension=embedder.dimension if embedder else None,
            cache=cache,
            vector_memory_bytes=settings.vector_memory_mb << 20,
            postings_memory_bytes=settings.postings_memory_mb << 20,
            writer=HERE if apart is None else Apart(home.path, apart, holding=[lock.fileno()]),
        )
        undo.callback(index.close)
        indexer = Indexer(home, catalogue, index, embedder, cache, progress)
        indexer.embedding_problem = embedding_problem
        library = Library(settings, catalogue, index, embedder, indexer)
        writing = Writing(catalogue, indexer, home.limits)
        filing = Filing(catalogue, indexer, writing, home.limits)
        bases = Bases(home, accounts, catalogue, index, indexer, writing)
        documents = Documents(
            home.path / "documents", settings, catalogue, Placing(accounts, catalogue, indexer, writing)
        )
        undo.callback(documents.stop)
        bases.on_purge = documents.forget_base
        memory_cache = VectorCache(home.path / "memory-vectors.sqlite")
        undo.callback(memory_cache.close)
        # In memory, because what is forgotten must leave nothing in files; vectors are in the cache, which erases them.
        memory_index = MemoryIndex(embedder.dimension if embedder else None)
        bring_to_version(home.path / "memory")
        memory = MemoryStore(
            home.path / "memory", MemorySearch(memory_index, embedder, memory_cache), audit=accounts.record
        )
        litter = Litter(home.repositories)
        orders = partial(RebuildOrders(home.path).obey, indexer.rebuild)
        background = Background(
            indexer,
            [orders, litter.sweep, at_most_every(_CHORES_SECONDS, memory.forget_expired)],
            when_idle_for(_MEMORY_SECONDS, memory.embed_some),  # which looks at every file of memory
        )
        watcher = Watcher(
            home.repositories,
            notice=background.notice,
            sweep=background.request_sweep,
            mode=settings.watch,
            sweep_seconds=settings.sweep_seconds,
        )
        undo.pop_all()  # nothing failed: closing is for `Runtime.stop`
    return Runtime(
        home=home,
        accounts=accounts,
        sessions=sessions,
        catalogue=catalogue,
        index=index,
        indexer=indexer,
        library=library,
        writing=writing,
        filing=filing,
        bases=bases,
        people=People(accounts),
        memory=memory,
        recall=Recall(memory, library),
        documents=documents,
        embedder=embedder,
        _cache=cache,
        _memory_cache=memory_cache,
        _lock=lock,
        _background=background,
        _watcher=watcher,
    )


def _embedder(home: Home, api_key: str | None) -> tuple[Embedder | None, str | None]:
    """The embedder of the settings; or None and why it cannot be used: a home without its model still answers by words."""
    settings = home.settings
    try:
        return open_embedder(settings.embedder, home.models, settings.embedding_threads, api_key), None
    except EmbeddingFailure as error:
        log.warning("search is lexical until the next start: %s", error.message)
        return None, error.message
