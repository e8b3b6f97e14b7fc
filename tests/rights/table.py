"""Which right each route needs, and of what: the table that `tests/test_rights.py` asks every caller through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from kbgit.access import ACTION_SCOPE, HOME, TEAM, Action, Principal, Scope, Target, decide
from kbgit.base import BaseStatus
from tests.rights.world import MATTERING, NOWHERE, Place

API = "/api/v1"


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
