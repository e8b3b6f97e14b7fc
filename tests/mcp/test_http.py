"""MCP over HTTP: who gets in, under which names, and that nothing is left behind."""

from __future__ import annotations

import gzip
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp import Client as McpClient
from mcp_types import CallToolResult

from kbgit.access import Role, Scope
from kbgit.config import Settings
from kbgit.errors import KbgitError
from kbgit.mcp.contract import contract
from kbgit.web.errors import ForeignOrigin, Misdirected
from kbgit.web.hosts import Names
from tests.mcp.connecting import Served, asked, error_of, over_http
from tests.web.serving import Answer, Client

HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}
KNOWLEDGE_TOOLS = sorted(name for name, terms in contract().tools.items() if terms.reads == "knowledge")


def message(method: str, **params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def call(name: str, **arguments: object) -> bytes:
    return message("tools/call", name=name, arguments=arguments)


SEARCH = call("search_knowledge", query="rollback")


def post(url: str, token: str | None, body: bytes = SEARCH, **headers: str) -> Answer:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return Client(url, token).request("POST", "/mcp", body, {**HEADERS, **sent})


def challenge(answer: Answer) -> dict[str, str]:
    """The parts of a Bearer challenge."""
    scheme, _, rest = answer.headers["www-authenticate"].partition(" ")
    assert scheme == "Bearer"
    return {name: value.strip('"') for name, _, value in (part.partition("=") for part in rest.split(", "))}


def test_a_good_token_is_answered(served: Served) -> None:
    answer = post(served.url, served.token("ada", Scope.KNOWLEDGE_READ))
    assert answer.status == 200
    assert answer.json["result"]["structuredContent"]["results"]


def bad_tokens(served: Served) -> dict[str, str | None]:
    expired = served.accounts.add_token("ada", "x", tuple(Scope), "test", expires_at=int(time.time()) - 1)[1]
    revoked, text = served.accounts.add_token("ada", "x", tuple(Scope), "test")
    served.accounts.revoke_token(revoked.id, "test")
    return {
        "none": None,
        "nonsense": "nonsense",
        "expired": expired,
        "revoked": text,
        "forged": "kbgit_0123456789ab_" + "A" * 43,
    }


@pytest.mark.parametrize("kind", ["none", "nonsense", "expired", "revoked", "forged"])
def test_without_a_valid_token_nobody_gets_in_and_everybody_is_told_where_to_learn_more(
    served: Served, kind: str
) -> None:
    token = bad_tokens(served)[kind]
    answer = post(served.url, token)
    assert (answer.status, answer.error) == (401, "unauthenticated")
    parts = challenge(answer)
    assert parts["scope"] == "knowledge:read memory:read memory:write"
    assert parts.get("error") == (None if token is None else "invalid_token")
    document = Client(served.url).get(parts["resource_metadata"].removeprefix(served.url))
    assert document.status == 200
    assert document.json["resource"] == f"{served.url}/mcp"


@pytest.mark.parametrize("path", ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"])
def test_the_protected_resource_document_is_there_for_everybody(served: Served, path: str) -> None:
    assert Client(served.url).get(path).json == {
        "resource": f"{served.url}/mcp",
        "resource_name": "kbgit",
        "scopes_supported": ["knowledge:read", "memory:read", "memory:write"],
        "bearer_methods_supported": ["header"],
    }


@pytest.mark.parametrize(
    ("place", "headers"), [("/mcp?access_token={}", {}), ("/mcp?x={}", {}), ("/mcp", {"Cookie": "session={}"})]
)
def test_a_token_in_the_wrong_place_is_refused_even_beside_a_right_one(
    served: Served, place: str, headers: dict[str, str]
) -> None:
    token = served.token()
    misplaced = {name: value.format(token) for name, value in headers.items()}
    answer = Client(served.url, token).request("POST", place.format(token), SEARCH, HEADERS | misplaced)
    assert answer.status == 401


@pytest.mark.parametrize("name", sorted(contract().tools))
def test_a_token_without_the_scope_is_told_which_before_anything_is_done(served: Served, name: str) -> None:
    terms = contract().tools[name]
    others = [scope for scope in Scope if scope not in terms.scopes]
    answer = post(served.url, served.token("ada", *others), call(name, anything="whatever"))
    assert (answer.status, answer.error) == (403, "forbidden")
    parts = challenge(answer)
    assert (parts["error"], parts["scope"]) == ("insufficient_scope", terms.scopes[0])
    assert parts["resource_metadata"].endswith("/.well-known/oauth-protected-resource/mcp")


@pytest.mark.parametrize("name", KNOWLEDGE_TOOLS)
def test_what_a_profile_does_not_expose_is_unknown_and_not_a_question_of_scope(served: Served, name: str) -> None:
    token = served.token("ada", Scope.MEMORY_READ, profile="generic-public")
    never, hidden = (post(served.url, token, call(one)).json["error"] for one in ("never_was", name))
    assert hidden["message"].replace(name, "never_was") == never["message"]
    assert hidden["code"] == never["code"] == -32602


def test_resources_need_the_scope_too(served: Served) -> None:
    token = served.token("ada", Scope.MEMORY_READ)
    answer = post(served.url, token, message("resources/read", uri="knowledge:item_deploy"))
    assert (answer.status, challenge(answer)["scope"]) == (403, "knowledge:read")
    assert post(served.url, token, message("resources/list")).json["result"]["resources"] == []


def test_a_token_revoked_in_an_open_session_is_refused_with_the_next_request(served: Served) -> None:
    made, text = served.accounts.add_token("ada", "x", tuple(Scope), "test")

    async def ask(client: McpClient) -> CallToolResult | Exception:
        assert not (await client.call_tool("search_knowledge", {"query": "rollback"})).is_error
        served.accounts.revoke_token(made.id, "test")
        try:
            return await client.call_tool("search_knowledge", {"query": "rollback"})
        except Exception as error:  # noqa: BLE001 - whatever the SDK makes of a 401
            return error

    refused = asked(over_http(served.url, text), ask)
    assert isinstance(refused, Exception)
    assert post(served.url, text).status == 401


def test_a_member_who_leaves_sees_nothing_with_the_next_request(served: Served) -> None:
    served.accounts.add_user("guest", "test")
    served.accounts.set_member("team:platform", "guest", Role.VIEWER, "test")
    token = served.token("guest")
    assert post(served.url, token).json["result"]["structuredContent"]["results"]
    served.accounts.remove_member("team:platform", "guest", "test")
    assert not post(served.url, token).json["result"]["structuredContent"]["results"]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "a@127.0.0.1", "localhost:"]
)
def test_a_strange_host_is_refused_before_anything_else(served: Served, host: str) -> None:
    for path in ("/mcp", "/.well-known/oauth-protected-resource"):
        answer = Client(served.url, served.token()).request("POST", path, SEARCH, {**HEADERS, "Host": host})
        assert answer.status in (400, 421), answer.body
    assert post(served.url, None, Host=host).status in (400, 421)


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost.evil.example", "file://", "https://"]
)
def test_a_strange_page_is_refused(served: Served, origin: str) -> None:
    answer = post(served.url, served.token(), Origin=origin)
    assert (answer.status, answer.error) == (403, "foreign_origin")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:7420", "[::1]", "[::1]:7420", "LOCALHOST:1"])
def test_loopback_is_always_this_server(served: Served, host: str) -> None:
    assert post(served.url, served.token(), Host=host, Origin=f"http://{host}").status == 200


def verdict(settings: Settings, host: str, origin: str | None = None) -> type[KbgitError] | None:
    headers = [(b"host", host.encode())] + ([(b"origin", origin.encode())] if origin else [])
    try:
        Names(settings).check({"headers": headers})
    except KbgitError as error:
        return type(error)
    return None


def test_names_come_from_the_settings() -> None:
    settings = replace(Settings(), host="10.0.0.7", public_url="https://kb.example.org")
    for host in ("10.0.0.7:7420", "kb.example.org", "KB.example.org:443", "localhost:7420"):
        assert verdict(settings, host) is None
    for host in ("10.0.0.8", "example.org", "kb.example.org.evil"):
        assert verdict(settings, host) is Misdirected
    assert verdict(settings, "kb.example.org", "https://kb.example.org") is None
    for origin in ("http://kb.example.org", "https://kb.example.org:8443", "https://other.example.org"):
        assert verdict(settings, "kb.example.org", origin) is ForeignOrigin


def test_a_server_on_every_address_is_called_by_each_but_by_no_strange_name() -> None:
    settings = replace(Settings(), host="0.0.0.0")
    for host in ("192.168.1.4:7420", "[fe80::1]:7420", os.uname().nodename):
        assert verdict(settings, host) is None
    assert verdict(settings, "evil.example") is Misdirected
    assert verdict(settings, "192.168.1.4", "http://192.0.2.66") is ForeignOrigin


def test_the_document_names_the_public_address() -> None:
    names = Names(replace(Settings(), public_url="https://kb.example.org/"))
    assert names.origin({"headers": [(b"host", b"127.0.0.1")]}) == "https://kb.example.org"


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "OPTIONS"])
def test_there_are_no_sessions_to_listen_to_or_to_end(served: Served, method: str) -> None:
    answer = Client(served.url, served.token()).request(method, "/mcp", headers={"Accept": "text/event-stream"})
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert Client(served.url).request(method, "/mcp").status == 401


def test_no_session_is_given(served: Served) -> None:
    body = message(
        "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "x", "version": "1"}
    )
    answer = post(served.url, served.token(), body)
    assert answer.status == 200
    assert "mcp-session-id" not in answer.headers


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"nonsense", 400),
        (b"[" * 50_000, 400),
        (b"[]", 400),
        (b'{"jsonrpc": "2.0"}', 400),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": []}', 400),
        (b"\xff\xfe", 400),
        (b" " * (3 << 20), 413),
        (b'{"jsonrpc": "2.0", "method": "notifications/initialized"}', 202),
    ],
)
def test_what_is_no_request_is_refused(served: Served, body: bytes, status: int) -> None:
    assert post(served.url, served.token(), body).status == status


def test_limits_hold_after_decompression(served: Served) -> None:
    bomb = gzip.compress(b" " * (8 << 20))
    assert post(served.url, served.token(), bomb, Content_Encoding="gzip").status == 413
    assert post(served.url, served.token(), gzip.compress(SEARCH), Content_Encoding="gzip").status == 200


def test_an_unknown_profile_is_said_to_be_one(served: Served) -> None:
    answer = post(served.url, served.token(), Kbgit_Profile="anything")
    assert (answer.status, answer.error) == (400, "invalid_request")
    assert answer.json["error"]["details"]["known"] == sorted(contract().profiles)


def resident() -> int:
    """This process's memory, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_refused_requests_leave_nothing_behind(served: Served) -> None:
    scopeless = served.token("ada", Scope.ITEM_WRITE)
    attempts: list[Any] = [
        lambda: post(served.url, None),
        lambda: post(served.url, "nonsense"),
        lambda: post(served.url, scopeless),
        lambda: post(served.url, served.token(), b"nonsense"),
        lambda: post(served.url, served.token(), Host="evil.example"),
        lambda: post(served.url, served.token(), Origin="https://evil.example"),
        lambda: post(served.url, served.token(), call("never_was")),
    ]

    def refuse(times: int) -> None:
        for number in range(times):
            answer = attempts[number % len(attempts)]()
            assert answer.status >= 400 or "error" in answer.json

    refuse(300)
    before = resident()
    refuse(1_000)
    assert resident() - before < 4 << 20


def test_knowledge_that_is_switched_off_leaves_memory_on(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    off = replace(served.runtime.home.settings, knowledge_enabled=False)
    monkeypatch.setattr(served.runtime.library, "_settings", off)

    async def ask(client: McpClient) -> None:
        for name, arguments in (
            ("search_knowledge", {"query": "x"}),
            ("read_knowledge", {"item_id": "item_deploy"}),
            ("verify_citations", {"citations": ["x"]}),
            ("knowledge_changes", {"since_time": "2026-11-30T12:00:00Z"}),
            ("knowledge_history", {"item_id": "item_deploy"}),
        ):
            error = error_of(await client.call_tool(name, arguments))
            assert error["code"] == "knowledge_runtime_disabled"
            assert "recall_context" in error["way_out"]
        recalled = await client.call_tool("recall_context", {"query": "x"})
        assert recalled.structured_content["sources"]["memory"]["asked"] is True

    asked(over_http(served.url, served.token()), ask)
