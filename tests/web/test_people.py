"""Users, spaces, members, tokens, the audit log, and explanations over HTTP."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import quote

import pytest

from kbgit.access import Scope
from tests.web.conftest import Library
from tests.web.described import DescribedClient
from tests.web.serving import Client

USERS, SPACES, TOKENS = "/api/v1/users", "/api/v1/spaces", "/api/v1/tokens"
ME, AUDIT, ACCESS = "/api/v1/me", "/api/v1/audit", "/api/v1/access"


@pytest.fixture
def root(workshop: Library) -> DescribedClient:
    """The administrator of the home."""
    return workshop.client("root")


def with_token(workshop: Library, text: str) -> DescribedClient:
    return DescribedClient(workshop.url, text)


def new_user(workshop: Library, name: str, *scopes: Scope) -> DescribedClient:
    """A user whom only this test knows."""
    assert workshop.client("root").send("POST", USERS, {"name": name}).status == 201
    workshop.people.add_token(name, name, *scopes)
    return workshop.client(name)


def pages(client: DescribedClient, address: str, field: str) -> list[Any]:
    """Every entry of a list, two at a time."""
    found: list[Any] = []
    cursor = ""
    while True:
        page = client.get(f"{address}{'&' if '?' in address else '?'}limit=2{cursor}").json
        assert len(page[field]) <= 2
        found += page[field]
        if page["cursor"] is None:
            return found
        cursor = f"&cursor={quote(page['cursor'], safe='')}"


# Users


def test_users_are_added_listed_and_removed_by_an_administrator(workshop: Library, root: DescribedClient) -> None:
    made = root.send("POST", USERS, {"name": "nina", "administrator": False})
    assert (made.status, made.json) == (201, {"name": "nina", "administrator": False})
    assert root.send("POST", USERS, {"name": "nina"}).error == "already_exists"
    listed = pages(root, USERS, "users")
    assert listed == sorted(listed)
    assert {"ada", "nina", "root"} <= set(listed)
    assert root.request("DELETE", f"{USERS}/nina").status == 200
    assert "nina" not in pages(root, USERS, "users")
    assert root.request("DELETE", f"{USERS}/nina").error == "not_found"
    assert root.send("POST", USERS, {"name": "nina"}).error == "already_exists"
    assert root.request("DELETE", f"{USERS}/root").error == "invalid_request"
    for who in ("ada", "olga"):
        client = workshop.client(who)
        answers = [client.get(USERS), client.send("POST", USERS, {"name": "x"}), client.request("DELETE", f"{USERS}/x")]
        assert [answer.status for answer in answers] == [403] * 3


@pytest.mark.parametrize("name", ["", "A", "../x", "a/b", "a b", "~a", "a..b", "a\n", "ä", "x" * 65, "-a"])
def test_what_cannot_name_a_user_or_team_is_refused(name: str, root: DescribedClient) -> None:
    before = root.get(f"{USERS}?limit=200").json, root.get(f"{SPACES}?limit=200").json
    for address in (USERS, SPACES):
        refused = root.send("POST", address, {"name": name})
        assert (refused.status, refused.error) == (400, "invalid_name")
    assert before == (root.get(f"{USERS}?limit=200").json, root.get(f"{SPACES}?limit=200").json)


def test_a_removed_user_has_neither_tokens_nor_roles_and_their_space_stays_closed(
    workshop: Library, root: DescribedClient
) -> None:
    mila = new_user(workshop, "mila")
    assert mila.send("POST", "/api/v1/bases", {"space": "~mila", "slug": "notes", "name": "N"}).status == 201
    root.send("POST", SPACES, {"name": "milas", "owner": "ada"})
    workshop.client("ada").send("PUT", f"{SPACES}/milas/members/mila", {"role": "member"})
    assert root.request("DELETE", f"{USERS}/mila").status == 200
    for client in (mila, workshop.client("mila")):
        assert client.get(ME).error == "unauthenticated"
    git = Client(workshop.url, workshop.people["mila"])
    assert git.get("/git/~mila/notes.git/info/refs?service=git-upload-pack").status == 401
    assert workshop.client("ada").get(f"{SPACES}/milas/members").json["members"] == [{"user": "ada", "role": "owner"}]
    assert root.get("/api/v1/bases/~mila/notes").error == "base_not_found"
    assert root.get(f"{SPACES}/~mila/members").error == "space_not_found"


# Spaces and members


def test_a_team_is_made_filled_and_its_last_owner_stays(workshop: Library, root: DescribedClient) -> None:
    assert root.send("POST", SPACES, {"name": "crew", "owner": "ada"}).json == {"space": "team:crew"}
    assert root.send("POST", SPACES, {"name": "crew"}).error == "already_exists"
    assert root.send("POST", SPACES, {"name": "other", "owner": "nobody"}).error == "not_found"
    members = f"{SPACES}/crew/members"
    ada, max_ = workshop.client("ada"), workshop.client("max")
    for user, role in (("kim", "admin"), ("max", "member"), ("vera", "viewer")):
        assert ada.send("PUT", f"{members}/{user}", {"role": role}).json["role"] == role
    listed = [{"user": u, "role": r} for u, r in (("ada", "owner"), ("kim", "admin"), ("max", "member"))]
    assert pages(max_, members, "members") == [*listed, {"user": "vera", "role": "viewer"}]
    kim = workshop.client("kim")
    assert kim.send("PUT", f"{members}/olga", {"role": "owner"}).status == 403
    assert kim.request("DELETE", f"{members}/ada").status == 403
    assert kim.send("PUT", f"{members}/max", {"role": "viewer"}).status == 200
    assert max_.send("PUT", f"{members}/max", {"role": "member"}).status == 403
    for last in (ada.request("DELETE", f"{members}/ada"), ada.send("PUT", f"{members}/ada", {"role": "admin"})):
        assert (last.status, last.error) == (409, "conflict")
    assert root.request("DELETE", f"{USERS}/ada").error == "conflict"
    assert ada.send("PUT", f"{members}/nobody", {"role": "viewer"}).error == "not_found"
    assert ada.send("PUT", f"{members}/max", {"role": "boss"}).error == "invalid_request"
    assert max_.request("DELETE", f"{members}/max").status == 200
    assert max_.get(members).error == "space_not_found"


def test_a_token_for_reading_does_not_leave_a_team(workshop: Library, root: DescribedClient) -> None:
    reader = new_user(workshop, "rita", Scope.KNOWLEDGE_READ)
    root.send("POST", SPACES, {"name": "ritas", "owner": "ada"})
    root.send("PUT", f"{SPACES}/ritas/members/rita", {"role": "viewer"})
    refused = reader.request("DELETE", f"{SPACES}/ritas/members/rita")
    assert (refused.status, refused.json["error"]["details"]["scope"]) == (403, "base:admin")
    assert reader.get(f"{SPACES}/ritas/members").status == 200


def test_an_administrator_of_the_home_manages_teams_and_sees_no_personal_space(
    workshop: Library, root: DescribedClient
) -> None:
    listed = pages(root, SPACES, "spaces")
    assert {"space": "team:platform", "role": None} in listed
    assert {"space": "personal:root", "role": "owner"} in listed
    assert not [row for row in listed if row["space"].startswith("personal:") and row["space"] != "personal:root"]
    assert root.get(f"{SPACES}/platform/members").status == 200
    assert root.get("/api/v1/bases/platform/runbooks").error == "base_not_found"
    hidden = [
        root.get(f"{SPACES}/~ada/members"),
        root.send("PUT", f"{SPACES}/~ada/members/root", {"role": "owner"}),
        root.request("DELETE", f"{SPACES}/~ada/members/ada"),
        root.get(f"{AUDIT}?space=~ada"),
        root.get(f"{ACCESS}?user=ada&action=read_published&space=~ada"),
    ]
    assert [(answer.status, answer.error) for answer in hidden] == [(404, "space_not_found")] * 5
    assert root.send("PUT", f"{SPACES}/~root/members/ada", {"role": "viewer"}).error == "invalid_request"
    assert workshop.client("ada").get(ME).json["roles"]["personal:ada"] == "owner"


def test_a_stranger_learns_of_no_space(workshop: Library) -> None:
    olga = workshop.client("olga")
    for space in ("platform", "nothing", "~ada", "~nobody"):
        answers = [
            olga.get(f"{SPACES}/{space}/members"),
            olga.send("PUT", f"{SPACES}/{space}/members/olga", {"role": "owner"}),
            olga.request("DELETE", f"{SPACES}/{space}/members/olga"),
            olga.get(f"{AUDIT}?space={space}"),
        ]
        assert [answer.error for answer in answers] == ["space_not_found"] * 4
    assert pages(olga, SPACES, "spaces") == [{"space": "personal:olga", "role": "owner"}]


# Tokens


def test_a_token_is_shown_once_and_ends_when_it_is_revoked(workshop: Library, caplog: pytest.LogCaptureFixture) -> None:
    max_ = workshop.client("max")
    body = {"name": "agent", "scopes": ["knowledge:read"], "expires_at": "2999-12-31T12:00:00+01:00"}
    with caplog.at_level(logging.DEBUG):
        made = max_.send("POST", TOKENS, body)
    assert (made.status, made.headers["cache-control"]) == (201, "no-store")
    assert made.json["expires_at"] == "2999-12-31T11:00:00Z"
    text = made.json["token"]
    agent = with_token(workshop, text)
    assert agent.get(ME).json["scopes"] == ["knowledge:read"]
    listed = pages(max_, TOKENS, "tokens")
    assert made.json["id"] in [token["id"] for token in listed]
    elsewhere = str(listed) + str(max_.get(AUDIT).json) + caplog.text
    assert text not in elsewhere
    assert text.rpartition("_")[2] not in elsewhere
    revoked = max_.request("DELETE", f"{TOKENS}/{made.json['id']}")
    assert revoked.json["revoked_at"] is not None
    assert agent.get(ME).error == "unauthenticated"


def test_a_token_gives_no_more_than_the_one_that_made_it(workshop: Library) -> None:
    def make(client: DescribedClient, **body: object) -> tuple[int, str]:
        made = client.send("POST", TOKENS, {"scopes": ["knowledge:read"], **body})
        return made.status, "" if made.status == 201 else made.error

    max_ = workshop.client("max")
    limited = max_.send(
        "POST",
        TOKENS,
        {
            "scopes": ["knowledge:read"],
            "bases": ["team:platform/runbooks"],
            "profile": "cursor-plugin",
            "expires_at": "2999-01-01T00:00:00Z",
        },
    ).json["token"]
    agent = with_token(workshop, limited)
    same = {
        "bases": ["team:platform/runbooks"],
        "profile": "cursor-plugin",
        "expires_at": "2999-01-01T00:00:00Z",
    }
    assert make(agent, **same) == (201, "")
    more: list[dict[str, object]] = [
        {"scopes": ["knowledge:read", "item:write"]},
        {"bases": None},
        {"bases": ["team:platform/runbooks", "team:platform/other"]},
        {"profile": None},
        {"profile": "ordinary-full"},
        {"expires_at": None},
        {"expires_at": "2999-01-01T00:00:01Z"},
        {"user": "ada"},
    ]
    assert [make(agent, **{**same, **change}) for change in more] == [(403, "forbidden")] * len(more)
    assert make(workshop.client("root"), user="max") == (403, "forbidden")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"scopes": []},
        {"scopes": ["everything"]},
        {"scopes": "knowledge:read"},
        {"scopes": ["knowledge:read"], "expires_at": "tomorrow"},
        {"scopes": ["knowledge:read"], "expires_at": "2999-02-30T00:00:00Z"},
        {"scopes": ["knowledge:read"], "expires_at": "2999-01-01T00:00:00"},
        {"scopes": ["knowledge:read"], "expires_at": 32503680000},
        {"scopes": ["knowledge:read"], "bases": ["../../etc"]},
        {"scopes": ["knowledge:read"], "bases": "team:platform/runbooks"},
        {"scopes": ["knowledge:read"], "name": "two\nlines"},
        {"scopes": ["knowledge:read"], "name": "\x1b[31mred"},
        {"scopes": ["knowledge:read"], "secret": "mine"},
    ],
)
def test_what_is_no_token_is_refused(body: object, workshop: Library) -> None:
    before = workshop.client("vera").get(TOKENS).json
    assert workshop.client("vera").send("POST", TOKENS, body).status == 400
    assert workshop.client("vera").get(TOKENS).json == before


def test_tokens_of_others_are_not_there(workshop: Library, root: DescribedClient) -> None:
    theirs = workshop.people.ids["ada"]
    max_ = workshop.client("max")
    foreign, absent = max_.request("DELETE", f"{TOKENS}/{theirs}"), max_.request("DELETE", f"{TOKENS}/{'0' * 12}")
    assert foreign.status == absent.status == 404
    assert foreign.body == absent.body.replace(b"0" * 12, theirs.encode())
    assert max_.get(f"{TOKENS}?user=ada").status == 403
    assert workshop.client("ada").get(ME).status == 200
    assert theirs in [token["id"] for token in root.get(f"{TOKENS}?user=ada").json["tokens"]]
    assert not [token for token in root.get(TOKENS).json["tokens"] if token["user"] != "root"]


def test_me_says_what_the_token_is_good_for(workshop: Library) -> None:
    me = workshop.client("max").get(ME).json
    assert me["roles"] | {"team:crew": "any"} == {
        "personal:max": "owner",
        "team:platform": "member",
        "team:crew": "any",
    }
    assert (me["user"], me["bases"], me["administrator"]) == ("max", None, False)
    elsewhere = workshop.client("elsewhere").get(ME).json
    assert (elsewhere["bases"], elsewhere["roles"]) == (["team:platform/other"], {"team:platform": "member"})
    assert workshop.client("root").get(ME).json["administrator"] is True


# Audit


def test_the_audit_log_tells_each_what_they_manage(workshop: Library, root: DescribedClient) -> None:
    root.send("POST", SPACES, {"name": "audited", "owner": "kim"})
    kim = workshop.client("kim")
    kim.send("POST", "/api/v1/bases", {"space": "audited", "slug": "log", "name": "Log"})
    workshop.client("ada").send("POST", "/api/v1/bases", {"space": "~ada", "slug": "secret-log", "name": "S"})
    entries = pages(kim, f"{AUDIT}?space=audited", "entries")
    assert [entry["event"] for entry in entries] == ["base_created", "space_added"]
    assert [entry["number"] for entry in entries] == sorted((entry["number"] for entry in entries), reverse=True)
    assert {entry["space"] for entry in kim.get(f"{AUDIT}?limit=200").json["entries"]} <= {
        "team:audited",
        "team:platform",
        "team:crew",
        "personal:kim",
    }
    of_the_home = root.get(f"{AUDIT}?limit=200").json["entries"]
    assert "user_added" in {entry["event"] for entry in of_the_home}
    assert "secret-log" not in str(of_the_home)
    only_reading = workshop.client("reader").get(AUDIT)
    assert (only_reading.status, only_reading.error) == (403, "forbidden")


def test_tokens_that_are_refused_are_in_the_audit_log_once_a_minute(workshop: Library, root: DescribedClient) -> None:
    sven = new_user(workshop, "sven")
    secret = workshop.people["sven"]
    root.request("DELETE", f"{TOKENS}/{workshop.people.ids['sven']}")
    for _ in range(5):
        assert sven.get(ME).status == 401
        assert Client(workshop.url, secret).get("/git/a/b.git/info/refs?service=git-upload-pack").status == 401
        for unknown in ("x", f"kbgit_{'0' * 12}_{'A' * 43}", f"kbgit_{'1' * 12}_{'A' * 43}"):
            assert with_token(workshop, unknown).get(ME).status == 401
    entries = [entry for entry in root.get(f"{AUDIT}?limit=200").json["entries"] if entry["event"] == "token_refused"]
    of_sven = [entry for entry in entries if entry["details"]["token"] == workshop.people.ids["sven"]]
    assert [entry["details"]["why"] for entry in of_sven] == ["revoked"]
    # Of tokens that never were, there may be one from before this minute.
    assert len([entry for entry in entries if entry["details"]["token"] is None]) in (1, 2)
    assert secret.rpartition("_")[2] not in str(entries)
    assert "A" * 43 not in str(entries)


# Explanations


def test_why_an_access_is_allowed_or_denied_is_told_to_who_manages_the_space(
    workshop: Library, root: DescribedClient
) -> None:
    ada = workshop.client("ada")
    asked = f"{ACCESS}?space=platform&base=runbooks"
    denied = ada.get(f"{asked}&user=vera&action=write_items").json
    assert denied == {"allowed": False, "rule": "the role viewer does not include: create, edit and publish items"}
    allowed = ada.get(f"{asked}&user=max&action={quote('fetch by Git')}").json
    assert allowed == {"allowed": True, "rule": "role member in team:platform, scope item:write"}
    assert ada.get(f"{asked}&user=olga&action=fetch").json["rule"] == "olga is not a member of team:platform"
    assert workshop.client("vera").get(f"{asked}&action=read_published").json["allowed"] is True
    assert workshop.client("vera").get(f"{asked}&user=max&action=fetch").status == 403
    assert workshop.client("olga").get(f"{asked}&user=max&action=fetch").error == "space_not_found"
    assert root.get(f"{ACCESS}?user=ada&action=administer_home").json["allowed"] is False
    assert ada.get(f"{ACCESS}?user=root&action=administer_home").status == 403
    for wrong in ("action=fly&space=platform", "space=platform", "action=fetch", "action=fetch&space=a&base=../b"):
        assert ada.get(f"{ACCESS}?{wrong}").status == 400


# Scopes


def test_a_missing_scope_is_named_where_programs_look_for_it(workshop: Library) -> None:
    memory, reader = workshop.client("memory"), workshop.client("reader")
    refusals = [
        (memory.get("/api/v1/bases"), "knowledge:read"),
        (memory.post("/api/v1/knowledge/search", {"query": "x"}), "knowledge:read"),
        (memory.get("/api/v1/knowledge/item?id=x"), "knowledge:read"),
        (memory.send("POST", "/api/v1/bases/platform/runbooks/items", {"title": "A"}), "knowledge:read"),
        (reader.send("POST", "/api/v1/bases/platform/runbooks/items", {"title": "A"}), "item:write"),
        (reader.send("POST", "/api/v1/bases", {"space": "platform", "slug": "x"}), "base:admin"),
        (reader.request("POST", "/api/v1/bases/platform/runbooks/archive"), "base:admin"),
        (reader.get(USERS), "base:admin"),
    ]
    for answer, scope in refusals:
        assert (answer.status, answer.json["error"]["details"]["scope"]) == (403, scope)
        challenge = f'Bearer realm="kbgit", error="insufficient_scope", scope="{scope}"'
        assert answer.headers["www-authenticate"] == challenge
    by_role = workshop.client("vera").send("POST", "/api/v1/bases/platform/runbooks/items", {"title": "A"})
    assert (by_role.status, "www-authenticate" in by_role.headers) == (403, False)
    wrong = Client(workshop.url, "wrong").get(ME)
    assert wrong.headers["www-authenticate"] == 'Bearer realm="kbgit", error="invalid_token"'


@pytest.mark.parametrize("address", [USERS, SPACES, f"{SPACES}/platform/members", TOKENS, AUDIT])
@pytest.mark.parametrize("query", ["limit=0", "limit=201", "limit=ten", "limit=-1", "limit=1000000000000", "page=2"])
def test_pages_are_bounded(address: str, query: str, root: DescribedClient) -> None:
    assert root.get(f"{address}?{query}").status == 400
