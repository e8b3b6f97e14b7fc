"""What a caller may see: which bases, and which answer tells nothing about the others."""

from __future__ import annotations

from collections.abc import Sequence

from kbgit.access import Action, Principal, Target, decide
from kbgit.catalogue import Catalogue
from kbgit.errors import BaseNotFound, ItemNotFound
from kbgit.rows import BaseRow


class Sight:
    """One caller's view of the bases."""

    def __init__(self, catalogue: Catalogue, caller: Principal | None) -> None:
        self._caller = caller
        self.bases: list[BaseRow] = [base for base in catalogue.bases() if self.may(Action.READ_PUBLISHED, base)]

    def may(self, action: Action, base: BaseRow) -> bool:
        """Whether the caller may do `action` on `base`."""
        return bool(decide(self._caller, action, Target(base.key.space, str(base.key))))

    def named(self, name: str) -> list[BaseRow]:
        """The visible bases called `name`: a key (`team:platform/runbooks`), or a slug. Raises `BaseNotFound`."""
        found = [base for base in self.bases if name in (str(base.key), base.key.slug)]
        if not found:
            raise BaseNotFound(f"there is no base {name[:200]!r}", {"base": name[:200]})
        return found

    def one(self, key: str) -> BaseRow:
        """The visible base of that key. Raises `BaseNotFound`."""
        for base in self.bases:
            if str(base.key) == key:
                return base
        raise BaseNotFound(f"there is no base {key[:200]!r}", {"base": key[:200]})

    def chosen(self, names: Sequence[str], spaces: Sequence[str]) -> list[BaseRow]:
        """The visible bases that both filters let through (an empty filter lets everything through)."""
        found = self.bases
        if names:
            wanted = {str(base.key) for name in names for base in self.named(name)}
            found = [base for base in found if str(base.key) in wanted]
        if spaces:
            found = [base for base in found if base.key.space in spaces]
        return found


def item_not_found(item_id: str) -> ItemNotFound:
    """The one answer for an item that is not there and for one that the caller may not know about."""
    return ItemNotFound(f"there is no item {item_id[:200]!r}", {"knowledge_item_id": item_id[:200]})
