"""What one may not see is on no page: random worlds, as for the JSON interface, looked at with a browser."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from flask.testing import FlaskClient
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kbgit.access import Principal, Role, Scope
from kbgit.assemble import Runtime
from kbgit.base import BaseKey
from kbgit.item import ItemStatus
from kbgit.web.app import create_app
from kbgit.web.session_cookie import CSRF_HEADER, cookie_name
from tests.web.test_hidden import (
    ABSENT,
    API,
    MODES,
    TEAMS,
    USERS,
    Base,
    Caller,
    all_words,
    opened,
    roles,
    scopes,
    worlds,
)

STATES = ("state/{}", "delete/{}")


@dataclass
class Looker:
    """One caller's browser. Every page is looked through for words of what is hidden."""

    client: FlaskClient
    headers: Mapping[str, str]
    hidden: set[str]

    def ask(self, path: str, form: Mapping[str, str] | None = None) -> tuple[int, str]:
        answer = self.client.open(path, method="GET" if form is None else "POST", data=form, headers=self.headers)
        return answer.status_code, answer.get_data(as_text=True)

    def look(self, path: str) -> tuple[int, str]:
        status, page = self.ask(path)
        assert not [word for word in self.hidden if word in page], (path, page)
        return status, page

    def is_as_absent(self, word: str, path: str, form: Mapping[str, str] | None = None) -> None:
        answers = []
        for name in (word, ABSENT):
            status, page = self.ask(path.replace("{}", name), form)
            answers.append((status, page.replace(name, "{}")))
        assert answers[0] == answers[1]


def looker(runtime: Runtime, client: FlaskClient, token_id: str, hidden: set[str]) -> Looker:
    text = runtime.sessions.begin(token_id)
    session = runtime.sessions.find(text)
    assert session is not None
    cookie = f"{cookie_name(runtime.home.settings)}={text}"
    return Looker(client, {"Cookie": cookie, CSRF_HEADER: session.csrf}, hidden)


@settings(
    max_examples=3,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(worlds, roles, st.data())
def test_no_page_tells_of_anything_that_its_reader_may_not_see(
    bases: list[Base], given_roles: dict[tuple[str, str], Role | None], data: st.DataObject
) -> None:
    with opened(bases) as runtime:
        for (team, user), role in given_roles.items():
            if role is not None:
                runtime.accounts.set_member(f"team:{team}", user, role, "test")
        client = create_app(runtime).test_client(use_cookies=False)
        shas = {base.key: str(runtime.home.repository(BaseKey(base.space, base.slug)).head()) for base in bases}
        lookers = []
        for user in USERS:
            limited = data.draw(st.none() | st.sets(st.sampled_from([base.key for base in bases])).map(frozenset))
            own = {f"team:{team}": role for (team, who), role in given_roles.items() if who == user and role}
            caller = Caller(user, own, data.draw(scopes) | {Scope.KNOWLEDGE_READ}, limited)
            token, _ = runtime.accounts.add_token(user, "test", caller.scopes, "test", bases=limited)
            looks = looker(runtime, client, token.id, all_words(bases) - caller.words(bases))
            lookers.append((caller, looks))
            _check_pages(looks, caller, bases, shas)
            _check_hidden(looks, caller, bases, shas)
        # Last: without the bases that are hidden from somebody, their pages are the same, to the last digit of a score.
        caller, looks = max(lookers, key=lambda one: sum(not one[0].sees(base) for base in bases))
        before = _pages(looks)
        for base in bases:
            if not caller.sees(base):
                operator = Principal("owner", operator=True)
                runtime.bases.purge(base.key, operator, typed_name=base.slug, dry_run=False)
        assert _pages(looks) == before


def page_of(base: Base) -> str:
    return base.address.removeprefix(API)


def _check_pages(looks: Looker, caller: Caller, bases: list[Base], shas: Mapping[str, str]) -> None:
    _pages(looks)
    for team in TEAMS:
        if team in looks.hidden:
            looks.is_as_absent(team, "/?space={}")
            looks.is_as_absent(team, "/spaces/{}/new-base")
        else:
            looks.look(f"/?space={team}")
    for base in bases:
        if not caller.sees(base):
            continue
        status, page = looks.look(page_of(base))
        assert status == 200
        for item in base.items(*ItemStatus):
            assert (f"/items/{item}" in page) == (item in caller.items(base))
        for status_word in ItemStatus:
            looks.look(f"{page_of(base)}?status={status_word}")
        for item in caller.items(base):
            pinned = f"revision={shas[base.key]}"
            assert looks.look(f"{page_of(base)}/items/{item}?{pinned}")[0] == 200
            for path in (f"items/{item}", f"items/{item}?view=source", f"history/{item}"):
                looks.look(f"{page_of(base)}/{path}")
            assert looks.look(f"/cite?reference=knowledge:{item}@{shas[base.key]}")[0] == 200


def _check_hidden(looks: Looker, caller: Caller, bases: list[Base], shas: Mapping[str, str]) -> None:
    for base in bases:
        sha = shas[base.key]
        for item in base.items(*ItemStatus) - caller.items(base):
            paths = ["items/{}", f"items/{{}}?revision={sha}", "history/{}", f"compare/{{}}?from={sha}&to={sha}"]
            for path in paths:
                looks.is_as_absent(item, f"{page_of(base)}/{path}")
            for path in STATES:
                looks.is_as_absent(item, f"{page_of(base)}/{path}", {"to": "publish", "expected_revision": sha})
            looks.is_as_absent(item, f"/cite?reference=knowledge:{{}}@{sha}")
            for query in ("q={}", "q=heron&exclude={}", "q=heron&tag={}", "q=heron&locator={}"):
                looks.is_as_absent(item, f"/?mode=lexical&{query}")
            if caller.sees(base):
                looks.is_as_absent(item, f"{page_of(base)}?prefix={{}}")
        if not caller.sees(base):
            address = page_of(base).replace(base.slug, "{}")
            for below in ("", "/items/x", "/history/x", "/compare/x"):
                looks.is_as_absent(base.slug, address + below)
            for below in ("/archive", "/restore", "/state/x", "/delete/x"):
                looks.is_as_absent(base.slug, address + below, {"confirmed": "yes"})
            looks.is_as_absent(base.slug, "/?q=heron&base={}")


def _pages(looks: Looker) -> list[tuple[int, str]]:
    found = [looks.look(path) for path in ("/", "/me", "/cite")]
    for mode in MODES:
        found += [looks.look(f"/?mode={mode}&q={quote(query)}") for query in ("heron", "ibis words")]
    return found
