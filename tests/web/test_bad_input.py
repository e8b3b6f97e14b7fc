"""Requests that nobody should send: each gets the answer that is promised, and nothing is touched."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbgit.access import Scope
from kbgit.home import Home
from tests.web.conftest import Library
from tests.web.described import DescribedClient
from tests.web.serving import Client

API = "/api/v1"
JSON = {"Content-Type": "application/json"}
TRICKS = ["..", "../..", "../../etc/passwd", "/etc/passwd", "a/../../b", "a\\..\\b", ".", "\0", "a\0b", "~", "~~ada", "a\nb",
          "%2e%2e", "..%2f..", "x" * 5000, "\u202eada", "ada\u0301", "team:", ":", "personal:ada/../bob"]  # fmt: skip


@pytest.fixture
def untouched(workshop: Library) -> Iterator[None]:
    """Fails if a repository, user or space came, went or moved."""
    before = _state(workshop)
    yield
    assert _state(workshop) == before


def _state(workshop: Library) -> object:
    home, accounts = workshop.runtime.home, workshop.runtime.accounts
    return (
        sorted(path.relative_to(home.path).as_posix() for path in _directories(home)),
        {str(key): home.repository(key).head() for key in home.base_keys()},
        accounts.users(),
        {space: accounts.members(space) for space in accounts.spaces()},
        sorted(path.name for path in home.path.parent.iterdir()),
    )


def _directories(home: Home) -> Iterator[Path]:
    yield from home.path.iterdir()
    yield from home.repositories.glob("*")
    yield from home.repositories.glob("*/*")


# Names and ids


@pytest.mark.parametrize("trick", TRICKS, ids=range(len(TRICKS)))
def test_a_name_that_is_a_path_leads_nowhere(trick: str, workshop: Library, untouched: None) -> None:
    written = quote(trick, safe="")
    for who in ("ada", "root"):
        client = workshop.client(who)
        requests: list[tuple[str, str, object]] = [
            ("GET", f"/bases/{written}/runbooks", None),
            ("GET", f"/bases/platform/{written}", None),
            ("GET", f"/bases/platform/{written}/items", None),
            ("GET", f"/bases/platform/{written}/bundle", None),
            ("DELETE", f"/bases/platform/{written}?name={written}", None),
            ("DELETE", f"/bases/{written}/runbooks?name=runbooks", None),
            ("POST", f"/bases/{written}/runbooks/archive", None),
            ("POST", "/bases", {"space": trick, "slug": "x"}),
            ("POST", "/bases", {"space": "platform", "slug": trick}),
            ("POST", f"/bases/platform/{written}/items", {"title": "x"}),
            ("GET", f"/knowledge/item?id={written}", None),
            ("DELETE", f"/knowledge/item?id={written}", None),
            ("POST", f"/knowledge/item/publish?id={written}", None),
            ("GET", f"/knowledge/item?id=runbooks/deploy&base={written}", None),
            ("GET", f"/spaces/{written}/members", None),
            ("PUT", f"/spaces/{written}/members/max", {"role": "owner"}),
            ("PUT", f"/spaces/platform/members/{written}", {"role": "owner"}),
            ("DELETE", f"/spaces/platform/members/{written}", None),
            ("DELETE", f"/users/{written}", None),
            ("DELETE", f"/tokens/{written}", None),
            ("GET", f"/audit?space={written}", None),
            ("GET", f"/access?action=fetch&space={written}", None),
            ("GET", f"/access?action=fetch&space=platform&base={written}&user={written}", None),
        ]
        for method, path, body in requests:
            answer = client.send(method, API + path, body) if body else client.request(method, API + path)
            # To name an item or a user as one likes is no offence; to get anywhere by it would be one.
            assert answer.status in (400, 403, 404), f"{method} {path}: {answer.status}"
        if "\n" not in trick and "\0" not in trick:
            git = Client(workshop.url, workshop.people[who])
            for path in (f"/git/{written}/runbooks.git", f"/git/platform/{written}.git", f"/git/platform/{written}"):
                assert git.get(f"{path}/info/refs?service=git-upload-pack").status == 404


def test_a_revision_of_another_base_is_none_of_this_item(workshop: Library) -> None:
    ada, max_ = workshop.client("ada"), workshop.client("max")
    made = ada.send(
        "POST", f"{API}/bases/~ada/notes/items", {"title": "Mine", "id": "only-ada-s", "status": "published"}
    ).json
    foreign = made["knowledge_revision_id"]
    for client in (ada, max_):
        for path in (
            f"/knowledge/item?id=runbooks/deploy&revision={foreign}",
            f"/knowledge/resolve?reference=knowledge:runbooks/deploy@{foreign}",
            f"/knowledge/item/diff?id=runbooks/deploy&from={foreign}&to={foreign}",
        ):
            assert client.get(API + path).error == "revision_not_found"
    assert max_.get(f"{API}/knowledge/item?id=only-ada-s&revision={foreign}").error == "item_not_found"
    stale = max_.send("PATCH", f"{API}/knowledge/item?id=runbooks/deploy", {"expected_revision": foreign, "title": "x"})
    assert (stale.error, stale.json["error"]["details"]["diff"]) == ("stale_revision", None)
    short = workshop.heads[0][:12]
    for malformed in (short, workshop.heads[0].upper(), workshop.heads[0] + "0", "HEAD", "main", "-x"):
        assert max_.get(f"{API}/knowledge/item?id=runbooks/deploy&revision={malformed}").error == "invalid_citation"


# Tokens


def test_a_token_that_is_no_credential_opens_nothing(workshop: Library, untouched: None) -> None:
    accounts, good = workshop.runtime.accounts, workshop.people["ada"]
    expired = accounts.add_token("ada", "x", list(Scope), "test", expires_at=int(time.time()) - 1)[1]
    revoked_token, revoked = accounts.add_token("ada", "x", list(Scope), "test")
    accounts.revoke_token(revoked_token.id, "test")
    other = workshop.people["max"]
    mixed = f"{good.rpartition('_')[0]}_{other.rpartition('_')[2]}"
    answers = set()
    for text in (expired, revoked, mixed, good[:-1], good + "x", good.upper(), "", "null", "ghp_" + "x" * 36):
        client = DescribedClient(workshop.url, text or " ")
        for answer in (
            client.get(f"{API}/me"),
            client.request("DELETE", f"{API}/bases/platform/runbooks?name=runbooks"),
            client.send("POST", f"{API}/users", {"name": "intruder"}),
        ):
            assert answer.status == 401
            answers.add(answer.body)
        git = Client(workshop.url, text or " ")
        assert git.get("/git/platform/runbooks.git/info/refs?service=git-receive-pack").status == 401
    assert len(answers) == 1


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "PUT", "DELETE"])
def test_a_token_in_the_wrong_place_is_refused_on_every_method(method: str, workshop: Library, untouched: None) -> None:
    token = workshop.people["ada"]
    paths = {
        "GET": "/me",
        "POST": "/users",
        "PATCH": "/bases/platform/runbooks",
        "PUT": "/spaces/platform/members/max",
        "DELETE": "/bases/platform/runbooks",
    }
    for who in (None, "ada"):
        client = workshop.client(who)
        for query in (f"token={token}", f"access_token={token}", f"name={token}"):
            answer = client.request(method, f"{API}{paths[method]}?{query}")
            assert (answer.status, token in answer.body.decode()) == (401, False)
        assert client.request(method, API + paths[method], headers={"Cookie": f"kbgit={token}"}).status == 401
    body = client.request("POST", f"{API}/users", json.dumps({"token": token, "name": "x"}), JSON)
    assert body.status in (400, 403)
    assert token not in body.body.decode()


# Bodies


BIG = {"title": "Big", "content": "a" * 3_000_000}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/bases/platform/runbooks/items"),
        ("PATCH", "/knowledge/item?id=runbooks/deploy"),
        ("POST", "/bases"),
        ("POST", "/users"),
        ("POST", "/tokens"),
        ("DELETE", "/knowledge/item?id=runbooks/deploy"),
    ],
)
def test_a_body_over_the_limit_is_refused_everywhere(
    method: str, path: str, workshop: Library, untouched: None
) -> None:
    ada, body = workshop.client("ada"), json.dumps(BIG).encode()
    packed = gzip.compress(b"\0" * 50_000_000)
    pieces = (body[start : start + 65536] for start in range(0, len(body), 65536))
    answers = [
        ada.request(method, API + path, body, JSON),
        ada.request(method, API + path, pieces, JSON, chunked=True),
        ada.request(method, API + path, packed, JSON | {"Content-Encoding": "gzip"}),
    ]
    assert [(answer.status, answer.error) for answer in answers] == [(413, "too_large")] * 3


def test_an_item_over_the_limit_is_refused_by_admission(workshop: Library, untouched: None) -> None:
    limit = workshop.runtime.home.settings.item_max_kb * 1024
    body = {"title": "Big", "content": "a" * (limit + 1)}
    answer = workshop.client("ada").send("POST", f"{API}/bases/platform/runbooks/items", body)
    assert (answer.status, answer.error) in [(422, "push_refused"), (413, "too_large")]


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**6), 10**6)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
ADDRESSES = [
    ("POST", "/bases/platform/runbooks/items", ("title", "content", "status", "tags", "metadata", "locator", "id")),
    ("PATCH", "/knowledge/item?id=runbooks/deploy", ("expected_revision", "title", "metadata", "message")),
    ("POST", "/bases", ("space", "slug", "name", "description", "default_status", "admission")),
    ("PATCH", "/bases/platform/runbooks", ("name", "description", "default_status", "admission")),
    ("POST", "/users", ("name", "administrator")),
    ("POST", "/spaces", ("name", "owner")),
    ("PUT", "/spaces/platform/members/nobody", ("role",)),
    ("POST", "/tokens", ("name", "scopes", "bases", "profile", "expires_at")),
]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(ADDRESSES), st.data())
def test_any_json_is_done_or_refused_as_described(
    library: Library, address: tuple[str, str, tuple[str, ...]], data: st.DataObject
) -> None:
    method, path, names = address
    body = data.draw(st.dictionaries(st.sampled_from(names), anything) | anything)
    # Somebody who may change nothing that others read; whether the body is understood is judged before.
    client = library.client("vera")
    answer = client.request(method, API + path, json.dumps(body), JSON)
    assert answer.status in (201, 400, 403, 404)


NUMBERS = count()
odd = st.text(st.characters() | st.sampled_from("\0\n\r\t\x85\u2028:#'\"-[]{}&*!|>%@`\ufeff\u202e"), max_size=20)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(odd, odd, st.dictionaries(odd, odd | st.lists(odd, max_size=2), max_size=2), st.lists(odd, max_size=2), odd)
def test_any_text_becomes_an_item_that_reads_as_it_was_written_or_is_refused(
    workshop: Library,
    base: str,
    title: str,
    content: str,
    metadata: dict[str, str | list[str]],
    tags: list[str],
    message: str,
) -> None:
    max_ = workshop.client("max")
    name = f"any-{next(NUMBERS)}"
    body = {"title": title, "content": content, "metadata": metadata, "tags": tags, "locator": f"{name}.md", "id": name}
    made = max_.send("POST", f"{base}/items", body)
    if made.status != 201:
        assert made.status in (400, 422), made.body
        return
    written = made.json["knowledge_revision_id"]
    read = max_.get(f"{API}/knowledge/item?id={name}&revision={written}").json
    assert read["metadata"] == metadata
    assert set(read["tags"]) == {tag.strip() for tag in tags} - {""}
    assert read["content"] == content.replace("\r\n", "\n").replace("\r", "\n")
    change = {"expected_revision": written, "description": "d", "message": message}
    changed = max_.send("PATCH", f"{API}/knowledge/item?id={name}", change)
    assert changed.status in (200, 400, 422), changed.body
