"""A home: the directory in which one kbgit lives. Where everything is, and how its repositories are set up."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import sqlite3
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path

import yaml

from kbgit import config
from kbgit.accounts import Accounts
from kbgit.admission import Limits
from kbgit.base import BaseKey
from kbgit.catalogue import Catalogue
from kbgit.config import Settings
from kbgit.errors import AlreadyExists, BaseNotFound, HomeProblem, IndexFailure, InvalidName, InvalidSetting
from kbgit.sqlite import remove
from kbgit.store import Git, Repository

SERVER_HOOKS = ("pre-receive", "post-receive")
_HOOK_FILES = (*SERVER_HOOKS, "ask")  # what the hooks run is as much a part of the gate as they are
HOOK_SOCKET = "hooks.sock"
SERVER_FILE = "server.json"
"""Where a running server says how it is reached, and which process it is."""
_REPOSITORY_SETTINGS = {
    "receive.fsckObjects": "true",
    "receive.fsck.badFilemode": "error",  # set-uid and such, which Git itself would overlook from then on
    "transfer.hideRefs": "refs/kbgit",
    "http.receivepack": "true",
    "core.logAllRefUpdates": "false",
    "core.sharedRepository": "umask",
    "uploadpack.allowAnySHA1InWant": "false",
    "gc.pruneExpire": "2.weeks.ago",
}

_NEW = ".new-"  # ends the name under which a repository is made, which is no base's
_DATABASES = ("accounts", "catalogue", "vectors", "memory-vectors", "sessions")
_DIRECTORIES = ("index", "memory", "documents")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Home:
    """Paths and settings of a home. Opening stores is the caller's business."""

    path: Path
    settings: Settings

    @classmethod
    def create(cls, path: Path) -> Home:
        """An empty home. Raises `AlreadyExists` for a directory that is one, `HomeProblem` for one that has other files."""
        if (path / config.FILE_NAME).exists():
            raise AlreadyExists(f"{path} is a kbgit home already")
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise HomeProblem(f"{path} is not an empty directory; name a new one")
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o700)
        home = cls(path, Settings())
        home.repositories.mkdir()
        home.install_hooks()
        (path / config.FILE_NAME).write_text(config.as_yaml())
        return home

    @classmethod
    def at(cls, path: Path, overlay: Mapping[str, object] | None = None) -> Home:
        """The home at `path`, its settings file read and `overlay` laid over it. Raises `HomeProblem`, `InvalidSetting`."""
        file = path / config.FILE_NAME
        if not file.is_file():
            raise HomeProblem(f"{path} is no kbgit home; `kbgit init {path}` makes one")
        try:
            written = _written(file.read_text("utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise InvalidSetting(f"{file} cannot be read: {error}") from None
        if not isinstance(written, dict):
            raise InvalidSetting(f"{file} must hold lines of the form `name: value`")
        return cls(path, Settings().overlaid(written).overlaid(overlay or {}))

    @property
    def repositories(self) -> Path:
        """The bare repositories: `<space>/<base>.git`."""
        return self.path / "repositories"

    @property
    def hooks(self) -> Path:
        """The server-side hooks, outside everything that can be pushed."""
        return self.path / "hooks"

    @property
    def index_directory(self) -> Path:
        """The derived indexes."""
        return self.path / "index"

    @property
    def doomed(self) -> Path:
        """Repositories of bases whose permanent deletion has begun; empty but for a moment, or after a crash."""
        return self.path / "deleting"

    @property
    def models(self) -> Path:
        """Embedding models, written out once."""
        return self.path / "models"

    @property
    def owner_token_file(self) -> Path:
        """The owner's token, readable by the owner of the directory alone; the CLI uses it."""
        return self.path / "owner-token"

    @property
    def limits(self) -> Limits:
        """Sizes that admission enforces."""
        return Limits(self.settings.item_max_kb * 1024, self.settings.file_max_mb * 1024 * 1024)

    def store_bytes(self) -> dict[str, int]:
        """How much each store takes on the disk, by name: databases with their logs, directories with all that is in them."""
        files = {name: [self.path / f"{name}.sqlite{suffix}" for suffix in ("", "-wal")] for name in _DATABASES}
        sizes = {name: sum(path.stat().st_size for path in paths if path.is_file()) for name, paths in files.items()}
        return sizes | {name: size_below(self.path / name) for name in _DIRECTORIES}

    def catalogue(self) -> Catalogue:
        """Open the catalogue. One that is damaged or of another version is removed: its content can be derived again.

        Raises `IndexFailure` when the system does not let it be opened.
        """
        path = self.path / "catalogue.sqlite"
        try:
            catalogue = Catalogue(path)
            if catalogue.is_current_version:
                return catalogue
            catalogue.close()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):  # busy, no space, no permission: not the file's fault
                mend = "mend that, or, if the file is lost, remove it: it is derived from Git again"
                raise IndexFailure(f"the catalogue {path} cannot be opened ({error}); {mend}") from error
        self.discard_catalogue()
        return Catalogue(path)

    def discard_catalogue(self) -> None:
        """Remove the catalogue's files, closed or damaged."""
        remove(self.path / "catalogue.sqlite")

    def accounts(self) -> Accounts:
        """Open the accounts."""
        return Accounts(self.path / "accounts.sqlite")

    # Repositories

    def repository(self, key: BaseKey) -> Repository:
        """A base's repository. Raises `BaseNotFound`."""
        path = key.repository_path(self.repositories)
        if not (path / "HEAD").is_file():
            raise BaseNotFound(f"there is no base {str(key)!r}", {"base": str(key)})
        return Repository.at(path, Git(path, self.settings.git_timeout_seconds))

    def create_repository(self, key: BaseKey, branch: str = "main") -> Repository:
        """A new, empty base's repository. Raises `AlreadyExists`."""
        path = key.repository_path(self.repositories)
        if path.exists():
            raise AlreadyExists(f"there is a base {str(key)!r} already")
        # Made beside its place and moved there when it has its hooks: there is no moment at which a push goes unchecked.
        draft = path.with_name(f".{path.name}{_NEW}{secrets.token_hex(4)}")
        try:
            self.configure_repository(Repository.create(draft, branch=branch))
            draft.rename(path)
        except BaseException as error:
            shutil.rmtree(draft, ignore_errors=True)
            if isinstance(error, OSError) and path.exists():  # somebody was quicker
                raise AlreadyExists(f"there is a base {str(key)!r} already") from None
            raise
        return self.repository(key)

    def remove_unfinished(self) -> None:
        """Remove what a process that was killed left of repositories that it was making. For the owner of the home."""
        for draft in self.repositories.glob(f"*/.*{_NEW}*"):
            shutil.rmtree(draft, ignore_errors=True)

    def configure_repository(self, repository: Repository) -> None:
        """Set what kbgit relies on: its hooks, Git's own checks, and the publication log hidden from transfer."""
        repository.configure(_REPOSITORY_SETTINGS | {"core.hooksPath": self._hooks_seen_from(repository)})

    def _hooks_seen_from(self, repository: Repository) -> str:
        # Relative, so that a home that was moved, copied or restored elsewhere still runs its own hooks.
        return os.path.relpath(self.hooks.resolve(), repository.path.resolve())

    def check_gate(self) -> None:
        """Raises `HomeProblem` unless every push to every base will be checked. Asked once, before serving."""
        self.check_hooks()
        for key in self.base_keys():
            self.check_repository(self.repository(key))

    def check_repository(self, repository: Repository) -> None:
        """Raises `HomeProblem` unless Git runs this home's hooks for a push to `repository`."""
        named = repository.git.run("config", "--default", "", "core.hooksPath").decode("utf-8", "surrogateescape")
        if (repository.path / named.strip()).resolve() != self.hooks.resolve():
            mend = "`kbgit hooks install --server` restores it"
            raise HomeProblem(f"{repository.path} does not run the hooks of this home, so pushes go unchecked; {mend}")

    def base_keys(self) -> list[BaseKey]:
        """The bases whose repositories are there, by path. What cannot be a base's name is none: no way in leads to it."""
        keys = []
        for path in sorted(self.repositories.glob("*/*.git")):
            if (path / "HEAD").is_file():
                try:
                    keys.append(BaseKey.from_path(path.parent.name, path.name))
                except InvalidName as error:  # nothing that kbgit made: a copy by hand, say
                    log.warning("%s is left alone: %s", path, error.message)
        return keys

    # Hooks

    def install_hooks(self) -> None:
        """Write the hook scripts and the name of the interpreter that runs them, and have every repository run them."""
        self.hooks.mkdir(exist_ok=True)
        for name in _HOOK_FILES:
            target = self.hooks / name
            target.write_bytes(hook_script(name))
            target.chmod(0o755)
        (self.hooks / "python").write_text(sys.executable + "\n")
        for key in self.base_keys():
            self.configure_repository(self.repository(key))

    def check_hooks(self) -> None:
        """Raises `HomeProblem` unless every hook is there, is ours and will be run: without them pushes are unchecked."""
        for name in _HOOK_FILES:
            path = self.hooks / name
            mend = "`kbgit hooks install --server` restores it"
            if not path.is_file() or path.read_bytes() != hook_script(name):
                raise HomeProblem(f"the hook {path} is missing or not kbgit's; {mend}")
            is_run = os.access(path, os.X_OK) and path.stat().st_mode & stat.S_IXUSR
            if name in SERVER_HOOKS and not is_run:
                raise HomeProblem(f"the hook {path} is not executable, so Git would skip it; {mend}")
        python = self.hooks / "python"
        if not python.is_file() or shutil.which(python.read_text().strip()) is None:
            raise HomeProblem(f"{python} names no interpreter; `kbgit hooks install --server` restores it")


@lru_cache(maxsize=1)  # to read a file of comments takes as long as the rest of a hook, and forks find it read already
def _written(text: str) -> object:
    # As texts: to YAML, `off` is a truth value and 0010 is eight; what a setting means is for its kind to say.
    return yaml.load(text, yaml.BaseLoader) or {}


def size_below(directory: Path) -> int:
    """The bytes of all files below a directory in which others may be at work."""
    total = 0
    for path, _, names in os.walk(directory):
        for name in names:
            with suppress(FileNotFoundError):  # replaced while we look
                total += os.lstat(os.path.join(path, name)).st_size
    return total


def hook_script(name: str) -> bytes:
    """A hook as shipped: beside the package in a wheel, in `hooks/` of a checkout."""
    shipped = resources.files("kbgit") / "_hooks" / name
    if shipped.is_file():
        return shipped.read_bytes()
    return (Path(__file__).resolve().parent.parent / "hooks" / name).read_bytes()
