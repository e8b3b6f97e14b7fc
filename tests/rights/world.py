"""Somebody in every role, with every set of scopes, and bases of every kind: who asks for what in the tests of rights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from urllib.parse import quote

from kbgit.access import Principal, Role, Scope, Target
from kbgit.assemble import Runtime
from kbgit.base import BaseKey, BaseStatus
from kbgit.importing import BaseOptions
from kbgit.item import ItemStatus
from kbgit.library import Draft
from kbgit.revision import Via

NOWHERE = "0" * 40
ROLES = {"olivia": Role.OWNER, "adam": Role.ADMIN, "mia": Role.MEMBER, "victor": Role.VIEWER, "sam": None, "root": None}
"""Users, and their roles in the team `crew`; sam owns another team, root administers the home."""
MATTERING = (Scope.KNOWLEDGE_READ, Scope.ITEM_WRITE, Scope.BASE_ADMIN)
SCOPE_SETS = [frozenset(chosen) for size in range(4) for chosen in combinations(MATTERING, size)]
KEYS = {
    BaseKey("team:crew", "active"): BaseStatus.ACTIVE,
    BaseKey("team:crew", "archived"): BaseStatus.ARCHIVED,
    BaseKey("personal:olivia", "notes"): BaseStatus.ACTIVE,
    BaseKey("personal:olivia", "attic"): BaseStatus.ARCHIVED,
}


@dataclass(frozen=True)
class Place:
    """A base with a published item and a draft, whose ids are `<slug>-page` and `<slug>-draft`."""

    key: BaseKey
    status: BaseStatus
    page: str
    draft: str

    @property
    def target(self) -> Target:
        return Target(self.key.space, str(self.key))

    def fill(self, text: str) -> str:
        space, _, slug = str(self.key.relative_path).partition("/")
        cite = quote(f"knowledge:{slug}-page@{self.page}")
        words = {"space": space, "slug": slug, "key": self.key.space, "item": f"{slug}-page", "page": self.page}
        for name, value in {**words, "cite": cite, "zero": NOWHERE}.items():
            text = text.replace(f"{{{name}}}", value)
        return text


@dataclass(frozen=True)
class World:
    """A home with people in every role, each with a token for every set of scopes."""

    runtime: Runtime
    places: list[Place]
    tokens: dict[str, str]

    def callers(self) -> Iterator[tuple[str, str, Principal]]:
        """(a name that says who, token, principal)."""
        for name, text in self.tokens.items():
            yield name, text, self.runtime.accounts.authenticate(text)

    def place(self, slug: str) -> Place:
        return next(place for place in self.places if place.key.slug == slug)


def made(runtime: Runtime, key: BaseKey, status: BaseStatus) -> Place:
    """A new base of the home, with a published item and a draft."""
    operator = Principal("olivia", operator=True)
    runtime.bases.create(key, operator, BaseOptions(name=key.slug))
    shas = []
    for name, state in (("page", ItemStatus.PUBLISHED), ("draft", ItemStatus.DRAFT)):
        item = f"{key.slug}-{name}"
        draft = Draft(title=item, content=f"heron {item}\n", status=state)
        written = runtime.writing.create(str(key), operator, draft, locator=f"{name}.md", item_id=item, via=Via.API)
        assert written.citation is not None
        shas.append(str(written.citation.revision))
    runtime.bases.set_status(str(key), operator, status, Via.API)
    return Place(key, status, *shas)
