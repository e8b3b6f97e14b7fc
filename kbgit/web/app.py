"""The Flask application: blueprints, and the one shape in which every failure leaves."""

from __future__ import annotations

import logging
import re

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException
from werkzeug.exceptions import MethodNotAllowed as WrongMethod
from werkzeug.exceptions import NotFound as NoRoute
from werkzeug.routing import RequestRedirect

from kbgit.assemble import Runtime
from kbgit.errors import Forbidden, KbgitError, NotFound, Unauthenticated
from kbgit.web.answers import answer, json_response
from kbgit.web.api import BLUEPRINTS
from kbgit.web.asgi import note_refusal
from kbgit.web.auth import BEARER_CHALLENGE
from kbgit.web.edge import internal_error
from kbgit.web.errors import MethodNotAllowed
from kbgit.web.incoming import EXTENSION, OPERATING, visit
from kbgit.web.operating import Operating
from kbgit.web.pages import PAGES, error_page, prepare, wants_page

log = logging.getLogger("kbgit.web")


def create_app(runtime: Runtime, operating: Operating | None = None) -> Flask:
    """A WSGI application over an opened home. It expects whole bodies (see `bodies`) and a request id (see `edge`).

    `operating` is what it tells of its server's health and metrics.
    """
    app = Flask("kbgit.web", static_folder=None)
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
    app.url_map.merge_slashes = False  # an item's id is taken as it is written
    app.extensions[EXTENSION] = runtime
    app.extensions[OPERATING] = operating or Operating.of(runtime)
    app.before_request(_note_route)
    app.config["MAX_FORM_MEMORY_SIZE"] = runtime.home.settings.body_max_kb * 1024  # which `bodies` holds them to
    prepare(app)
    for blueprint in (*BLUEPRINTS, *PAGES):
        app.register_blueprint(blueprint)
    app.register_error_handler(KbgitError, _known_error)
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(Exception, _unexpected_error)
    return app


def _note_route() -> None:
    """The template of the address, for the log and the metrics: an address itself would be one of any number."""
    if request.url_rule is not None:
        visit().route = request.url_rule.rule


def _known_error(error: KbgitError) -> Response:
    note_refusal(error)
    if type(error).http_status >= 500:
        log.warning("%s: %s", error.code, error.message, extra={"request_id": visit().request_id})
    if wants_page():
        return error_page(error, error.http_status)
    response = answer(error, error.http_status)
    # RFC 6750, section 3: what was wrong with the token that came, and nothing where none did.
    if isinstance(error, Unauthenticated):
        problem = ', error="invalid_token"' if "Authorization" in request.headers else ""
        response.headers["WWW-Authenticate"] = BEARER_CHALLENGE + problem
    if isinstance(error, Forbidden) and "scope" in error.details:
        scope = error.details["scope"]
        response.headers["WWW-Authenticate"] = f'{BEARER_CHALLENGE}, error="insufficient_scope", scope="{scope}"'
    if isinstance(error, MethodNotAllowed):
        response.headers["Allow"] = ", ".join(error.details["allowed"])
    return response


def _http_error(error: HTTPException) -> Response:
    """Flask's own refusals, in our shape."""
    if isinstance(error, RequestRedirect):
        return _known_error(NotFound("there is nothing at this address"))
    if isinstance(error, NoRoute):
        more = "" if wants_page() else "; /api/v1/openapi.json lists what there is"
        return _known_error(NotFound(f"there is nothing at this address{more}"))
    if isinstance(error, WrongMethod):
        allowed = sorted(error.valid_methods or ())
        return _known_error(MethodNotAllowed(f"this address answers {', '.join(allowed)}", {"allowed": allowed}))
    code = re.sub(r"\W+", "_", error.name.lower())
    if wants_page():
        return error_page(error, error.code or 500)
    body = {"error": {"code": code, "message": error.description or error.name, "details": {}}}
    return json_response(body, error.code or 500)


def _unexpected_error(error: Exception) -> Response:
    request_id = visit().request_id
    log.error("unexpected failure", exc_info=error, extra={"request_id": request_id})
    failure = internal_error(request_id)
    note_refusal(failure)
    return error_page(failure, 500) if wants_page() else answer(failure, 500)
