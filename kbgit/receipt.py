"""Receipts: what a writer is told after a publication, by push, import or API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kbgit import names
from kbgit.admission import Problem, read_settings
from kbgit.base import TreeRules
from kbgit.catalogue import Catalogue
from kbgit.citation import Citation
from kbgit.item import ItemStatus
from kbgit.rows import BaseRow, ItemRow
from kbgit.store import Change, Repository

_MOST_LINES = 40


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a step from one head to another made of each file it touched.

    `removed` are ids of items whose file is gone; `others` are (path, why it is no item).
    """

    base: BaseRow
    items: Sequence[ItemRow]
    removed: Sequence[str]
    problems: Sequence[Problem]
    others: Sequence[tuple[str, str]]

    def of(self, status: ItemStatus) -> list[ItemRow]:
        """The touched items that are in `status` now."""
        return [item for item in self.items if item.status is status]

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "base": str(self.base.key),
            "head": self.base.head,
            **{
                status.value: [
                    {
                        "knowledge_item_id": item.item_id,
                        "locator": item.path,
                        "title": item.title,
                        "citation": _cite(item),
                    }
                    for item in self.of(status)
                ]
                for status in ItemStatus
            },
            "removed": list(self.removed),
            "problems": [
                {"path": p.path, "line": p.line, "code": p.code, "what": p.what, "mend": p.mend} for p in self.problems
            ],
            "not_items": [{"path": path, "why": why} for path, why in self.others],
        }

    def lines(self) -> Iterator[str]:
        """The receipt as lines of text, long lists cut with a count."""
        head = (self.base.head or "")[:12]
        counts = ", ".join(f"{len(self.of(status))} {status}" for status in ItemStatus)
        yield f"{self.base.key.slug} at {head}: {counts}, {len(self.removed)} removed, {len(self.problems)} with problems"
        if not self.base.active:
            yield f"this base is {self.base.settings.status}: nothing in it is searched until it is restored"
        if self.of(ItemStatus.DRAFT) and not self.of(ItemStatus.PUBLISHED):
            yield "only drafts: nothing of this is found until its items, or `default_status` in base.yaml, say published"
        for status in ItemStatus:
            yield from _cut([f"  {status:<10} {names.shown(item.title)}  {_cite(item)}" for item in self.of(status)])
        yield from _cut([f"  removed    {item_id}" for item_id in self.removed])
        yield from _cut([f"  problem    {problem}" for problem in self.problems])
        yield from _cut([f"  no item    {names.shown(path)}: {why}" for path, why in self.others])


def _cite(item: ItemRow) -> str:
    return str(Citation(item.item_id, item.revision))


def _cut(lines: list[str]) -> Iterator[str]:
    yield from lines[:_MOST_LINES]
    if len(lines) > _MOST_LINES:
        label = lines[0].split(maxsplit=1)[0]
        yield f"  {label:<10} … and {len(lines) - _MOST_LINES} more"


def receipt(repository: Repository, catalogue: Catalogue, base: BaseRow, old: str | None) -> Receipt:
    """The receipt of the step from head `old` to the base's present head."""
    key = str(base.key)
    if base.head is None or base.head == old:
        return Receipt(base, (), (), (), ())
    changes = repository.changes(old, base.head)
    rules = read_settings(repository, base.head, base.key.slug)[1]
    paths = [path for change in changes if (path := names.decoded(change.path)) is not None]
    items = catalogue.items_at(key, paths)
    touched = set(paths)
    problems = [problem for problem in catalogue.problems(key) if problem.path in touched]
    broken = {problem.path for problem in problems}
    gone = {item for item, path in catalogue.removed_since(key, old) if rules.is_item(path) and path not in broken}
    return Receipt(base, items, sorted(gone), problems, list(_others(changes, rules)))


def _others(changes: Sequence[Change], rules: TreeRules) -> Iterator[tuple[str, str]]:
    for change in changes:
        path = names.decoded(change.path)
        if change.new is None or path is None or rules.is_item(path):
            continue
        yield path, change.new.link or rules.why_no_item(path)
