"""What a backup says of itself: `manifest.json`, and how files are checked against it.

manifest.json                     format, kbgit's version, time, every file by size and SHA-256, every base by its refs
kbgit.yaml                        settings
accounts.sqlite                   users, spaces, members, tokens (hashed), audit log
memory/…                          records
documents/…                       documents that wait for extraction
repositories/<space>/<base>.bundle   a Git bundle of every ref, the publication log among them
repositories/<space>/<base>.outbox/  pushes that were under way: who made them
owner-token                       only if that was asked for
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from kbgit.base import BaseKey
from kbgit.errors import BackupDamaged, InvalidName
from kbgit.store.repository import PUBLICATION_LOG, is_sha

FORMAT = 1
MANIFEST = "manifest.json"
_CHECKSUM = "checksum"
_BLOCK = 1 << 20
_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class BackedUpBase:
    """A base in a backup: the branch that HEAD names, and every ref."""

    branch: str
    refs: Mapping[str, str]

    @property
    def head(self) -> str | None:
        """The published branch's commit."""
        return self.refs.get(self.branch)

    @property
    def last_entry(self) -> str | None:
        """The last entry of the publication log."""
        return self.refs.get(PUBLICATION_LOG)


@dataclass(frozen=True, slots=True)
class BackedUpFile:
    """A file in a backup: its size in bytes and its SHA-256 in hexadecimal digits."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is in a backup. `created_at` is RFC 3339; `owner` the user who owns the home, if that is known."""

    kbgit: str
    created_at: str
    owner: str | None
    files: Mapping[str, BackedUpFile]
    bases: Mapping[str, BackedUpBase]
    left_out: Sequence[str]
    """Keys of bases that were made or destroyed while the backup was written."""

    def as_json(self) -> dict[str, Any]:
        """JSON-ready, with a checksum over itself."""
        content: dict[str, Any] = {
            "type": "kbgit_backup",
            "format": FORMAT,
            "kbgit": self.kbgit,
            "created_at": self.created_at,
            "owner": self.owner,
            "files": {name: asdict(file) for name, file in sorted(self.files.items())},
            "bases": {
                key: {"branch": base.branch, "head": base.head, "refs": dict(sorted(base.refs.items()))}
                for key, base in sorted(self.bases.items())
            },
            "left_out": list(self.left_out),
        }
        return {**content, _CHECKSUM: _checksum(content)}

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(file.bytes for file in self.files.values())


def bundle_path(key: str) -> str:
    """Where a base's bundle is in a backup."""
    return f"repositories/{BaseKey.parse(key).relative_path}.bundle"


def outbox_path(key: str) -> str:
    """Where a base's announcements are in a backup."""
    return f"repositories/{BaseKey.parse(key).relative_path}.outbox"


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Write `manifest.json`."""
    with open(os.open(directory / MANIFEST, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(manifest.as_json(), file, indent=1)
        file.write("\n")


def read_manifest(directory: Path) -> Manifest:
    """Read `manifest.json`. Raises `BackupDamaged`."""
    path = directory / MANIFEST
    try:
        content = json.loads(path.read_bytes())
        given = content.pop(_CHECKSUM)
        if content["type"] != "kbgit_backup" or content["format"] != FORMAT:
            raise damaged(MANIFEST, f"it is of format {content['format']!r}; this kbgit reads format {FORMAT}")
        if given != _checksum(content):
            raise damaged(MANIFEST, "its checksum is another")
        manifest = Manifest(
            kbgit=str(content["kbgit"]),
            created_at=str(content["created_at"]),
            owner=content["owner"],
            files={name: BackedUpFile(int(row["bytes"]), str(row["sha256"])) for name, row in content["files"].items()},
            bases={key: BackedUpBase(row["branch"], dict(row["refs"])) for key, row in content["bases"].items()},
            left_out=list(content["left_out"]),
        )
    except FileNotFoundError:
        raise damaged(MANIFEST, "it is not there: this is no backup, or one that was never finished") from None
    except OSError as error:
        raise damaged(MANIFEST, error.strerror or str(error)) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise damaged(MANIFEST, "it cannot be read") from None
    _check_names(manifest)
    return manifest


def _check_names(manifest: Manifest) -> None:
    """A backup names nothing outside itself, whoever wrote it."""
    for name, file in manifest.files.items():
        parts = PurePosixPath(name).parts
        if not parts or name.startswith("/") or ".." in parts or "\0" in name or not _HASH.fullmatch(file.sha256):
            raise damaged(MANIFEST, f"it names the file {name!r}")
    for key, base in manifest.bases.items():
        try:
            BaseKey.parse(key)
        except InvalidName as error:
            raise damaged(MANIFEST, error.message) from None
        if not base.branch.startswith("refs/heads/") or not all(is_sha(sha) for sha in base.refs.values()):
            raise damaged(MANIFEST, f"it says of {key} what no repository has")


def check_files(directory: Path, manifest: Manifest) -> Iterator[str]:
    """Compare every file with the manifest; yields the name of each that is as it was written. Raises `BackupDamaged`."""
    there = {
        str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir() or path.is_symlink()
    }
    for name in sorted(there - manifest.files.keys() - {MANIFEST}):
        raise damaged(name, "it is not of this backup")
    for name, file in sorted(manifest.files.items()):
        path = directory / name
        if name not in there or path.is_symlink():
            raise damaged(name, "it is missing")
        try:
            found = described(path)
        except OSError as error:
            raise damaged(name, error.strerror or str(error)) from None
        if found.bytes != file.bytes:
            raise damaged(name, f"it has {found.bytes:,} bytes instead of {file.bytes:,}")
        if found.sha256 != file.sha256:
            raise damaged(name, "its content is not what was written")
        yield name


def described(path: Path) -> BackedUpFile:
    """A file's size and digest."""
    digest = hashlib.sha256()
    size = 0
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            size += len(block)
    return BackedUpFile(size, digest.hexdigest())


def damaged(name: str, what: str) -> BackupDamaged:
    """The error that names a file of a backup."""
    return BackupDamaged(f"the backup is damaged: {name}: {what}", {"file": name})


def _checksum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
