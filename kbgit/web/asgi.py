"""The little of ASGI that kbgit's own layers share: types, one request's notes, and whole answers."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from kbgit.errors import KbgitError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

VISIT = "kbgit.visit"
AGENT = "kbgit.agent"
"""Where a request's scope says which agent it came from, once that is known."""


@dataclass
class Visit:
    """What is noted of one request while it is answered.

    `user` is filled in by whoever authenticates the caller, `route` (the template, never the address) by whoever routes,
    `refusal` (an error's code) by whoever refuses. `client` is the address that the request came from, `caller` whom the
    limits count it for.
    """

    request_id: str = ""
    user: str = ""
    client: str = ""
    caller: str = ""
    route: str = ""
    refusal: str = ""


CURRENT: ContextVar[Visit | None] = ContextVar("kbgit.visit", default=None)
"""The request that is being answered, in its tasks and in the threads that work for it; None elsewhere."""


def visit_of(scope: Mapping[str, Any]) -> Visit:
    """The notes of a request; empty ones for a request that did not come through the edge."""
    found = scope.get(VISIT)
    return found if isinstance(found, Visit) else Visit()


def header(scope: Mapping[str, Any], name: bytes) -> str | None:
    """A request header by its lower-case name; the values of a repeated one are joined by commas."""
    values: list[bytes] = [value for key, value in scope["headers"] if key == name]
    return b", ".join(values).decode("latin-1") if values else None


def encoded(payload: object) -> bytes:
    """JSON in UTF-8. A lone surrogate, which UTF-8 cannot hold, becomes its JSON escape."""
    # Within a JSON text "backslashreplace" writes exactly the escape that JSON has for it.
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode(
        "utf-8", "backslashreplace"
    )


async def respond(
    send: Send, status: int, body: bytes, content_type: str, headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """Send a whole answer."""
    start = [
        (b"content-type", content_type.encode("latin-1")),
        (b"content-length", str(len(body)).encode()),
        *headers,
    ]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def respond_error(send: Send, error: KbgitError, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
    """Send an error in its JSON form."""
    note_refusal(error)
    await respond(send, error.http_status, encoded(error.as_json()), "application/json", headers)


async def respond_refusal(
    scope: Scope, send: Send, error: KbgitError, headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """Send an error in the form that the address's clients show: plain text to Git, JSON to everybody else."""
    if not scope["path"].startswith("/git/"):
        await respond_error(send, error, headers)
        return
    note_refusal(error)
    text = f"kbgit: {error.message} ({error.code})\n"
    await respond(send, error.http_status, text.encode("utf-8", "replace"), "text/plain; charset=utf-8", headers)


def note_refusal(error: KbgitError) -> None:
    """Note that the request at hand is answered with this error."""
    visit = CURRENT.get()
    if visit is not None:
        visit.refusal = error.code
