"""MCP over streamable HTTP, at `/mcp`, with what its authorization specification asks of a resource server.

Every request is complete in itself: there are no sessions, so none can be left behind, hijacked or outlive its token. In
order: the Host and the Origin are ones that this server goes by (so that no page can reach it by rebinding a name), the
bearer token is valid, the method is POST, the body is whole and within limits, and the token has the scope that the call
needs. Only then does the SDK see the request.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import socket
from collections.abc import Callable, Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from mcp.server.context import ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from kbgit.access import Principal, Scope
from kbgit.assemble import Runtime
from kbgit.config import Settings
from kbgit.errors import Forbidden, KbgitError, Unauthenticated
from kbgit.mcp.calls import Agent, Calls
from kbgit.mcp.contract import contract
from kbgit.mcp.server import McpServer
from kbgit.mcp.tools import missing_scope
from kbgit.web import asgi
from kbgit.web.asgi import Message, Receive, Send, header, visit_of
from kbgit.web.auth import REALM, Authenticator, bearer_caller, refuse_misplaced_token
from kbgit.web.bodies import Bodies
from kbgit.web.errors import MethodNotAllowed

PATH = "/mcp"
METADATA = "/.well-known/oauth-protected-resource"
PROFILE_HEADER = "kbgit-profile"
SCOPES = (Scope.KNOWLEDGE_READ, Scope.MEMORY_READ, Scope.MEMORY_WRITE)
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_EVERY_ADDRESS = frozenset({"0.0.0.0", "::"})
_AGENT = "kbgit.agent"
_RESOURCE_METHODS = ("resources/", "completion/")

log = logging.getLogger("kbgit.web")


class Misdirected(KbgitError):
    """The request names a host that this server is not."""

    code = "misdirected"
    http_status = 421


class ForeignOrigin(KbgitError):
    """The request comes from a page that may not use this server."""

    code = "foreign_origin"
    http_status = 403


class McpHttp:
    """An ASGI application for `/mcp` and for the document about it; `serves` says which paths are its."""

    def __init__(self, runtime: Runtime) -> None:
        self._settings = runtime.home.settings
        self._accounts: Authenticator = runtime.accounts
        self._names = Names(self._settings)
        log.info("agents reach %s under the names %s", PATH, self._names)
        calls = Calls(self._settings, runtime.library, runtime.memory, runtime.recall)
        server = McpServer(self._settings, runtime.library, calls, _agent_of)
        self._protocol = _Running(
            lambda: StreamableHTTPSessionManager(server.protocol, json_response=True, stateless=True)
        )
        self._bodies = Bodies(self._with_body, self._settings.body_max_kb * 1024)

    @staticmethod
    def serves(path: str) -> bool:
        """Whether a request for `path` is answered here."""
        return path in (PATH, f"{PATH}/", METADATA, METADATA + PATH)

    async def __call__(self, scope: asgi.Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            self._names.check(scope)
            if scope["path"].startswith(METADATA):
                await self._describe(scope, send)
                return
            scope[_AGENT] = await asyncio.to_thread(self._sign_in, scope)
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
        lacking = lacking_scope(first.get("body", b""), scope[_AGENT])
        if lacking is not None:
            await self._refuse(scope, send, missing_scope(lacking))
            return
        waiting: list[Message] = [first]

        async def again() -> Message:
            return waiting.pop() if waiting else await receive()

        manager = await self._protocol.manager()
        await manager.handle_request(scope, again, send)

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
            self._task = asyncio.create_task(self._run(self._started))
        return await asyncio.shield(self._started)

    async def _run(self, started: asyncio.Future[StreamableHTTPSessionManager]) -> None:
        manager = self._make()
        async with manager.run():
            started.set_result(manager)
            await asyncio.Event().wait()


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


def _agent_of(context: ServerRequestContext[Any, Any]) -> Agent:
    """Who sent the HTTP request that the protocol's request came in; the client is what it calls itself, if it does."""
    request = context.request
    found = request.scope[_AGENT] if request is not None else None
    assert isinstance(found, Agent)
    told = context.session.client_params
    name = told.client_info.name.strip() if told is not None else ""
    return Agent(found.caller, found.profile, _printable(name) or found.client)


def _printable(name: str) -> str:
    return name[:100] if name.isprintable() else ""


def _cookies(scope: asgi.Scope) -> dict[str, str]:
    try:
        return {name: morsel.value for name, morsel in SimpleCookie(header(scope, b"cookie") or "").items()}
    except CookieError:
        return {}


class Names:
    """The names under which this server may be addressed, and the origins whose pages may address it.

    A browser that was tricked into taking this address for another name sends that name as Host: those that the settings do
    not give are refused. An address of digits cannot be rebound, so a server that listens on every address is also addressed
    by each of them.
    """

    def __init__(self, settings: Settings) -> None:
        self._public = settings.public_url.rstrip("/")
        names = set(_LOOPBACK)
        self._any_address = settings.host in _EVERY_ADDRESS
        if self._any_address:
            names.add(socket.gethostname().lower())
        else:
            names.add(settings.host.lower())
        self._origin_names = frozenset(names)
        public = urlsplit(self._public)
        self._public_origin = f"{public.scheme}://{public.netloc}".lower() if self._public else ""
        self._names = frozenset(names | ({public.hostname.lower()} if public.hostname else set()))

    def __str__(self) -> str:
        return ", ".join([*sorted(self._names), *(["any address"] if self._any_address else [])])

    def check(self, scope: asgi.Scope) -> None:
        """Raises `Misdirected` for a strange Host, `Forbidden` (without a scope) for a strange Origin."""
        host = header(scope, b"host")
        name = _host_name(host) if host is not None else None
        if name is None or not (name in self._names or (self._any_address and _is_address(name))):
            raise Misdirected(
                f"this server is not called {(host or '')[:100]!r}; the settings `host` and `public_url` name it"
            )
        origin = header(scope, b"origin")
        if origin is not None and not self._is_known_origin(origin):
            wrong = f"pages of {origin[:100]!r} may not use this server; the setting `public_url` names one that may"
            raise ForeignOrigin(wrong)

    def _is_known_origin(self, origin: str) -> bool:
        if self._public_origin and origin.lower() == self._public_origin:
            return True
        scheme, _, rest = origin.partition("://")
        return scheme in ("http", "https") and _host_name(rest) in self._origin_names

    def origin(self, scope: asgi.Scope) -> str:
        """How the caller reached this server, without a path: the setting public_url, else its (checked) Host."""
        if self._public:
            return self._public
        return f"{scope.get('scheme', 'http')}://{header(scope, b'host')}"


def _host_name(host: str) -> str | None:
    """The name in `name:port`, in lower case; None if it is not of that form."""
    try:
        parts = urlsplit(f"//{host}")
        parts.port  # noqa: B018 - raises for what is no port
    except ValueError:
        return None
    is_plain = parts.netloc == host and "@" not in host and not host.endswith(":")
    return parts.hostname if is_plain else None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
