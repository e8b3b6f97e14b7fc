"""Arguments checked against the schema that the client was shown: what is published is what holds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match

from kbgit.errors import InvalidRequest
from kbgit.mcp.framing import mapped
from kbgit.mcp.schemas import INPUTS, Json

_SURROGATE = re.compile("[\ud800-\udfff]")
_LONGEST_SHOWN = 80


def checked(name: str, arguments: object) -> Json:
    """The arguments of the tool `name`, without those that are null. Raises `InvalidRequest`, naming the field at fault."""
    if not isinstance(arguments, Mapping):
        raise InvalidRequest("the arguments must be a JSON object")
    # JSON can spell half a character, which is no text.
    whole = mapped(arguments, lambda text: _SURROGATE.sub("\ufffd", text))
    given = {field: value for field, value in whole.items() if value is not None}
    fault = best_match(_validator(name).iter_errors(given))
    if fault is not None:
        raise _refused(name, fault)
    properties = INPUTS[name]["properties"]
    # To JSON Schema 3.0 is a whole number; to Python it is none.
    return {
        field: int(value) if isinstance(value, float) and properties[field].get("type") == "integer" else value
        for field, value in given.items()
    }


@cache
def _validator(name: str) -> Any:  # noqa: ANN401 - jsonschema has no types
    return Draft202012Validator(INPUTS[name])


def _refused(name: str, fault: ValidationError) -> InvalidRequest:
    known = sorted(INPUTS[name]["properties"])
    if fault.validator == "additionalProperties" and not fault.absolute_path:
        unknown = sorted(set(fault.instance) - set(known))
        return InvalidRequest(f"unknown field {unknown[0][:100]!r}", {"field": unknown[0][:100], "known": known})
    if fault.validator == "required" and not fault.absolute_path:
        missing = next(field for field in fault.validator_value if field not in fault.instance)
        return InvalidRequest(f"field `{missing}` is missing", {"field": missing})
    field = str(fault.absolute_path[0])
    return InvalidRequest(f"field `{field}` {_why(fault)}", {"field": field})


def _why(fault: ValidationError) -> str:
    """What is wrong with it, in words; the value itself may be large, so it is not repeated in full."""
    wanted = fault.validator_value
    where = "".join(f"[{part}]" for part in list(fault.absolute_path)[1:])
    match fault.validator:
        case "type":
            words = wanted if isinstance(wanted, str) else " or ".join(wanted)
            said = f"must be of the type {words}"
        case "enum":
            said = f"must be one of {', '.join(map(str, wanted))}"
        case "minimum" | "maximum":
            said = f"must be at {'least' if fault.validator == 'minimum' else 'most'} {wanted}"
        case "minLength" | "minItems":
            said = "must not be empty" if wanted == 1 else f"needs at least {wanted}"
        case "maxLength":
            said = f"has {len(fault.instance)} characters; at most {wanted} are allowed"
        case "maxItems" | "maxProperties":
            said = f"has {len(fault.instance)} entries; at most {wanted} are allowed"
        case "pattern":
            said = f"is {str(fault.instance)[:_LONGEST_SHOWN]!r}, which is not of the form {wanted}"
        case _:
            said = fault.message[:200]
    return f"{where} {said}".strip()
