"""MCP over streamable HTTP, at `/mcp`, with what its authorization specification asks of a resource server.

Every request is complete in itself: there are no sessions, so none can be left behind, hijacked or outlive its token. In
order: the Host and the Origin are ones that this server goes by (`hosts` has seen to that before), the bearer token is
valid, the method is POST, the body is whole and within limits, and the token has the scope that the call needs. Only then
does the SDK see the request, in `kbgit.web.mcp_protocol`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from kbgit.access import Principal, Scope
from kbgit.assemble import Runtime
from kbgit.errors import Forbidden, KbgitError, Unauthenticated
from kbgit.mcp.calls import Agent, Calls
from kbgit.mcp.contract import contract, scope_refusal
from kbgit.web import asgi
from kbgit.web.asgi import AGENT, Message, Receive, Send, header, visit_of
from kbgit.web.auth import REALM, Authenticator, bearer_caller, refuse_misplaced_token
from kbgit.web.bodies import Bodies
from kbgit.web.errors import MethodNotAllowed
from kbgit.web.hosts import Names

if TYPE_CHECKING:
    from kbgit.web.mcp_protocol import Protocol

PATH = "/mcp"
METADATA = "/.well-known/oauth-protected-resource"
PROFILE_HEADER = "kbgit-profile"
SCOPES = (Scope.KNOWLEDGE_READ, Scope.MEMORY_READ, Scope.MEMORY_WRITE)
_RESOURCE_METHODS = ("resources/", "completion/")

log = logging.getLogger("kbgit.web")


class McpHttp:
    """An ASGI application for `/mcp` and for the document about it; `serves` says which paths are its."""

    def __init__(self, runtime: Runtime) -> None:
        self._settings = runtime.home.settings
        self._accounts: Authenticator = runtime.accounts
        self._names = Names(self._settings)
        self._library = runtime.library
        self._calls = Calls(self._settings, runtime.library, runtime.memory, runtime.recall)
        self._protocol: Protocol | None = None
        self._bodies = Bodies(self._with_body, self._settings.body_max_kb * 1024)

    @staticmethod
    def serves(path: str) -> bool:
        """Whether a request for `path` is answered here."""
        return path in (PATH, f"{PATH}/", METADATA, METADATA + PATH)

    async def __call__(self, scope: asgi.Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        visit_of(scope).route = METADATA if scope["path"].startswith(METADATA) else PATH
        try:
            if scope["path"].startswith(METADATA):
                await self._describe(scope, send)
                return
            scope[AGENT] = await asyncio.to_thread(self._sign_in, scope)
            if scope["method"] != "POST":
                # There is nothing that the server would tell by itself (GET), and no session to end (DELETE).
                raise MethodNotAllowed("this address answers POST", {"allowed": ["POST"]})
        except KbgitError as error:
            await self._refuse(scope, send, error)
            return
        await self._bodies(scope, receive, send)

    async def _with_body(self, scope: asgi.Scope, receive: Receive, send: Send) -> None:
        """The request, whose body is whole: `receive` gives it in one piece."""
        first = await receive()
        lacking = lacking_scope(first.get("body", b""), scope[AGENT])
        if lacking is not None:
            await self._refuse(scope, send, scope_refusal(lacking))
            return
        waiting: list[Message] = [first]

        async def again() -> Message:
            return waiting.pop() if waiting else await receive()

        if self._protocol is None:
            protocol = await asyncio.to_thread(_protocol)
            self._protocol = self._protocol or protocol(self._settings, self._library, self._calls)
        await self._protocol(scope, again, send)

    # Who

    def _sign_in(self, scope: asgi.Scope) -> Agent:
        parameters = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        refuse_misplaced_token(parameters, _cookies(scope))
        caller = bearer_caller(self._accounts, header(scope, b"authorization"))
        visit_of(scope).user = caller.user
        asked = header(scope, PROFILE_HEADER.encode())
        profile = contract().profile_of(caller, asked)
        return Agent(caller, profile, client=caller.profile or asked or "")

    # What the authorization specification asks for

    async def _describe(self, scope: asgi.Scope, send: Send) -> None:
        """The protected-resource document of RFC 9728. Tokens come from an operator, so there is no authorization server."""
        if scope["method"] != "GET":
            raise MethodNotAllowed("this address answers GET", {"allowed": ["GET"]})
        document = {
            "resource": self._names.origin(scope) + PATH,
            "resource_name": "kbgit",
            "scopes_supported": [scope.value for scope in SCOPES],
            "bearer_methods_supported": ["header"],
        }
        await asgi.respond(send, 200, asgi.encoded(document), "application/json")

    async def _refuse(self, scope: asgi.Scope, send: Send, error: KbgitError) -> None:
        headers = []
        if isinstance(error, Unauthenticated | Forbidden):
            challenge = self._challenge(scope, error)
            headers.append((b"www-authenticate", challenge.encode("ascii", "replace")))
        if isinstance(error, MethodNotAllowed):
            headers.append((b"allow", ", ".join(error.details["allowed"]).encode()))
        await asgi.respond_error(send, error, headers)

    def _challenge(self, scope: asgi.Scope, error: KbgitError) -> str:
        """RFC 6750, section 3: without a token there is nothing to say but where to learn more."""
        parts = [f'realm="{REALM}"']
        if isinstance(error, Forbidden):
            parts.append('error="insufficient_scope"')
            scopes = [str(error.details["scope"])]
        else:
            scopes = [scope.value for scope in SCOPES]
            if header(scope, b"authorization") is not None:
                parts.append('error="invalid_token"')
        parts.append(f'scope="{" ".join(scopes)}"')
        parts.append(f'resource_metadata="{self._names.origin(scope)}{METADATA}{PATH}"')
        return "Bearer " + ", ".join(parts)


def _protocol() -> type[Protocol]:
    """The SDK's part. It is loaded with the first request, which it makes a second longer, and not with each server."""
    from kbgit.web.mcp_protocol import Protocol

    return Protocol


def lacking_scope(body: bytes, agent: Agent) -> Scope | None:
    """The scope without which this request must fail, if the token lacks one. What is not exposed is left to be unknown."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return None  # the SDK says what is wrong with it
    if not isinstance(message, Mapping):
        return None
    method, params = message.get("method"), message.get("params")
    if method == "tools/call" and isinstance(params, Mapping):
        name = params.get("name")
        terms = contract().tools.get(name) if isinstance(name, str) and name in agent.profile.tools else None
        return terms.missing_scope(agent.caller) if terms else None
    is_resource = isinstance(method, str) and method.startswith(_RESOURCE_METHODS)
    if is_resource and agent.profile.reads_knowledge and not _has(agent.caller, Scope.KNOWLEDGE_READ):
        return None if method in ("resources/list", "resources/templates/list") else Scope.KNOWLEDGE_READ
    return None


def _has(caller: Principal, scope: Scope) -> bool:
    return caller.operator or scope in caller.scopes


def _cookies(scope: asgi.Scope) -> dict[str, str]:
    try:
        return {name: morsel.value for name, morsel in SimpleCookie(header(scope, b"cookie") or "").items()}
    except CookieError:
        return {}
