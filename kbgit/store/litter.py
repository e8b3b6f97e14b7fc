"""What Git leaves behind when it is killed: lock files, which would refuse every later push, and half-written objects.

Git removes none of it by itself before `git gc` does. Whether it is litter is told by time alone, and by the clock that
nobody can set: what has stood unchanged for so long of this process's life belongs to no living Git. One holds the lock of
a ref for milliseconds, but the objects of a push for as long as the hook looks at them.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

LOCK_SECONDS = 60.0
OBJECT_SECONDS = 7200.0  # twice what an exchange over HTTP may take
_LOCKS = ("HEAD.lock", "packed-refs.lock", "config.lock", "refs/**/*.lock")
_TEMPORARY = (
    "objects/tmp_*",
    "objects/pack/tmp_*",
    "objects/[0-9a-f][0-9a-f]/tmp_*",
    "fast_import_crash_*",
    "objects/**/*.lock",
)
_Mark = tuple[int, int, int]
_Seen = dict[Path, tuple[_Mark, float]]

log = logging.getLogger(__name__)


class Litter:
    """Finds and removes it, in the bare repositories below `repositories`."""

    def __init__(self, repositories: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._repositories = repositories
        self._clock = clock
        self._locks: _Seen = {}
        self._temporary: _Seen = {}
        self._looked_at_objects = float("-inf")

    def sweep(self) -> list[Path]:
        """Remove what has not changed for long enough since an earlier call first saw it; what was removed.

        Directories of objects, of which a repository has 256, are not looked at more often than they must.
        """
        now = self._clock()
        self._locks, removed = self._swept(_LOCKS, LOCK_SECONDS, self._locks, now)
        if now - self._looked_at_objects >= OBJECT_SECONDS / 2:
            self._looked_at_objects = now
            self._temporary, more = self._swept(_TEMPORARY, OBJECT_SECONDS, self._temporary, now)
            removed += more
        return removed

    def _swept(self, patterns: Iterable[str], seconds: float, before: _Seen, now: float) -> tuple[_Seen, list[Path]]:
        seen: _Seen = {}
        removed = []
        for path in (found for at in self._repositories.glob("*/*.git") for one in patterns for found in at.glob(one)):
            with suppress(FileNotFoundError):  # its Git lives, and was done with it
                mark = _mark(path)
                known, since = before.get(path, (mark, now))
                if known != mark:
                    since = now
                if now - since >= seconds and _removed(path):
                    removed.append(path)
                else:
                    seen[path] = mark, since
        return seen, removed


def _mark(path: Path) -> _Mark:
    """Something that differs when a file, or anything in a directory, was written to."""
    states = [path.stat(follow_symlinks=False), *(inner.stat(follow_symlinks=False) for inner in path.rglob("*"))]
    return states[0].st_ino, len(states), max(state.st_mtime_ns for state in states)


def _removed(path: Path) -> bool:
    try:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("%s was left by a Git that was killed, and cannot be removed: %s", path, error)
        return False
    log.warning("%s was left by a Git that was killed, and is removed", path)
    return True
