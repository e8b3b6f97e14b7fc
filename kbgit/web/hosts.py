"""Under which names this server may be addressed, and whose pages may address it: the answer to DNS rebinding.

A browser lets any page send requests to a local address, and a stranger's name may be pointed at one. What a browser cannot
be made to hide is the name it asked for (Host) and the page that asked (Origin).
"""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

from kbgit.config import Settings
from kbgit.errors import KbgitError
from kbgit.web import asgi
from kbgit.web.asgi import Application, Receive, Send, header
from kbgit.web.errors import ForeignOrigin, Misdirected

HEALTH = "/healthz"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_EVERY_ADDRESS = frozenset({"0.0.0.0", "::"})


class KnownHosts:
    """Wraps an ASGI application: only requests under this server's own names come through.

    `/healthz` answers under any: whoever watches a machine or a container asks by whatever address it has.
    """

    def __init__(self, application: Application, names: Names) -> None:
        self._application = application
        self._names = names

    async def __call__(self, scope: asgi.Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] == "http" and scope["path"] != HEALTH:
            try:
                self._names.check(scope)
            except KbgitError as error:
                await asgi.respond_refusal(scope, send, error)
                return
        await self._application(scope, receive, send)


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
        names |= {name.lower() for name in settings.allowed_hosts.replace(",", " ").split()}
        public = urlsplit(self._public)
        self._public_origin = f"{public.scheme}://{public.netloc}".lower() if self._public else ""
        self._public_name = public.hostname
        self._names = frozenset(names | ({public.hostname} if public.hostname else set()))

    def __str__(self) -> str:
        return ", ".join([*sorted(self._names), *(["any address"] if self._any_address else [])])

    def check(self, scope: asgi.Scope) -> None:
        """Raises `Misdirected` for a strange Host, `ForeignOrigin` for a strange Origin."""
        host = header(scope, b"host")
        name = _host_name(host) if host is not None else None
        if host is None or name is None or not (name in self._names or (self._any_address and _is_address(name))):
            raise Misdirected(
                f"this server is not called {(host or '')[:100]!r}; the settings `host`, `public_url` and "
                "`allowed_hosts` name it"
            )
        origin = header(scope, b"origin")
        if origin is not None and not self._is_known_origin(origin, host):
            wrong = f"pages of {origin[:100]!r} may not use this server; the setting `public_url` names one that may"
            raise ForeignOrigin(wrong)

    def _is_known_origin(self, origin: str, host: str) -> bool:
        if self._public_origin and origin.lower() == self._public_origin:
            return True
        scheme, _, rest = origin.partition("://")
        if scheme not in ("http", "https"):
            return False
        # A page of this very server, whose Host was found to be one of its names. Under its public name it has one origin.
        is_own = rest.lower() == host.lower() and _host_name(host) != self._public_name
        return is_own or _host_name(rest) in self._origin_names

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
