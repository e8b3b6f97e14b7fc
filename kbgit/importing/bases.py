"""Making a base from what is there: a Git repository with its history, or a directory of files."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

import yaml

from kbgit import names
from kbgit.admission import Problem, Rights, assess, judge
from kbgit.base import SETTINGS_FILE, Admission, BaseKey
from kbgit.catalogue import Catalogue
from kbgit.errors import GitFailure, InvalidRequest, PushRefused, UnsupportedFile
from kbgit.home import Home
from kbgit.importing.text import encoding
from kbgit.item import ItemStatus
from kbgit.publish import Announcement, announce, catch_up, logged_head
from kbgit.receipt import Receipt, receipt
from kbgit.revision import Via
from kbgit.rows import BaseRow
from kbgit.store import Repository
from kbgit.store.repository import PUBLICATION_LOG

_SKIPPED_DIRECTORIES = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv"})
Told = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class BaseOptions:
    """What a new base's `base.yaml` shall say; None leaves a setting as the source has it, or at its default."""

    name: str | None = None
    description: str | None = None
    default_status: ItemStatus | None = None
    admission: Admission | None = None
    subdir: str | None = None

    @property
    def given(self) -> dict[str, str]:
        """The settings that are given, as `base.yaml` writes them."""
        values = {
            "name": self.name,
            "description": self.description,
            "default_status": self.default_status.value if self.default_status else None,
            "admission": self.admission.value if self.admission else None,
            "subdir": self.subdir,
        }
        return {key: value for key, value in values.items() if value is not None}


class Importer:
    """Creates bases in a home, on behalf of one user."""

    def __init__(self, home: Home, catalogue: Catalogue, user: str, told: Told = lambda _: None) -> None:
        self._home = home
        self._catalogue = catalogue
        self._user = user
        self._told = told

    def create(self, key: BaseKey, options: BaseOptions, branch: str = "main") -> BaseRow:
        """A new base whose first commit is its `base.yaml`; without options it stays empty. Raises `AlreadyExists`."""
        repository = self._home.create_repository(key, branch)
        with self._removed_on_failure(repository, key):
            if options.given:
                self._settle(repository, key, options, None)
            return self._publish(repository, key).base

    def from_repository(
        self, key: BaseKey, source: str, options: BaseOptions, branch: str | None = None, *, with_log: bool = False
    ) -> Receipt:
        """A base with the whole history of a Git repository (a path, a bundle or a URL), every SHA kept.

        Options become one commit on top. With `with_log` the source is a base's own export: its publication log comes too,
        and with it who published what, when and how. Raises `AlreadyExists`, `GitFailure`, `InvalidRequest` for a source
        without such a log, `PushRefused`.
        """
        repository = self._home.create_repository(key, branch or "main")
        with self._removed_on_failure(repository, key):
            self._told(f"fetching {source}")
            branch = branch or _default_branch(repository, source)
            ref = f"refs/heads/{branch}"
            if with_log and PUBLICATION_LOG not in _refs_of(repository, source):
                raise InvalidRequest(
                    f"{source} has no publication log to restore from; `kbgit base export` writes one, and without "
                    "--restore the history alone is imported"
                )
            wanted = [ref, PUBLICATION_LOG] if with_log else [ref]
            repository.git.run(
                *("-c", "fetch.fsckObjects=true", "fetch", "--quiet", "--no-tags", "--no-write-fetch-head"),
                *("--", source, *(f"+{name}:{name}" for name in wanted)),
            )
            repository.name_published_branch(ref)
            head = repository.head()
            if with_log:
                _check_log(repository, source)
            if options.given:
                self._settle(repository, key, options, head)
            return self._publish(repository, key)

    def from_directory(self, key: BaseKey, source: Path, options: BaseOptions) -> Receipt:
        """A base whose first commit holds the files below `source`; links and special files are left out.

        Raises `AlreadyExists`, `InvalidRequest`, `PushRefused`.
        """
        root = source / options.subdir if options.subdir else source
        if not root.is_dir():
            raise InvalidRequest(f"{root} is not a directory")
        repository = self._home.create_repository(key)
        with self._removed_on_failure(repository, key):
            self._told(f"reading {root}")
            files: dict[str, bytes] = {}
            for path in _files(root, self._told):
                try:
                    raw = path.read_bytes()
                except OSError as error:
                    raise _unreadable(error) from error
                files[path.relative_to(root).as_posix()] = (
                    _as_utf8(raw, path, self._told) if path.suffix == ".md" else raw
                )
            given = replace(options, subdir=None).given
            if given:
                files[SETTINGS_FILE] = settings_text(files.get(SETTINGS_FILE), given)
            if not files:
                raise InvalidRequest(f"{root} has no files")
            self._told(f"committing {len(files):,} files")
            commit = repository.commit_files(
                files, parent=None, message=f"Import {source.name}", author=identity(self._user)
            )
            repository.move_ref(repository.published_branch(), commit, None)
            return self._publish(repository, key)

    @contextmanager
    def _removed_on_failure(self, repository: Repository, key: BaseKey) -> Iterator[None]:
        """Remove a new base again if anything fails."""
        try:
            yield
        except BaseException:
            repository.close()
            shutil.rmtree(repository.path, ignore_errors=True)
            with suppress(OSError):  # the space has other bases
                repository.path.parent.rmdir()
            if str(key) in {str(base.key) for base in self._catalogue.bases()}:
                self._catalogue.remove_base(str(key))
            raise

    def _settle(self, repository: Repository, key: BaseKey, options: BaseOptions, head: str | None) -> None:
        """Commit `base.yaml` with the given options on top of `head`."""
        before = None
        if head is not None:
            found = list(repository.git.objects([f"{head}:{SETTINGS_FILE}"]))
            before = found[0][2] if found[0][1] == "blob" else None
        text = settings_text(before, options.given)
        if text == before:
            return
        message = f"{'Change' if before else 'Add'} the settings of {key.slug}"
        commit = repository.commit_files(
            {SETTINGS_FILE: text}, parent=head, message=message, author=identity(self._user)
        )
        repository.move_ref(repository.published_branch(), commit, head)

    def _publish(self, repository: Repository, key: BaseKey) -> Receipt:
        """Admit the head as a push of all that is not published yet would be, then publish it."""
        head, logged = repository.head(), logged_head(repository)
        if head is not None and head != logged:
            self._told("checking")
            limits = self._home.limits
            assessment = assess(repository, None, head, key.slug, lambda _: {}, limits)
            verdict = judge(repository, logged, head, assessment, key.slug, Rights(), limits)
            if not verdict.admitted:
                raise refused(verdict.refusals)
            announce(
                repository,
                Announcement(repository.published_branch(), logged, head, self._user, Via.IMPORT, int(time.time())),
            )
        self._told("publishing")
        self._catalogue.add_base(key)
        base = catch_up(repository, self._catalogue, self._catalogue.base(str(key)), self._home.limits)
        return receipt(repository, self._catalogue, base, None)


def _check_log(repository: Repository, source: str) -> None:
    """Raises `InvalidRequest` unless the branch that came contains what the log that came with it says was published."""
    head, logged = repository.head(), logged_head(repository)
    if head is None or logged is None or not repository.is_ancestor(logged, head):
        raise InvalidRequest(
            f"{source}: its publication log is not that of its branch, so nothing can be restored from it"
        )


def refused(problems: tuple[Problem, ...]) -> PushRefused:
    """The error that carries every problem."""
    listed = [{"path": p.path, "line": p.line, "code": p.code, "what": p.what, "mend": p.mend} for p in problems]
    text = "\n".join(f"  {problem}" for problem in problems[:100])
    more = f"\n  … and {len(problems) - 100} more" if len(problems) > 100 else ""
    return PushRefused(
        f"refused; nothing was changed. Mend this, or use --admission lenient where it helps:\n{text}{more}",
        {"problems": listed},
    )


def identity(user: str) -> str:
    """How kbgit signs a user's commits: `ada <ada@kbgit.localhost>`."""
    name = user.removeprefix("local:")
    return f"{name} <{name}@kbgit.localhost>"


def settings_text(before: bytes | None, given: Mapping[str, str]) -> bytes:
    """`base.yaml` with the given settings; other lines stay as they are."""
    lines = before.decode("utf-8", "replace").splitlines() if before else []
    for key, value in given.items():
        style = None if value.isprintable() else '"'  # between double quotes a line end is written as an escape
        line = f"{key}: {yaml.safe_dump(value, default_style=style, allow_unicode=True, width=10**6).splitlines()[0]}"
        places = [number for number, text in enumerate(lines) if text.startswith(f"{key}:")]
        if places:
            lines[places[0]] = line
        else:
            lines.append(line)
    return ("\n".join(lines) + "\n").encode()


def is_repository(source: str) -> bool:
    """Whether Git can fetch from `source`: a work tree, a bare repository, a bundle or a URL."""
    if "://" in source or source.endswith(".bundle"):
        return True
    path = Path(source)
    return (path / ".git").exists() or ((path / "HEAD").is_file() and (path / "objects").is_dir())


def _refs_of(repository: Repository, source: str) -> dict[str, str]:
    """What each ref of a source is: an object, or for a symbolic one `ref: ` and the name it stands for."""
    listing = repository.git.run("ls-remote", "--symref", "--", source).decode("utf-8", "replace").splitlines()
    found: dict[str, str] = {}
    for line in listing:
        left, _, name = line.partition("\t")
        found.setdefault(name, left)
    return found


def _default_branch(repository: Repository, source: str) -> str:
    """The branch that the source's HEAD names; of a bundle that does not say, main, master or the only one."""
    refs = _refs_of(repository, source)
    head = refs.get("HEAD", "")
    if head.startswith("ref: refs/heads/"):
        return head.removeprefix("ref: refs/heads/")
    heads = {name.removeprefix("refs/heads/"): sha for name, sha in refs.items() if name.startswith("refs/heads/")}
    candidates = [name for name, sha in heads.items() if not head or sha == head]
    for name in ("main", "master"):
        if name in candidates:
            return name
    if len(candidates) == 1:
        return candidates[0]
    raise GitFailure(f"{source} does not say which branch is its default; name one with --branch")


def _files(root: Path, told: Told) -> Iterator[Path]:
    """Regular files below `root`, in order, hidden directories and tools' own left out. Raises `InvalidRequest`."""

    def refuse(error: OSError) -> NoReturn:
        raise _unreadable(error) from error

    for directory, directories, files in os.walk(root, onerror=refuse):
        directories[:] = sorted(
            name for name in directories if name not in _SKIPPED_DIRECTORIES and not name.startswith(".")
        )
        for name in sorted([*files, *(name for name in directories if (Path(directory) / name).is_symlink())]):
            path = Path(directory) / name
            if stat.S_ISREG(path.lstat().st_mode):
                yield path
            else:
                told(f"left out: {names.shown(str(path))} is no regular file")


def _unreadable(error: OSError) -> InvalidRequest:
    return InvalidRequest(f"{error.filename} cannot be read: {error.strerror}")


def _as_utf8(raw: bytes, path: Path, told: Told) -> bytes:
    """A text in UTF-8: as it is, or converted from the encoding that an old editor wrote, saying so."""
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        try:
            found = encoding.read(raw)
        except UnsupportedFile:  # admission says what is wrong with it
            return raw
        told(f"converted: {names.shown(str(path))} from {found.encoding} to UTF-8")
        return found.text.encode()
    return raw
