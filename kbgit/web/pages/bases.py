"""A base: what is in it and in which state, and what its administrators do with it."""

from __future__ import annotations

from typing import Any

from flask import Response, render_template, request

from kbgit.access import Action, Principal, Scope, Target
from kbgit.base import Admission, BaseKey, BaseStatus
from kbgit.errors import AlreadyExists, InvalidRequest, KbgitError, SpaceNotFound
from kbgit.importing import BaseOptions
from kbgit.item import ItemStatus
from kbgit.library.rights import require, require_scope
from kbgit.revision import Via
from kbgit.rows import BaseRow
from kbgit.web.incoming import base_key, runtime, space_key
from kbgit.web.pages.access import gone_to, page_blueprint, page_caller
from kbgit.web.pages.addresses import address_of_base, address_of_space

bases = page_blueprint("bases")

PAGE = 50
STATUSES = tuple(status.value for status in ItemStatus)
_CHANGES = {"archive": (BaseStatus.ARCHIVED, "base-archived"), "restore": (BaseStatus.ACTIVE, "base-restored")}


@bases.get("/bases/<space>/<slug>")
def show_base(space: str, slug: str) -> str:
    """A base, and a page of its items."""
    caller, key = page_caller(), base_key(space, slug)
    view = runtime().library.base(key, caller)
    status, prefix, after = (request.args.get(name, "") for name in ("status", "prefix", "after"))
    status = status if status in STATUSES else ""
    page = runtime().library.items(key, caller, status=status or None, prefix=prefix, cursor=after or None, limit=PAGE)
    return render_template(
        "base.html",
        view=view,
        base=view.row,
        items=page.items,
        status=status,
        prefix=prefix,
        after=after,
        statuses=STATUSES,
        clone_address=_clone_address(view.row),
        first=address_of_base(key, status=status or None, prefix=prefix or None) if after else None,
        following=address_of_base(key, status=status or None, prefix=prefix or None, after=page.cursor)
        if page.cursor
        else None,
    )


@bases.post("/bases/<space>/<slug>/archive")
def archive_base(space: str, slug: str) -> Response:
    """Suspend search and unpinned reads of a base."""
    return _change_status("archive", base_key(space, slug))


@bases.post("/bases/<space>/<slug>/restore")
def restore_base(space: str, slug: str) -> Response:
    """Bring an archived base back."""
    return _change_status("restore", base_key(space, slug))


@bases.get("/spaces/<space>/new-base")
def show_new_base(space: str) -> str:
    """The form for a new base."""
    key = space_key(space)
    _require_administration(page_caller(), key)
    return _new_base_form(key, {}, None)


@bases.post("/spaces/<space>/new-base")
def create_base(space: str) -> Response:
    """A new base."""
    caller, key = page_caller(), space_key(space)
    given = request.form.to_dict()
    try:
        made = BaseKey(key, given.get("slug", "").strip())
        runtime().bases.create(made, caller, _options(given))
    except (InvalidRequest, AlreadyExists) as problem:
        if isinstance(problem, InvalidRequest):
            _require_administration(caller, key)  # whoever may not is told that, and not what is wrong with their form
        return Response(
            _new_base_form(key, given, problem), problem.http_status, content_type="text/html; charset=utf-8"
        )
    return gone_to(address_of_base(made, done="base-created"))


def _change_status(verb: str, key: str) -> Response:
    status, word = _CHANGES[verb]
    if request.form.get("confirmed") != "yes":
        found = runtime().library.base(key, page_caller()).row
        require(page_caller(), Action.ADMINISTER_BASE, Target(found.key.space, key))
        raise InvalidRequest(f"tick the box that says that you mean to {verb} it", {"field": "confirmed"})
    runtime().bases.set_status(key, page_caller(), status, Via.WEB)
    return gone_to(address_of_base(key, done=word))


def _new_base_form(space: str, given: dict[str, str], problem: KbgitError | None) -> str:
    return render_template(
        "new_base.html",
        space=space,
        back=address_of_space(space),
        given=given,
        problem=problem,
        admissions=list(Admission),
    )


def _require_administration(caller: Principal, space: str) -> None:
    """Raises `SpaceNotFound` for a space that is not the caller's, `Forbidden` for one in which they may make no base."""
    require_scope(caller, Scope.KNOWLEDGE_READ)
    if space not in runtime().people.roles(caller):
        raise SpaceNotFound(f"there is no space {space!r}", {"space": space})
    require(caller, Action.ADMINISTER_BASE, Target(space))


def _options(given: dict[str, str]) -> BaseOptions:
    words: dict[str, Any] = {
        "default_status": (ItemStatus, given.get("default_status")),
        "admission": (Admission, given.get("admission")),
    }
    chosen: dict[str, Any] = {}
    for field, (kind, word) in words.items():
        if word:
            try:
                chosen[field] = kind(word)
            except ValueError:
                raise InvalidRequest(f"field `{field}` must be one of {', '.join(kind)}", {"field": field}) from None
    texts = {name: " ".join(given.get(name, "").split()) or None for name in ("name", "description")}
    return BaseOptions(name=texts["name"] or given.get("slug", "").strip(), description=texts["description"], **chosen)


def _clone_address(base: BaseRow) -> str:
    settings = runtime().home.settings
    return f"{(settings.public_url or request.host_url).rstrip('/')}/git/{base.key.relative_path}.git"
