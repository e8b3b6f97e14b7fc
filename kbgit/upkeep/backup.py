"""Backing a home up, whether or not it is served, and checking a backup.

Consistency. What was acknowledged before a backup began is in it, and what is in it fits together:

- Accounts are copied first, as of one moment; then memory; then the repositories. A base whose space was made after that
  moment is left out.
- Of each repository all refs are of one moment, taken while nobody may write its publication log. The branch may be ahead
  of the log then, by a push that is not acknowledged yet; the announcement of that push, which says who makes it, is in the
  outbox at that moment, and is copied too.

Nothing derived is in a backup, nor the owner's token unless that is asked for. It is written under a temporary name,
checked, and then gets its name.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kbgit import __version__, config
from kbgit.base import BaseKey
from kbgit.errors import AlreadyExists, BaseNotFound, GitFailure, HomeProblem
from kbgit.home import Home
from kbgit.publish import OUTBOX, base_lock
from kbgit.revision import rfc3339
from kbgit.store import Git, Repository
from kbgit.store.bundle import unpack_bundle, write_bundle
from kbgit.upkeep.archive import SUFFIX, backup_directory, scratch_place, write_archive
from kbgit.upkeep.manifest import (
    BackedUpBase,
    Manifest,
    bundle_path,
    check_files,
    damaged,
    described,
    outbox_path,
    read_manifest,
    write_manifest,
)
from kbgit.upkeep.private import copy_file, make_directories
from kbgit.upkeep.reading import copy_database, damage_of, read_only
from kbgit.upkeep.repositories import PATIENCE_SECONDS, patient
from kbgit.upkeep.stores import ACCOUNTS, QUEUE

Progress = Callable[[str, int, int], None]

OWNER_TOKEN = "owner-token"
_TRANSIENT = "refs/kbgit/new"
_ORIGINALS = "documents/originals"


def back_up(
    home: Home, target: Path, *, with_owner_token: bool = False, progress: Progress = lambda *_: None
) -> Manifest:
    """Write a backup to `target`, a directory or, where its name ends in .tar, one file; checked when this returns.

    Raises `AlreadyExists`, `HomeProblem` for accounts that cannot be read, `GitFailure` for a repository that cannot.
    """
    target = Path(os.path.abspath(target))
    if target.exists() or target.is_symlink():
        raise AlreadyExists(f"{target} is there already; name a new one")
    if target.is_relative_to(home.path.resolve()):
        raise HomeProblem("a backup within the home is lost with it; name a place elsewhere")
    if not target.parent.is_dir():
        raise HomeProblem(f"there is no directory {target.parent}")
    with _draft_of(target) as draft:
        manifest = _write(home, draft, with_owner_token, progress)
        check(draft, progress)
        _make_durable(draft)
        if target.suffix == SUFFIX:
            archive = draft.with_name(f"{draft.name}{SUFFIX}")
            try:
                write_archive(draft, archive)
                archive.rename(target)
            finally:
                archive.unlink(missing_ok=True)
        else:
            draft.rename(target)
        _sync(target.parent)
    return manifest


@contextmanager
def _draft_of(target: Path) -> Iterator[Path]:
    """A directory beside the target, private, which is gone afterwards unless it got the target's name."""
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _write(home: Home, draft: Path, with_owner_token: bool, progress: Progress) -> Manifest:
    created_at = rfc3339(int(time.time()))
    progress("backing up accounts and memory", 0, 1)
    try:
        copy_database(home.path / ACCOUNTS, draft / ACCOUNTS)
        spaces, owner = _who(home, draft / ACCOUNTS)
    except sqlite3.Error as error:
        raise HomeProblem(f"{home.path / ACCOUNTS} cannot be read: {error}; `kbgit doctor` says more") from None
    copy_file(home.path / config.FILE_NAME, draft / config.FILE_NAME)
    if with_owner_token and home.owner_token_file.is_file():
        copy_file(home.owner_token_file, draft / OWNER_TOKEN)
    _copy_tree(home.path / "memory", draft / "memory", hidden=False)
    if (home.path / QUEUE).is_file():
        make_directories((draft / QUEUE).parent)
        copy_database(home.path / QUEUE, draft / QUEUE)
        _copy_tree(home.path / _ORIGINALS, draft / _ORIGINALS, hidden=True)
    keys = home.base_keys()
    bases: dict[str, BackedUpBase] = {}
    left_out = []
    for number, key in enumerate(keys):
        progress(f"backing up {key}", number, len(keys))
        written = _base(home, key, draft) if key.space in spaces else None
        if written is None:
            left_out.append(str(key))
        else:
            bases[str(key)] = written
    files = {str(path.relative_to(draft)): described(path) for path in draft.rglob("*") if path.is_file()}
    manifest = Manifest(__version__, created_at, owner, files, bases, left_out)
    write_manifest(draft, manifest)
    return manifest


def _who(home: Home, accounts: Path) -> tuple[set[str], str | None]:
    """The spaces there are, and the user who owns the home: the holder of its owner token, else its only user."""
    with read_only(accounts) as connection:
        spaces = {str(row[0]) for row in connection.execute("SELECT key FROM spaces")}
        users = [str(row[0]) for row in connection.execute("SELECT name FROM users WHERE removed_at IS NULL")]
        token = home.owner_token_file.read_text("utf-8") if home.owner_token_file.is_file() else ""
        row = connection.execute("SELECT user FROM tokens WHERE id = ?", (token[6:18],)).fetchone()
    owner = str(row[0]) if row else None
    return spaces, owner if owner in users else (users[0] if len(users) == 1 else None)


def _base(home: Home, key: BaseKey, draft: Path) -> BackedUpBase | None:
    """Write one base. None for one that was destroyed meanwhile."""
    try:
        repository = patient(home, key)
        try:
            bundle = draft / bundle_path(str(key))
            make_directories(bundle.parent)
            with base_lock(repository):
                branch = repository.published_branch()
                refs = {name: sha for name, sha in repository.refs().items() if name != _TRANSIENT}
                # After the refs: what announces a head is there before the head is.
                _copy_tree(repository.path / OUTBOX, draft / outbox_path(str(key)), hidden=False)
            if refs:
                write_bundle(repository, bundle, refs)
        finally:
            repository.close()
    except (BaseNotFound, GitFailure, OSError) as error:
        path = key.repository_path(home.repositories)
        if path.exists():
            raise
        shutil.rmtree(draft / outbox_path(str(key)), ignore_errors=True)
        (draft / bundle_path(str(key))).unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            raise
        return None
    return BackedUpBase(branch, refs)


def check_backup(source: Path, progress: Progress = lambda *_: None) -> Manifest:
    """Whether a backup is whole: its files, its accounts, and every object of every bundle.

    Raises `BackupDamaged`, which names the file.
    """
    with backup_directory(source, scratch_place(source.parent)) as directory:
        return check(directory, progress)


def check(directory: Path, progress: Progress = lambda *_: None) -> Manifest:
    """As `check_backup`, for a directory."""
    manifest = read_manifest(directory)
    for number, name in enumerate(check_files(directory, manifest)):
        progress(f"checking {name}", number, len(manifest.files))
    for required in (ACCOUNTS, config.FILE_NAME):
        if required not in manifest.files:
            raise damaged(required, "it is missing")
    if damage := damage_of(directory / ACCOUNTS):
        raise damaged(ACCOUNTS, damage)
    with tempfile.TemporaryDirectory(prefix=".checking-", dir=scratch_place(directory.parent)) as scratch:
        for number, (key, base) in enumerate(manifest.bases.items()):
            progress(f"checking {key}", number, len(manifest.bases))
            if base.refs and bundle_path(key) not in manifest.files:
                raise damaged(bundle_path(key), "it is missing")
            if base.refs:
                _check_bundle(directory, key, base, Path(scratch) / str(number))
    return manifest


def _check_bundle(directory: Path, key: str, base: BackedUpBase, scratch: Path) -> None:
    name = bundle_path(key)
    try:
        Repository.create(scratch)
        repository = Repository.at(scratch, Git(scratch, PATIENCE_SECONDS))
        unpack_bundle(directory / name, repository)
        if repository.refs() != base.refs:
            raise damaged(name, "it holds other refs than the manifest says")
    except GitFailure as error:
        raise damaged(name, error.message) from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _copy_tree(source: Path, target: Path, *, hidden: bool) -> None:
    """Copy plain files. What is removed meanwhile was there no more; what begins with a dot is being written."""
    for directory, _, names in os.walk(source):
        for name in names:
            if hidden or not name.startswith("."):
                path = Path(directory) / name
                copy = target / path.relative_to(source)
                with suppress(FileNotFoundError):
                    copy_file(path, copy)


def _make_durable(directory: Path) -> None:
    for path in sorted(directory.rglob("*"), reverse=True):
        _sync(path)
    _sync(directory)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
