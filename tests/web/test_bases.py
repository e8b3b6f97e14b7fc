"""The life of a base over HTTP."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kbgit.base import BaseKey
from tests.web.conftest import Library
from tests.web.described import DescribedClient
from tests.web.serving import WorkTree, git_url, until

BASES = "/api/v1/bases"


@pytest.fixture
def kim(workshop: Library) -> DescribedClient:
    """An administrator of the team."""
    return workshop.client("kim")


def key_of(base: str) -> BaseKey:
    return BaseKey("team:platform", base.rpartition("/")[2])


def add_item(client: DescribedClient, base: str, title: str, content: str) -> str:
    body = {"title": title, "content": content, "status": "published", "id": title.lower()}
    made = client.send("POST", f"{base}/items", body)
    assert made.status == 201, made.body
    return str(made.json["reference"])


def test_a_base_is_created_with_its_settings_and_changed(workshop: Library, kim: DescribedClient) -> None:
    settings = {
        "space": "team:platform",
        "slug": "created",
        "name": "Created: here",
        "description": "By a test",
        "default_status": "published",
        "admission": "lenient",
    }
    made = kim.send("POST", BASES, settings)
    assert made.status == 201
    assert made.json["key"] == "team:platform/created"
    shown = kim.get(f"{BASES}/platform/created").json
    assert {name: shown[name] for name in ("name", "description", "default_status", "admission")} == {
        name: settings[name] for name in ("name", "description", "default_status", "admission")
    }
    changed = kim.send("PATCH", f"{BASES}/platform/created", {"name": "Other"})
    assert changed.json["head"] != shown["freshness"]["published"]
    shown = kim.get(f"{BASES}/platform/created").json
    assert (shown["name"], shown["description"]) == ("Other", "By a test")
    again = kim.send("POST", BASES, settings)
    assert (again.status, again.error) == (409, "already_exists")


def test_a_personal_base_is_its_owner_s_to_create(workshop: Library) -> None:
    olga = workshop.client("olga")
    made = olga.send("POST", BASES, {"space": "~olga", "slug": "diary"})
    assert (made.status, made.json["space"]) == (201, "personal:olga")
    for who in ("ada", "root"):
        client = workshop.client(who)
        hidden = client.send("POST", BASES, {"space": "~olga", "slug": "other"})
        assert (hidden.status, hidden.error) == (404, "space_not_found")
        absent = client.send("POST", BASES, {"space": "~nobody", "slug": "other"})
        assert absent.body == hidden.body.replace(b"olga", b"nobody")
        assert client.get(f"{BASES}/~olga/diary").error == "base_not_found"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "invalid_request"),
        ({"space": "platform"}, "invalid_request"),
        ({"space": "platform", "slug": None}, "invalid_request"),
        ({"space": "platform", "slug": ["x"]}, "invalid_request"),
        ({"space": "platform", "slug": "x", "admission": "lax"}, "invalid_request"),
        ({"space": "platform", "slug": "x", "subdir": "docs"}, "invalid_request"),
        ({"space": "platform", "slug": ""}, "invalid_name"),
        ({"space": "platform", "slug": "../../escape"}, "invalid_name"),
        ({"space": "platform", "slug": "a/b"}, "invalid_name"),
        ({"space": "platform", "slug": "UPPER"}, "invalid_name"),
        ({"space": "platform", "slug": "x.git"}, "invalid_name"),
        ({"space": "platform", "slug": "x\n"}, "invalid_name"),
        ({"space": "platform", "slug": "a..b"}, "invalid_name"),
        ({"space": "../platform", "slug": "x"}, "invalid_name"),
        ({"space": "team:../x", "slug": "x"}, "invalid_name"),
        ({"space": "~", "slug": "x"}, "invalid_name"),
        ({"space": "group:platform", "slug": "x"}, "invalid_name"),
    ],
)
def test_what_cannot_be_a_base_is_refused_and_nothing_is_made(
    body: object, code: str, workshop: Library, kim: DescribedClient
) -> None:
    before = workshop.runtime.home.base_keys()
    refused = kim.send("POST", BASES, body)
    assert (refused.status, refused.error) == (400, code)
    assert workshop.runtime.home.base_keys() == before


def test_an_archived_base_is_neither_searched_nor_read_until_it_is_restored(
    workshop: Library, kim: DescribedClient, base: str
) -> None:
    reference = add_item(kim, base, "Suspended", "perspicacious\n")
    vera = workshop.client("vera")

    def hits() -> int:
        return len(vera.post("/api/v1/knowledge/search", {"query": "perspicacious"}).json["results"])

    until(lambda: hits() == 1)
    assert kim.request("POST", f"{base}/archive").status == 200
    assert hits() == 0
    archived = vera.get("/api/v1/knowledge/item?id=suspended")
    assert (archived.status, archived.error) == (409, "base_archived")
    pinned = vera.get(f"/api/v1/knowledge/resolve?reference={reference}").json
    assert (pinned["content"], pinned["base"]["status"]) == ("perspicacious\n", "archived")
    assert kim.send("POST", f"{base}/restore", {}).status == 200
    assert hits() == 1
    events = [entry["event"] for entry in kim.get("/api/v1/audit?space=platform&limit=200").json["entries"]]
    assert {"base_archived", "base_restored", "base_created"} <= set(events)


def test_a_bundle_is_a_clone_with_the_publication_log(
    workshop: Library, kim: DescribedClient, base: str, tmp_path: Path
) -> None:
    add_item(kim, base, "Bundled", "words\n")
    answer = kim.get(f"{base}/bundle")
    slug = key_of(base).slug
    assert answer.headers["content-disposition"] == f'attachment; filename="{slug}.bundle"'
    (tmp_path / "base.bundle").write_bytes(answer.body)
    subprocess.run(["git", "clone", "--quiet", tmp_path / "base.bundle", tmp_path / "clone"], check=True)
    assert (tmp_path / "clone" / "bundled.md").read_text().endswith("words\n")
    heads = WorkTree(tmp_path / "clone").git("bundle", "list-heads", str(tmp_path / "base.bundle")).output
    assert "refs/kbgit/" in heads
    assert workshop.client("max").get(f"{base}/bundle").error == "forbidden"
    assert workshop.client("olga").get(f"{base}/bundle").error == "base_not_found"


def test_a_base_that_published_nothing_has_no_bundle(kim: DescribedClient, base: str) -> None:
    refused = kim.get(f"{base}/bundle")
    assert (refused.status, refused.error) == (400, "invalid_request")


def test_a_base_is_destroyed_when_its_name_is_typed_and_leaves_no_byte(
    workshop: Library, kim: DescribedClient, base: str
) -> None:
    key, canary = key_of(base), "quixotrycanary"
    reference = add_item(kim, base, "Doomed", f"{canary}\n")
    until(lambda: bool(kim.get(base).json["freshness"]["passages"]))
    preview = kim.request("DELETE", f"{base}?dry_run=true").json
    assert (preview["type"], preview["items"], preview["commits"]) == ("base_purge_preview", 1, 1)
    for typed in ("", "?name=", f"?name={key.slug[:-1]}", f"?name={key.slug}x&dry_run=false"):
        refused = kim.request("DELETE", f"{base}{typed}")
        assert (refused.status, refused.error) == (400, "invalid_request")
    assert kim.get(base).status == 200
    refused = workshop.client("max").request("DELETE", f"{base}?name={key.slug}")
    assert (refused.status, refused.error) == (403, "forbidden")
    purged = kim.request("DELETE", f"{base}?name={key.slug}&dry_run=false").json
    assert purged["type"] == "base_purged"
    assert kim.get(base).error == "base_not_found"
    assert kim.get(f"/api/v1/knowledge/resolve?reference={reference}").error == "item_not_found"
    # By another process: to close a database's file here would end the locks that SQLite holds on it in this process.
    found = subprocess.run(["grep", "-rlaF", canary, workshop.runtime.home.path], capture_output=True, check=False)
    assert (found.returncode, found.stdout) == (1, b"")


def test_a_base_that_is_destroyed_at_once_does_not_come_back(workshop: Library, kim: DescribedClient) -> None:
    for number in range(5):
        slug = f"short-lived-{number}"
        kim.send("POST", BASES, {"space": "platform", "slug": slug, "name": "Short"})
        assert kim.request("DELETE", f"{BASES}/platform/{slug}?name={slug}").status == 200
        workshop.runtime.notice_push(BaseKey("team:platform", slug))  # as a push that broke off would
    # Whatever was noticed of them in the meantime has been looked at when this one is indexed.
    kim.send("POST", BASES, {"space": "platform", "slug": "after-them", "name": "After"})
    add_item(kim, f"{BASES}/platform/after-them", "After", "words\n")
    until(lambda: bool(kim.get(f"{BASES}/platform/after-them").json["freshness"]["passages"]))
    listed = [base["slug"] for base in kim.get(BASES).json["bases"]]
    assert not [slug for slug in listed if slug.startswith("short-lived")]


def test_a_new_base_is_pushed_to_at_once(workshop: Library, kim: DescribedClient, base: str, tmp_path: Path) -> None:
    work_tree = WorkTree(tmp_path)
    work_tree.git("init", "--quiet", "--initial-branch=main")
    head = work_tree.write({"pushed.md": "---\ntitle: Pushed\nid: pushed\nstatus: published\n---\nWords.\n"})
    url = git_url(workshop.url, workshop.people["max"], f"platform/{key_of(base).slug}.git")
    work_tree.git("push", "--quiet", url, "main")
    assert kim.get("/api/v1/knowledge/item?id=pushed").json["knowledge_revision_id"] == head
