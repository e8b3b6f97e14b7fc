"""The home, opened by `kbgit mcp` while no server runs. Importing this brings the libraries of index, models and protocol."""

from __future__ import annotations

from typing import Any

from mcp.server.context import ServerRequestContext

from kbgit.access import Principal
from kbgit.assemble import Runtime, open_runtime
from kbgit.cli.homes import owner_of
from kbgit.home import Home
from kbgit.mcp.calls import Agent, Calls
from kbgit.mcp.contract import contract
from kbgit.mcp.server import McpServer
from kbgit.mcp.stdio import serve_stdio
from kbgit.web.log import log_to_standard_error


class OpenedHome:
    """An opened home for one agent: the holder of `token`, or the home's owner. `close` lets others open it."""

    def __init__(self, runtime: Runtime, token: str | None, profile: str | None) -> None:
        self._runtime = runtime
        self._token = token
        self._profile = profile
        self._owner = owner_of(runtime.home, runtime.accounts) if token is None else ""
        self._caller()  # a token that is not valid is said at once, not with the first request

    def close(self) -> None:
        """Release everything."""
        self._runtime.stop()

    def serve(self) -> None:
        """Serve until the client goes, or until told to stop."""
        runtime = self._runtime
        calls = Calls(runtime.home.settings, runtime.library, runtime.memory, runtime.recall)
        server = McpServer(runtime.home.settings, runtime.library, calls, self._agent)
        runtime.start()
        serve_stdio(server.protocol)

    def _caller(self) -> Principal:
        """Looked up for every request, so that a revoked token is no credential for the next."""
        accounts = self._runtime.accounts
        return accounts.principal(self._owner) if self._token is None else accounts.authenticate(self._token)

    def _agent(self, context: ServerRequestContext[Any, Any]) -> Agent:
        caller = self._caller()
        told = context.session.client_params
        name = told.client_info.name.strip()[:100] if told is not None else ""
        client = name if name.isprintable() and name else (caller.profile or self._profile or "")
        return Agent(caller, contract().profile_of(caller, self._profile), client)


def open_home(home: Home, api_key: str | None, token: str | None, profile: str | None) -> OpenedHome:
    """Open a home. Raises `HomeLocked` while another process owns its index, `Unauthenticated`."""
    log_to_standard_error(home.settings.log_level)
    runtime = open_runtime(home, api_key=api_key)
    try:
        return OpenedHome(runtime, token, profile)
    except BaseException:
        runtime.stop()
        raise
