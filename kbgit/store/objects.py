"""Single objects, read within this process: for a long-lived one, in which a command for each costs more than the read.

Loaded by the first such read, because dulwich takes longer to load than most hooks and commands take for all they do.
"""

from __future__ import annotations

from pathlib import Path

from dulwich.errors import NotGitRepository
from dulwich.objects import Blob, ObjectID
from dulwich.repo import Repo

from kbgit.errors import GitFailure


class Objects:
    """The objects of the repository at `path`, with its packs open. To be closed; for one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened: Repo | None = None

    def blob(self, sha: str) -> bytes | None:
        """A blob's content; None where it is not found, though it may be: `git gc` replaces packs at any time.

        Raises `GitFailure` for an object that is no blob.
        """
        try:
            if self._opened is None:
                self._opened = Repo(str(self._path))
            found = self._opened.object_store[ObjectID(sha.encode())]
        except (KeyError, OSError, NotGitRepository):
            self.close()
            return None
        if not isinstance(found, Blob):
            raise GitFailure(f"{sha} is no blob")
        return found.data

    def close(self) -> None:
        """Release open packs; a later read opens them anew."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None
