"""Browsers: a session in a cookie instead of a token in a header, and what that makes necessary.

A browser sends a cookie whoever made it send the request. So a change that comes with one must carry what only our own
pages know, and must not say of itself that another site asked for it.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass

from flask import Response
from werkzeug.datastructures import Headers

from kbgit.access import Principal
from kbgit.assemble import Runtime
from kbgit.config import Settings
from kbgit.errors import Unauthenticated
from kbgit.sessions import Session
from kbgit.web.errors import CrossSiteRequest

SAFE_METHODS = frozenset({"GET", "HEAD"})
CSRF_HEADER = "X-CSRF-Token"
COOKIE = "kbgit_session"
"""What the name of the cookie ends in."""
_OWN_SITES = frozenset({"same-origin", "none"})


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody with a session: who they are now, and what a change of theirs must carry."""

    principal: Principal
    session: Session

    @property
    def csrf(self) -> str:
        """What our own pages send with a change."""
        return self.session.csrf


def visitor(runtime: Runtime, cookies: Mapping[str, str]) -> Visitor | None:
    """Whose session came in the cookie, with the rights that their token has now; None where there is none (any more)."""
    text = cookies.get(cookie_name(runtime.home.settings))
    session = runtime.sessions.find(text) if text else None
    if text is None or session is None:
        return None
    try:
        return Visitor(runtime.accounts.principal_of(session.token_id), session)
    except Unauthenticated:  # the token was revoked or has expired, or its user was removed: so ends the session
        runtime.sessions.end(text)
        return None


def require_own_page(found: Visitor | None, headers: Headers, given: str | None = None) -> None:
    """Raises `CrossSiteRequest` for a change that none of our pages asked for; `given` is what its form carries.

    Before anybody has signed in there is nothing secret to carry; the browser's word on who asked is all there is.
    """
    if headers.get("Sec-Fetch-Site", "none").lower() not in _OWN_SITES:
        raise CrossSiteRequest("another site asked for this change; open the page here and try again")
    if found is not None:
        carried = headers.get(CSRF_HEADER) or given or ""
        if not hmac.compare_digest(found.csrf.encode(), carried.encode("utf-8", "replace")):
            raise CrossSiteRequest(
                f"a change by a browser's session must carry the header {CSRF_HEADER} (or, a form, the field csrf); "
                "reload the page and try again"
            )


def cookie_name(settings: Settings) -> str:
    """The cookie's name. Where it travels encrypted, a browser lets no other host or path set one of that name."""
    return f"__Host-{COOKIE}" if _is_encrypted(settings) else COOKIE


def set_cookie(response: Response, settings: Settings, text: str) -> None:
    """Give a browser its session, for as long as it runs; the server ends it earlier."""
    response.set_cookie(
        cookie_name(settings), text, secure=_is_encrypted(settings), httponly=True, samesite="Lax", path="/"
    )


def remove_cookie(response: Response, settings: Settings) -> None:
    """Take it away."""
    response.delete_cookie(
        cookie_name(settings), secure=_is_encrypted(settings), httponly=True, samesite="Lax", path="/"
    )


def _is_encrypted(settings: Settings) -> bool:
    return settings.public_url.lower().startswith("https://")
