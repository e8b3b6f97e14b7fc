"""The outermost layer: every request gets an id, a line in the access log, and an answer, whatever happens inside.

The access log holds neither query strings nor headers: what people search for and the tokens they carry stay out of it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import secrets
import time
from typing import Protocol

from kbgit.errors import KbgitError
from kbgit.web.asgi import CURRENT, VISIT, Application, Message, Receive, Scope, Send, Visit, header, respond_error
from kbgit.web.errors import Stopping

access_log = logging.getLogger("kbgit.access")
log = logging.getLogger("kbgit.web")

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")
_LONGEST_PATH_LOGGED = 500
# Defaults, for answers that are read by programs. A page states its own policy.
_SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
)


class Watch(Protocol):
    """Is told of every request that was answered: `Metrics`."""

    def request(self, method: str, route: str, status: int, refusal: str, seconds: float) -> None:
        """A request; `route` is empty where nothing was routed, `status` 0 where no answer was sent."""
        ...


class Edge:
    """Wraps an ASGI application. `trusted_proxy` is the address of a proxy whose word is taken for who its clients are."""

    def __init__(self, application: Application, watch: Watch | None = None, trusted_proxy: str = "") -> None:
        self._application = application
        self._watch = watch
        self._trusted_proxy = trusted_proxy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        visit = Visit(request_id=_request_id(scope), client=client_address(scope, self._trusted_proxy))
        scope[VISIT] = visit
        CURRENT.set(visit)  # server and tests run every request in a task, hence a context, of its own
        started = time.perf_counter()
        status = 0
        sent_bytes = 0
        finished = False

        async def watched_send(message: Message) -> None:
            nonlocal status, sent_bytes, finished
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": _completed(message.get("headers", ()), visit.request_id)}
            elif message["type"] == "http.response.body":
                sent_bytes += len(message.get("body", b""))
                finished = not message.get("more_body", False)
            await send(message)

        try:
            await self._application(scope, receive, watched_send)
        except asyncio.CancelledError:
            # Only a stopping server does this, and nothing comes after: the request ends here, with an answer if possible.
            log.warning("stopped before the answer was complete", extra={"request_id": visit.request_id})
            if status == 0:
                await respond_error(watched_send, Stopping("the server is stopping; try again when it is back"))
        except Exception:  # the last place where a failure can become an answer and a line in the log
            log.exception("unexpected failure", extra={"request_id": visit.request_id})
            if status == 0:
                await respond_error(watched_send, internal_error(visit.request_id))
        finally:
            seconds = time.perf_counter() - started
            if self._watch is not None:
                self._watch.request(scope["method"], visit.route, status, visit.refusal, seconds)
            access_log.info(
                "request",
                extra={
                    "request_id": visit.request_id,
                    "method": scope["method"],
                    "path": scope["path"][:_LONGEST_PATH_LOGGED],
                    "status": status,
                    "finished": finished,
                    "bytes": sent_bytes,
                    "ms": round(seconds * 1000, 2),
                    "user": visit.user,
                    "client": visit.client,
                },
            )


def internal_error(request_id: str) -> KbgitError:
    """What a caller learns of an unexpected failure: nothing but where to find it in the log."""
    return KbgitError("something went wrong inside kbgit; its log has the details", {"request_id": request_id})


def _request_id(scope: Scope) -> str:
    """The caller's `X-Request-Id`, so that a proxy's log and this one can be read together, or a new one."""
    given = header(scope, b"x-request-id")
    return given if given and _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)


def client_address(scope: Scope, trusted_proxy: str = "") -> str:
    """Where a request came from; "" if that is not known.

    A request by the trusted proxy came from whoever that proxy names last in X-Forwarded-For: what stands before it is the
    client's own claim.
    """
    peer = str((scope.get("client") or ("",))[0])
    if not trusted_proxy or peer != trusted_proxy:
        return peer
    named = (header(scope, b"x-forwarded-for") or "").rpartition(",")[2].strip()
    try:
        return str(ipaddress.ip_address(named))
    except ValueError:
        return peer


def _completed(headers: object, request_id: str) -> list[tuple[bytes, bytes]]:
    assert isinstance(headers, list | tuple)
    names = {name.lower() for name, _ in headers}
    return [
        *headers,
        (b"x-request-id", request_id.encode()),
        *(row for row in _SECURITY_HEADERS if row[0] not in names),
    ]
