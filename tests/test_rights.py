"""Who may do what, wherever it can be asked for: every route, Git over HTTP, the hooks.

One table says which right a route needs and of what; `access.decide` says who has it. Every role with every set of scopes
asks for everything, in a team's and a personal space, of active and archived bases. Requests are such that a caller who may
changes nothing by them: they start from a revision that is none, or take a name that is taken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from flask.testing import FlaskClient

from kbgit.access import ACTION_SCOPE, HOME, TEAM, Action, Principal, Role, Scope, Target, decide
from kbgit.assemble import Runtime, open_runtime
from kbgit.base import BaseKey, BaseStatus
from kbgit.home import Home
from kbgit.importing import BaseOptions
from kbgit.item import ItemStatus
from kbgit.library import Draft
from kbgit.revision import Via
from kbgit.web.app import create_app
from kbgit.web.server import application
from kbgit.web.session_cookie import CSRF_HEADER, cookie_name
from tests.web.serving import SERVER_ENVIRONMENT, Client, WorkTree, git_url, running

API = "/api/v1"
NOWHERE = "0" * 40
ROLES = {"olivia": Role.OWNER, "adam": Role.ADMIN, "mia": Role.MEMBER, "victor": Role.VIEWER, "sam": None, "root": None}
"""Users, and their roles in the team `crew`; sam owns another team, root administers the home."""
MATTERING = (Scope.KNOWLEDGE_READ, Scope.ITEM_WRITE, Scope.BASE_ADMIN)
SCOPE_SETS = [frozenset(chosen) for size in range(4) for chosen in combinations(MATTERING, size)]
KEYS = {
    BaseKey("team:crew", "active"): BaseStatus.ACTIVE,
    BaseKey("team:crew", "archived"): BaseStatus.ARCHIVED,
    BaseKey("personal:olivia", "notes"): BaseStatus.ACTIVE,
    BaseKey("personal:olivia", "attic"): BaseStatus.ARCHIVED,
}


@dataclass(frozen=True)
class Place:
    """A base with a published item and a draft, whose ids are `<slug>-page` and `<slug>-draft`."""

    key: BaseKey
    status: BaseStatus
    page: str
    draft: str

    @property
    def target(self) -> Target:
        return Target(self.key.space, str(self.key))

    def fill(self, text: str) -> str:
        space, _, slug = str(self.key.relative_path).partition("/")
        cite = quote(f"knowledge:{slug}-page@{self.page}")
        words = {"space": space, "slug": slug, "key": self.key.space, "item": f"{slug}-page", "page": self.page}
        for name, value in {**words, "cite": cite, "zero": NOWHERE}.items():
            text = text.replace(f"{{{name}}}", value)
        return text


@dataclass(frozen=True)
class World:
    """A home with people in every role, each with a token for every set of scopes."""

    runtime: Runtime
    places: list[Place]
    tokens: dict[str, str]

    def callers(self) -> Iterator[tuple[str, str, Principal]]:
        """(a name that says who, token, principal)."""
        for name, text in self.tokens.items():
            yield name, text, self.runtime.accounts.authenticate(text)

    def place(self, slug: str) -> Place:
        return next(place for place in self.places if place.key.slug == slug)


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


def made(runtime: Runtime, key: BaseKey, status: BaseStatus) -> Place:
    operator = Principal("olivia", operator=True)
    runtime.bases.create(key, operator, BaseOptions(name=key.slug))
    shas = []
    for name, state in (("page", ItemStatus.PUBLISHED), ("draft", ItemStatus.DRAFT)):
        item = f"{key.slug}-{name}"
        draft = Draft(title=item, content=f"heron {item}\n", status=state)
        written = runtime.writing.create(str(key), operator, draft, locator=f"{name}.md", item_id=item, via=Via.API)
        assert written.citation is not None
        shas.append(str(written.citation.revision))
    runtime.bases.set_status(str(key), operator, status, Via.API)
    return Place(key, status, *shas)


@pytest.fixture(scope="module")
def client(world: World) -> FlaskClient:
    return create_app(world.runtime).test_client(use_cookies=False)  # each request brings its own


# The table


@dataclass(frozen=True)
class Row:
    """What a route needs, and a request of it by which nothing changes.

    `rule` gives the answer that is due to a caller, from what `decide` says: `done`, or a refusal. `shows` tells what an
    answer must show of a base exactly to those who may see it.
    """

    rule: Callable[[Row, Principal, Place], str]
    address: str
    needs: Action = Action.READ_PUBLISHED
    done: str = "200"
    archived: str | None = None
    personal: str | None = None
    hidden: str = "404 base_not_found"
    body: Any = None
    form: dict[str, str] | None = None
    only: BaseStatus | None = None
    shows: Callable[[Place], str | None] | None = None

    def due(self, caller: Principal, place: Place) -> str:
        return self.rule(self, caller, place)

    def success(self, place: Place) -> str:
        if self.archived is not None and place.status is BaseStatus.ARCHIVED:
            return self.archived
        return self.personal if self.personal is not None and not place.key.space.startswith(TEAM) else self.done


def of_base(row: Row, caller: Principal, place: Place) -> str:
    """Knowledge needs a token for reading; then a base is there for whoever may read it; then comes the right itself."""
    if Scope.KNOWLEDGE_READ not in caller.scopes:
        return "403 forbidden"
    if not decide(caller, Action.READ_PUBLISHED, place.target):
        return row.hidden
    return row.success(place) if decide(caller, row.needs, place.target) else "403 forbidden"


def of_all_bases(row: Row, caller: Principal, _: Place) -> str:
    return row.done if Scope.KNOWLEDGE_READ in caller.scopes else "403 forbidden"


def of_members(row: Row, caller: Principal, place: Place) -> str:
    """A space and who is in it is there for its members and, a team's, for administrators of the home."""
    actions = (Action.READ_PUBLISHED, Action.MANAGE_MEMBERS)
    if is_home_matter(caller, place) or any(decide(caller, action, Target(place.key.space)) for action in actions):
        return row.success(place)
    return "404 space_not_found" if Scope.KNOWLEDGE_READ in caller.scopes else "403 forbidden"


def of_managers(row: Row, caller: Principal, place: Place) -> str:
    """What is there is managed by owners and admins and, where it is a team, by administrators of the home."""
    found = of_members(row, caller, place)
    may = is_home_matter(caller, place) or decide(caller, Action.MANAGE_MEMBERS, Target(place.key.space))
    return "403 forbidden" if found == row.success(place) and not may else found


def is_home_matter(caller: Principal, place: Place) -> bool:
    return place.key.space.startswith(TEAM) and bool(decide(caller, Action.ADMINISTER_HOME, HOME))


def of_log(row: Row, caller: Principal, place: Place) -> str:
    may = is_home_matter(caller, place) or decide(caller, Action.MANAGE_MEMBERS, Target(place.key.space))
    return row.done if may else "404 space_not_found"


def of_home(row: Row, caller: Principal, _: Place) -> str:
    return row.done if decide(caller, Action.ADMINISTER_HOME, HOME) else "403 forbidden"


def of_token_making(row: Row, caller: Principal, _: Place) -> str:
    """A token gives no more than the one that makes it."""
    return row.done if caller.scopes >= set(MATTERING) and caller.bases is None else "403 forbidden"


def of_token_page(row: Row, caller: Principal, _: Place) -> str:
    """The same, for a token that administers bases, all of them."""
    return row.done if Scope.BASE_ADMIN in caller.scopes and caller.bases is None else "403 forbidden"


def of_token_of_root(row: Row, caller: Principal, _: Place) -> str:
    may = caller.user == "root" or decide(caller, Action.ADMINISTER_HOME, HOME)
    return row.done if may else "404 not_found"


def of_new_base(row: Row, caller: Principal, place: Place) -> str:
    """The form for a new base is for whoever may make one; a token limited to bases makes none."""
    if Scope.KNOWLEDGE_READ not in caller.scopes:
        return "403 forbidden"
    reached = {base.rpartition("/")[0] for base in caller.bases} if caller.bases is not None else {place.key.space}
    if place.key.space not in caller.roles or place.key.space not in reached:
        return row.hidden
    return row.done if decide(caller, Action.ADMINISTER_BASE, Target(place.key.space)) else "403 forbidden"


def of_memory(row: Row, caller: Principal, place: Place) -> str:
    """Memory needs a token for it, then a role in the space."""
    space = Target(place.key.space)
    if ACTION_SCOPE[row.needs] not in caller.scopes:
        return "403 forbidden"
    if decide(caller, row.needs, space):
        return row.done
    may_read = decide(replace(caller, scopes=frozenset(Scope)), Action.READ_MEMORY, space)
    return "403 forbidden" if may_read else "404 space_not_found"


def of_own_memory(row: Row, caller: Principal, _: Place) -> str:
    return row.done if ACTION_SCOPE[row.needs] in caller.scopes else "403 forbidden"


def anybody(row: Row, *_: object) -> str:
    return row.done


_UNSEEN: dict[str, Any] = {"hidden": "404 item_not_found"}
_WRITE: dict[str, Any] = {
    "needs": Action.WRITE_ITEMS,
    **_UNSEEN,
    "done": "409 stale_revision",
    "body": {"expected_revision": NOWHERE},
}
_ADMIN: dict[str, Any] = {"needs": Action.ADMINISTER_BASE}
_LISTED: dict[str, Any] = {"shows": lambda place: f'"{place.key}"'}
_FOUND: dict[str, Any] = {"shows": lambda p: f'"{p.key.slug}-page"' if p.status is BaseStatus.ACTIVE else None}
_BASE, _ITEM = f"{API}/bases/<space>/<slug>", f"{API}/knowledge/items/<path:item_id>"
_BY_ID = f"{API}/knowledge/item"


def _both(method: str, below: str, query: str, **row: Any) -> dict[tuple[str, str], Row]:  # noqa: ANN401
    """The two addresses of an item."""
    return {
        (method, f"{_ITEM}{below}"): Row(of_base, f"{API}/knowledge/items/{{item}}{below}?{query}", **row),
        (method, f"{_BY_ID}{below}"): Row(of_base, f"{_BY_ID}{below}?id={{item}}&{query}", **row),
    }


TABLE: dict[tuple[str, str], Row] = {
    # Anybody
    ("GET", "/healthz"): Row(anybody, "/healthz"),
    ("GET", "/metrics"): Row(of_home, "/metrics"),
    ("GET", f"{API}/openapi.json"): Row(anybody, f"{API}/openapi.json"),
    ("GET", f"{API}/status"): Row(anybody, f"{API}/status", **_LISTED),
    # Knowledge
    ("POST", f"{API}/knowledge/search"): Row(
        of_all_bases, f"{API}/knowledge/search", body={"query": "heron", "limit": 100}, **_FOUND
    ),
    ("GET", f"{API}/knowledge/resolve"): Row(of_base, f"{API}/knowledge/resolve?reference={{cite}}", **_UNSEEN),
    **_both("GET", "", "", archived="409 base_archived", **_UNSEEN),
    **_both("GET", "/revisions", "", **_UNSEEN),
    **_both("GET", "/diff", "from={page}&to={page}", **_UNSEEN),
    # Items
    ("GET", f"{_BASE}/items"): Row(of_base, f"{API}/bases/{{space}}/{{slug}}/items"),
    ("POST", f"{_BASE}/items"): Row(
        of_base,
        f"{API}/bases/{{space}}/{{slug}}/items",
        needs=Action.WRITE_ITEMS,
        body={"title": "Taken", "locator": "page.md"},
        done="409 already_exists",
    ),
    ("POST", f"{_BASE}/files"): Row(
        of_base, f"{API}/bases/{{space}}/{{slug}}/files", needs=Action.WRITE_ITEMS, body={"files": []}
    ),
    **_both("PATCH", "", "", **_WRITE),
    **_both("POST", "/publish", "", **_WRITE),
    **_both("POST", "/unpublish", "", **_WRITE),
    **_both("POST", "/archive", "", **_WRITE),
    **_both("POST", "/restore", "", **_WRITE),
    **_both("DELETE", "", "expected_revision={zero}", needs=Action.DELETE_ITEMS, done="409 stale_revision", **_UNSEEN),
    # Documents; without a body nothing is taken in
    ("POST", f"{_BASE}/documents"): Row(
        of_base,
        f"{API}/bases/{{space}}/{{slug}}/documents?name=page.pdf",
        needs=Action.WRITE_ITEMS,
        done="400 invalid_request",
    ),
    ("GET", f"{API}/documents"): Row(of_base, f"{API}/documents?base={{key}}/{{slug}}", needs=Action.WRITE_ITEMS),
    ("GET", f"{API}/documents/events"): Row(of_all_bases, f"{API}/documents/events"),
    ("GET", f"{API}/documents/<document_id>"): Row(
        of_all_bases, f"{API}/documents/doc_{'0' * 24}", done="404 not_found"
    ),
    ("POST", f"{API}/documents/<document_id>/cancel"): Row(
        of_all_bases, f"{API}/documents/doc_{'0' * 24}/cancel", done="404 not_found"
    ),
    ("POST", f"{API}/documents/<document_id>/retry"): Row(
        of_all_bases, f"{API}/documents/doc_{'0' * 24}/retry", done="404 not_found"
    ),
    ("GET", f"{API}/file-types"): Row(anybody, f"{API}/file-types"),
    # Bases
    ("GET", f"{API}/bases"): Row(of_all_bases, f"{API}/bases", **_LISTED),
    ("POST", f"{API}/bases"): Row(
        of_base,
        f"{API}/bases",
        body={"space": "{space}", "slug": "{slug}"},
        done="409 already_exists",
        hidden="404 space_not_found",
        **_ADMIN,
    ),
    ("GET", _BASE): Row(of_base, f"{API}/bases/{{space}}/{{slug}}"),
    ("PATCH", _BASE): Row(of_base, f"{API}/bases/{{space}}/{{slug}}", body={"name": "{slug}"}, **_ADMIN),
    ("DELETE", _BASE): Row(of_base, f"{API}/bases/{{space}}/{{slug}}?dry_run=true", **_ADMIN),
    ("GET", f"{_BASE}/bundle"): Row(of_base, f"{API}/bases/{{space}}/{{slug}}/bundle", **_ADMIN),
    ("POST", f"{_BASE}/archive"): Row(
        of_base, f"{API}/bases/{{space}}/{{slug}}/archive", only=BaseStatus.ARCHIVED, **_ADMIN
    ),
    ("POST", f"{_BASE}/restore"): Row(
        of_base, f"{API}/bases/{{space}}/{{slug}}/restore", only=BaseStatus.ACTIVE, **_ADMIN
    ),
    # Agents
    ("POST", f"{API}/citations/verify"): Row(
        of_all_bases,
        f"{API}/citations/verify",
        body={"citations": ["knowledge:{slug}-page@{page}"]},
        shows=lambda place: '"exact"' if place.status is BaseStatus.ACTIVE else '"state":"archived"',
    ),
    ("GET", f"{API}/knowledge/changes"): Row(
        of_all_bases, f"{API}/knowledge/changes?since_time=2001-01-01T00:00:00Z&limit=200", **_FOUND
    ),
    ("POST", f"{API}/knowledge/changes"): Row(
        of_all_bases, f"{API}/knowledge/changes", body={"since_time": "2001-01-01T00:00:00Z"}, **_FOUND
    ),
    ("POST", f"{API}/recall"): Row(anybody, f"{API}/recall", body={"query": "heron"}, **_FOUND),
    ("GET", f"{API}/memory"): Row(of_memory, f"{API}/memory?space={{key}}", needs=Action.READ_MEMORY),
    ("GET", f"{API}/memory/export"): Row(of_memory, f"{API}/memory/export?space={{key}}", needs=Action.READ_MEMORY),
    ("POST", f"{API}/memory"): Row(
        of_memory,
        f"{API}/memory",
        needs=Action.WRITE_MEMORY,
        body={"text": "x", "project": "p", "space": "{key}"},
        done="201",
    ),
    ("GET", f"{API}/memory/projects"): Row(of_memory, f"{API}/memory/projects?space={{key}}", needs=Action.READ_MEMORY),
    ("POST", f"{API}/memory/documents"): Row(
        of_memory,
        f"{API}/memory/documents",
        needs=Action.WRITE_MEMORY,
        body={"space": "{key}", "project": "p", "reference": "knowledge:x"},
    ),
    ("DELETE", f"{API}/memory/documents"): Row(
        of_memory,
        f"{API}/memory/documents?space={{key}}&project=p&reference=knowledge:never-linked",
        needs=Action.WRITE_MEMORY,
        done="404 not_found",
    ),
    ("DELETE", f"{API}/memory/<record_id>"): Row(
        of_own_memory, f"{API}/memory/mem_{'0' * 24}", needs=Action.WRITE_MEMORY, done="404 not_found"
    ),
    # People
    ("GET", f"{API}/users"): Row(of_home, f"{API}/users"),
    ("POST", f"{API}/users"): Row(of_home, f"{API}/users", body={"name": "pat"}, done="409 already_exists"),
    ("DELETE", f"{API}/users/<name>"): Row(of_home, f"{API}/users/nobody", done="404 not_found"),
    ("GET", f"{API}/spaces"): Row(anybody, f"{API}/spaces"),
    ("POST", f"{API}/spaces"): Row(of_home, f"{API}/spaces", body={"name": "crew"}, done="409 already_exists"),
    ("GET", f"{API}/spaces/<space>/members"): Row(of_members, f"{API}/spaces/{{space}}/members"),
    ("PUT", f"{API}/spaces/<space>/members/<user>"): Row(
        of_managers, f"{API}/spaces/{{space}}/members/nobody", body={"role": "viewer"}, done="404 not_found"
    ),
    ("DELETE", f"{API}/spaces/<space>/members/<user>"): Row(
        of_managers,
        f"{API}/spaces/{{space}}/members/nobody",
        done="404 not_found",
        personal="400 invalid_request",
    ),
    # Tokens, log, explanations
    ("GET", f"{API}/me"): Row(anybody, f"{API}/me"),
    ("GET", f"{API}/tokens"): Row(anybody, f"{API}/tokens"),
    ("POST", f"{API}/tokens"): Row(of_token_making, f"{API}/tokens", body={"scopes": list(MATTERING)}, done="201"),
    ("DELETE", f"{API}/tokens/<token_id>"): Row(of_token_of_root, f"{API}/tokens/{{spare}}"),
    ("GET", f"{API}/audit"): Row(of_log, f"{API}/audit?space={{space}}"),
    ("GET", f"{API}/access"): Row(of_managers, f"{API}/access?user=pat&action=fetch&space={{space}}&base={{slug}}"),
}
_UNSEEN_HERE: dict[str, Any] = {"hidden": "404 base_not_found"}  # a page of an item names its base
_PAGE, _PAGE_OF_ITEM = "/bases/<space>/<slug>", "/bases/<space>/<slug>/{}/<path:item_id>"
_LINKED: dict[str, Any] = {"shows": lambda place: f'"/bases/{place.fill("{space}/{slug}")}"'}
# Pages: asked for with a session, not with a token; what is posted is a form.
TABLE |= {
    ("GET", "/static/<name>"): Row(anybody, "/static/kbgit.css"),
    ("GET", "/sign-in"): Row(anybody, "/sign-in", done="303"),
    ("POST", "/sign-in"): Row(anybody, "/sign-in", form={"token": "none"}, done="401 unauthenticated"),
    ("POST", "/sign-out"): Row(anybody, "/sign-out", form={}, done="303"),
    ("GET", "/"): Row(of_all_bases, "/", **_LINKED),
    ("GET", "/me"): Row(of_all_bases, "/me"),
    ("GET", "/cite"): Row(
        of_all_bases, "/cite?reference={cite}", shows=lambda place: place.fill("/items/{item}?revision={page}")
    ),
    ("GET", _PAGE): Row(of_base, "/bases/{space}/{slug}"),
    ("POST", f"{_PAGE}/archive"): Row(
        of_base, "/bases/{space}/{slug}/archive", form={}, done="400 invalid_request", **_ADMIN
    ),
    ("POST", f"{_PAGE}/restore"): Row(
        of_base, "/bases/{space}/{slug}/restore", form={}, done="400 invalid_request", **_ADMIN
    ),
    ("GET", "/spaces/<space>/new-base"): Row(of_new_base, "/spaces/{space}/new-base", hidden="404 space_not_found"),
    ("POST", "/spaces/<space>/new-base"): Row(
        of_base,
        "/spaces/{space}/new-base",
        form={"slug": "{slug}"},
        done="409 already_exists",
        hidden="404 space_not_found",
        **_ADMIN,
    ),
    ("GET", _PAGE_OF_ITEM.format("items")): Row(
        of_base, "/bases/{space}/{slug}/items/{item}", archived="409 base_archived", **_UNSEEN_HERE
    ),
    ("GET", _PAGE_OF_ITEM.format("history")): Row(of_base, "/bases/{space}/{slug}/history/{item}", **_UNSEEN_HERE),
    ("GET", _PAGE_OF_ITEM.format("compare")): Row(
        of_base, "/bases/{space}/{slug}/compare/{item}?from={page}&to={page}", **_UNSEEN_HERE
    ),
    ("POST", _PAGE_OF_ITEM.format("state")): Row(
        of_base,
        "/bases/{space}/{slug}/state/{item}",
        needs=Action.WRITE_ITEMS,
        form={"to": "publish", "expected_revision": NOWHERE},
        done="409 stale_revision",
        **_UNSEEN_HERE,
    ),
    ("POST", _PAGE_OF_ITEM.format("delete")): Row(
        of_base,
        "/bases/{space}/{slug}/delete/{item}",
        needs=Action.DELETE_ITEMS,
        form={"confirmed": "yes", "expected_revision": NOWHERE},
        done="409 stale_revision",
        **_UNSEEN_HERE,
    ),
}
# Pages of writers, of administrators, and of one's own tokens
_WRITERS: dict[str, Any] = {"needs": Action.WRITE_ITEMS, **_UNSEEN_HERE}
TABLE |= {
    ("GET", f"{_PAGE}/new"): Row(of_base, "/bases/{space}/{slug}/new", **_WRITERS),
    ("POST", f"{_PAGE}/new"): Row(
        of_base,
        "/bases/{space}/{slug}/new",
        form={"text": "# Page", "path": "page"},
        done="409 already_exists",
        **_WRITERS,
    ),
    ("GET", _PAGE_OF_ITEM.format("edit")): Row(of_base, "/bases/{space}/{slug}/edit/{item}", **_WRITERS),
    ("POST", _PAGE_OF_ITEM.format("edit")): Row(
        of_base,
        "/bases/{space}/{slug}/edit/{item}",
        form={"text": "# Page", "expected_revision": NOWHERE},
        done="409 stale_revision",
        **_WRITERS,
    ),
    ("POST", f"{_PAGE}/preview"): Row(of_base, "/bases/{space}/{slug}/preview", body={"text": "# Page"}, **_WRITERS),
    ("GET", f"{_PAGE}/upload"): Row(of_base, "/bases/{space}/{slug}/upload", **_WRITERS),
    ("GET", f"{_PAGE}/documents"): Row(of_base, "/bases/{space}/{slug}/documents", **_WRITERS),
    ("POST", f"{_PAGE}/documents/<document_id>"): Row(
        of_base,
        f"/bases/{{space}}/{{slug}}/documents/doc_{'0' * 24}",
        form={"action": "cancel"},
        done="404 not_found",
        **_WRITERS,
    ),
    ("GET", "/spaces"): Row(anybody, "/spaces"),
    ("GET", "/spaces/<space>/members"): Row(of_members, "/spaces/{space}/members"),
    ("POST", "/spaces/<space>/members"): Row(
        of_managers, "/spaces/{space}/members", form={"user": "nobody", "role": "viewer"}, done="404 not_found"
    ),
    ("POST", "/spaces/<space>/members/remove"): Row(
        of_managers,
        "/spaces/{space}/members/remove",
        form={"user": "nobody"},
        done="404 not_found",
        personal="400 invalid_request",
    ),
    ("GET", "/audit"): Row(of_log, "/audit?space={space}"),
    ("GET", "/tokens"): Row(anybody, "/tokens"),
    ("POST", "/tokens"): Row(
        of_token_page,
        "/tokens",
        form={"name": "made", "scopes": Scope.BASE_ADMIN.value, "reach": "all", "expiry": "7"},
        done="201",
    ),
    ("POST", "/tokens/revoke"): Row(anybody, "/tokens/revoke", form={"token": "none"}, done="400 invalid_request"),
}
WITHOUT_A_TOKEN = {("GET", "/healthz"), ("GET", f"{API}/openapi.json"), ("GET", f"{API}/status")}
WITHOUT_A_SESSION = {("GET", "/static/<name>"), ("GET", "/sign-in"), ("POST", "/sign-in"), ("POST", "/sign-out")}


def is_page(route: tuple[str, str]) -> bool:
    return not route[1].startswith(("/api/", "/healthz", "/metrics"))


def without_anything(route: tuple[str, str]) -> str | None:
    """What is due to somebody without token or session; None where they get what others get."""
    if route in WITHOUT_A_TOKEN | WITHOUT_A_SESSION:
        return None
    return "303" if is_page(route) and route[0] == "GET" else "401 unauthenticated"


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
