"""Making a home of a backup: somewhere new, complete, or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kbgit.access import Scope
from kbgit.base import BaseKey
from kbgit.errors import HistoryRewritten, HomeProblem
from kbgit.home import Home
from kbgit.publish import OUTBOX, catch_up
from kbgit.store import Git, Repository
from kbgit.store.bundle import unpack_bundle
from kbgit.upkeep.archive import backup_directory
from kbgit.upkeep.backup import OWNER_TOKEN, check
from kbgit.upkeep.manifest import Manifest, bundle_path, outbox_path
from kbgit.upkeep.private import copy_file
from kbgit.upkeep.repositories import PATIENCE_SECONDS

Progress = Callable[[str, int, int], None]

_REPOSITORIES = "repositories"


@dataclass(frozen=True, slots=True)
class Restored:
    """What was restored, and how: `new_token` is of the owner, where the backup holds none; `alarms` are of bases."""

    manifest: Manifest
    new_token: str | None
    alarms: tuple[str, ...]


def restore(source: Path, target: Path, *, dry_run: bool = False, progress: Progress = lambda *_: None) -> Restored:
    """Make the home `target` of a backup, after checking all of that. Catalogue and publication log are complete then;
    indexes are derived by the next start or command.

    Raises `HomeProblem` unless `target` is absent or an empty directory, `BackupDamaged`.
    """
    target = Path(os.path.abspath(target))
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise HomeProblem(f"{target} is not an empty directory; a backup is restored into a new home and over nothing")
    beside = target.parent
    while not beside.is_dir():
        beside = beside.parent
    with backup_directory(source, beside) as backup:
        manifest = check(backup, progress)
        if dry_run:
            return Restored(manifest, None, ())
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            restored = _make(backup, manifest, draft, progress)
            draft.rename(target)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return restored


def _make(backup: Path, manifest: Manifest, draft: Path, progress: Progress) -> Restored:
    Home.create(draft)
    for name in manifest.files:
        if not name.startswith(f"{_REPOSITORIES}/"):
            copy_file(backup / name, draft / name)
    home = Home.at(draft)
    if (draft / "index").exists():
        raise HomeProblem("a backup holds nothing derived")
    alarms = []
    catalogue = home.catalogue()
    try:
        for number, (text, base) in enumerate(manifest.bases.items()):
            progress(f"restoring {text}", number, len(manifest.bases))
            key = BaseKey.parse(text)
            made = home.create_repository(key, base.branch.removeprefix("refs/heads/"))
            repository = Repository(made.path, Git(made.path, PATIENCE_SECONDS))
            if base.refs:
                unpack_bundle(backup / bundle_path(text), repository)
            for path in sorted((backup / outbox_path(text)).glob("*")):
                copy_file(path, repository.path / OUTBOX / path.name)
            catalogue.add_base(key)
            try:
                # Also publishes a push that was under way when the backup was taken, by whoever made it.
                catch_up(repository, catalogue, catalogue.base(text), home.limits)
            except HistoryRewritten as error:
                alarms.append(error.message)  # as it was when it was backed up
            repository.close()
    finally:
        catalogue.close()
    return Restored(manifest, _owner_token(home, manifest), tuple(alarms))


def _owner_token(home: Home, manifest: Manifest) -> str | None:
    """A new token for the owner, unless the backup holds theirs. Tokens that people have go on working."""
    if OWNER_TOKEN in manifest.files or manifest.owner is None:
        return None
    accounts = home.accounts()
    try:
        _, token = accounts.add_token(manifest.owner, "owner (restored)", set(Scope), actor="restore")
    finally:
        accounts.close()
    with open(os.open(home.owner_token_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(token + "\n")
    return token
