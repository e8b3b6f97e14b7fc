"""The little of ASGI that kbgit's own layers share: types, one request's notes, and whole answers."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from kbgit.errors import KbgitError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

VISIT = "kbgit.visit"


@dataclass
class Visit:
    """What is noted of one request while it is answered. `user` is filled in by whoever authenticates the caller."""

    request_id: str = ""
    user: str = ""


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
    await respond(send, error.http_status, encoded(error.as_json()), "application/json", headers)
