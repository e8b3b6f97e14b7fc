"""A backup as one file: a plain tar archive, and a directory made of one."""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from kbgit.errors import HomeProblem
from kbgit.upkeep.manifest import MANIFEST, damaged
from kbgit.upkeep.private import make_directories

SUFFIX = ".tar"


def write_archive(directory: Path, target: Path) -> None:
    """Write all of a directory into a new archive, the manifest first; durable when this returns."""
    with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
            manifest = directory / MANIFEST
            archive.add(manifest, MANIFEST)
            for path in sorted(directory.rglob("*")):
                if path.is_file() and path != manifest:
                    archive.add(path, str(path.relative_to(directory)), recursive=False)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def backup_directory(source: Path, beside: Path) -> Iterator[Path]:
    """The backup at `source` as a directory; an archive is unpacked for the while into one below `beside`.

    Raises `HomeProblem` where there is nothing, `BackupDamaged` for what is no whole archive.
    """
    if source.is_dir():
        yield source
        return
    if not source.is_file():
        raise HomeProblem(f"there is no backup at {source}")
    with tempfile.TemporaryDirectory(prefix=".kbgit-unpacked-", dir=beside) as scratch:
        _unpack(source, Path(scratch))
        yield Path(scratch)


def scratch_place(near: Path) -> Path:
    """Where temporary files may be: near by, where there is room for what lies there; else where the system keeps its own."""
    return near if os.access(near, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())


def _unpack(source: Path, target: Path) -> None:
    """Plain files and nothing else, nowhere but below `target`, whatever the archive says."""
    try:
        with tarfile.open(source, "r:") as archive:
            for member in archive:
                name = PurePosixPath(member.name)
                if not member.isfile() or name.is_absolute() or ".." in name.parts:
                    raise damaged(member.name, "no backup has such an entry")
                path = target / name
                make_directories(path.parent)
                content = archive.extractfile(member)
                assert content is not None
                with content, open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    shutil.copyfileobj(content, file)
    except (tarfile.TarError, EOFError, FileExistsError, UnicodeError, ValueError) as error:
        raise damaged(source.name, f"it is no whole archive ({error})") from None
