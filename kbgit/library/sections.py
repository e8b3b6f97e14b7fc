"""What changed, by section: the headings above a change tell a reader whether it concerns them."""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from kbgit.library.citing import content_lines
from kbgit.passage import split_passages
from kbgit.store.hunks import Hunk

LONGEST_DIFFERENCE = 8_000
"""Characters of a section's difference that an answer holds."""

SectionPath = tuple[str, ...]
Run = dict[SectionPath, tuple[int, list[str]]]
"""Lines that follow each other, by section: where (from 0) those of a section begin, and the lines."""

_LIKE_A_HEADING = re.compile(r" {0,3}(?:#{1,6}(?:[ \t]|$)|=+[ \t]*$|-+[ \t]*$)")


@dataclass(frozen=True, slots=True)
class Section:
    """A section of canonical content: the headings above it, its first and last line (from 1), and those lines."""

    path: SectionPath
    lines: tuple[int, int]
    text: str


def sections_of(content: str) -> list[Section]:
    """The sections in order; blank lines around one are no part of it."""
    passages = split_passages(content, cap=sys.maxsize)  # a passage never crosses a section, and nothing else cuts here
    return [Section(passage.section, (passage.start_line, passage.end_line), passage.text) for passage in passages]


class ChangeOfSection(StrEnum):
    """What became of a section."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class SectionChange:
    """A section that differs; `old_lines` and `new_lines` are where it was and is, None where it was not or is not."""

    kind: ChangeOfSection
    section: SectionPath
    old_lines: tuple[int, int] | None
    new_lines: tuple[int, int] | None

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "kind": self.kind.value,
            "section": list(self.section),
            "lines": list(self.new_lines) if self.new_lines else None,
            "old_lines": list(self.old_lines) if self.old_lines else None,
        }


def changed_sections(old: str, new: str) -> list[SectionChange]:
    """The sections of two contents that differ, in the order of the new one; those that are gone come last.

    A section is the same if its headings and its text are, wherever it stands; of the others, those with the same
    headings are one section that changed.
    """
    before, after = sections_of(old), sections_of(new)
    same = Counter((part.path, part.text) for part in before) & Counter((part.path, part.text) for part in after)
    gone: defaultdict[SectionPath, deque[Section]] = defaultdict(deque)
    for part in _without(before, same):
        gone[part.path].append(part)
    found = []
    for part in _without(after, same):
        if gone[part.path]:
            previous = gone[part.path].popleft()
            found.append(SectionChange(ChangeOfSection.CHANGED, part.path, previous.lines, part.lines))
        else:
            found.append(SectionChange(ChangeOfSection.ADDED, part.path, None, part.lines))
    removed = sorted((part for left in gone.values() for part in left), key=lambda part: part.lines)
    return found + [SectionChange(ChangeOfSection.REMOVED, part.path, part.lines, None) for part in removed]


def _without(sections: Sequence[Section], same: Counter[tuple[SectionPath, str]]) -> Iterator[Section]:
    left = same.copy()
    for part in sections:
        if left[part.path, part.text] > 0:
            left[part.path, part.text] -= 1
        else:
            yield part


@dataclass(frozen=True, slots=True)
class SectionDifference:
    """A section's changed lines as a unified difference without context; `is_cut` says that it goes on."""

    section: SectionPath
    text: str
    is_cut: bool = False

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"section": list(self.section), "diff": self.text, **({"truncated": True} if self.is_cut else {})}


@dataclass
class Content:
    """Canonical content, its lines, and in which section each is."""

    text: str

    @cached_property
    def lines(self) -> list[str]:
        """The lines that citations count."""
        return content_lines(self.text)

    @cached_property
    def _sections(self) -> list[Section]:
        return sections_of(self.text)

    @cached_property
    def _starts(self) -> list[int]:
        return [section.lines[0] - 1 for section in self._sections]

    def section_at(self, line: int) -> SectionPath:
        """The section of a line (from 0); a blank line before a section belongs to the one before it."""
        place = bisect_right(self._starts, line)
        return self._sections[place - 1].path if place else ()

    def by_section(self, start: int, end: int) -> Run:
        """The lines from `start` up to `end` by section."""
        found: Run = {}
        while start < end:
            place = bisect_right(self._starts, start)
            stop = min(end, self._starts[place]) if place < len(self._starts) else end
            found.setdefault(self.section_at(start), (start, []))[1].extend(self.lines[start:stop])
            start = stop
        return found


def difference_by_section(old: Content, new: Content, hunks: Sequence[Hunk]) -> tuple[SectionDifference, ...]:
    """`hunks` between two contents, by section.

    An added line is under the section that it is in, a removed one under the section that stands in its place now; but
    where a heading was removed, that and what was removed with it are under the sections of then.
    """
    rows: defaultdict[SectionPath, list[str]] = defaultdict(list)
    for hunk in hunks:
        removed: Run = {}
        if any(_LIKE_A_HEADING.match(line) for line in old.lines[hunk.old_start : hunk.old_end]):
            removed = old.by_section(hunk.old_start, hunk.old_end)
        elif hunk.old_start < hunk.old_end:
            lines = old.lines[hunk.old_start : hunk.old_end]
            removed = {new.section_at(hunk.new_start - 1): (hunk.old_start, lines)}
        added = new.by_section(hunk.new_start, hunk.new_end)
        for path in dict.fromkeys([*removed, *added]):
            old_start, gone = removed.get(path, (hunk.old_end, []))
            new_start, come = added.get(path, (hunk.new_start, []))
            rows[path].append(f"@@ -{_range(old_start, gone)} +{_range(new_start, come)} @@\n")
            rows[path] += [f"-{line}\n" for line in gone]
            rows[path] += [f"+{line}\n" for line in come]
    found = []
    for path, lines in rows.items():
        text = "".join(lines)
        found.append(SectionDifference(path, text[:LONGEST_DIFFERENCE], len(text) > LONGEST_DIFFERENCE))
    return tuple(found)


def _range(start: int, lines: Sequence[str]) -> str:
    """A run as unified differences write it: from 1, an empty one by the line before it."""
    first = start + 1 if lines else start
    return f"{first}" if len(lines) == 1 else f"{first},{len(lines)}"
