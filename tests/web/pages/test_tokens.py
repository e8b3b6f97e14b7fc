"""One's own tokens on a page: made for no more than one has, shown once, ended at once."""

from __future__ import annotations

import time

import pytest

from kbgit.access import Scope
from tests.web.conftest import Library
from tests.web.described import DescribedClient
from tests.web.pages.browsing import Browser


def signed_in(
    workshop: Library, user: str, *scopes: Scope, bases: list[str] | None = None, expires_at: int | None = None
) -> Browser:
    """A browser with a session by a token of its own."""
    token = workshop.runtime.accounts.add_token(
        user, "browser", scopes or set(Scope), "test", bases=bases, expires_at=expires_at
    )
    return Browser(workshop.url, token[1])


def test_a_token_is_shown_once_works_and_ends_at_once(workshop: Library) -> None:
    olga = signed_in(workshop, "olga")
    page = olga.get("/tokens")
    made = olga.submit(page.main.button("Make the token"), name="laptop <b>", expiry="30")
    assert made.status == 201
    assert made.headers["cache-control"] == "no-store"
    text = made.main.one(id="secret").text
    assert made.main.one("button", class_="copy").get("data-copy") == text
    answer = DescribedClient(workshop.url, text).get("/api/v1/me").json
    assert (answer["user"], answer["scopes"], answer["bases"]) == ("olga", ["knowledge:read"], None)
    later = olga.get("/tokens")
    assert text not in later.html
    assert "laptop <b>" in later.main.one("tbody").text
    ended = olga.submit(later.main.button("Yes, revoke laptop <b>"))
    assert ended.location == "/tokens?done=changed"
    assert DescribedClient(workshop.url, text).get("/api/v1/me").status == 401
    assert "revoked" in olga.get("/tokens").main.text


def test_a_token_is_for_the_chosen_scopes_bases_and_time(workshop: Library) -> None:
    max_ = signed_in(workshop, "max")
    form = max_.get("/tokens").main.button("Make the token")
    made = max_.submit(
        form,
        name="agent",
        scopes="item:write",
        reach="some",
        bases="team:platform/runbooks",
        expiry="7",
        profile="agent",
    )
    token = next(one for one in workshop.runtime.accounts.tokens("max") if one.name == "agent")
    assert made.status == 201
    assert (token.scopes, token.bases, token.profile) == (
        frozenset({Scope.ITEM_WRITE}),
        frozenset({"team:platform/runbooks"}),
        "agent",
    )
    assert token.expires_at is not None
    assert abs(token.expires_at - time.time() - 7 * 86_400) < 60


def test_a_session_is_offered_no_more_than_its_own_token_gives_and_gets_no_more(workshop: Library) -> None:
    end = int(time.time()) + 10 * 86_400
    limited = signed_in(
        workshop, "max", Scope.KNOWLEDGE_READ, Scope.ITEM_WRITE, bases=["team:platform/runbooks"], expires_at=end
    )
    form = limited.get("/tokens").main.button("Make the token")
    assert [one.get("value") for one in form.all("input", name="scopes")] == ["knowledge:read", "item:write"]
    assert [one.get("value") for one in form.all("input", name="bases")] == ["team:platform/runbooks"]
    assert [one.get("value") for one in form.all("option")] == ["7", "session"]
    more = {"name": "more", "bases": "team:platform/runbooks", "reach": "some", "expiry": "7"}
    assert limited.submit(form, **more, scopes="base:admin").status == 403
    assert limited.submit(form, name="more", reach="all", expiry="7", scopes="item:write").status == 403
    assert limited.submit(form, **(more | {"expiry": "365"}), scopes="item:write").status == 403
    assert limited.submit(form, **(more | {"expiry": "never"}), scopes="item:write").status == 403
    assert limited.submit(form, **(more | {"expiry": "session"}), scopes="item:write").status == 201


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": " "},
        {"scopes": "everything"},
        {"reach": "some"},
        {"reach": "all", "bases": "team:platform/runbooks"},
        {"reach": "some", "bases": "personal:ada/notes"},
        {"expiry": "999999"},
    ],
)
def test_what_is_wrong_with_the_form_is_said_beside_it_and_what_was_filled_in_stays(
    workshop: Library, wrong: dict[str, str]
) -> None:
    max_ = signed_in(workshop, "max")
    before = len(workshop.runtime.accounts.tokens("max"))
    form = max_.get("/tokens").main.button("Make the token")
    refused = max_.submit(form, **({"name": "kept", "expiry": "30"} | wrong))
    assert (refused.status, refused.code) == (400, "invalid_request")
    assert refused.main.one("input", name="name").get("value") == wrong.get("name", "kept")
    assert len(workshop.runtime.accounts.tokens("max")) == before


def test_nobody_revokes_the_tokens_of_others_here(workshop: Library) -> None:
    max_ = signed_in(workshop, "max")
    theirs = workshop.runtime.accounts.add_token("ada", "theirs", {Scope.KNOWLEDGE_READ}, "test")
    csrf = max_.get("/tokens").dom.one("meta", name="csrf").get("content")
    refused = max_.send("/tokens/revoke", {"token": theirs[0].id, "csrf": csrf})
    assert (refused.status, refused.code) == (400, "invalid_request")
    assert workshop.runtime.accounts.token(theirs[0].id).revoked_at is None


def test_revoking_the_token_of_this_session_signs_out(workshop: Library) -> None:
    max_ = signed_in(workshop, "max")
    rows = max_.get("/tokens").main.one("tbody").all("tr")
    own = next(row for row in rows if "this session" in row.text)
    ended = max_.submit(own.one("form"))
    assert ended.status == 303
    assert max_.get("/tokens").location.startswith("/sign-in")
