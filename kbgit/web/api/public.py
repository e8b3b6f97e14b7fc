"""What anybody may ask."""

from __future__ import annotations

from flask import Blueprint, Response

from kbgit.web.answers import answer, json_response
from kbgit.web.incoming import caller_if_any, parameters, runtime
from kbgit.web.openapi import DOCUMENT

public = Blueprint("public", __name__)


@public.get("/api/v1/status")
def show_status() -> Response:
    """How things stand, as far as the caller (if any) may know."""
    parameters()
    return answer(runtime().library.status(caller_if_any()))


@public.get("/api/v1/openapi.json")
def show_openapi() -> Response:
    """The description of this interface."""
    parameters()
    return json_response(DOCUMENT)


@public.get("/healthz")
def show_health() -> Response:
    """That the server answers."""
    parameters()
    return json_response({"status": "ok"})
