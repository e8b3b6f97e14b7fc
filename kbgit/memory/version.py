"""The version of memory's files, in a file beside them, and the way from an older one to this one.

Memory cannot be derived again, so it is never thrown away: an older form is brought to the present one, step by step, after a
copy of everything was made; a newer one is refused.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from kbgit.errors import HomeProblem, StoreTooNew

VERSION = 1
FILE_NAME = "version"
Step = Callable[[Path], None]
STEPS: tuple[Step, ...] = ()
"""From version 1 to VERSION, in order. A step may be run again over what a crash left of it, so it must allow that."""


def bring_to_version(directory: Path, version: int = VERSION, steps: Sequence[Step] = STEPS) -> None:
    """Stamp the memory below `directory`, after bringing it to `version` where it is older.

    A directory that is not there is none to stamp; one without a stamp is of version 1, which had none. A copy of an older
    one is left beside it, as `<name>.version-<n>`. Raises `StoreTooNew`, `HomeProblem`. Whoever calls this owns the home.
    """
    assert len(steps) == version - 1
    try:
        if not directory.is_dir():
            return
        found = _stamped(directory)
        if found is not None and found > version:
            raise StoreTooNew(
                f"memory in {directory} has version {found}, and this kbgit knows version {version}: run the kbgit "
                "that wrote it, or a later one",
                {"found": found, "known": version},
            )
        for number in range(found or 1, version):
            _keep_copy(directory, number)
            steps[number - 1](directory)
            _stamp(directory, number + 1)
        if found is None and version == 1:
            _stamp(directory, version)
    except OSError as error:
        raise HomeProblem(f"memory in {directory}: {error.strerror or error}") from error


def _stamped(directory: Path) -> int | None:
    try:
        text = (directory / FILE_NAME).read_text("ascii").strip()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        text = ""
    if not text.isdecimal() or text == "0":
        raise HomeProblem(f"{directory / FILE_NAME} holds no version; write the number of the one that you know it is")
    return int(text)


def _keep_copy(directory: Path, number: int) -> None:
    target = directory.with_name(f"{directory.name}.version-{number}")
    if target.exists():
        return  # of this very step, which did not come to its end
    draft = target.with_name(f".{target.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(directory, draft, symlinks=True)
    draft.rename(target)


def _stamp(directory: Path, number: int) -> None:
    draft = directory / f".{FILE_NAME}.draft"
    with open(draft, "w", encoding="ascii") as file:
        file.write(f"{number}\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(directory / FILE_NAME)
