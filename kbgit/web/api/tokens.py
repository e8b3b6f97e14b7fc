"""Tokens and who holds one; the audit log; why an access is allowed or denied."""

from __future__ import annotations

from flask import Response

from kbgit.access import HOME, Action, Scope, Target
from kbgit.base import BaseKey
from kbgit.errors import InvalidRequest
from kbgit.library import token_json
from kbgit.web.answers import answer, json_response
from kbgit.web.api.blueprints import page_limit, signed_in, signed_in_blueprint
from kbgit.web.api.paging import page
from kbgit.web.fields import json_object
from kbgit.web.incoming import base_key, parameters, runtime, space_key

tokens = signed_in_blueprint("tokens")

ACTIONS = {action.name.lower(): action for action in Action} | {action.value: action for action in Action}
"""How a request may name an action: `write_items`, or in the words of the rules."""


@tokens.get("/me")
def show_me() -> Response:
    """Who is calling, and what their token is good for."""
    parameters()
    caller = signed_in()
    roles = runtime().people.roles(caller)
    return json_response(
        {
            "user": caller.user,
            "administrator": caller.administrator,
            "roles": {space: role.value for space, role in sorted(roles.items())},
            "token": caller.token_id,
            "scopes": sorted(scope.value for scope in caller.scopes),
            "bases": sorted(caller.bases) if caller.bases is not None else None,
            "profile": caller.profile,
        }
    )


@tokens.get("/tokens")
def list_tokens() -> Response:
    """A page of the caller's tokens, or for an administrator of a user's, by id."""
    given = parameters("user", "cursor", "limit")
    found = runtime().people.tokens(signed_in(), given.get("user"))
    shown, cursor = page({token.id: token_json(token) for token in sorted(found, key=lambda one: one.id)}, given)
    return json_response({"tokens": shown, "cursor": cursor})


@tokens.post("/tokens")
def create_token() -> Response:
    """A new token of the caller's. Its text is in this answer and nowhere else."""
    parameters()
    body = json_object("name", "user", "bases", "profile", "expires_at", required=("scopes",))
    bases = body.texts("bases")
    token, text = runtime().people.create_token(
        signed_in(),
        name=body.line("name") or "",
        scopes=body.words("scopes", Scope),
        user=body.text("user"),
        bases=[str(BaseKey.parse(base)) for base in bases] if bases is not None else None,
        profile=body.line("profile"),
        expires_at=body.moment("expires_at"),
    )
    made = json_response({**token_json(token), "token": text}, 201)
    made.headers["Cache-Control"] = "no-store"
    return made


@tokens.delete("/tokens/<token_id>")
def revoke_token(token_id: str) -> Response:
    """From the next request on, the token is no credential."""
    parameters()
    return json_response(token_json(runtime().people.revoke_token(signed_in(), token_id)))


@tokens.get("/audit")
def read_audit() -> Response:
    """A page of the audit log, newest first, as far as it concerns what the caller manages."""
    given = parameters("space", "cursor", "limit")
    space = space_key(given["space"]) if "space" in given else None
    return answer(runtime().people.audit(signed_in(), space=space, cursor=given.get("cursor"), limit=page_limit(given)))


@tokens.get("/access")
def explain_access() -> Response:
    """Whether a user may do something, and the rule that says so."""
    given = parameters("user", "space", "base", required=("action",))
    action = ACTIONS.get(given["action"])
    if action is None:
        known = [one.name.lower() for one in Action]
        raise InvalidRequest(f"parameter `action` must be one of {', '.join(known)}", {"parameter": "action"})
    target = HOME if action is Action.ADMINISTER_HOME else _target(given)
    decision = runtime().people.explain(signed_in(), given.get("user") or signed_in().user, action, target)
    return json_response({"allowed": decision.allowed, "rule": decision.rule})


def _target(given: dict[str, str]) -> Target:
    if "space" not in given:
        raise InvalidRequest("parameter `space` is missing", {"parameter": "space"})
    base = base_key(given["space"], given["base"]) if "base" in given else None
    return Target(space_key(given["space"]), base)
