"""Reading what a request brings: its caller, its parameters, its JSON. Strictly: what is not understood is refused."""

from __future__ import annotations

import json
from typing import Any

from flask import current_app, request

from kbgit.access import Principal
from kbgit.assemble import Runtime
from kbgit.base import BaseKey
from kbgit.errors import InvalidRequest
from kbgit.store.repository import is_sha
from kbgit.web.asgi import Visit, visit_of
from kbgit.web.auth import bearer_caller, refuse_misplaced_token
from kbgit.web.errors import UnsupportedMediaType
from kbgit.web.operating import Operating
from kbgit.web.session_cookie import SAFE_METHODS, require_own_page, visitor

EXTENSION = "kbgit"
OPERATING = "kbgit.operating"


def runtime() -> Runtime:
    """What the application serves."""
    found = current_app.extensions[EXTENSION]
    assert isinstance(found, Runtime)
    return found


def operating() -> Operating:
    """The health and the metrics of the server that answers."""
    found = current_app.extensions[OPERATING]
    assert isinstance(found, Operating)
    return found


def visit() -> Visit:
    """The notes of this request."""
    return visit_of(request.environ.get("asgi.scope", {}))


def caller() -> Principal:
    """Who sent the bearer token of this request, or whose browser's session it carries.

    Raises `Unauthenticated`, and `CrossSiteRequest` for a change that came with a session but from none of our own pages.
    """
    refuse_misplaced_token(dict(request.args.lists()), request.cookies)
    signed_in = visitor(runtime(), request.cookies) if "Authorization" not in request.headers else None
    if signed_in is not None:
        if request.method not in SAFE_METHODS:
            require_own_page(signed_in, request.headers)
        found = signed_in.principal
    else:
        found = bearer_caller(runtime().accounts, request.headers.get("Authorization"))
    visit().user = found.user
    return found


def caller_if_any() -> Principal | None:
    """The same, or None for a request with neither an Authorization header nor a session."""
    refuse_misplaced_token(dict(request.args.lists()), request.cookies)
    is_somebody = "Authorization" in request.headers or visitor(runtime(), request.cookies) is not None
    return caller() if is_somebody else None


def parameters(*known: str, required: tuple[str, ...] = ()) -> dict[str, str]:
    """The query string. Raises `InvalidRequest` for a parameter that is unknown, repeated, or required and missing.

    A misspelt `revision` must not silently answer with the current one.
    """
    allowed = sorted((*known, *required))
    found: dict[str, str] = {}
    for name, values in request.args.lists():
        if name not in allowed:
            raise InvalidRequest(f"unknown parameter {name[:100]!r}", {"parameter": name[:100], "known": allowed})
        if len(values) != 1:
            raise InvalidRequest(f"parameter `{name}` is given {len(values)} times", {"parameter": name})
        found[name] = values[0]
    for name in required:
        if not found.get(name):
            raise InvalidRequest(f"parameter `{name}` is missing", {"parameter": name})
    return found


def whole_number(name: str, text: str | None, default: int) -> int:
    """A parameter that is a whole number, not negative. Raises `InvalidRequest`; the range is the library's to judge."""
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise InvalidRequest(f"parameter `{name}` must be a whole number", {"parameter": name})
    return int(text)


def truth(name: str, text: str | None, default: bool) -> bool:
    """A parameter that is true or false. Raises `InvalidRequest`."""
    if text is None:
        return default
    if text not in ("true", "false"):
        raise InvalidRequest(f"parameter `{name}` must be true or false", {"parameter": name})
    return text == "true"


def commit(name: str, text: str | None) -> str | None:
    """A parameter that is a full commit SHA. Raises `InvalidRequest`."""
    if text is not None and not is_sha(text):
        raise InvalidRequest(f"parameter `{name}` must be a full, lower-case commit SHA", {"parameter": name})
    return text


def base_key(space: str, slug: str) -> str:
    """A base's key from an address: the space as in Git's addresses (`platform`, `~ada`) or in full (`team:platform`).

    Raises `InvalidName`.
    """
    return str(BaseKey(space, slug) if ":" in space else BaseKey.from_path(space, f"{slug}.git"))


def space_key(space: str) -> str:
    """A space's key from an address, written as for `base_key`. Raises `InvalidName`."""
    return BaseKey.parse(base_key(space, "any")).space


def json_body() -> Any:  # noqa: ANN401 - JSON is anything; readers check it
    """The request's JSON. Raises `UnsupportedMediaType`, `InvalidRequest`."""
    if request.mimetype != "application/json":
        raise UnsupportedMediaType(
            "send the body as `Content-Type: application/json`", {"content_type": request.mimetype[:100]}
        )
    try:
        return json.loads(
            request.get_data().decode("utf-8"), parse_constant=_no_number, object_pairs_hook=_without_twins
        )
    except RecursionError:
        raise InvalidRequest("the body is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise InvalidRequest(
            f"the body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}",
            {"line": error.lineno, "column": error.colno},
        ) from None
    except UnicodeDecodeError:
        raise InvalidRequest("the body is not in UTF-8") from None
    except ValueError:  # a number of more digits than Python converts
        raise InvalidRequest("the body holds a number that is too long") from None


def _no_number(word: str) -> None:
    raise InvalidRequest(f"{word} is not JSON")


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twin = next(name for name in names if names.count(name) > 1)
        raise InvalidRequest(f"field {twin[:100]!r} is given twice", {"field": twin[:100]})
    return found
