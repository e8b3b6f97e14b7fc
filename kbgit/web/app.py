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
from kbgit.web.auth import BEARER_CHALLENGE
from kbgit.web.edge import internal_error
from kbgit.web.errors import MethodNotAllowed
from kbgit.web.incoming import EXTENSION, visit

log = logging.getLogger("kbgit.web")


def create_app(runtime: Runtime) -> Flask:
    """A WSGI application over an opened home. It expects whole bodies (see `bodies`) and a request id (see `edge`)."""
    app = Flask("kbgit.web", static_folder=None)
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
    app.url_map.merge_slashes = False  # an item's id is taken as it is written
    app.extensions[EXTENSION] = runtime
    for blueprint in BLUEPRINTS:
        app.register_blueprint(blueprint)
    app.register_error_handler(KbgitError, _known_error)
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(Exception, _unexpected_error)
    return app


def _known_error(error: KbgitError) -> Response:
    if type(error).http_status >= 500:
        log.warning("%s: %s", error.code, error.message, extra={"request_id": visit().request_id})
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
        return _known_error(NotFound("there is nothing at this address; /api/v1/openapi.json lists what there is"))
    if isinstance(error, WrongMethod):
        allowed = sorted(error.valid_methods or ())
        return _known_error(MethodNotAllowed(f"this address answers {', '.join(allowed)}", {"allowed": allowed}))
    code = re.sub(r"\W+", "_", error.name.lower())
    body = {"error": {"code": code, "message": error.description or error.name, "details": {}}}
    return json_response(body, error.code or 500)


def _unexpected_error(error: Exception) -> Response:
    request_id = visit().request_id
    log.error("unexpected failure", exc_info=error, extra={"request_id": request_id})
    return answer(internal_error(request_id), 500)
