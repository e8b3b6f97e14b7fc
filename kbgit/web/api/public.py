"""What anybody may ask."""

from __future__ import annotations

from flask import Blueprint, Response

from kbgit.access import HOME, Action, decide
from kbgit.errors import Forbidden
from kbgit.web.answers import answer, json_response
from kbgit.web.incoming import caller, caller_if_any, operating, parameters, runtime
from kbgit.web.metrics import CONTENT_TYPE
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
    """Whether the server is ready, and what is wrong where it answers all the same."""
    parameters()
    health = operating().health
    health.require_serving()
    return json_response(health.as_json())


@public.get("/metrics")
def show_metrics() -> Response:
    """Metrics, for administrators of the home unless a setting opens them to everybody.

    A request from this very machine is nobody in particular: behind a proxy, everybody's comes from there.
    """
    parameters()
    if not runtime().home.settings.metrics_public:
        decision = decide(caller(), Action.ADMINISTER_HOME, HOME)
        if not decision:
            raise Forbidden(f"you may not read the metrics: {decision.rule}", {"rule": decision.rule})
    return Response(operating().metrics.text(), content_type=CONTENT_TYPE)
