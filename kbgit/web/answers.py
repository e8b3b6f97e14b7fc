"""Answers of the JSON interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from flask import Response

from kbgit.web.asgi import encoded


class Answer(Protocol):
    """What the library answers with."""

    def as_json(self) -> Mapping[str, Any]:
        """JSON-ready."""
        ...


def json_response(payload: object, status: int = 200) -> Response:
    """A JSON answer."""
    return Response(encoded(payload), status, content_type="application/json")


def answer(found: Answer, status: int = 200) -> Response:
    """What the library answered, as it is."""
    return json_response(found.as_json(), status)
