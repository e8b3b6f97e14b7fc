"""Where uploaded bytes are while their text is not an item yet.

    <home>/documents/incoming/<random>    an upload that is still arriving
    <home>/documents/originals/<id>       the file of a document that is queued, being extracted or failed
    <home>/documents/work/<random>        the temporary directory of one worker

Nothing is named as its uploader named it, everything is readable by the owner alone, and what no document needs is removed,
at the latest when the server starts.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from kbgit.errors import StorageFull


class Originals:
    """The directories of one home's documents. `keep_free` is in bytes: below it nothing more is taken in."""

    def __init__(self, directory: Path, keep_free: int) -> None:
        self._keep_free = keep_free
        self._directory = directory
        self._incoming = directory / "incoming"
        self._originals = directory / "originals"
        self._work = directory / "work"
        for path in (directory, self._incoming, self._originals, self._work):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def require_space(self, size: int) -> None:
        """Raises `StorageFull` unless `size` more bytes leave enough of the disk free."""
        free = shutil.disk_usage(self._directory).free
        if free - size < self._keep_free:
            raise StorageFull(
                "the server's disk is too full to take this file; its operator has to make room", {"size": size}
            )

    def new_incoming(self) -> Path:
        """The path of a new, empty file for an upload that is about to arrive."""
        path = self._incoming / secrets.token_hex(16)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        return path

    def path(self, document_id: str) -> Path:
        """Where a document's file is."""
        return self._originals / document_id

    def adopt(self, arrived: Path, document_id: str) -> None:
        """Make a file that arrived, and was synchronised, a document's original; durable when this returns."""
        arrived.rename(self.path(document_id))
        descriptor = os.open(self._originals, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def remove(self, document_id: str) -> None:
        """Remove a document's file, if it is there."""
        self.path(document_id).unlink(missing_ok=True)

    @contextmanager
    def workplace(self) -> Iterator[Path]:
        """A new directory for one worker, removed at the end with whatever is in it."""
        path = self._work / secrets.token_hex(16)
        path.mkdir(mode=0o700)
        try:
            yield path
        finally:
            _remove_tree(path)

    def tidy(self, needed: Collection[str]) -> None:
        """Remove everything but the originals of the documents `needed`: what an earlier server left behind."""
        for path in (*self._incoming.iterdir(), *self._work.iterdir()):
            _remove_tree(path)
        for path in self._originals.iterdir():
            if path.name not in needed:
                _remove_tree(path)


def _remove_tree(path: Path) -> None:
    """Remove a file or directory, whatever permissions a worker gave to what it made in it, and however deep that is.

    What is deep is brought up first: a path has a greatest length, and so has recursion. Directories that this leaves beside
    `path`, where it is cut off, the next start removes.
    """
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    directories = [path]
    while directories:
        directory = directories.pop()
        os.chmod(directory, 0o700)
        with os.scandir(directory) as entries:
            for entry in list(entries):
                if entry.is_dir(follow_symlinks=False):
                    os.chmod(entry.path, 0o700)  # to be moved, it must be writable itself
                    directories.append(Path(entry.path).rename(path.with_name(secrets.token_hex(16))))
                else:
                    os.unlink(entry.path)
        directory.rmdir()
