"""What the question for changes answers with; `kbgit.library.changes` says what each kind means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kbgit.base import BaseStatus
from kbgit.citation import Citation
from kbgit.item import ItemStatus
from kbgit.library.answers import base_json
from kbgit.library.sections import SectionChange
from kbgit.rows import BaseRow


class ChangeOfItem(StrEnum):
    """What became of an item."""

    ADDED = "added"
    CHANGED = "changed"
    RENAMED = "renamed"
    ARCHIVED = "archived"
    RESTORED = "restored"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class ItemChange:
    """An item that differs. `old` and `new` are the revisions of then and now, None where there is none to be read."""

    kind: ChangeOfItem
    base: BaseRow
    item_id: str
    title: str | None
    old: Citation | None
    new: Citation | None
    old_locator: str | None
    locator: str | None
    status: ItemStatus | None
    sections: Sequence[SectionChange] = ()

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "kind": self.kind.value,
            "knowledge_item_id": self.item_id,
            "title": self.title,
            "base": self.base.key.slug,
            "space": self.base.key.space,
            "status": self.status.value if self.status else None,
            "old_reference": str(self.old) if self.old else None,
            "reference": str(self.new) if self.new else None,
            "old_locator": self.old_locator,
            "locator": self.locator,
            "sections": [self._section(section) for section in self.sections],
        }

    def _section(self, section: SectionChange) -> dict[str, Any]:
        cited = str(self.new.with_lines(*section.new_lines)) if self.new and section.new_lines else None
        return {**section.as_json(), "citation": cited}


@dataclass(frozen=True, slots=True)
class BaseChange:
    """A base that was compared: from which head (None: before its first) to which, and whether it was active then."""

    base: BaseRow
    old_head: str | None
    was_active: bool

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        old_status = BaseStatus.ACTIVE if self.was_active else BaseStatus.ARCHIVED
        return {**base_json(self.base), "from": self.old_head, "to": self.base.head, "old_status": old_status.value}


@dataclass(frozen=True, slots=True)
class ChangePage:
    """A page of changes, by base and id. `cursor` asks for the next page, None at the end.

    Whoever pages and asks again later asks since the heads of the first page: what changes meanwhile is then not missed.
    `unknown` are the citations that cite nothing the caller may see.
    """

    bases: Sequence[BaseChange]
    changes: Sequence[ItemChange]
    cursor: str | None
    unknown: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        """The API's answer."""
        found: dict[str, Any] = {
            "type": "knowledge_changes",
            "bases": [base.as_json() for base in self.bases],
            "changes": [change.as_json() for change in self.changes],
            "cursor": self.cursor,
        }
        return {**found, "unknown": list(self.unknown)} if self.unknown else found
