"""The SDK's own client, connected over HTTP and over pipes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import anyio
import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent

from kbgit.access import Scope
from kbgit.accounts import Accounts
from kbgit.assemble import Runtime

MODERN = "2026-07-28"
LEGACY = "legacy"
_T = TypeVar("_T")


@dataclass
class Served:
    """A running server. ada owns the platform team, max is a member, olga is in no team."""

    url: str
    runtime: Runtime
    heads: tuple[str, str]
    tokens: dict[tuple[object, ...], str] = field(default_factory=dict)

    @property
    def accounts(self) -> Accounts:
        return self.runtime.accounts

    def token(self, user: str = "ada", *scopes: Scope, profile: str | None = None) -> str:
        """A token with these scopes (none: all of them)."""
        key = (user, scopes, profile)
        if key not in self.tokens:
            made = self.accounts.add_token(user, "test", scopes or tuple(Scope), "test", profile=profile)
            self.tokens[key] = made[1]
        return self.tokens[key]

    def cite(self, item_id: str, number: int = -1, lines: str = "") -> str:
        return f"knowledge:{item_id}@{self.heads[number]}{lines}"


Connect = Callable[[], Any]


@asynccontextmanager
async def over_http(url: str, token: str, mode: str = LEGACY, **headers: str) -> AsyncIterator[Client]:
    sent = {"Authorization": f"Bearer {token}", **headers}
    async with (
        httpx2.AsyncClient(headers=sent, timeout=30) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


@asynccontextmanager
async def over_pipes(
    *arguments: str, environment: dict[str, str] | None = None, mode: str = LEGACY, log: Path | None = None
) -> AsyncIterator[Client]:
    """`kbgit mcp` with these arguments, as a process of its own."""
    variables = {"PATH": os.environ["PATH"], **(environment or {})}
    program = StdioServerParameters(
        command=sys.executable,
        args=["-m", "kbgit.cli", "mcp", *arguments],
        env=variables,
        cwd=Path(__file__).parents[2],
    )
    with open(log or os.devnull, "w") as errors:
        async with Client(stdio_client(program, errlog=errors), mode=mode) as client:
            yield client


def asked(connected: Any, ask: Callable[[Client], Awaitable[_T]]) -> _T:  # noqa: ANN401 - an async context of a client
    """Connect, ask, disconnect."""

    async def run() -> _T:
        async with connected as client:
            return await ask(client)

    return anyio.run(run)


def text_of(result: CallToolResult) -> str:
    found = result.content[0]
    assert isinstance(found, TextContent)
    return found.text


def error_of(result: CallToolResult) -> dict[str, Any]:
    assert result.is_error
    found = result.structured_content["error"]
    assert isinstance(found, dict)
    return found


async def outcome(client: Client, name: str, arguments: dict[str, Any]) -> CallToolResult | MCPError:
    """The result of a call, or the error of the protocol."""
    try:
        return await client.call_tool(name, arguments)
    except MCPError as error:
        return error


def lines_of(output: bytes) -> list[dict[str, Any]]:
    """Standard output of a stdio server: every line of it is JSON-RPC."""
    found = [json.loads(line) for line in output.splitlines()]
    assert all(one["jsonrpc"] == "2.0" for one in found)
    return found
