"""The description of the interface is true to the routes; that answers are true to it, `DescribedClient` checks."""

from __future__ import annotations

import re

import pytest
from jsonschema import Draft202012Validator, ValidationError

from kbgit.web.app import create_app
from kbgit.web.openapi import DOCUMENT, SCHEMAS
from kbgit.web.pages.access import PREFIX
from tests.web.conftest import Library
from tests.web.described import validator


def test_every_route_is_described_and_every_description_is_routed(library: Library) -> None:
    routed = {
        (re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule), method.lower())
        for rule in create_app(library.runtime).url_map.iter_rules()
        if not rule.endpoint.startswith(PREFIX)  # pages, which answer HTML
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    described = {(path, method) for path, operations in DOCUMENT["paths"].items() for method in operations}
    assert routed == described


def test_every_parameter_of_a_path_is_described() -> None:
    for path, operations in DOCUMENT["paths"].items():
        for operation in operations.values():
            named = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "path"}
            assert named == set(re.findall(r"\{(\w+)\}", path))


def test_operations_have_names_of_their_own() -> None:
    names = [operation["operationId"] for operations in DOCUMENT["paths"].values() for operation in operations.values()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_a_schema_is_one(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])


def test_every_schema_is_used_and_every_used_one_is_there() -> None:
    used = set(re.findall(r"#/components/schemas/(\w+)", repr(DOCUMENT)))
    assert used == set(SCHEMAS)


def test_the_validator_can_fail() -> None:
    schema = DOCUMENT["paths"]["/healthz"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    validator(schema).validate({"status": "ok"})
    wrong_answers: list[object] = [{"status": "bad"}, {"status": "ok", "more": 1}, {}, []]
    for wrong in wrong_answers:
        with pytest.raises(ValidationError):
            validator(schema).validate(wrong)


def test_every_described_parameter_is_taken_and_no_other(library: Library) -> None:
    client = library.client("olga")  # who may do nothing
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            address = re.sub(r"\{\w+\}", "x", path)
            named = [one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"]
            query = "&".join(f"{name}=1" for name in named)
            assert "unknown parameter" not in str(client.request(method.upper(), f"{address}?{query}").json)
            stray = client.request(method.upper(), f"{address}?{query}&stray=1")
            assert stray.status == 400
            assert stray.json["error"]["details"]["parameter"] == "stray"
