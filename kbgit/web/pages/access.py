"""What every page shares: who is looking, and that a change was asked for by one of our own pages.

A blueprint made here settles both before any of its routes runs, so no route can forget them. Templates get:

    me              who is looking (a Principal), or None
    csrf            what a form must send as `csrf` (`parts.csrf_field()`), and a script as `X-CSRF-Token`
    spaces          the spaces of whoever is looking (SpaceView: key, role)
    may(action, of) whether they may do it: `may("write_items", base)`, of a base or its key, a space's key, or None: the home
    done            what an earlier request did, in words: redirect to `…?done=<a word of DONE>`
    account_links   (label, address) of the account menu: append to `ACCOUNT_LINKS`
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from flask import Blueprint, Flask, Response, g, request

from kbgit.access import HOME, PERSONAL, TEAM, Action, Principal, Target, decide
from kbgit.errors import Unauthenticated
from kbgit.revision import rfc3339
from kbgit.rows import BaseRow
from kbgit.web.auth import refuse_misplaced_token
from kbgit.web.incoming import runtime, visit
from kbgit.web.pages.addresses import address_of_base, address_of_item, address_of_search, address_of_space, space_word
from kbgit.web.pages.files import static_address
from kbgit.web.session_cookie import SAFE_METHODS, Visitor, require_own_page, visitor

DONE = {
    "archived": "Archived. It is no longer found; its pinned citations still resolve.",
    "base-archived": "The base is archived: search and unpinned reads are suspended.",
    "base-created": "The base is there. Write its first item, upload a file, or clone it and push.",
    "base-restored": "The base is active again.",
    "changed": "Saved.",
    "created": "Created.",
    "deleted": "Deleted. Its pinned citations still resolve.",
    "published": "Published.",
    "restored": "Restored and published.",
    "unpublished": "Back to a draft: only its writers see it.",
}
"""What pages say after a redirect. The address holds the word, never the text."""
ACCOUNT_LINKS: list[tuple[str, str]] = []
# Scripts, styles and pictures are our own files; nothing is loaded from, sent to or shown inside another host's page.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


PREFIX = "page_"
"""What the names of blueprints of pages begin with: the JSON interface has names of its own."""


def page_blueprint(name: str) -> Blueprint:
    """Pages for whoever has signed in; others are sent to sign in, and come back."""
    made = open_blueprint(name)
    made.before_request(_require_visitor)
    return made


def open_blueprint(name: str) -> Blueprint:
    """Pages that need nobody to be signed in. A change still needs to come from one of our pages."""
    made = Blueprint(f"{PREFIX}{name}", __name__)
    made.before_request(_enter)
    made.after_request(as_page)
    return made


def page_caller() -> Principal:
    """Who is looking. Raises `Unauthenticated` outside of pages that need it."""
    found = page_visitor()
    if found is None:
        raise Unauthenticated("sign in first")
    return found.principal


def page_visitor() -> Visitor | None:
    """Who is looking and with which session; None for nobody."""
    if "visitor" not in g:
        g.visitor = visitor(runtime(), request.cookies)
        if g.visitor is not None:
            visit().user = g.visitor.principal.user
    found: Visitor | None = g.visitor
    return found


def as_page(response: Response) -> Response:
    """Give an answer what every page carries. Pages depend on who looks, and are kept by nobody."""
    response.headers.setdefault("Content-Security-Policy", POLICY)
    # `same-origin`, not `no-referrer`: with that, browsers send our own forms with `Origin: null`.
    response.headers.setdefault("Referrer-Policy", "same-origin")
    response.headers.setdefault("Cross-Origin-Opener-Policy", "same-origin")
    response.headers.setdefault("Cache-Control", "no-store")
    return response


def gone_to(address: str) -> Response:
    """On to another page: after a change to the one that shows what it led to, so that reloading repeats nothing."""
    return Response(status=303, headers={"Location": address})


def _enter() -> None:
    refuse_misplaced_token(dict(request.args.lists()), request.cookies)
    if request.method not in SAFE_METHODS:
        require_own_page(page_visitor(), request.headers, request.form.get("csrf"))


def _require_visitor() -> Response | None:
    if page_visitor() is not None:
        return None
    if request.method not in SAFE_METHODS:
        raise Unauthenticated("the session has ended; sign in again")
    asked = quote(request.path, safe="/~") + ("?" + request.query_string.decode("latin-1") if request.args else "")
    where = "/sign-in" + (f"?{urlencode({'next': asked})}" if asked != "/" else "")
    return as_page(gone_to(where))


# Templates


def prepare(app: Flask) -> None:
    """Give templates what they share."""
    app.jinja_env.trim_blocks = True
    app.jinja_env.lstrip_blocks = True
    app.jinja_env.autoescape = True  # whatever a template's name ends in
    app.jinja_env.filters |= {"rfc3339": rfc3339, "moment": moment, "space_name": space_name, "space_word": space_word}
    app.jinja_env.globals |= {
        "address_of_base": address_of_base,
        "address_of_item": address_of_item,
        "address_of_search": address_of_search,
        "address_of_space": address_of_space,
        "static_address": static_address,
    }
    app.context_processor(context)


def context() -> dict[str, Any]:
    """What every template gets."""
    found = page_visitor()
    caller = found.principal if found else None
    return {
        "me": caller,
        "csrf": found.csrf if found else "",
        "spaces": runtime().people.spaces(caller) if caller else [],
        "may": _may(caller),
        "done": DONE.get(request.args.get("done", "")),
        "account_links": ACCOUNT_LINKS,
    }


def _may(caller: Principal | None) -> Callable[[str, BaseRow | str | None], bool]:
    def may(action: str, of: BaseRow | str | None) -> bool:
        return bool(decide(caller, Action[action.upper()], _target(of)))

    return may


def _target(of: BaseRow | str | None) -> Target:
    if of is None:
        return HOME
    key = of if isinstance(of, str) else str(of.key)
    space, _, slug = key.rpartition("/")
    return Target(space, key) if space and slug else Target(key)


def moment(seconds: int) -> str:
    """`30 Nov 2026, 12:00 UTC`, in the same words everywhere."""
    when = datetime.strptime(rfc3339(seconds), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
    return f"{when.day} {months[when.month - 1]} {when.year}, {when:%H:%M} UTC"


def space_name(space: str) -> str:
    """A space's key as people say it."""
    return "Personal space" if space.startswith(PERSONAL) else space.removeprefix(TEAM)
