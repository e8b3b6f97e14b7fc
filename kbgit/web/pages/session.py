"""Signing in with a token, and out again."""

from __future__ import annotations

from flask import Response, render_template, request

from kbgit.errors import KbgitError, Unauthenticated
from kbgit.web.asgi import note_refusal
from kbgit.web.incoming import runtime, visit
from kbgit.web.pages.access import gone_to, open_blueprint, page_visitor
from kbgit.web.pages.addresses import local_path
from kbgit.web.session_cookie import cookie_name, remove_cookie, set_cookie

session = open_blueprint("session")


@session.get("/sign-in")
def show_sign_in() -> Response:
    """The form; whoever is signed in already goes on."""
    following = local_path(request.args.get("next", "/"))
    if page_visitor() is not None:
        return gone_to(following)
    return _form(following)


@session.post("/sign-in")
def sign_in() -> Response:
    """A new session, whatever session there was: nobody can prepare one for somebody else."""
    following = local_path(request.form.get("next", "/"))
    try:
        caller = runtime().accounts.authenticate(request.form.get("token", "").strip())
    except Unauthenticated as refusal:
        note_refusal(refusal)
        return _form(following, refusal)
    assert caller.token_id is not None
    visit().user = caller.user
    _end()
    response = gone_to(following)
    set_cookie(response, runtime().home.settings, runtime().sessions.begin(caller.token_id))
    return response


@session.post("/sign-out")
def sign_out() -> Response:
    """End the session, here and in the browser."""
    _end()
    response = gone_to("/sign-in")
    remove_cookie(response, runtime().home.settings)
    return response


def _end() -> None:
    text = request.cookies.get(cookie_name(runtime().home.settings))
    if text:
        runtime().sessions.end(text)


def _form(following: str, refusal: KbgitError | None = None) -> Response:
    shown = render_template("sign_in.html", following=following, problem=refusal)
    return Response(shown, refusal.http_status if refusal else 200, content_type="text/html; charset=utf-8")
