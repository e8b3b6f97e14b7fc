"""A person's own tokens: what they have, a new one shown once, and the end of one."""

from __future__ import annotations

import time

from flask import Response, render_template, request

from kbgit.access import Principal, Scope
from kbgit.accounts import Token
from kbgit.errors import Conflict, InvalidName, InvalidRequest, KbgitError
from kbgit.library import BaseView
from kbgit.web.incoming import runtime
from kbgit.web.pages.access import ACCOUNT_LINKS, gone_to, page_blueprint, page_caller

tokens = page_blueprint("tokens")
ACCOUNT_LINKS.append(("Your tokens", "/tokens"))

SCOPES = {
    Scope.KNOWLEDGE_READ: "search and read what is published",
    Scope.ITEM_WRITE: "read drafts, write and publish items, fetch and push by Git",
    Scope.BASE_ADMIN: "create, archive and delete bases, delete items, manage members",
    Scope.MEMORY_READ: "read memory",
    Scope.MEMORY_WRITE: "write memory",
}
DAYS = (7, 30, 90, 365)
_DAY_SECONDS = 86_400
_AS_LONG = "session"
_FOR_EVER = "never"
_LONGEST_NAME = 200


@tokens.get("/tokens")
def list_tokens() -> Response:
    """The caller's tokens, and the form for a new one."""
    return _page()


@tokens.post("/tokens")
def create_token() -> Response:
    """A new token. Its text is in this answer and nowhere else."""
    caller = page_caller()
    try:
        made, text = runtime().people.create_token(
            caller,
            name=_name(),
            scopes=_scopes(),
            bases=_bases(caller),
            profile=request.form.get("profile", "").strip() or caller.profile,
            expires_at=_expiry(caller),
        )
    except (InvalidRequest, InvalidName, Conflict) as problem:
        return _page(problem=problem)
    return _page(made=made, text=text, status=201)


@tokens.post("/tokens/revoke")
def revoke_token() -> Response:
    """From the next request on, the token is no credential. The one of this session ends the session."""
    caller = page_caller()
    own = {token.id for token in runtime().people.tokens(caller)}
    token_id = request.form.get("token", "")
    if token_id not in own:
        raise InvalidRequest("field `token` is none of your tokens", {"field": "token"})
    runtime().people.revoke_token(caller, token_id)
    return gone_to("/tokens?done=changed")


def _name() -> str:
    name = " ".join(request.form.get("name", "").split())
    if not name:
        raise InvalidRequest("give it a name, so that you know later what it is for", {"field": "name"})
    if len(name) > _LONGEST_NAME or not name.isprintable():
        raise InvalidRequest(f"a name is one line of at most {_LONGEST_NAME} characters", {"field": "name"})
    return name


def _scopes() -> list[Scope]:
    words = request.form.getlist("scopes")
    unknown = set(words) - set(Scope)
    if unknown or not words:
        raise InvalidRequest(f"choose what it is for: {', '.join(Scope)}", {"field": "scopes"})
    return [Scope(word) for word in words]


def _bases(caller: Principal) -> list[str] | None:
    chosen = request.form.getlist("bases")
    known = {str(view.row.key) for view in _known_bases(caller)}
    if set(chosen) - known:
        raise InvalidRequest("field `bases` names one that is not there", {"field": "bases"})
    if request.form.get("reach") == "all":
        if chosen:
            raise InvalidRequest("it is either for all bases or for those that you ticked: choose", {"field": "bases"})
        return None
    if not chosen:
        raise InvalidRequest("choose the bases it is for, or that it is for all", {"field": "bases"})
    return chosen


def _expiry(caller: Principal) -> int | None:
    word = request.form.get("expiry", "")
    end = _end_of(caller)
    if word == _FOR_EVER:
        return None
    if word == _AS_LONG and end is not None:
        return end
    if word not in map(str, DAYS):
        raise InvalidRequest("choose how long it lasts", {"field": "expiry"})
    return int(time.time()) + int(word) * _DAY_SECONDS


def _end_of(caller: Principal) -> int | None:
    """When the token of this session expires."""
    return runtime().accounts.token(caller.token_id).expires_at if caller.token_id else None


def _known_bases(caller: Principal) -> list[BaseView]:
    if Scope.KNOWLEDGE_READ not in caller.scopes or not runtime().home.settings.knowledge_enabled:
        return []
    return runtime().library.bases(caller)


def _expiries(caller: Principal) -> list[tuple[str, str]]:
    """(value, label) of how long a new token may last: no longer than the one that makes it."""
    end = _end_of(caller)
    left = end - time.time() if end is not None else None
    found = [(str(days), f"{days} days") for days in DAYS if left is None or days * _DAY_SECONDS < left]
    return [*found, (_FOR_EVER, "never") if end is None else (_AS_LONG, "with the token you signed in with")]


def _page(
    *, made: Token | None = None, text: str | None = None, problem: KbgitError | None = None, status: int = 200
) -> Response:
    caller = page_caller()
    now = int(time.time())
    mine = sorted(runtime().people.tokens(caller), key=lambda one: (one.created_at, one.id), reverse=True)
    usable = [one for one in mine if one.revoked_at is None and (one.expires_at is None or one.expires_at > now)]
    shown = render_template(
        "tokens.html",
        usable=usable,
        ended=[one for one in mine if one not in usable],
        made=made,
        text=text,
        problem=problem,
        scopes=[(scope, words) for scope, words in SCOPES.items() if scope in caller.scopes],
        known_bases=_known_bases(caller),
        expiries=_expiries(caller),
        given=request.form if problem else {},
        chosen=set(request.form.getlist("scopes")) if problem else {Scope.KNOWLEDGE_READ.value},
        chosen_bases=set(request.form.getlist("bases")) if problem else set(),
    )
    return Response(shown, problem.http_status if problem else status, content_type="text/html; charset=utf-8")
