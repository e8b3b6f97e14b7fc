"""The OpenAPI 3.1 description of the JSON interface. Tests hold every route and real answers to it."""

from __future__ import annotations

from kbgit import __version__
from kbgit import errors as e
from kbgit.web import errors as h
from kbgit.web.health import Reason
from kbgit.web.openapi import agents, bases, documents, files, items, knowledge, people
from kbgit.web.openapi.operations import SIGNED_IN, operation
from kbgit.web.openapi.shapes import ANYTHING, TEXT, TRUTH, Json, closed, described, listed, nullable, ref, words

__all__ = ["DOCUMENT", "SCHEMAS"]

_PUBLIC_SCHEMAS: Json = {
    "Error": closed(
        {
            "error": closed(
                {
                    "code": {"type": "string", "description": "Stable; programs may match on it."},
                    "message": {"type": "string", "description": "For people; names the way out where there is one."},
                    "details": ANYTHING,
                }
            )
        }
    ),
    "Status": closed(
        {
            "type": {"const": "status"},
            "version": TEXT,
            "fresh": TRUTH,
            "embedder": TEXT,
            "embedding_problem": nullable(TEXT),
            "bases": listed(ref("Base")),
        }
    ),
    "Health": closed(
        {"status": {"enum": ["ok", "degraded"]}},
        {"reasons": described(listed(words(Reason)), "What is wrong, where the server is degraded.")},
    ),
    "Metrics": TEXT,
    "OpenApi": ANYTHING,
}
SCHEMAS: Json = {
    **_PUBLIC_SCHEMAS,
    **knowledge.SCHEMAS,
    **items.SCHEMAS,
    **files.SCHEMAS,
    **documents.SCHEMAS,
    **bases.SCHEMAS,
    **people.SCHEMAS,
    **agents.SCHEMAS,
}

_PUBLIC: Json = {
    "/api/v1/status": {
        "get": {
            **operation(
                "showStatus",
                "How things stand, in the bases that the caller (if there is one) may see.",
                "Status",
                errors=(e.Unauthenticated,),
                callers=(),
            ),
            "security": [{"token": []}, {}],
        }
    },
    "/api/v1/openapi.json": {"get": operation("showOpenApi", "This description.", "OpenApi", callers=())},
    "/healthz": {
        "get": operation(
            "showHealth",
            "Whether the server is ready, or degraded and why.",
            "Health",
            errors=(h.Starting,),
            callers=(),
        )
    },
    "/metrics": {
        "get": operation(
            "showMetrics",
            "Metrics, for administrators of the home, in the form of Prometheus.",
            "Metrics",
            callers=SIGNED_IN,
            content_type="text/plain",
        )
    },
}


def _merged(*parts: Json) -> Json:
    """The operations of every path, from whichever part they come."""
    found: Json = {}
    for part in parts:
        for path, operations in part.items():
            found[path] = {**found.get(path, {}), **operations}
    return found


DOCUMENT: Json = {
    "openapi": "3.1.0",
    "info": {
        "title": "kbgit",
        "version": __version__,
        "description": "A team's knowledge in Git, answered with exact citations.",
        "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    },
    "security": [{"token": []}],
    "paths": _merged(
        knowledge.PATHS, items.PATHS, files.PATHS, documents.PATHS, bases.PATHS, people.PATHS, agents.PATHS, _PUBLIC
    ),
    "components": {
        "securitySchemes": {
            "token": {"type": "http", "scheme": "bearer", "description": "A kbgit token, in the Authorization header."}
        },
        "schemas": SCHEMAS,
    },
}
