"""What JSON Schemas (2020-12) are put together from. Objects are closed unless they say otherwise."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

Json = dict[str, Any]


def ref(name: str) -> Json:
    """A reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def whole(least: int = 0, most: int | None = None) -> Json:
    """A whole number in a range."""
    return {"type": "integer", "minimum": least} | ({} if most is None else {"maximum": most})


def nullable(schema: Json) -> Json:
    """`schema` or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def listed(of: Json, most: int | None = None) -> Json:
    """A list, of at most so many."""
    return {"type": "array", "items": of} | ({} if most is None else {"maxItems": most})


def words(kind: type[StrEnum]) -> Json:
    """One of the words of `kind`."""
    return {"type": "string", "enum": [word.value for word in kind]}


def closed(required: Json, optional: Json | None = None) -> Json:
    """An object with these fields and no others."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def described(schema: Json, description: str) -> Json:
    """`schema`, explained."""
    return {**schema, "description": description}


TEXT: Json = {"type": "string"}
TRUTH: Json = {"type": "boolean"}
NUMBER: Json = {"type": "number"}
ANYTHING: Json = {"type": "object", "additionalProperties": True}
TIME: Json = {"type": "string", "format": "date-time"}
SHA: Json = {"type": "string", "pattern": "^[0-9a-f]{40}$"}
REFERENCE: Json = {"type": "string", "pattern": "^knowledge:.+@[0-9a-f]{40}$"}
HASH: Json = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
LINES: Json = {"type": "array", "items": whole(1), "minItems": 2, "maxItems": 2}
TEXTS = listed(TEXT)
CURSOR = described(nullable(TEXT), "Asks for the next page; null at the end.")
