"""Spaces, who is in them in which role, and the log of what was done about that."""

from __future__ import annotations

from collections.abc import Callable

from flask import Response, render_template, request

from kbgit.access import HOME, PERSONAL, Action, Principal, Role, Target, decide
from kbgit.errors import Conflict, Forbidden, InvalidRequest, KbgitError, NotFound, SpaceNotFound
from kbgit.web.incoming import runtime, space_key
from kbgit.web.pages.access import ACCOUNT_LINKS, gone_to, page_blueprint, page_caller
from kbgit.web.pages.addresses import space_word

members = page_blueprint("members")
ACCOUNT_LINKS.append(("Spaces and members", "/spaces"))

PAGE = 50
ROLES = {
    Role.OWNER: "everything, and makes owners",
    Role.ADMIN: "everything but owners",
    Role.MEMBER: "reads drafts, writes and publishes",
    Role.VIEWER: "reads what is published",
}


@members.get("/spaces")
def list_spaces() -> str:
    """The caller's spaces, and for an administrator of the home every team."""
    caller = page_caller()
    return render_template("spaces.html", listed=runtime().people.spaces(caller), sees_audit=_sees_audit(caller))


@members.get("/spaces/<space>/members")
def show_members(space: str) -> Response:
    """Who is in a space."""
    return _page(space_key(space), None)


@members.post("/spaces/<space>/members")
def set_member(space: str) -> Response:
    """Add somebody, or change their role."""
    caller, key = page_caller(), space_key(space)
    user, word = request.form.get("user", "").strip(), request.form.get("role", "")
    if word not in set(Role):
        _require_manager(caller, key)
        return _page(key, InvalidRequest(f"field `role` must be one of {', '.join(Role)}", {"field": "role"}))
    return _changed(key, lambda: runtime().people.set_member(caller, key, user, Role(word)))


@members.post("/spaces/<space>/members/remove")
def remove_member(space: str) -> Response:
    """Take somebody out, or leave."""
    caller, key = page_caller(), space_key(space)
    user = request.form.get("user", "").strip()
    return _changed(key, lambda: runtime().people.remove_member(caller, key, user))


@members.get("/audit")
def show_audit() -> str:
    """What was done to access, archiving and deletion, as far as it concerns what the caller manages."""
    caller = page_caller()
    word, after = request.args.get("space", ""), request.args.get("after") or None
    space = space_key(word) if word else None
    page = runtime().people.audit(caller, space=space, cursor=after, limit=PAGE)
    more = f"&after={page.cursor}" if page.cursor else ""
    here = f"/audit?space={space_word(space)}" if space else "/audit?space="
    return render_template(
        "audit.html",
        entries=page.entries,
        space=space,
        first=here if after else None,
        following=here + more if more else None,
    )


def _changed(key: str, change: Callable[[], None]) -> Response:
    """Make a change of members; what does not fit is said on the page that asked for it."""
    caller = page_caller()
    try:
        change()
    except (SpaceNotFound, Forbidden):
        raise
    except (Conflict, InvalidRequest, NotFound) as problem:
        return _page(key, problem)
    # Whoever left, or took their own rights away, may not see the page any more.
    is_seen = any(view.key == key for view in runtime().people.spaces(_again(caller)))
    return gone_to(f"/spaces/{space_word(key)}/members?done=changed" if is_seen else "/spaces?done=changed")


def _again(caller: Principal) -> Principal:
    """The caller, with the rights that they have now."""
    return runtime().accounts.principal_of(caller.token_id) if caller.token_id else caller


def _page(key: str, problem: KbgitError | None) -> Response:
    caller = page_caller()
    found = runtime().people.members(caller, key)
    is_home = bool(decide(caller, Action.ADMINISTER_HOME, HOME))
    manages = _manages(caller, key)
    makes_owners = manages and (is_home or caller.roles.get(key) is Role.OWNER)
    shown = render_template(
        "members.html",
        space=key,
        members=sorted(found, key=lambda one: (list(Role).index(one[1]), one[0])),
        roles=[(role, words) for role, words in ROLES.items() if makes_owners or role is not Role.OWNER],
        manages=manages,
        makes_owners=makes_owners,
        owners=sum(role is Role.OWNER for _, role in found),
        problem=problem,
        sees_audit=manages and caller.bases is None and _sees_audit(caller),
    )
    return Response(shown, problem.http_status if problem else 200, content_type="text/html; charset=utf-8")


def _manages(caller: Principal, key: str) -> bool:
    """Whether the caller changes who is in a space; a personal one has its owner and nobody else."""
    if key.startswith(PERSONAL):
        return False
    return bool(decide(caller, Action.MANAGE_MEMBERS, Target(key)) or decide(caller, Action.ADMINISTER_HOME, HOME))


def _require_manager(caller: Principal, key: str) -> None:
    runtime().people.members(caller, key)
    if not _manages(caller, key):
        decision = decide(caller, Action.MANAGE_MEMBERS, Target(key))
        raise Forbidden(f"this needs the right to {Action.MANAGE_MEMBERS}: {decision.rule}", {"rule": decision.rule})


def _sees_audit(caller: Principal) -> bool:
    return any(decide(caller, Action.MANAGE_MEMBERS, Target(space)) for space in caller.roles) or bool(
        decide(caller, Action.ADMINISTER_HOME, HOME)
    )
