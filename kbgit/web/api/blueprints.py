"""What the resources share: who is calling is settled before anything else is looked at."""

from __future__ import annotations

from flask import Blueprint, g

from kbgit.access import Principal
from kbgit.errors import KnowledgeRuntimeDisabled
from kbgit.web.incoming import caller, parameters, runtime, whole_number

PREFIX = "/api/v1"
PAGE = 50


def signed_in_blueprint(name: str) -> Blueprint:
    """Routes below `PREFIX` that answer signed-in callers."""
    made = Blueprint(name, __name__, url_prefix=PREFIX)
    made.before_request(_sign_in)
    return made


def knowledge_blueprint(name: str) -> Blueprint:
    """The same, while the knowledge runtime is on."""
    made = signed_in_blueprint(name)
    made.before_request(_require_knowledge)
    return made


def signed_in() -> Principal:
    """Who is calling."""
    found = g.caller
    assert isinstance(found, Principal)
    return found


def _sign_in() -> None:
    g.caller = caller()


def _require_knowledge() -> None:
    if not runtime().home.settings.knowledge_enabled:
        raise KnowledgeRuntimeDisabled("the knowledge runtime is off; the setting knowledge_enabled turns it on")


def addressed_item(item_id: str | None, *known: str, required: tuple[str, ...] = ()) -> tuple[str, dict[str, str]]:
    """The item that an address names, in its path or else by the parameter `id`; and the other parameters."""
    if item_id is not None:
        return item_id, parameters(*known, required=required)
    given = parameters(*known, required=("id", *required))
    return given["id"], given


def page_limit(given: dict[str, str]) -> int:
    """The parameter `limit`, which the library judges."""
    return whole_number("limit", given.get("limit"), PAGE)
