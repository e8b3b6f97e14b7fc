"""Which lines of one text are which lines of another, as `git diff` and `git blame` pair them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from kbgit.store.git import Git

# One pack, and no work to make it small or to keep it.
_QUICKLY = ("-c", "core.compression=0", "-c", "fastimport.unpackLimit=1", "-c", "core.fsync=none")
_FILE = b"diff --git a/"
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

    Git compares them all at once, as the files of two trees of a repository that lives no longer than that: thousands of
    small texts take less than a second. Raises `GitFailure`.
    """
    if not pairs:
        return []
    with TemporaryDirectory(prefix="kbgit-") as scratch:
        git = Git(Path(scratch))
        git.run("init", "--quiet", "--bare", "--template=", ".")
        stream = [b"feature done\n"]
        for side, texts in (("old", [old for old, _ in pairs]), ("new", [new for _, new in pairs])):
            stream.append(f"commit refs/heads/{side}\ncommitter kbgit <kbgit@localhost> 0 +0000\ndata 0\n".encode())
            for number, text in enumerate(texts):
                raw = _ended(text)
                stream.append(b"M 100644 inline %d\ndata %d\n%s\n" % (number, len(raw), raw))
        git.run(*_QUICKLY, "fast-import", "--quiet", "--depth=0", stdin=b"".join([*stream, b"done\n"]))
        printed = git.run(
            *("diff-tree", "-r", "--patch", "--unified=0", "--diff-algorithm=myers", "--indent-heuristic"),
            *("--no-renames", "--text", "--no-color", "refs/heads/old", "refs/heads/new"),
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
