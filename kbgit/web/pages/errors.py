"""What went wrong, as a page: the same codes and words as in the JSON interface, in the layout of every other page."""

from __future__ import annotations

from flask import Response, render_template, request
from werkzeug.exceptions import HTTPException

from kbgit.errors import InvalidRequest, KbgitError, TooLarge
from kbgit.web.errors import MethodNotAllowed
from kbgit.web.pages.access import PREFIX, as_page

_PROGRAMS = ("/api/", "/healthz", "/metrics")
_TITLES = {
    400: "That could not be understood",
    401: "Sign in first",
    403: "Not allowed",
    404: "Nothing here",
    405: "Not like this",
    409: "That does not fit any more",
    410: "Removed",
    413: "Too large",
    422: "Not accepted",
    503: "Not available now",
    504: "It took too long",
}


def wants_page() -> bool:
    """Whether whoever asks reads HTML: at the address of a page, or in a browser where there is nothing."""
    if request.path.startswith(_PROGRAMS):
        return False
    return (request.blueprint or "").startswith(PREFIX) or "text/html" in request.headers.get("Accept", "")


def error_page(error: KbgitError | HTTPException, status: int) -> Response:
    """A page about a failure."""
    if isinstance(error, HTTPException):
        kind = TooLarge if status == 413 else InvalidRequest if status < 500 else KbgitError
        error = kind(error.description or error.name)
    shown = render_template(
        "error.html", error=error, status=status, heading=_TITLES.get(status, "Something went wrong")
    )
    response = as_page(Response(shown, status, content_type="text/html; charset=utf-8"))
    if isinstance(error, MethodNotAllowed):
        response.headers["Allow"] = ", ".join(error.details["allowed"])
    return response
