"""What verifying a citation answers with; `kbgit.library.verifying` says what each state means."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kbgit.citation import Citation
from kbgit.library.answers import base_json
from kbgit.library.sections import SectionDifference
from kbgit.rows import BaseRow


class State(StrEnum):
    """What became of what a citation cites."""

    EXACT = "exact"
    MOVED = "moved"
    CHANGED = "changed"
    SUPERSEDED = "superseded"
    ARCHIVED = "archived"
    DELETED = "deleted"
    UNKNOWN = "unknown"


class Reason(StrEnum):
    """Why a citation is unknown, or what is archived."""

    MALFORMED = "malformed"
    NOT_FOUND = "not_found"
    NO_SUCH_LINES = "no_such_lines"
    BASE = "base"
    ITEM = "item"
    UNPUBLISHED = "unpublished"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one citation.

    `text` is the citation as it was given. `current` is what to cite now. `quote_hash` is that of the cited lines, where
    there are some, and `quote_matches` says whether the hash that the caller gave for them is theirs.
    """

    text: str
    state: State
    reason: Reason | None = None
    current: Citation | None = None
    base: BaseRow | None = None
    locator: str | None = None
    differences: tuple[SectionDifference, ...] = ()
    quote_hash: str | None = None
    quote_matches: bool | None = None

    @property
    def holds(self) -> bool:
        """Whether what was cited still stands: what a check of documents asks for."""
        return self.state in (State.EXACT, State.MOVED) and self.quote_matches is not False

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        found: dict[str, Any] = {"citation": self.text, "state": self.state.value, "holds": self.holds}
        if self.reason is not None:
            found["reason"] = self.reason.value
        if self.base is not None:
            found |= {"base": base_json(self.base), "locator": self.locator}
            found["current"] = str(self.current) if self.current else None
        if self.differences:
            found["differences"] = [difference.as_json() for difference in self.differences]
        if self.quote_hash is not None:
            found["quote_hash"] = self.quote_hash
        if self.quote_matches is not None:
            found["quote_matches"] = self.quote_matches
        return found
