"""Files and directories that nobody but their owner can read, from the moment they are there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def make_directories(path: Path) -> None:
    """Make `path`, and those above it that are missing, of mode 0700."""
    for directory in reversed([path, *path.parents]):
        if not directory.exists():
            directory.mkdir(mode=0o700)


def copy_file(source: Path, target: Path) -> None:
    """Copy a file to one of mode 0600, which is replaced if it is there; directories are made."""
    make_directories(target.parent)
    with open(source, "rb") as reading:
        target.unlink(missing_ok=True)
        with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as writing:
            shutil.copyfileobj(reading, writing)
