"""A client that holds every answer to the OpenAPI document."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from kbgit.web.openapi import DOCUMENT
from tests.web.serving import Answer, Client

_REGISTRY: Registry[Any] = Registry().with_resource("urn:openapi", DRAFT202012.create_resource(DOCUMENT))
_GREEDY = "item_id"


def validator(schema: Mapping[str, Any]) -> Any:  # noqa: ANN401 - jsonschema has no types
    """A validator of a schema of the document, whose references lead into the document."""
    absolute = _absolute(schema)
    assert isinstance(absolute, dict)
    return Draft202012Validator(absolute, registry=_REGISTRY, format_checker=FormatChecker())


def _absolute(schema: object) -> object:
    if isinstance(schema, Mapping):
        return {key: f"urn:openapi{value}" if key == "$ref" else _absolute(value) for key, value in schema.items()}
    return [_absolute(one) for one in schema] if isinstance(schema, list) else schema


def operation(method: str, target: str) -> Mapping[str, Any] | None:
    """The operation that answers this; None if the document has none."""
    path = unquote(urlsplit(target).path)
    for template in sorted(DOCUMENT["paths"], key=lambda one: ("{" in one, -len(one))):
        pattern = re.sub(r"\{(\w+)\}", lambda part: "[^/].*" if part[1] == _GREEDY else "[^/]+", template)
        # An id may end like an address below it: then the method tells which it is.
        if re.fullmatch(pattern, path) and method.lower() in DOCUMENT["paths"][template]:
            found: Mapping[str, Any] = DOCUMENT["paths"][template][method.lower()]
            return found
    return None


class DescribedClient(Client):
    """Fails where an answer is not what the document says of its operation."""

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,  # noqa: ANN401
        headers: Mapping[str, str] | None = None,
        *,
        chunked: bool = False,
    ) -> Answer:
        answer = super().request(method, path, body, headers, chunked=chunked)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        described = operation(method, path)
        if described is None:
            assert answer.error in ("not_found", "method_not_allowed")
            return answer
        response = described["responses"].get(str(answer.status))
        assert response is not None, f"{method} {path} answered {answer.status}, which is not described"
        assert answer.headers["content-type"] in response["content"]
        if answer.headers["content-type"] == "application/json":
            validator(response["content"]["application/json"]["schema"]).validate(answer.json)
        return answer

    def send(self, method: str, path: str, payload: object) -> Answer:
        """A request with a JSON body, which must be one that the document describes unless it is refused."""
        answer = self.request(method, path, json.dumps(payload), {"Content-Type": "application/json"})
        described = operation(method, path)
        if answer.status < 400:
            assert described is not None
            validator(described["requestBody"]["content"]["application/json"]["schema"]).validate(payload)
        return answer
