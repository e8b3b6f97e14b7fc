"""Which files a person means who names files and directories to import."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from kbgit.documents.extraction.kinds import KINDS as DOCUMENT_KINDS
from kbgit.errors import InvalidRequest
from kbgit.importing.text.kinds import KINDS, suffix_of

_TOOLS_OWN = frozenset({"node_modules", "__pycache__"})
_LINK = "it is a symbolic link"


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to import, and its relative name with slashes."""

    path: Path
    name: str


@dataclass(slots=True)
class Found:
    """Files by what becomes of them. `skipped` are (name, why); `unsupported` counts other files by suffix."""

    texts: list[FoundFile] = field(default_factory=list)
    documents: list[FoundFile] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    unsupported: Counter[str] = field(default_factory=Counter)


def find(chosen: Sequence[Path], include: Sequence[str], exclude: Sequence[str]) -> Found:
    """The files that are named, and those below the directories that are.

    A directory gives its name to what is below it, `.` none. Hidden files and directories, those of tools and links are
    left out, links with a word. Raises `InvalidRequest` for a directory that cannot be read.
    """
    found = Found()
    for file in _files(chosen, found):
        base_name = file.name.rpartition("/")[2]
        if include and not any(fnmatchcase(file.name, glob) or fnmatchcase(base_name, glob) for glob in include):
            continue
        if any(fnmatchcase(file.name, glob) or fnmatchcase(base_name, glob) for glob in exclude):
            continue
        suffix = suffix_of(file.name)
        if suffix in KINDS:
            found.texts.append(file)
        elif suffix in DOCUMENT_KINDS:
            found.documents.append(file)
        else:
            found.unsupported[suffix or "without suffix"] += 1
    return found


def _files(chosen: Sequence[Path], found: Found) -> Iterator[FoundFile]:
    for path in chosen:
        if path.is_dir() and not path.is_symlink():
            name = "" if path == Path(".") else path.resolve().name
            yield from _below(path, name, found)
        else:
            yield from _regular(path, path.name, found)


def _below(root: Path, name: str, found: Found) -> Iterator[FoundFile]:
    def unreadable(error: OSError) -> None:
        raise InvalidRequest(f"{error.filename} cannot be read: {error.strerror}") from error

    for directory, directories, files in os.walk(root, onerror=unreadable):
        directories[:] = sorted(one for one in directories if one not in _TOOLS_OWN and not one.startswith("."))
        links = [one for one in directories if (Path(directory) / one).is_symlink()]
        for one in sorted([*files, *links]):
            if not one.startswith("."):
                path = Path(directory) / one
                yield from _regular(path, (Path(name) / path.relative_to(root)).as_posix(), found)


def _regular(path: Path, name: str, found: Found) -> Iterator[FoundFile]:
    mode = path.lstat().st_mode
    if stat.S_ISREG(mode):
        yield FoundFile(path, name)
    else:
        found.skipped.append((name, _LINK if stat.S_ISLNK(mode) else "it is no ordinary file"))
