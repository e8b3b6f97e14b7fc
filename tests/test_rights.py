"""Who may do what, wherever it can be asked for: every route, Git over HTTP, the hooks.

`rights/table.py` says which right a route needs and of what; `access.decide` says who has it. Every role with every set of
scopes asks for everything, in a team's and a personal space, of active and archived bases. Requests are such that a caller
who may changes nothing by them: they start from a revision that is none, or take a name that is taken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from kbgit.access import Action, Scope, decide
from kbgit.assemble import Runtime, open_runtime
from kbgit.base import BaseKey, BaseStatus
from kbgit.home import Home
from kbgit.web.app import create_app
from kbgit.web.server import application
from kbgit.web.session_cookie import CSRF_HEADER, cookie_name
from tests.rights.table import API, TABLE, anybody, is_page, without_anything
from tests.rights.world import KEYS, MATTERING, ROLES, SCOPE_SETS, Place, World, made
from tests.web.serving import SERVER_ENVIRONMENT, Client, WorkTree, git_url, running


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    path = tmp_path_factory.mktemp("rights") / "home"
    Home.create(path)
    runtime = open_runtime(Home.at(path, {"embedder": "none", "watch": "off"}))
    accounts = runtime.accounts
    for user in (*ROLES, "pat"):
        accounts.add_user(user, "test", administrator=user == "root")
    accounts.add_team("crew", "olivia", "test")
    accounts.add_team("others", "sam", "test")
    for user, role in ROLES.items():
        if role is not None:
            accounts.set_member("team:crew", user, role, "test")
    places = [made(runtime, key, status) for key, status in KEYS.items()]
    made(runtime, BaseKey("team:others", "theirs"), BaseStatus.ACTIVE)
    runtime.indexer.sweep()
    tokens = {}
    for user in ROLES:
        for scopes in SCOPE_SETS:
            given = {Scope.MEMORY_READ, Scope.MEMORY_WRITE, *scopes}  # which are good for nothing here
            tokens[f"{user} with {', '.join(sorted(scopes)) or 'nothing'}"] = accounts.add_token(
                user, "scoped", given, "test"
            )[1]
        tokens[f"{user} without memory"] = accounts.add_token(user, "forgetful", MATTERING, "test")[1]
        for base in ("team:crew/active", "team:others/theirs"):
            limited = accounts.add_token(user, "limited", set(Scope), "test", bases=[base])
            tokens[f"{user} limited to {base}"] = limited[1]
    yield World(runtime, places, tokens)
    runtime.stop()


@pytest.fixture(scope="module")
def client(world: World) -> FlaskClient:
    return create_app(world.runtime).test_client(use_cookies=False)  # each request brings its own


def routes(world: World) -> set[tuple[str, str]]:
    return {
        (method, rule.rule)
        for rule in create_app(world.runtime).url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }


def test_every_route_has_its_row(world: World) -> None:
    assert routes(world) == set(TABLE)


@dataclass
class Ask:
    """Sends a row's request."""

    client: FlaskClient
    spare: str
    runtime: Runtime

    def __call__(self, route: tuple[str, str], place: Place, token: str | None) -> tuple[str, str]:
        """(status and code of the answer, its text)."""
        row = TABLE[route]
        body = None if row.body is None else json.loads(place.fill(json.dumps(row.body)))
        form = None if row.form is None else {name: place.fill(value) for name, value in row.form.items()}
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if is_page(route) and token:
            headers = self.session_of(token)
        answer = self.client.open(
            place.fill(row.address.replace("{spare}", self.spare)),
            method=route[0],
            json=body,
            data=form,
            headers=headers,
        )
        text = answer.get_data().decode("utf-8", "replace")
        code = _code_of(text) if answer.status_code >= 400 else ""
        return f"{answer.status_code} {code}".strip(), text

    def session_of(self, token: str) -> dict[str, str]:
        """What a browser sends that was signed in with this token, and asked by one of our pages."""
        text = self.runtime.sessions.begin(token.split("_")[1])
        session = self.runtime.sessions.find(text)
        assert session is not None
        return {"Cookie": f"{cookie_name(self.runtime.home.settings)}={text}", CSRF_HEADER: session.csrf}


def _code_of(text: str) -> str:
    if text.startswith("{"):
        return str(json.loads(text)["error"]["code"])
    shown = re.search('<code class="error-code">(\\w+)</code>', text)
    return shown[1] if shown else "without a code"


@pytest.fixture(scope="module")
def ask(world: World, client: FlaskClient) -> Ask:
    spare = world.runtime.accounts.add_token("root", "spare", {Scope.KNOWLEDGE_READ}, "test")[0].id
    return Ask(client, spare, world.runtime)


@pytest.mark.parametrize("route", TABLE, ids=lambda route: " ".join(route))
def test_each_caller_gets_the_answer_that_is_due(route: tuple[str, str], world: World, ask: Ask) -> None:
    row = TABLE[route]
    heads = [world.runtime.home.repository(place.key).head() for place in world.places]
    wrong = []
    allowed = refused = 0
    is_the_same_everywhere = row.rule is anybody and row.shows is None
    for place in world.places[: 1 if is_the_same_everywhere else None]:
        if row.only not in (None, place.status):
            continue
        for who, token, caller in world.callers():
            due = row.due(caller, place)
            given, text = ask(route, place, token)
            if given != due:
                wrong.append(f"{who}, {place.key}: {given}, not {due}")
            is_success = due == row.success(place)
            allowed, refused = allowed + is_success, refused + (not is_success)
            if is_success and row.shows is not None and (shown := row.shows(place)) is not None:
                may_see = bool(decide(caller, Action.READ_PUBLISHED, place.target))
                if (shown in text) != may_see:
                    wrong.append(f"{who}: {place.key} is {'not ' * may_see}shown")
        due_to_nobody = without_anything(route)
        if due_to_nobody is not None and (given := ask(route, place, None)[0]) != due_to_nobody:
            wrong.append(f"without a token: {given}")
    assert wrong == []
    assert allowed
    assert refused or row.rule is anybody
    assert heads == [world.runtime.home.repository(place.key).head() for place in world.places]


def test_drafts_are_for_those_who_may_read_them(world: World, client: FlaskClient) -> None:
    wrong = []
    for place in world.places:
        for who, token, caller in world.callers():
            may = all(decide(caller, a, place.target) for a in (Action.READ_PUBLISHED, Action.READ_DRAFTS))
            item, headers = f"{place.key.slug}-draft", {"Authorization": f"Bearer {token}"}
            pinned = client.get(f"{API}/knowledge/item?id={item}&revision={place.draft}", headers=headers)
            history = client.get(f"{API}/knowledge/item/revisions?id={item}", headers=headers)
            listed = client.get(place.fill(f"{API}/bases/{{space}}/{{slug}}/items?limit=200"), headers=headers)
            shown = client.get(place.fill(f"{API}/bases/{{space}}/{{slug}}"), headers=headers)
            found = [
                pinned.status_code == 200,
                history.status_code == 200,
                f'"{item}"' in listed.get_data(as_text=True),
                '"draft":1' in shown.get_data(as_text=True),
            ]
            if found != [may] * 4:
                wrong.append(f"{who}, {place.key}: {found}, not {may}")
    assert wrong == []


# Git over HTTP and the hooks

GIT = {"git-upload-pack": Action.FETCH, "git-receive-pack": Action.WRITE_ITEMS}
PUSHES = {
    "an item": (Action.WRITE_ITEMS, "new.md"),
    "the settings": (Action.ADMINISTER_BASE, "base.yaml"),
    "a deletion": (Action.DELETE_ITEMS, "doomed-{}.md"),
}


@pytest.fixture(scope="module")
def url(world: World) -> Iterator[str]:
    with running(application(world.runtime, SERVER_ENVIRONMENT)) as served:
        yield served


@pytest.mark.parametrize("service", GIT)
def test_git_is_opened_to_whoever_may(service: str, world: World, url: str) -> None:
    wrong = []
    for place in world.places:
        for who, token, caller in world.callers():
            if decide(caller, GIT[service], place.target):
                due = 200
            else:
                due = 403 if decide(caller, Action.READ_PUBLISHED, place.target) else 404
            address = f"/git/{place.key.relative_path}.git"
            given = [Client(url, token).get(f"{address}/info/refs?service={service}").status]
            if due != 200:
                given.append(Client(url, token).request("POST", f"{address}/{service}", b"0000").status)
            if set(given) != {due}:
                wrong.append(f"{who}, {place.key}: {given}, not {due}")
    assert wrong == []


@pytest.mark.parametrize("pushed", PUSHES)
def test_the_hook_admits_what_its_pusher_may(pushed: str, world: World, url: str, tmp_path: Path) -> None:
    action, file = PUSHES[pushed]
    key = BaseKey("team:crew", f"pushed-{pushed.split()[1]}")
    place = made(world.runtime, key, BaseStatus.ACTIVE)
    pushers = [
        (who, token, caller)
        for who, token, caller in world.callers()
        # The others do not come as far as the hook; and to it reading is nothing.
        if decide(caller, Action.WRITE_ITEMS, place.target) and Scope.KNOWLEDGE_READ not in caller.scopes
    ]
    work_tree = WorkTree(tmp_path / "work")
    work_tree.path.mkdir()
    work_tree.git("clone", "--quiet", str(key.repository_path(world.runtime.home.repositories)), ".")
    work_tree.write({f"doomed-{number}.md": "Words.\n" for number in range(len(pushers))})
    work_tree.git("push", "--quiet", "origin", "main")
    answers = set()
    for number, (who, token, caller) in enumerate(pushers):
        before = world.runtime.home.repository(key).head()
        if action is Action.DELETE_ITEMS:
            work_tree.git("rm", "--quiet", file.format(number))
            work_tree.git("commit", "--quiet", "--message", "Delete")
        else:
            work_tree.write(
                {file: f"---\ntitle: Changed {number}\n---\n" if file.endswith(".md") else f"name: N{number}\n"}
            )
        ran = work_tree.git("push", git_url(url, token, f"{key.relative_path}.git"), "HEAD:main", check=False)
        may = bool(decide(caller, action, place.target))
        moved = world.runtime.home.repository(key).head() != before
        assert (ran.code == 0, moved) == (may, may), f"{who}: {ran.output}"
        if not may:
            assert "base:admin" in ran.output
            work_tree.git("reset", "--quiet", "--hard", "HEAD~1")
        answers.add(may)
    assert answers == ({True} if action is Action.WRITE_ITEMS else {True, False})
