"""Which lines of one text are which lines of another, as `git diff` and `git blame` pair them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from kbgit.store.git import Git

_FILE = b"diff --git a/old/"
_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True, slots=True)
class Hunk:
    """Old lines from `old_start` up to `old_end` became new lines from `new_start` up to `new_end`, counted from 0.

    One of the two runs may be empty: lines were only added, or only removed.
    """

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def line_hunks(pairs: Sequence[tuple[str, str]]) -> list[list[Hunk]]:
    """For each pair (old text, new text), what changed between them, in order; lines end at LF and nowhere else.

    One process compares them all: thousands of small texts take less than a second. Raises `GitFailure`.
    """
    if not pairs:
        return []
    with TemporaryDirectory(prefix="kbgit-") as name:
        scratch = Path(name)
        for side in ("old", "new"):
            (scratch / side).mkdir()
        for number, (old, new) in enumerate(pairs):
            (scratch / "old" / str(number)).write_bytes(_ended(old))
            (scratch / "new" / str(number)).write_bytes(_ended(new))
        # No repository around the scratch directory may say by its settings how texts are read or shown.
        printed = Git(scratch).run(
            *("diff", "--no-index", "--unified=0", "--diff-algorithm=myers", "--no-renames", "--text"),
            *("--no-color", "--no-ext-diff", "--no-textconv", "--", "old", "new"),
            allow=(0, 1),
            extra={"GIT_CEILING_DIRECTORIES": str(scratch.parent)},
        )
    return _parsed(printed, len(pairs))


def _ended(text: str) -> bytes:
    return (text if text.endswith("\n") else text + "\n").encode()


def _parsed(printed: bytes, count: int) -> list[list[Hunk]]:
    found: list[list[Hunk]] = [[] for _ in range(count)]
    rows = printed.split(b"\n")
    number = at = 0
    while at < len(rows):
        row = rows[at]
        at += 1
        if row.startswith(_FILE):
            number = int(row.rpartition(b"/")[2])
        elif match := _HUNK.match(row):
            old_start, old_count, new_start, new_count = (int(word) if word else 1 for word in match.groups())
            # An empty run is named by the line before it, any other by its first line.
            old_start -= old_count > 0
            new_start -= new_count > 0
            found[number].append(Hunk(old_start, old_start + old_count, new_start, new_start + new_count))
            at += old_count + new_count  # the lines themselves, which may look like anything
    return found
