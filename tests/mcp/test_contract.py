"""The contract is one file: code, tests and documentation say what it says."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest

from kbgit.access import Principal, Scope
from kbgit.cli.connect import CLIENTS
from kbgit.errors import InvalidRequest
from kbgit.mcp.contract import FILE, contract, parse_contract

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "agents.md").read_text("utf-8")
TEXT = (resources.files("kbgit.mcp") / FILE).read_text("utf-8")


def table(name: str) -> list[str]:
    """The rows of the page's table of that name."""
    after = PAGE.split(f"<!-- {name}: from kbgit/mcp/{FILE} -->\n", 1)[1]
    return after.split("\n\n", 1)[0].splitlines()[2:]


def code(words: object) -> str:
    assert isinstance(words, list | tuple)
    return ", ".join(f"`{word}`" for word in words)


def test_the_page_lists_the_tools_of_the_contract() -> None:
    assert table("tools") == [
        f"| `{tool.name}` | {code(tool.scopes)} | {'yes' if tool.writes else 'no'} | {tool.summary} |"
        for tool in contract().tools.values()
    ]


def test_the_page_lists_the_profiles_of_the_contract() -> None:
    assert table("profiles") == [
        f"| `{one.name}` | {one.summary} | {code([name for name in contract().tools if name in one.tools])} |"
        for one in contract().profiles.values()
    ]


def test_the_page_shows_every_client_that_can_be_connected() -> None:
    assert set(re.findall(r"kbgit connect ([a-z-]+)", PAGE)) == set(CLIENTS)


def test_a_token_without_a_profile_has_the_default_one() -> None:
    assert contract().profile_of(Principal("ada")).name == contract().default_profile == "ordinary-full"


def test_a_profile_of_a_token_is_never_widened() -> None:
    public = Principal("ada", profile="generic-public")
    assert contract().profile_of(public, "ordinary-full").tools == contract().profiles["generic-public"].tools
    assert contract().profile_of(Principal("ada"), "generic-public").tools == contract().profile_of(public).tools
    assert not contract().profile_of(Principal("ada", profile="gone"), "ordinary-full").tools
    with pytest.raises(InvalidRequest, match="anything"):
        contract().profile_of(public, "anything")


@pytest.mark.parametrize("name", sorted(contract().tools))
def test_any_one_of_its_scopes_suffices_for_a_tool(name: str) -> None:
    terms = contract().tools[name]
    for scope in Scope:
        caller = Principal("ada", scopes=frozenset({scope}))
        assert terms.missing_scope(caller) == (None if scope in terms.scopes else terms.scopes[0])
    assert terms.missing_scope(Principal("ada", scopes=frozenset(), operator=True)) is None


def test_a_tool_that_writes_is_not_called_read_only_and_one_that_destroys_writes() -> None:
    for terms in parse_contract(TEXT).tools.values():
        assert terms.writes or not terms.destructive
        assert terms.writes or all(str(scope).endswith(":read") for scope in terms.scopes)
