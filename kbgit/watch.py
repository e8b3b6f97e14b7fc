"""Noticing that a base's refs may have moved, whoever moved them: a push, `git update-ref`, a restored backup.

An event is a hint and no more: `notice` means "look at this base". `sweep` is called at fixed intervals whatever the
events said, so that one that was missed, misread or never sent is made good within one interval.

Watched are, without their subdirectories, `repositories`, each space, and of each base its directory (HEAD, packed-refs)
and its `refs/heads`. Directories of objects would cost 256 watches a base and say nothing more. Only what changes a file
counts; reading raises no events at all.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Condition, Thread
from typing import Protocol

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch

from kbgit.base import BaseKey
from kbgit.errors import InvalidName

POLL_SECONDS = 1.0
MOST_WATCHES = 1000
"""Directories that are watched at most: each costs a thread. With more bases their refs are looked at instead."""

_SETTLING_SECONDS = 0.05
_HEADS = ("refs", "heads")
_CHANGES: list[type[FileSystemEvent]] = [
    FileCreatedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileDeletedEvent,
    DirCreatedEvent,
    DirMovedEvent,
    DirDeletedEvent,
]

log = logging.getLogger(__name__)


class Watcher:
    """Calls `notice` for bases that may have moved, and `sweep` every `sweep_seconds`, from a thread of its own.

    `mode` is `auto` (file system events; the refs are polled when the system refuses to watch), `poll` or `off` (sweeps
    only). The callbacks should return soon.
    """

    def __init__(
        self,
        repositories: Path,
        notice: Callable[[BaseKey], None],
        sweep: Callable[[], None],
        mode: str,
        sweep_seconds: float,
        *,
        most_watches: int = MOST_WATCHES,
    ) -> None:
        self._repositories = repositories.absolute()
        self._notice = notice
        self._sweep = sweep
        self._mode = mode
        self._sweep_seconds = sweep_seconds
        self._most_watches = most_watches
        self._stopping = False
        self._wake = Condition()
        self._source: _Source = _Nothing()
        self._thread = Thread(target=self._run, name="kbgit-watch", daemon=True)

    @property
    def is_polling(self) -> bool:
        """Whether refs are looked at, rather than waited for."""
        return isinstance(self._source, _RefPoll)

    def start(self) -> None:
        """Start watching. When it returns, no later change goes unnoticed."""
        if self._mode == "auto":
            self._source = _Events(self._repositories, self._note, self._most_watches)
        elif self._mode == "poll":
            self._source = _RefPoll(self._repositories)
        self._look()  # what it answers was there before, and is for the caller's first sweep
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait until no callback is running any more. A watcher is not started twice."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        self._source.close()

    def _run(self) -> None:
        next_sweep = time.monotonic() + self._sweep_seconds
        while self._wait(min(next_sweep - time.monotonic(), self._source.interval)):
            is_sweep = time.monotonic() >= next_sweep
            for key in sorted(self._look(thoroughly=is_sweep), key=str):
                self._notice(key)
            if is_sweep:
                self._sweep()
                next_sweep = time.monotonic() + self._sweep_seconds

    def _wait(self, seconds: float) -> bool:
        """Wait for a hint, or `seconds`; after a hint a moment longer, for the others of its burst. False at the end."""
        with self._wake:
            if self._wake.wait_for(lambda: self._stopping or self._source.has_news, max(0.0, seconds)):
                self._wake.wait_for(lambda: self._stopping, _SETTLING_SECONDS)
            return not self._stopping

    def _look(self, *, thoroughly: bool = False) -> set[BaseKey]:
        try:
            return self._source.look(thoroughly=thoroughly)
        except (OSError, RuntimeError) as problem:  # RuntimeError: no further thread can be started
            if self.is_polling:  # too many open files, say: the next look may succeed, and sweeps come whatever happens
                log.warning("refs cannot be looked at now: %s", problem)
                return set()
            log.warning("file system events cannot be used, so refs are polled: %s", problem)
            self._source.close()
            self._source = _RefPoll(self._repositories)
            return self._look()

    def _note(self) -> None:
        with self._wake:
            self._wake.notify_all()


class _Source(Protocol):
    """Where hints come from."""

    interval: float
    """Seconds after which `look` should be called though there is no news."""

    @property
    def has_news(self) -> bool:
        """Whether `look` may find something."""
        ...

    def look(self, *, thoroughly: bool = False) -> set[BaseKey]:
        """The bases that may have moved since the last call; `thoroughly`, also looking where no news is from."""
        ...

    def close(self) -> None:
        """Release everything."""
        ...


class _Nothing:
    interval = float("inf")
    has_news = False

    def look(self, *, thoroughly: bool = False) -> set[BaseKey]:
        return set()

    def close(self) -> None:
        pass


class _RefPoll:
    """Compares what the file system says of each base's refs with what it said before."""

    interval = POLL_SECONDS
    has_news = False

    def __init__(self, repositories: Path) -> None:
        self._repositories = repositories
        self._known: dict[BaseKey, object] = {}

    def look(self, *, thoroughly: bool = False) -> set[BaseKey]:
        seen = {key: _refs_mark(path) for key, path in _base_directories(self._repositories)}
        moved = {key for key, mark in seen.items() if self._known.get(key) != mark}
        self._known = seen
        return moved

    def close(self) -> None:
        pass


class _Events(FileSystemEventHandler):
    """Watches directories by watchdog. Events are only written down; `look` draws the conclusions."""

    interval = float("inf")

    def __init__(self, repositories: Path, note: Callable[[], None], most_watches: int) -> None:
        self._repositories = repositories
        self._note = note
        self._most_watches = most_watches
        self._watches: dict[Path, ObservedWatch] = {}
        self._touched: set[BaseKey] = set()
        self._rebuilt: set[Path] = set()
        self._lock = Condition()
        self._observer: BaseObserver | None = None

    @property
    def has_news(self) -> bool:
        return bool(self._touched or self._rebuilt)

    def on_any_event(self, event: FileSystemEvent) -> None:
        for name in {event.src_path, event.dest_path}:
            if name:
                self._take(Path(os.fsdecode(name)), event.is_directory)

    def look(self, *, thoroughly: bool = False) -> set[BaseKey]:
        with self._lock:
            touched, self._touched = self._touched, set()
            rebuilt, self._rebuilt = self._rebuilt, set()
        if self._observer is None:
            self._observer = Observer()
            self._observer.start()
            thoroughly = True
        if rebuilt or thoroughly:
            touched |= self._arrange(self._observer, rebuilt)
        return touched

    def close(self) -> None:
        if self._observer is not None:
            self._observer.stop()
            self._observer.join()
            self._observer = None

    def _take(self, path: Path, is_directory: bool) -> None:
        """Write down what a change of `path` may mean."""
        try:
            parts = path.relative_to(self._repositories).parts
        except ValueError:
            return
        is_ref = (len(parts) > 4 and parts[2:4] == _HEADS) or parts[2:] in (("HEAD",), ("packed-refs",))
        is_structure = is_directory and (len(parts) < 3 or parts[2:] in (_HEADS[:1], _HEADS))
        if (is_ref and not path.name.endswith(".lock")) or is_structure:
            key = _base_key(*parts[:2]) if len(parts) >= 2 else None
            with self._lock:
                if key is not None:
                    self._touched.add(key)
                if is_structure:
                    self._rebuilt.add(path)
            self._note()

    def _arrange(self, observer: BaseObserver, rebuilt: set[Path]) -> set[BaseKey]:
        """Watch what should be watched, anew at and below the directories in `rebuilt`. The bases that were new."""
        wanted = dict(self._wanted())
        for path in list(self._watches):
            if path not in wanted or any(path == other or other in path.parents for other in rebuilt):
                with suppress(KeyError):  # watchdog has noticed that it is gone
                    observer.unschedule(self._watches.pop(path))
        if len(wanted) > self._most_watches:
            raise OSError(f"{len(wanted)} directories are more than the {self._most_watches} that are watched")
        new = set()
        for path, key in wanted.items():
            if path not in self._watches:
                try:
                    self._watches[path] = observer.schedule(self, str(path), event_filter=_CHANGES)
                except FileNotFoundError:
                    continue  # gone since; the event of that is under way
                if key is not None:
                    new.add(key)
        return new

    def _wanted(self) -> Iterator[tuple[Path, BaseKey | None]]:
        yield self._repositories, None
        for space in _directories(self._repositories):
            yield space, None
        for key, base in _base_directories(self._repositories):
            yield base, key
            # A base that is just being made has no heads yet: then their directory is waited for.
            for directory in (base.joinpath(*_HEADS), base / "refs"):
                if directory.is_dir():
                    yield directory, key
                    break


def _base_key(space: str, name: str) -> BaseKey | None:
    try:
        return BaseKey.from_path(space, name)
    except InvalidName:
        return None


def _directories(path: Path) -> list[Path]:
    """The directories in `path`; none when it has gone or is not for us, which is for the sweep to report."""
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        return [Path(entry) for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)]
    return []


def _base_directories(repositories: Path) -> Iterator[tuple[BaseKey, Path]]:
    for space in _directories(repositories):
        for path in _directories(space):
            if (key := _base_key(space.name, path.name)) is not None:
                yield key, path


def _refs_mark(base: Path) -> object:
    """Something that differs when a ref of a base may have moved."""
    marks = []
    for path in (base / "HEAD", base / "packed-refs", *sorted(base.joinpath(*_HEADS).rglob("*"))):
        with suppress(FileNotFoundError):
            state = path.stat()
            marks.append((str(path), state.st_mtime_ns, state.st_ino, state.st_size))
    return marks
