"""The commit point of a derived directory: one small file that names a state and proves that it is whole.

`Stamp.write` syncs every file it names, then replaces the stamp atomically, then syncs the directory. A state exists
once its stamp does; `Stamp.check` finds whatever is missing, cut or changed since.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbgit.errors import IndexDamaged

STAMP_NAME = "stamp.json"
_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Stamp:
    """A state: the head it was built from (None: nothing yet), its generation, and its files by size and CRC-32."""

    version: str
    head: str | None
    generation: int
    files: dict[str, tuple[int, int]]

    @classmethod
    def read(cls, directory: Path, version: str) -> Stamp:
        """The stamp in `directory`. Raises `IndexDamaged` when it is missing, unreadable or not of `version`."""
        path = directory / STAMP_NAME
        try:
            content: Any = json.loads(path.read_bytes())
            stamp = cls(
                version=str(content["version"]),
                head=None if content["head"] is None else str(content["head"]),
                generation=int(content["generation"]),
                files={str(name): (int(size), int(crc)) for name, (size, crc) in content["files"].items()},
            )
        except FileNotFoundError:
            raise IndexDamaged(f"{directory} has no stamp: it was never finished, or lost its files") from None
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise IndexDamaged(f"{path} is not a stamp") from problem
        if stamp.version != version:
            raise IndexDamaged(f"{directory} was built as version {stamp.version}, this is version {version}")
        return stamp

    @classmethod
    def write(
        cls, directory: Path, version: str, head: str | None, generation: int, names: Iterable[str], known: Stamp | None
    ) -> Stamp:
        """Sync the files `names` of `directory`, then make them its state. Files that `known` names are immutable."""
        files = dict(known.files) if known else {}
        files = {name: files.get(name) or _sync(directory / name) for name in sorted(names)}
        stamp = cls(version, head, generation, files)
        content = {"version": version, "head": head, "generation": generation, "files": files}
        partial = directory / f"{STAMP_NAME}.partial"
        partial.write_text(json.dumps(content, indent=1), encoding="utf-8")
        _sync(partial)
        _sync_directory(directory)
        partial.replace(directory / STAMP_NAME)
        _sync_directory(directory)
        return stamp

    def check(self, directory: Path) -> None:
        """Compare every file with what it was. Raises `IndexDamaged` naming the first that differs."""
        for name, (size, crc) in self.files.items():
            path = directory / name
            try:
                whole = path.stat().st_size == size and _crc(path) == crc
            except FileNotFoundError:
                raise IndexDamaged(f"{path} is missing") from None
            if not whole:
                raise IndexDamaged(f"{path} is not as it was written")


def _crc(path: Path) -> int:
    crc = 0
    with path.open("rb") as file:
        while block := file.read(_READ_BYTES):
            crc = zlib.crc32(block, crc)
    return crc


def _sync(path: Path) -> tuple[int, int]:
    """Make `path` durable; its size and CRC-32."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return path.stat().st_size, _crc(path)


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
