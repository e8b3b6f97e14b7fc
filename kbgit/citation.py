"""Citations: `knowledge:<item-id>@<sha>`, optionally with lines, `#L10-L24`.

The text form is literal: the id is not escaped. It is read from its end, where the SHA and the lines have a fixed
shape, so ids may contain `@`, `#` and spaces.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from kbgit.errors import InvalidCitation

SCHEME = "knowledge:"
_SHAPE = re.compile(
    r"knowledge:(?P<item>[^\x00-\x1f\x7f]+)@(?P<revision>[0-9a-f]{40})"
    r"(?:#L(?P<start>[1-9][0-9]{0,8})(?:-L(?P<end>[1-9][0-9]{0,8}))?)?"
)
_UNPINNED = re.compile(r"knowledge:(?P<item>[^\x00-\x1f\x7f]+)")
_LONGEST = 4096


@dataclass(frozen=True, slots=True)
class Citation:
    """A reference to one revision of one item, or, with `lines`, to lines of its canonical content.

    `revision` is a full lower-case commit SHA; None means "whatever is current" (a reference that is not pinned).
    `lines` are 1-based and inclusive.
    """

    item_id: str
    revision: str | None
    lines: tuple[int, int] | None = None

    @classmethod
    def parse(cls, text: str) -> Citation:
        """Read a citation; without `@<sha>` it is unpinned. Raises `InvalidCitation`.

        A SHA that is short or upper-case is refused rather than guessed at.
        """
        if len(text) > _LONGEST:
            raise InvalidCitation(f"a citation has at most {_LONGEST} characters")
        pinned = _SHAPE.fullmatch(text)
        if pinned is None:
            return cls._unpinned(text)
        lines = None
        if pinned["start"]:
            start = int(pinned["start"])
            lines = (start, int(pinned["end"] or start))
            if lines[1] < start:
                raise InvalidCitation(f"the lines of {text!r} end before they start")
        return cls(pinned["item"], pinned["revision"], lines)

    @classmethod
    def _unpinned(cls, text: str) -> Citation:
        match = _UNPINNED.fullmatch(text)
        if match is None or re.search(r"@[0-9A-Fa-f]*(#.*)?$", match["item"]):
            raise InvalidCitation(
                f"{text[:200]!r} is no citation; expected knowledge:<item-id>@<40 lower-case hex>[#L<from>-L<to>]"
            )
        return cls(match["item"], None)

    @property
    def reference(self) -> str:
        """The text form without lines."""
        return f"{SCHEME}{self.item_id}" + (f"@{self.revision}" if self.revision else "")

    def with_lines(self, start: int, end: int) -> Citation:
        """The same citation for lines `start` to `end`."""
        return replace(self, lines=(start, end))

    def __str__(self) -> str:
        if self.lines is None:
            return self.reference
        return f"{self.reference}#L{self.lines[0]}-L{self.lines[1]}"
