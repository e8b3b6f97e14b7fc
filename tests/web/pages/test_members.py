"""Who is in a space, on a page: shown to those in it, changed by those who manage it."""

from __future__ import annotations

import hashlib

import pytest

from kbgit.access import Role
from tests.web.conftest import Library
from tests.web.pages.browsing import Browser, Page


@pytest.fixture
def team(workshop: Library, request: pytest.FixtureRequest) -> str:
    """A team of the test's own: ada owns it, kim administers it, max is a member, vera a viewer."""
    accounts = workshop.runtime.accounts
    name = "t" + hashlib.sha256(request.node.name.encode()).hexdigest()[:12]
    key = accounts.add_team(name, "ada", "test")
    for user, role in (("kim", Role.ADMIN), ("max", Role.MEMBER), ("vera", Role.VIEWER)):
        accounts.set_member(key, user, role, "test")
    return name


def browser(workshop: Library, who: str) -> Browser:
    return Browser(workshop.url, workshop.people[who])


def roles_in(workshop: Library, team: str) -> dict[str, str]:
    return {user: role.value for user, role in workshop.runtime.accounts.members(f"team:{team}")}


def shown(page: Page) -> list[str]:
    return [row.one("th", scope="row").text.removesuffix(" (you)") for row in page.main.one("tbody").all("tr")]


def test_members_see_each_other_and_may_leave_and_nothing_else_is_offered(workshop: Library, team: str) -> None:
    vera = browser(workshop, "vera")
    page = vera.get(f"/spaces/{team}/members")
    assert shown(page) == ["ada", "kim", "max", "vera"]
    assert not page.main.all("select")
    assert not page.main.has_button("Add")
    assert not page.main.has_link("Audit log")
    left = vera.submit(page.main.button(f"Yes, leave {team}"))
    assert (left.status, left.location) == (303, "/spaces?done=changed")
    assert "vera" not in roles_in(workshop, team)
    assert vera.get(f"/spaces/{team}/members").status == 404


def test_an_owner_adds_changes_and_removes(workshop: Library, team: str) -> None:
    ada = browser(workshop, "ada")
    address = f"/spaces/{team}/members"
    added = ada.submit(ada.get(address).main.button("Add"), user=" olga ", role="member")
    assert added.location == f"{address}?done=changed"
    page = ada.follow(added)
    assert shown(page) == ["ada", "kim", "max", "olga", "vera"]
    ada.submit(page.main.button("Change the role of vera"), role="owner")
    assert roles_in(workshop, team)["vera"] == "owner"
    ada.submit(ada.get(address).main.button("Yes, remove max"))
    assert roles_in(workshop, team) == {"ada": "owner", "kim": "admin", "olga": "member", "vera": "owner"}


def test_the_last_owner_is_not_offered_to_go_and_is_kept_all_the_same(workshop: Library, team: str) -> None:
    ada = browser(workshop, "ada")
    page = ada.get(f"/spaces/{team}/members")
    assert "the last one" in page.main.one("tbody").all("tr")[0].text
    assert not page.main.has_button(f"Yes, leave {team}")
    csrf = page.dom.one("meta", name="csrf").get("content")
    for path, form in (("/remove", {"user": "ada"}), ("", {"user": "ada", "role": "viewer"})):
        kept = ada.send(f"/spaces/{team}/members{path}", {**form, "csrf": csrf})
        assert (kept.status, kept.code) == (409, "conflict")
        assert "last owner" in kept.main.one(role="alert").text
        assert shown(kept) == ["ada", "kim", "max", "vera"]


def test_an_admin_neither_makes_nor_touches_owners(workshop: Library, team: str) -> None:
    kim = browser(workshop, "kim")
    page = kim.get(f"/spaces/{team}/members")
    assert "owner" not in [option.get("value") for option in page.main.all("option")]
    assert not page.main.has_button("Yes, remove ada")
    refused = kim.submit(page.main.button("Add"), user="max", role="owner")
    assert (refused.status, refused.code) == (403, "forbidden")


def test_what_is_wrong_with_the_form_is_said_beside_it(workshop: Library, team: str) -> None:
    ada = browser(workshop, "ada")
    form = ada.get(f"/spaces/{team}/members").main.button("Add")
    nobody = ada.submit(form, user="no<b>body", role="viewer")
    assert nobody.status in (400, 404)
    assert shown(nobody) == ["ada", "kim", "max", "vera"]
    assert ada.submit(form, user="olga", role="king").status == 400


def test_a_personal_space_is_its_owners_and_has_nothing_to_change(workshop: Library) -> None:
    ada = browser(workshop, "ada")
    page = ada.get("/spaces/~ada/members")
    assert shown(page) == ["ada"]
    assert not page.main.all("form")
    assert browser(workshop, "root").get("/spaces/~ada/members").status == 404


def test_the_list_of_spaces_leads_to_each_and_to_the_log_for_those_who_may(workshop: Library, team: str) -> None:
    max_, root = browser(workshop, "max"), browser(workshop, "root")
    page = max_.get("/spaces")
    assert page.main.link(team) == f"/spaces/{team}/members"
    assert root.get("/spaces").main.has_link("Audit log")
    assert root.get(f"/spaces/{team}/members").main.has_button("Add")


def test_the_log_tells_managers_what_was_done_in_pages(workshop: Library, team: str) -> None:
    ada = browser(workshop, "ada")
    for number in range(60):
        role = (Role.MEMBER, Role.VIEWER)[number % 2]
        workshop.runtime.accounts.set_member(f"team:{team}", "vera", role, "test")
    page = ada.get(f"/audit?space={team}")
    assert len(page.main.one("tbody").all("tr")) == 50
    older = ada.get(page.main.link("Older"))
    assert 0 < len(older.main.one("tbody").all("tr")) <= 50
    assert older.main.link("Newest") == f"/audit?space={team}"
    assert browser(workshop, "olga").get(f"/audit?space={team}").status == 404
