"""The SDK's part of MCP over HTTP: it reads requests that `kbgit.web.mcp_http` has let through, and answers them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from kbgit.config import Settings
from kbgit.library import Library
from kbgit.mcp.calls import Agent, Calls
from kbgit.mcp.server import McpServer
from kbgit.web.asgi import AGENT, Receive, Scope, Send


class Protocol:
    """An ASGI application for requests whose scope names their agent. Each is complete in itself."""

    def __init__(self, settings: Settings, library: Library, calls: Calls) -> None:
        server = McpServer(settings, library, calls, _agent_of)
        self._running = _Running(
            lambda: StreamableHTTPSessionManager(server.protocol, json_response=True, stateless=True)
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        manager = await self._running.manager()
        await manager.handle_request(scope, receive, send)


class _Running:
    """The SDK's session manager, which must be run by its host: a task of the event loop that serves does so, from the first
    request on and until that loop ends and cancels it."""

    def __init__(self, make: Callable[[], StreamableHTTPSessionManager]) -> None:
        self._make = make
        self._task: asyncio.Task[None] | None = None
        self._started: asyncio.Future[StreamableHTTPSessionManager] | None = None

    async def manager(self) -> StreamableHTTPSessionManager:
        """The manager, running."""
        if self._started is None or self._task is None or self._task.done():
            self._started = asyncio.get_running_loop().create_future()
            # In a context of its own: this task serves every request, not only the one that happens to be the first.
            self._task = asyncio.create_task(self._run(self._started), context=Context())
        return await asyncio.shield(self._started)

    async def _run(self, started: asyncio.Future[StreamableHTTPSessionManager]) -> None:
        manager = self._make()
        async with manager.run():
            started.set_result(manager)
            await asyncio.Event().wait()


def _agent_of(context: ServerRequestContext[Any, Any]) -> Agent:
    """Who sent the HTTP request that the protocol's request came in; the client is what it calls itself, if it does."""
    request = context.request
    found = request.scope[AGENT] if request is not None else None
    assert isinstance(found, Agent)
    told = context.session.client_params
    name = told.client_info.name.strip() if told is not None else ""
    return Agent(found.caller, found.profile, _printable(name) or found.client)


def _printable(name: str) -> str:
    return name[:100] if name.isprintable() else ""
