"""The contract: which tools there are, which client profile exposes which, and the scopes that suffice for each.

It is one JSON file beside this module, read by code, tests and documentation. What it does not expose does not exist for a
client: it is not listed, and calling it is answered like calling a tool that was never there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType

from kbgit.access import Principal, Scope
from kbgit.errors import Forbidden, InvalidRequest

FILE = "mcp-documentation-contract.json"


@dataclass(frozen=True, slots=True)
class ToolTerms:
    """What the contract says of a tool. Any one of `scopes` suffices to call it."""

    name: str
    title: str
    summary: str
    reads: str
    scopes: tuple[Scope, ...]
    writes: bool
    destructive: bool
    idempotent: bool

    def missing_scope(self, caller: Principal) -> Scope | None:
        """The scope that `caller` lacks; None where they may call the tool."""
        if caller.operator or not caller.scopes.isdisjoint(self.scopes):
            return None
        return self.scopes[0]


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of client, and the tools it sees."""

    name: str
    summary: str
    tools: frozenset[str]

    @property
    def reads_knowledge(self) -> bool:
        """Whether clients of this profile may be answered from knowledge."""
        return "search_knowledge" in self.tools

    def within(self, other: Profile) -> Profile:
        """This profile, but nothing that `other` does not expose."""
        return Profile(self.name, self.summary, self.tools & other.tools)


@dataclass(frozen=True, slots=True)
class Contract:
    """The whole file."""

    default_profile: str
    profiles: Mapping[str, Profile]
    tools: Mapping[str, ToolTerms]

    def profile(self, name: str | None) -> Profile:
        """A profile by its name; None means the default one. Raises `InvalidRequest` for a name that is not there."""
        found = self.profiles.get(self.default_profile if name is None else name)
        if found is None:
            known = sorted(self.profiles)
            raise InvalidRequest(
                f"no client profile is called {str(name)[:100]!r}", {"field": "profile", "known": known}
            )
        return found

    def profile_of(self, caller: Principal, asked: str | None = None) -> Profile:
        """What `caller` is exposed to: their token's profile, and of it only what the profile `asked` for exposes too.

        A token of a profile that is not in the contract (any more) is exposed to nothing. Raises `InvalidRequest` for an
        unknown `asked`.
        """
        own = self.profiles.get(self.default_profile if caller.profile is None else caller.profile)
        if own is None:
            own = Profile(str(caller.profile), "", frozenset())
        return own if asked is None else self.profile(asked).within(own)


def parse_contract(text: str) -> Contract:
    """Read the contract's JSON."""
    told = json.loads(text)
    tools = {
        name: ToolTerms(
            name=name,
            title=row["title"],
            summary=row["summary"],
            reads=row["reads"],
            scopes=tuple(Scope(scope) for scope in row["scopes"]),
            writes=row["writes"],
            destructive=row["destructive"],
            idempotent=row["idempotent"],
        )
        for name, row in told["tools"].items()
    }
    profiles = {name: Profile(name, row["summary"], frozenset(row["tools"])) for name, row in told["profiles"].items()}
    return Contract(told["default_profile"], MappingProxyType(profiles), MappingProxyType(tools))


@cache
def contract() -> Contract:
    """The contract as shipped."""
    return parse_contract((resources.files("kbgit.mcp") / FILE).read_text("utf-8"))


def scope_refusal(scope: str) -> Forbidden:
    """The token may not do this at all."""
    rule = f"the token lacks the scope {scope}"
    return Forbidden(f"{rule}; ask for a token that has it", {"rule": rule, "scope": scope})
