"""What became of cited lines, found out slowly: by `git blame` and `git diff` over two commits that hold the contents."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.writing import WRITER_ENVIRONMENT


@dataclass(frozen=True)
class Answer:
    """A state, and the lines of now (from 1, inclusive) where there are some."""

    state: str
    lines: tuple[int, int] | None = None


class Oracle:
    """Compares pairs of contents in a repository of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._commits = 0
        self._known: dict[tuple[str, str], dict[int, int]] = {}
        self._git("init", "--quiet", "--bare", "--initial-branch=main", ".")

    def _git(self, *arguments: str, stdin: str = "") -> str:
        self._directory.mkdir(exist_ok=True)
        done = subprocess.run(
            ["git", "-C", str(self._directory), *arguments],
            input=stdin.encode(),
            capture_output=True,
            env=WRITER_ENVIRONMENT,
            check=True,
        )
        return done.stdout.decode()

    def survivors(self, old: str, new: str) -> dict[int, int]:
        """Old line → new line, of the lines that `git blame` traces back from `new` to `old`."""
        if (old, new) not in self._known:
            self._commits += 1
            branch = f"refs/heads/pair-{self._commits}"
            stream = ""
            for number, text in enumerate((old, new), 1):
                ended = text if text.endswith("\n") else text + "\n"
                stream += f"commit {branch}\nmark :{number}\ncommitter Ada <ada@example.org> {number} +0000\ndata 0\n"
                stream += f"from :{number - 1}\n" if number > 1 else ""
                stream += f"M 100644 inline file\ndata {len(ended.encode())}\n{ended}\n"
            self._git("fast-import", "--quiet", stdin=stream)
            first = self._git("rev-parse", f"{branch}~1").strip()
            blamed = self._git("blame", "--porcelain", branch, "--", "file")
            rows = re.findall(r"^([0-9a-f]{40}) (\d+) (\d+)", blamed, re.MULTILINE)
            self._known[old, new] = {int(was): int(now) for sha, was, now in rows if sha == first}
        return self._known[old, new]

    def answer(self, old: str, new: str, start: int, end: int) -> Answer:
        """What became of the lines `start` to `end` of `old`."""
        before, after = lines_of(old), lines_of(new)
        if end > len(before):
            return Answer("unknown")
        cited = before[start - 1 : end]
        if after[start - 1 : end] == cited:
            return Answer("exact", (start, end))
        survivors = self.survivors(old, new)
        places = [survivors.get(line) for line in range(start, end + 1)]
        first = places[0]
        if first is not None and places == list(range(first, first + len(cited))):
            return Answer("moved", (first, first + len(cited) - 1))
        if sum(character.isalnum() for line in cited for character in line) >= 20:
            now = occurrences(after, cited)
            if len(now) == 1 and len(occurrences(before, cited)) == 1:
                return Answer("moved", (now[0] + 1, now[0] + len(cited)))
        above = [survivors[line] for line in range(1, start) if line in survivors]
        below = [survivors[line] for line in range(end + 1, len(before) + 1) if line in survivors]
        begin = survivors.get(start) or max(above, default=0) + 1
        finish = survivors.get(end) or min(below, default=len(after) + 1) - 1
        return Answer("changed", (begin, finish) if begin <= finish else None)

    def difference(self, old: str, new: str, start: int, end: int) -> tuple[list[str], list[str]]:
        """The removed and the added lines of the hunks of `git diff` that touch these lines of `old`."""
        self.survivors(old, new)
        branch = f"refs/heads/pair-{list(self._known).index((old, new)) + 1}"
        shown = self._git("diff", "--unified=0", "--text", f"{branch}~1", branch).split("\n")
        removed: list[str] = []
        added: list[str] = []
        is_touched = False
        for line in shown[4:]:
            if hunk := re.match(r"@@ -(\d+)(?:,(\d+))? \+\S+ @@", line):
                first, count = int(hunk[1]), int(hunk[2] or 1)
                is_touched = first < end and first >= start if count == 0 else first <= end and first + count > start
            elif is_touched and line:
                (removed if line[0] == "-" else added).append(line[1:])
        return removed, added


def lines_of(content: str) -> list[str]:
    """The lines of a content as Git counts them, at least one."""
    return (content if content.endswith("\n") else content + "\n").split("\n")[:-1]


def occurrences(lines: list[str], run: list[str]) -> list[int]:
    """Where (from 0) a run of lines begins."""
    return [place for place in range(len(lines) - len(run) + 1) if lines[place : place + len(run)] == run]
