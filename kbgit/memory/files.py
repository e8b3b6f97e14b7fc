"""The files of one project's memory: one Markdown file a record, and `project.yaml`, which lists linked documents.

    <directory>/<~ada or platform>/<project>/mem_<24 hex>.md
    <directory>/<~ada or platform>/<project>/project.yaml

The files are the truth, and may be written by several processes and edited by hand: every read looks at the directory and
reads what is new there. Whoever changes something holds the lock of the project's directory, writes a temporary file,
syncs it and renames it over its name; what is temporary while nobody holds that lock is what a crash left.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import RLock

from kbgit.errors import DocumentProblem, HomeProblem, InvalidName, TooLarge
from kbgit.frontmatter import decode, read_header
from kbgit.header_edit import edit_file
from kbgit.memory.records import MemoryProblem, MemoryRecord, ProjectKey, is_record_id, parse_record, record_file

PROJECT_FILE = "project.yaml"
MOST_DOCUMENTS_BYTES = 48 * 1024
MOST_DOCUMENTS = 500

_SUFFIX = ".md"
_TEMPORARY = ".writing-"
_LARGEST_FILE = 4 << 20
_FENCE = b"---\n"
_NAME = re.compile(r"mem_[^/]*\.md")
_ATTEMPTS = 100

Stamp = tuple[int, int, int, int]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Contents:
    """What a project's directory holds: records by id (expired ones too), linked documents, and what cannot be read."""

    records: Mapping[str, MemoryRecord]
    documents: tuple[str, ...]
    problems: tuple[MemoryProblem, ...]

    def unreadable(self, record_id: str) -> bool:
        """Whether the record's file is there but cannot be read."""
        return any(problem.file == record_id + _SUFFIX for problem in self.problems)


_Read = MemoryRecord | tuple[str, ...] | MemoryProblem
"""A file as read: a record, the linked documents, or why it cannot be read."""


class ProjectFiles:
    """One project's files. Thread-safe; `changing` serialises changes between threads and processes."""

    def __init__(self, root: Path, key: ProjectKey) -> None:
        self.key = key
        self.path = root / key.relative_path
        self._known: dict[str, tuple[Stamp, _Read]] = {}
        self._reading = RLock()

    def has(self, record_id: str) -> bool:
        """Whether there is a file of that record, readable or not."""
        with self._translated():
            return os.path.lexists(self.path / (record_id + _SUFFIX))

    # Reading

    def read(self) -> Contents:
        """What the files say now. An absent directory is an empty project. Raises `HomeProblem` for one that is not
        readable: that must not look like an empty one."""
        with self._reading, self._translated():
            known = self._known
            found = ((name, self._file(name, stamp, known.get(name))) for name, stamp in self._listing())
            self._known = {name: file for name, file in found if file is not None}
            files = [(name, file) for name, (_, file) in sorted(self._known.items())]
        records = {file.id: file for _, file in files if isinstance(file, MemoryRecord)}
        documents = next((file for _, file in files if isinstance(file, tuple)), ())
        return Contents(records, documents, tuple(file for _, file in files if isinstance(file, MemoryProblem)))

    def _listing(self) -> Iterator[tuple[str, Stamp]]:
        try:
            entries = os.scandir(self.path)
        except FileNotFoundError:
            return
        with entries:
            for entry in entries:
                if entry.name == PROJECT_FILE or _NAME.fullmatch(entry.name):
                    with suppress(FileNotFoundError):  # forgotten meanwhile, as below
                        found = entry.stat(follow_symlinks=False)
                        yield entry.name, (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    def _file(self, name: str, stamp: Stamp, known: tuple[Stamp, _Read] | None) -> tuple[Stamp, _Read] | None:
        if known is not None and known[0] == stamp:
            return known
        try:
            return stamp, self._parsed(name, self._raw(name))
        except DocumentProblem as problem:
            return stamp, MemoryProblem(self.key, name, problem.message, problem.line)
        except FileNotFoundError:
            return None  # forgotten since the directory was listed
        except OSError as error:
            # Not remembered under its stamp: what hinders reading (a permission, a lock) need not change the file.
            return (0, 0, 0, 0), MemoryProblem(self.key, name, f"cannot be read: {error.strerror}")

    def _raw(self, name: str) -> bytes:
        with open(self.path / name, "rb", opener=_without_following) as file:
            raw = file.read(_LARGEST_FILE + 1)
        if len(raw) > _LARGEST_FILE:
            raise DocumentProblem(f"larger than {_LARGEST_FILE >> 20} MiB")
        return raw

    def _parsed(self, name: str, raw: bytes) -> _Read:
        if name == PROJECT_FILE:
            return _documents(raw)
        record_id = name.removesuffix(_SUFFIX)
        if not is_record_id(record_id):
            raise DocumentProblem("the name is none that a record can have", mend="rename or remove the file")
        return parse_record(raw, self.key, record_id)

    # Changing

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the project's lock; its directory is made if it is absent, and removed if it is left empty."""
        with self._translated():
            descriptor = self._locked()
            try:
                yield
            finally:
                # An empty directory would keep the name of a project of which nothing is to be known any more.
                with suppress(OSError):
                    os.rmdir(self.path)
                os.close(descriptor)

    def _locked(self) -> int:
        for _ in range(_ATTEMPTS):
            _make_directory(self.path)
            try:
                descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            except FileNotFoundError:
                continue
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Whoever had the lock before may have removed the directory.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.stat(self.path)):
                    return descriptor
            os.close(descriptor)
        raise HomeProblem(f"{self.path} is removed as fast as it is made")

    def write(self, record: MemoryRecord) -> None:
        """Write a record's file, durably. The lock must be held."""
        self._replace(record.id + _SUFFIX, record_file(record))

    def remove(self, record_ids: Collection[str]) -> None:
        """Remove the files of records, durably. The lock must be held."""
        with self._translated():
            for record_id in record_ids:
                (self.path / (record_id + _SUFFIX)).unlink(missing_ok=True)
            _sync(self.path)

    def change_documents(self, change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> tuple[str, ...]:
        """Replace the linked documents by what `change` makes of them. The lock must be held.

        Raises `HomeProblem` when the present list cannot be read, `TooLarge` when the new one is too long.
        """
        with self._translated():
            raw = self._project_file()
            try:
                before = _documents(raw)
                after = change(before)
                if len(after) > MOST_DOCUMENTS or sum(map(len, after)) > MOST_DOCUMENTS_BYTES:
                    raise TooLarge("a project has too many linked documents", {"limit": MOST_DOCUMENTS})
                if after == before:
                    return after
                edited = edit_file(_FENCE + raw + _FENCE, {"documents": list(after) or None}, None)
            except DocumentProblem as problem:
                raise HomeProblem(f"{self.path / PROJECT_FILE} cannot be read: {problem.message}") from None
            inner = edited.removeprefix(_FENCE).removesuffix(_FENCE)
            if inner.strip():
                self._replace(PROJECT_FILE, inner)
            else:
                (self.path / PROJECT_FILE).unlink(missing_ok=True)
                _sync(self.path)
        return after

    def _project_file(self) -> bytes:
        try:
            raw = self._raw(PROJECT_FILE)
        except FileNotFoundError:
            return b""
        return raw if raw.endswith(b"\n") or not raw else raw + b"\n"

    def sweep(self) -> None:
        """Remove what crashed writers left. The lock must be held, so no writer is at work."""
        with self._translated():
            for path in self.path.glob(f"{_TEMPORARY}*"):
                path.unlink(missing_ok=True)

    def _replace(self, name: str, content: bytes) -> None:
        temporary = self.path / f"{_TEMPORARY}{secrets.token_hex(8)}"
        with self._translated():
            try:
                descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with open(descriptor, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                temporary.rename(self.path / name)
            except OSError:
                with suppress(OSError):
                    temporary.unlink(missing_ok=True)
                raise
            _sync(self.path)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise HomeProblem(f"memory in {self.path}: {error.strerror or error}") from error


def _documents(raw: bytes) -> tuple[str, ...]:
    """The linked documents of a `project.yaml`. Raises `DocumentProblem`."""
    listed = read_header(decode(raw)).fields.get("documents", "")
    values = [listed] if isinstance(listed, str) else listed
    if isinstance(values, dict) or not all(isinstance(one, str) for one in values):
        raise DocumentProblem("`documents` is no list of references", mend="write documents: [one, two]")
    return tuple(dict.fromkeys(word for one in values if isinstance(one, str) and (word := one.strip())))


def spaces_in(root: Path) -> Iterator[str]:
    """The keys of the spaces that have memory below `root`. Raises `HomeProblem` when it cannot be read."""
    for name in _directories(root):
        try:
            yield ProjectKey.from_path(name, "x").space
        except InvalidName as error:  # nothing that kbgit made
            log.warning("%s is no space's memory: %s", root / name, error.message)


def projects_in(root: Path, space: str) -> Iterator[ProjectKey]:
    """The projects of a space, by name. Raises `HomeProblem` when its directory cannot be read."""
    directory = root / ProjectKey(space, "x").relative_path.parent
    for name in _directories(directory):
        try:
            yield ProjectKey(space, name)
        except InvalidName as error:  # nothing that kbgit made
            log.warning("%s is no project's memory: %s", directory / name, error.message)


def _directories(path: Path) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise HomeProblem(f"memory in {path}: {error.strerror or error}") from error


def _without_following(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _make_directory(path: Path) -> None:
    """Make a directory and those above it, private and durably."""
    with suppress(FileExistsError):
        if not path.parent.is_dir():
            _make_directory(path.parent)
        path.mkdir(mode=0o700)
        _sync(path.parent)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
