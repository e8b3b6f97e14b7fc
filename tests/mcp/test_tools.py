"""Every tool, in every profile, over both transports and both eras of the protocol; driven by the SDK's own client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult

from kbgit.access import Scope
from kbgit.home import Home
from kbgit.mcp.contract import contract
from kbgit.mcp.schemas import INPUTS, OUTPUTS
from kbgit.mcp.tools import DESCRIPTIONS
from tests.mcp.connecting import LEGACY, MODERN, Served, asked, error_of, outcome, over_http, over_pipes, text_of

PROFILES = sorted(contract().profiles)
NOWHERE = "knowledge:nowhere@" + "0" * 40


def valid_arguments(head: str) -> dict[str, dict[str, Any]]:
    """For each tool, a call that works (`forget` needs a record and is told of one that is not there)."""
    return {
        "search_knowledge": {"query": "rollback"},
        "read_knowledge": {"item_id": "item_deploy"},
        "knowledge_history": {"item_id": "item_deploy"},
        "verify_citations": {"citations": [f"knowledge:item_deploy@{head}#L3-L3", NOWHERE]},
        "knowledge_changes": {"since_commit": head},
        "recall_context": {"query": "rollback"},
        "remember": {"text": "Rollbacks are announced.", "project": "harbour"},
        "forget": {"id": "mem_" + "0" * 24},
    }


async def drive(client: Client, profile: str, head: str) -> None:
    """What is exposed is listed and answers; what is not is neither listed nor told from what never was."""
    exposed = contract().profiles[profile].tools
    assert {tool.name for tool in (await client.list_tools()).tools} == exposed
    never = await outcome(client, "never_was", {})
    assert isinstance(never, MCPError)
    for name, arguments in valid_arguments(head).items():
        result = await outcome(client, name, arguments)
        if name not in exposed:
            assert isinstance(result, MCPError)
            assert (result.code, result.message.replace(name, "never_was")) == (never.code, never.message)
            continue
        assert isinstance(result, CallToolResult)
        if name == "forget":
            assert error_of(result)["code"] == "not_found"
        else:
            assert not result.is_error, text_of(result)
            Draft202012Validator(OUTPUTS[name]).validate(result.structured_content)


@pytest.mark.parametrize("mode", [LEGACY, MODERN, "auto"])
@pytest.mark.parametrize("profile", PROFILES)
def test_every_tool_of_a_profile_answers_over_http(served: Served, profile: str, mode: str) -> None:
    token = served.token("ada", profile=profile)
    asked(over_http(served.url, token, mode), lambda client: drive(client, profile, served.heads[0]))


@pytest.mark.parametrize("profile", PROFILES)
def test_every_tool_of_a_profile_answers_over_pipes(home: Home, served: Served, profile: str) -> None:
    mode = MODERN if profile == "cursor-plugin" else LEGACY
    connected = over_pipes("--home", str(home.path), "--profile", profile, mode=mode)
    asked(connected, lambda client: drive(client, profile, served.heads[0]))


@pytest.mark.parametrize("mode", [LEGACY, MODERN])
@pytest.mark.parametrize("profile", PROFILES)
def test_every_tool_of_a_profile_answers_through_pipes_to_a_server(served: Served, profile: str, mode: str) -> None:
    environment = {"KBGIT_TOKEN": served.token("ada"), "KBGIT_SERVER": served.url}
    connected = over_pipes("--profile", profile, environment=environment, mode=mode)
    asked(connected, lambda client: drive(client, profile, served.heads[0]))


def test_the_contract_names_the_tools_there_are() -> None:
    names = set(contract().tools)
    assert names == set(INPUTS) == set(OUTPUTS) == set(DESCRIPTIONS)
    for profile in contract().profiles.values():
        assert profile.tools <= names
    knowledge = {name for name, terms in contract().tools.items() if terms.reads == "knowledge"}
    for name in ("cursor-plugin", "ordinary-full"):
        assert knowledge <= contract().profiles[name].tools
    for name in ("chatgpt-public", "generic-public"):
        assert not knowledge & contract().profiles[name].tools


@pytest.mark.parametrize("name", sorted(INPUTS))
def test_schemas_are_ones_that_models_take(name: str) -> None:
    for schema in (INPUTS[name], OUTPUTS[name]):
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert not {"oneOf", "anyOf", "allOf"} & set(schema)
    assert INPUTS[name]["additionalProperties"] is False
    for field, schema in INPUTS[name]["properties"].items():
        assert schema["description"], field


def test_tools_say_what_they_do_to_the_world(served: Served) -> None:
    listed = asked(over_http(served.url, served.token()), lambda client: client.list_tools())
    for tool in listed.tools:
        terms, hints = contract().tools[tool.name], tool.annotations
        assert hints is not None
        assert (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint) == (
            not terms.writes,
            terms.destructive,
            terms.idempotent,
            False,
        )


def test_only_tools_that_the_token_may_call_are_listed(served: Served) -> None:
    expected = {
        (Scope.KNOWLEDGE_READ,): {name for name, terms in contract().tools.items() if terms.reads == "knowledge"}
        | {"recall_context"},
        (Scope.MEMORY_READ,): {"recall_context"},
        (Scope.MEMORY_WRITE,): {"remember", "forget"},
        (Scope.ITEM_WRITE,): set(),
    }
    for scopes, names in expected.items():
        listed = asked(over_http(served.url, served.token("ada", *scopes)), lambda client: client.list_tools())
        assert {tool.name for tool in listed.tools} == names


def test_a_client_may_ask_for_less_than_its_token_exposes_but_not_for_more(served: Served) -> None:
    full, public = served.token("ada"), served.token("ada", profile="generic-public")

    def listed(token: str, profile: str) -> set[str]:
        connected = over_http(served.url, token, **{"Kbgit-Profile": profile})
        return {tool.name for tool in asked(connected, lambda client: client.list_tools()).tools}

    assert listed(full, "generic-public") == contract().profiles["generic-public"].tools
    assert listed(public, "ordinary-full") == contract().profiles["generic-public"].tools


def test_a_token_of_a_profile_that_is_not_in_the_contract_exposes_nothing(served: Served) -> None:
    token = served.token("ada", profile="of-yesterday")
    assert not asked(over_http(served.url, token), lambda client: client.list_tools()).tools


@pytest.mark.parametrize(
    ("name", "arguments", "code", "field"),
    [
        ("search_knowledge", {}, "invalid_request", "query"),
        ("search_knowledge", {"query": 5}, "invalid_request", "query"),
        ("search_knowledge", {"query": "x", "limit": 51}, "invalid_request", "limit"),
        ("search_knowledge", {"query": "x", "limit": True}, "invalid_request", "limit"),
        ("search_knowledge", {"query": "x", "qurey": 1}, "invalid_request", "qurey"),
        ("search_knowledge", {"query": "x" * 10_000}, "invalid_request", "query"),
        ("search_knowledge", {"query": "x", "mode": "best"}, "invalid_request", "mode"),
        ("search_knowledge", {"query": "x", "bases": ["a"] * 101}, "invalid_request", "bases"),
        ("search_knowledge", {"query": "x", "bases": [["a"]]}, "invalid_request", "bases"),
        ("search_knowledge", {"query": "x", "bases": ["nowhere"]}, "base_not_found", None),
        ("read_knowledge", {}, "invalid_request", "citation"),
        ("read_knowledge", {"citation": "knowledge:item_deploy@abc"}, "invalid_citation", None),
        ("read_knowledge", {"citation": NOWHERE}, "item_not_found", None),
        ("read_knowledge", {"item_id": "item_deploy", "revision": "HEAD"}, "invalid_request", "revision"),
        ("read_knowledge", {"item_id": "item_deploy", "revision": "0" * 40}, "revision_not_found", None),
        ("read_knowledge", {"item_id": "item_deploy", "lines": [9, 3]}, "invalid_request", "lines"),
        ("read_knowledge", {"item_id": "item_deploy", "lines": [99, 100]}, "invalid_request", "lines"),
        ("read_knowledge", {"item_id": "item_deploy", "lines": [1]}, "invalid_request", "lines"),
        ("verify_citations", {"citations": []}, "invalid_request", "citations"),
        ("verify_citations", {"citations": ["x"] * 1001}, "invalid_request", "citations"),
        ("verify_citations", {"citations": ["x"], "quote_hashes": {"x": "md5"}}, "invalid_request", "quote_hashes"),
        ("knowledge_changes", {}, "invalid_request", None),
        ("knowledge_changes", {"since_time": "yesterday"}, "invalid_request", "since_time"),
        ("knowledge_changes", {"since_time": "2026-11-30T12:00:00"}, "invalid_request", "since_time"),
        ("knowledge_changes", {"since_commit": "0" * 40}, "revision_not_found", None),
        ("knowledge_history", {"item_id": "nowhere"}, "item_not_found", None),
        ("recall_context", {"query": "x", "token_budget": 0}, "invalid_request", "token_budget"),
        ("recall_context", {"query": "x", "space": "team:other"}, "space_not_found", None),
        ("remember", {"text": " ", "project": "harbour"}, "invalid_request", "text"),
        ("remember", {"text": "x" * 100_000, "project": "harbour"}, "too_large", None),
        ("remember", {"text": "x", "project": "../x"}, "invalid_name", None),
        ("remember", {"text": "x", "project": "p", "space": "personal:olga"}, "space_not_found", None),
        ("forget", {"id": "mem_" + "0" * 24}, "not_found", None),
    ],
)
def test_a_bad_call_is_answered_with_what_to_mend(
    served: Served, name: str, arguments: dict[str, Any], code: str, field: str | None
) -> None:
    result = asked(over_http(served.url, served.token()), lambda client: client.call_tool(name, arguments))
    error = error_of(result)
    assert error["code"] == code
    assert text_of(result).startswith(f"{code}: ")
    if field is not None:
        assert error["details"]["field"] == field


def test_half_a_character_is_no_trouble(served: Served) -> None:
    async def ask(client: Client) -> CallToolResult:
        return await client.call_tool("search_knowledge", {"query": "rollback \ufffd"})

    assert not asked(over_http(served.url, served.token()), ask).is_error


def test_pages_of_a_search_follow_each_other(served: Served) -> None:
    async def ask(client: Client) -> list[str]:
        found: list[str] = []
        offset: int | None = 0
        while offset is not None:
            page = await client.call_tool(
                "search_knowledge", {"query": "deploy line mind the gap instructions", "limit": 1, "offset": offset}
            )
            found += [one["knowledge_item_id"] for one in page.structured_content["results"]]
            offset = page.structured_content["next_offset"]
            assert (offset is None) == ("There is more" not in text_of(page))
        return found

    found = asked(over_http(served.url, served.token()), ask)
    assert len(found) == len(set(found)) > 2


def test_a_long_item_is_read_part_by_part(served: Served) -> None:
    whole = served.runtime.library.read("runbooks/long", served.accounts.principal("ada")).content

    async def ask(client: Client) -> list[str]:
        parts: list[str] = []
        lines: list[int] | None = None
        while True:
            asking: dict[str, Any] = {"item_id": "runbooks/long"} | ({"lines": lines} if lines else {})
            part = (await client.call_tool("read_knowledge", asking)).structured_content
            assert len(part["content"]) <= 60_000
            parts.append(part["content"])
            lines = part["next_lines"]
            if lines is None:
                return parts

    parts = asked(over_http(served.url, served.token()), ask)
    assert len(parts) > 1
    assert "\n".join(parts) == whole.rstrip("\n")


def test_a_citation_with_lines_is_read_as_it_was(served: Served) -> None:
    async def ask(client: Client) -> list[CallToolResult]:
        pinned = served.cite("item_deploy", 0, "#L3-L3")
        return [
            await client.call_tool("read_knowledge", {"citation": pinned}),
            await client.call_tool("read_knowledge", {"citation": pinned, "lines": [1, 1]}),
            await client.call_tool("read_knowledge", {"citation": "knowledge:item_deploy"}),
        ]

    old, other, new = asked(over_http(served.url, served.token()), ask)
    assert old.structured_content["content"] == "Deploy with `kubectl rollout`."
    assert old.structured_content["is_current"] is False
    assert "NOT the current revision" in text_of(old)
    assert other.structured_content["content"] == "# Deploy"
    assert new.structured_content["knowledge_revision_id"] == served.heads[1]


def test_citations_are_verified_and_what_changed_is_told(served: Served) -> None:
    pinned = served.cite("item_deploy", 0, "#L3-L3")

    async def ask(client: Client) -> tuple[CallToolResult, CallToolResult]:
        return (
            await client.call_tool("verify_citations", {"citations": [pinned, "knowledge:diary@" + "1" * 40]}),
            await client.call_tool("knowledge_changes", {"since_citations": [pinned]}),
        )

    verdicts, changes = asked(over_http(served.url, served.token("max")), ask)
    moved, unknown = verdicts.structured_content["verdicts"]
    assert (moved["state"], moved["current"]) == ("moved", served.cite("item_deploy", 1, "#L5-L5"))
    assert unknown["state"] == "unknown"
    assert [one["knowledge_item_id"] for one in changes.structured_content["changes"]] == ["item_deploy"]


def test_nobody_finds_what_they_may_not_see(served: Served) -> None:
    async def ask(client: Client) -> str:
        answers = [
            await client.call_tool("search_knowledge", {"query": "diary rollback Secret plans", "limit": 50}),
            await client.call_tool("read_knowledge", {"item_id": "diary"}),
            await client.call_tool("read_knowledge", {"item_id": "runbooks/draft"}),
        ]
        return "\n".join(text_of(one) + str(one.structured_content) for one in answers)

    told = asked(over_http(served.url, served.token("olga")), ask)
    for secret in ("Nobody else", "Secret plans", "personal:ada", "platform"):
        assert secret not in told


def test_memory_is_kept_recalled_and_forgotten(served: Served) -> None:
    async def ask(client: Client) -> None:
        record = {"text": "Ask the harbour before Friday.", "project": "flow", "title": "Fridays", "tags": ["deploy"]}
        kept = (await client.call_tool("remember", record)).structured_content
        found = await client.call_tool("recall_context", {"query": "harbour on Friday", "project": "flow"})
        recalled = found.structured_content["memory"]
        assert [one["id"] for one in recalled] == [kept["id"]]
        assert (recalled[0]["author"], recalled[0]["client"]) == ("max", "cursor-plugin")
        assert found.structured_content["sources"]["knowledge"]["asked"] is True
        assert (await client.call_tool("forget", {"id": kept["id"]})).structured_content["id"] == kept["id"]
        again = await client.call_tool("recall_context", {"query": "harbour on Friday", "project": "flow"})
        assert again.structured_content["memory"] == []

    asked(over_http(served.url, served.token("max", profile="cursor-plugin")), ask)


def test_recall_says_why_it_did_not_look_in_knowledge(served: Served) -> None:
    async def why(client: Client, **more: object) -> str:
        found = await client.call_tool("recall_context", {"query": "rollback", **more})
        report = found.structured_content["sources"]["knowledge"]
        assert report["asked"] is False
        assert found.structured_content["knowledge"] == []
        return str(report["why_not"])

    def ask(token: str, **more: object) -> str:
        return asked(over_http(served.url, token), lambda client: why(client, **more))

    assert "profile" in ask(served.token(profile="chatgpt-public"))
    assert "knowledge:read" in ask(served.token("ada", Scope.MEMORY_READ))
    assert "did not ask" in ask(served.token(), include_knowledge=False)


def test_a_record_says_through_which_client_it_came(served: Served, tmp_path: Path) -> None:
    async def ask(client: Client) -> str:
        kept = (await client.call_tool("remember", {"text": "x", "project": "clients"})).structured_content
        return str(kept["client"])

    assert asked(over_http(served.url, served.token(), MODERN), ask) == "mcp"  # the SDK's client calls itself so
