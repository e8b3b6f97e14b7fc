"""Signing in, what a session is good for, and what a browser must bring with a change."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kbgit.access import Scope
from kbgit.assemble import open_runtime
from kbgit.web.pages.addresses import local_path
from kbgit.web.server import application
from tests.web.conftest import Library, Template, copied_home
from tests.web.pages.browsing import Browser
from tests.web.serving import SERVER_ENVIRONMENT, Client, People, running

COOKIE = "kbgit_session"
SEARCH = "/api/v1/knowledge/search"
QUERY = json.dumps({"query": "deploy"})


@pytest.fixture
def ada(workshop: Library) -> Browser:
    return Browser(workshop.url, workshop.people["ada"])


@pytest.fixture
def ends(workshop: Library, request: pytest.FixtureRequest) -> tuple[Browser, str]:
    """A browser signed in with a token of its own, and that token's id."""
    token, text = workshop.people.accounts.add_token("ada", request.node.name, set(Scope), "test")
    return Browser(workshop.url, text), token.id


# Signing in


def test_signing_in_leads_to_the_first_page(workshop: Library) -> None:
    browser = Browser(workshop.url)
    page = browser.get("/sign-in")
    assert page.status == 200
    done = browser.submit(page.main.one("form"), token=f"  {workshop.people['ada']}\n")
    assert (done.status, done.location) == (303, "/")
    assert browser.follow(done).status == 200


@pytest.mark.parametrize(
    "path", ["/me", "/cite?reference=knowledge:a@b%26c#L1", "/bases/~ada/notes/items/a%20b/%C3%A9"]
)
def test_a_page_asks_to_sign_in_and_comes_back(path: str, workshop: Library) -> None:
    browser = Browser(workshop.url)
    sent_away = browser.get(path)
    assert sent_away.status == 303
    assert sent_away.location.startswith("/sign-in?next=")
    form = browser.get(sent_away.location).main.one("form")
    assert browser.submit(form, token=workshop.people["ada"]).location == path.partition("#")[0]


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(workshop: Library) -> None:
    answer = Browser(workshop.url).send("/sign-in", {"token": workshop.people["ada"]})
    name, *attributes = answer.headers["set-cookie"].split("; ")
    assert name.startswith(f"{COOKIE}=")
    assert set(attributes) == {"HttpOnly", "Path=/", "SameSite=Lax"}
    assert "kbgit_" not in name.removeprefix(f"{COOKIE}=")


def test_behind_tls_the_cookie_travels_encrypted_and_for_this_host_alone(template: Template, tmp_path: Path) -> None:
    home = copied_home(template, tmp_path, embedder="none", watch="off", public_url="https://kb.example")
    runtime = open_runtime(home)
    try:
        with running(application(runtime, SERVER_ENVIRONMENT)) as url:
            browser = Browser(url)
            answer = browser.send("/sign-in", {"token": template.people["ada"]})
            name, *attributes = answer.headers["set-cookie"].split("; ")
            assert name.startswith(f"__Host-{COOKIE}=")
            assert set(attributes) == {"HttpOnly", "Path=/", "SameSite=Lax", "Secure"}
            assert browser.get("/").status == 200
            text = browser.cookies.pop(f"__Host-{COOKIE}")
            browser.cookies[COOKIE] = text  # which another host of the domain could have set
            assert browser.get("/").status == 303
    finally:
        runtime.stop()


@pytest.mark.parametrize("token", ["", "nonsense", "kbgit_" + "0" * 12 + "_" + "A" * 43, "é", "x" * 10_000])
def test_a_token_that_is_none_signs_nobody_in(token: str, workshop: Library) -> None:
    browser = Browser(workshop.url)
    answer = browser.send("/sign-in", {"token": token, "next": "/me"})
    assert (answer.status, answer.code) == (401, "unauthenticated")
    assert not browser.cookies
    assert answer.main.one("input", name="next").get("value") == "/me"
    assert answer.main.one("input", name="token").get("value") == ""


def test_a_refused_attempt_is_in_the_audit_log(workshop: Library) -> None:
    token, text = workshop.people.accounts.add_token("ada", "stolen", {Scope.KNOWLEDGE_READ}, "test")
    workshop.people.accounts.revoke_token(token.id, "test")
    assert Browser(workshop.url).send("/sign-in", {"token": text}).status == 401
    entry = next(one for one in workshop.people.accounts.audit(None, home=True) if one.details.get("token") == token.id)
    assert (entry.event, entry.details["why"]) == ("token_refused", "revoked")


@pytest.mark.parametrize(
    "following",
    [
        *("https://evil.example", "//evil.example", "/\\evil.example", "\\\\evil.example", "javascript:alert(1)", ""),
        *("/\t/evil.example", "/\n/evil.example", "evil.example", "/é", " //evil.example", "///evil.example"),
    ],
)
def test_signing_in_never_leads_to_another_host(following: str, workshop: Library) -> None:
    browser = Browser(workshop.url)
    assert browser.send("/sign-in", {"token": workshop.people["ada"], "next": following}).location == "/"


def test_local_addresses_are_followed() -> None:
    for address in ("/", "/me", "/?q=a+b&space=~ada", "/bases/~ada/notes/items/a%20b#L1"):
        assert local_path(address) == address


def test_signing_in_gives_a_new_session_whatever_there_was(ada: Browser, workshop: Library) -> None:
    before = ada.cookies[COOKIE]
    csrf = ada.get("/").dom.one("meta", name="csrf").get("content")
    again = ada.send("/sign-in", {"token": workshop.people["max"], "csrf": csrf})
    assert again.status == 303
    assert ada.cookies[COOKIE] != before
    assert "max" in ada.get("/").dom.one("summary", aria_label="Account of max").text
    stale = Browser(workshop.url)
    stale.cookies[COOKIE] = before
    assert stale.get("/").status == 303


def test_a_session_that_somebody_made_up_is_none_and_is_not_taken_over(workshop: Library) -> None:
    browser = Browser(workshop.url)
    browser.cookies[COOKIE] = "A" * 43
    assert browser.get("/").status == 303
    browser.send("/sign-in", {"token": workshop.people["ada"]})
    assert browser.cookies[COOKIE] != "A" * 43


def test_whoever_is_signed_in_is_not_asked_again(ada: Browser) -> None:
    assert ada.get("/sign-in?next=/me").location == "/me"


# Ends


def test_signing_out_ends_the_session_on_the_server_too(ada: Browser, workshop: Library) -> None:
    kept = dict(ada.cookies)
    done = ada.submit(ada.get("/").dom.button("Sign out"))
    assert done.location == "/sign-in"
    assert not ada.cookies
    thief = Browser(workshop.url)
    thief.cookies = kept
    assert thief.get("/").status == 303
    assert thief.api("GET", "/api/v1/me").error == "unauthenticated"


def test_a_revoked_token_ends_its_sessions_on_the_next_request(
    ends: tuple[Browser, str], people: People, workshop: Library
) -> None:
    browser, token_id = ends
    assert browser.get("/").status == 200
    workshop.people.accounts.revoke_token(token_id, "test")
    assert browser.get("/").status == 303
    assert browser.api("GET", "/api/v1/me").error == "unauthenticated"


def test_a_removed_user_has_no_session(workshop: Library) -> None:
    workshop.people.accounts.add_user("leaver", "test")
    _, text = workshop.people.accounts.add_token("leaver", "t", set(Scope), "test")
    browser = Browser(workshop.url, text)
    assert browser.get("/").status == 200
    workshop.people.accounts.remove_user("leaver", "test")
    assert browser.get("/").status == 303


def test_a_session_may_what_its_token_may(workshop: Library) -> None:
    reader = Browser(workshop.url, workshop.people["reader"])
    assert reader.api("GET", "/api/v1/me").json["scopes"] == ["knowledge:read"]
    memory = Browser(workshop.url, workshop.people["memory"])
    page = memory.get("/")
    assert (page.status, page.code) == (403, "forbidden")
    assert "knowledge:read" in page.main.text


def test_an_expired_session_ends_for_pages_and_interface(template: Template, tmp_path: Path) -> None:
    home = copied_home(template, tmp_path, embedder="none", watch="off")
    home = replace(home, settings=replace(home.settings, session_hours=0.0))
    runtime = open_runtime(home)
    try:
        with running(application(runtime, SERVER_ENVIRONMENT)) as url:
            browser = Browser(url, template.people["ada"])
            assert browser.get("/").status == 303
            assert browser.api("GET", "/api/v1/me").error == "unauthenticated"
    finally:
        runtime.stop()


# Tokens elsewhere


def test_a_token_in_an_address_is_refused_by_pages_too(workshop: Library) -> None:
    for address in (f"/sign-in?token={workshop.people['ada']}", f"/?q={workshop.people['ada']}"):
        page = Browser(workshop.url).get(address)
        assert (page.status, page.code) == (401, "unauthenticated")
        assert workshop.people["ada"] not in page.html


def test_a_token_in_a_cookie_is_refused(workshop: Library) -> None:
    browser = Browser(workshop.url)
    browser.cookies[COOKIE] = workshop.people["ada"]
    assert browser.get("/").status == 401
    assert browser.api("GET", "/api/v1/me").error == "unauthenticated"


def test_pages_take_no_bearer_token(workshop: Library) -> None:
    answer = Client(workshop.url, workshop.people["ada"]).get("/")
    assert answer.status == 303


# Changes by a browser


def test_the_interface_answers_a_session(ada: Browser) -> None:
    assert ada.api("GET", "/api/v1/me").json["user"] == "ada"
    csrf = ada.get("/").dom.one("meta", name="csrf").get("content")
    found = ada.api("POST", SEARCH, QUERY, {"X-CSRF-Token": csrf})
    assert found.json["type"] == "knowledge_search"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_change_by_a_session_needs_what_only_our_pages_know(method: str, ada: Browser) -> None:
    for headers in ({}, {"X-CSRF-Token": ""}, {"X-CSRF-Token": "0" * 64}, {"X-CSRF-Token": "é"}):
        path = {"POST": "/api/v1/spaces", "PUT": "/api/v1/spaces/platform/members/olga"}.get(
            method, "/api/v1/bases/a/b"
        )
        answer = ada.api(method, path, "{}", headers)
        assert (answer.status, answer.error) == (403, "cross_site_request")


@pytest.mark.parametrize("site", ["cross-site", "same-site", "Cross-Site", "nonsense"])
def test_a_change_that_another_site_asked_for_is_refused_even_with_the_secret(site: str, ada: Browser) -> None:
    csrf = ada.get("/").dom.one("meta", name="csrf").get("content")
    headers = {"X-CSRF-Token": csrf, "Sec-Fetch-Site": site}
    assert ada.api("POST", SEARCH, QUERY, headers).error == "cross_site_request"
    assert ada.send("/sign-out", {"csrf": csrf}, {"Sec-Fetch-Site": site}).code == "cross_site_request"
    assert ada.api("POST", SEARCH, QUERY, headers | {"Sec-Fetch-Site": "same-origin"}).status == 200


def test_the_secret_of_another_session_is_of_no_use(ada: Browser, workshop: Library) -> None:
    other = Browser(workshop.url, workshop.people["ada"])
    csrf = other.get("/").dom.one("meta", name="csrf").get("content")
    assert ada.api("POST", SEARCH, QUERY, {"X-CSRF-Token": csrf}).error == "cross_site_request"


def test_a_bearer_token_needs_no_secret_and_wins_over_a_session(ada: Browser, workshop: Library) -> None:
    headers = {"Authorization": f"Bearer {workshop.people['max']}"}
    assert ada.api("GET", "/api/v1/me", headers=headers).json["user"] == "max"
    assert ada.api("POST", SEARCH, QUERY, headers).status == 200
    wrong = {"Authorization": "Bearer nonsense"}
    assert ada.api("GET", "/api/v1/me", headers=wrong).error == "unauthenticated"


def test_forms_need_the_secret(ada: Browser) -> None:
    for form in ({}, {"csrf": ""}, {"csrf": "0" * 64}):
        for path in ("/sign-out", "/sign-in", "/spaces/~ada/new-base", "/bases/~ada/notes/archive"):
            page = ada.send(path, form)
            assert (page.status, page.code) == (403, "cross_site_request"), path
    assert ada.get("/").status == 200


def test_another_site_signs_nobody_in(workshop: Library) -> None:
    browser = Browser(workshop.url)
    page = browser.send("/sign-in", {"token": workshop.people["ada"]}, {"Sec-Fetch-Site": "cross-site"})
    assert (page.status, page.code) == (403, "cross_site_request")
    assert not browser.cookies


def test_a_form_sent_without_a_session_changes_nothing(workshop: Library) -> None:
    page = Browser(workshop.url).send("/spaces/~ada/new-base", {"slug": "x"})
    assert (page.status, page.code) == (401, "unauthenticated")


def test_other_sites_read_nothing_and_hold_no_window_of_ours(ada: Browser) -> None:
    page = ada.get("/", {"Sec-Fetch-Site": "cross-site"})
    assert page.status == 200
    assert "access-control-allow-origin" not in page.headers
    assert page.headers["cross-origin-opener-policy"] == "same-origin"
    assert ada.get("/", {"Origin": "https://evil.example"}).status == 403
