"""Items written over HTTP."""

from __future__ import annotations

import threading
from urllib.parse import quote

import pytest

from tests.web.conftest import Library
from tests.web.described import DescribedClient
from tests.web.serving import until

ITEM = "/api/v1/knowledge/item"
ITEMS = "/api/v1/knowledge/items"
NOWHERE = "0" * 40


@pytest.fixture
def max_(workshop: Library) -> DescribedClient:
    return workshop.client("max")


def titles_found(client: DescribedClient, word: str) -> list[str]:
    found = client.post("/api/v1/knowledge/search", {"query": word, "mode": "lexical"}).json
    return [result["title"] for result in found["results"]]


def test_an_item_is_written_published_changed_archived_and_deleted(
    workshop: Library, max_: DescribedClient, base: str
) -> None:
    draft = {
        "title": "Release: plan",
        "content": "# Plan\n\nzygomorphic\n",
        "tags": ["a", "b"],
        "description": "What we do",
        "metadata": {"owner": "platform", "reviewers": ["kim", "ada"]},
        "id": "zygomorphic-plan",
        "locator": "plans/release.md",
    }
    made = max_.send("POST", f"{base}/items", draft)
    assert (made.status, made.json["status"], made.json["locator"]) == (201, "draft", "plans/release.md")
    assert made.json["receipt"]["draft"][0]["citation"] == made.json["reference"]
    address = f"{ITEM}?id=zygomorphic-plan"
    assert workshop.client("vera").get(address).status == 404

    published = max_.request("POST", f"{ITEM}/publish?id=zygomorphic-plan").json
    assert published["status"] == "published"
    until(lambda: titles_found(workshop.client("vera"), "zygomorphic") == ["Release: plan"])
    read = max_.get(address).json
    assert (read["tags"], read["description"]) == (["a", "b"], "What we do")
    assert read["metadata"] == {"owner": "platform", "reviewers": ["kim", "ada"]}
    assert (read["provenance"]["pushed_by"], read["provenance"]["via"]) == ("max", "api")

    change = {
        "expected_revision": published["knowledge_revision_id"],
        "title": "Plan",
        "metadata": {"owner": None},
        "message": "Shorter\n\nBecause.",
    }
    changed = max_.send("PATCH", f"{ITEMS}/zygomorphic-plan", change).json
    read = max_.get(address).json
    assert (read["title"], read["content"]) == ("Plan", "# Plan\n\nzygomorphic\n")
    assert read["metadata"] == {"reviewers": ["kim", "ada"]}
    assert read["provenance"]["message"] == "Shorter\n\nBecause."
    assert read["knowledge_revision_id"] == changed["knowledge_revision_id"]

    for verb, status in (("unpublish", "draft"), ("publish", "published"), ("archive", "archived")):
        assert max_.request("POST", f"{ITEMS}/zygomorphic-plan/{verb}").json["status"] == status
    assert titles_found(max_, "zygomorphic") == []
    assert max_.get(address).error == "item_not_published"
    restored = max_.request("POST", f"{ITEMS}/zygomorphic-plan/restore").json
    assert restored["status"] == "published"

    refused = max_.request("DELETE", f"{ITEMS}/zygomorphic-plan")
    assert (refused.status, refused.error) == (403, "forbidden")
    gone = workshop.client("kim").request("DELETE", f"{ITEMS}/zygomorphic-plan").json
    assert (gone["reference"], gone["receipt"]["removed"]) == (None, ["zygomorphic-plan"])
    assert max_.get(address).error == "item_deleted"
    assert max_.get(f"{address}&revision={restored['knowledge_revision_id']}").json["title"] == "Plan"


def test_of_two_writers_who_start_from_the_same_revision_one_is_told_the_difference(
    workshop: Library, max_: DescribedClient, base: str
) -> None:
    made = max_.send("POST", f"{base}/items", {"title": "Contested", "content": "first\n", "id": "contested"}).json
    start = made["knowledge_revision_id"]
    answers = []

    def write(who: str) -> None:
        body = {"expected_revision": start, "content": f"{who}'s\n"}
        answers.append((who, workshop.client(who).send("PATCH", f"{ITEM}?id=contested", body)))

    threads = [threading.Thread(target=write, args=(who,)) for who in ("ada", "kim", "max")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status for _, answer in answers) == [200, 409, 409]
    winner = next(who for who, answer in answers if answer.status == 200)
    now = max_.get(f"{ITEM}/revisions?id=contested").json["revisions"]
    assert [row["revision_number"] for row in now] == [2, 1]
    for _, answer in answers:
        if answer.status == 409:
            assert answer.error == "stale_revision"
            details = answer.json["error"]["details"]
            assert f"-first\n+{winner}'s\n" in details["diff"]
            assert (details["expected"], details["current"]) == (start, now[0]["knowledge_revision_id"])


def test_a_status_change_and_a_deletion_take_the_revision_they_start_from(
    workshop: Library, max_: DescribedClient, base: str
) -> None:
    made = max_.send("POST", f"{base}/items", {"title": "Expected", "id": "expected"}).json
    start = made["knowledge_revision_id"]
    for verb in ("publish", "unpublish", "archive", "restore"):
        stale = max_.send("POST", f"{ITEM}/{verb}?id=expected", {"expected_revision": NOWHERE})
        assert (stale.status, stale.error) == (409, "stale_revision")
    stale = workshop.client("ada").request("DELETE", f"{ITEM}?id=expected&expected_revision={NOWHERE}")
    assert (stale.status, stale.error) == (409, "stale_revision")
    moved = max_.send("POST", f"{ITEM}/publish?id=expected", {"expected_revision": start})
    assert moved.status == 200
    done = workshop.client("ada").request(
        "DELETE", f"{ITEM}?id=expected&expected_revision={moved.json['knowledge_revision_id']}"
    )
    assert done.status == 200


def test_an_id_with_slashes_is_written_by_path_and_by_parameter(max_: DescribedClient, base: str) -> None:
    slug = base.rpartition("/")[2]
    for locator in ("deep/er/page.md", "deep/publish.md"):
        made = max_.send("POST", f"{base}/items", {"title": locator, "locator": locator, "status": "published"})
        assert made.json["knowledge_item_id"] == f"{slug}/{locator.removesuffix('.md')}"
    assert max_.request("POST", f"{ITEMS}/{slug}/deep/er/page/archive").json["status"] == "archived"
    assert max_.request("POST", f"{ITEMS}/{slug}%2Fdeep%2Fer%2Fpage/restore").json["status"] == "published"
    odd = f"{slug}/deep/publish"
    assert max_.get(f"{ITEMS}/{odd}").json["title"] == "deep/publish.md"
    assert max_.request("POST", f"{ITEMS}/{odd}").error == "item_not_found"  # that is: publish {slug}/deep
    assert max_.request("POST", f"{ITEM}/archive?id={quote(odd, safe='')}").json["status"] == "archived"


def test_one_id_in_two_bases_asks_which_is_meant(workshop: Library, max_: DescribedClient, base: str) -> None:
    ada = workshop.client("ada")
    key = f"team:platform/{base.rpartition('/')[2]}"
    assert ada.send("POST", f"{base}/items", {"title": "A", "id": "shared-id"}).status == 201
    assert ada.send("POST", "/api/v1/bases/~ada/notes/items", {"title": "B", "id": "shared-id"}).status == 201
    ambiguous = ada.request("POST", f"{ITEM}/publish?id=shared-id")
    assert (ambiguous.status, ambiguous.error) == (409, "ambiguous_item")
    assert ambiguous.json["error"]["details"]["bases"] == ["personal:ada/notes", key]
    assert ada.request("POST", f"{ITEM}/publish?id=shared-id&base={quote(key)}").status == 200
    assert max_.request("POST", f"{ITEM}/archive?id=shared-id").json["receipt"]["base"] == key


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 400, "invalid_request"),
        ({"title": "A", "unknown": 1}, 400, "invalid_request"),
        ({"title": 1}, 400, "invalid_request"),
        ({"title": "A", "content": ["x"]}, 400, "invalid_request"),
        ({"title": "A", "status": "maybe"}, 400, "invalid_request"),
        ({"title": "A", "status": {}}, 400, "invalid_request"),
        ({"title": "A", "tags": "a"}, 400, "invalid_request"),
        ({"title": "A", "tags": [1]}, 400, "invalid_request"),
        ({"title": "A", "tags": ["t"] * 201}, 400, "invalid_request"),
        ({"title": "A", "metadata": []}, 400, "invalid_request"),
        ({"title": "A", "metadata": {"a": 1}}, 400, "invalid_request"),
        ({"title": "A", "metadata": {"a": {"b": "c"}}}, 400, "invalid_request"),
        ({"title": "A", "metadata": {"title": "B"}}, 400, "invalid_request"),
        ({"title": "A" * 5000}, 400, "invalid_request"),
        ({"title": "half \ud800"}, 400, "invalid_request"),
        ({"title": "A", "metadata": {"\udfff": "x"}}, 400, "invalid_request"),
        ({"title": "A", "content": "\x00"}, 422, "document_problem"),
        ({"title": "A", "id": "no/slash"}, 422, "document_problem"),
        ({"title": "A", "locator": "../../escape.md"}, 400, "invalid_request"),
        ({"title": "A", "locator": "/etc/passwd.md"}, 400, "invalid_request"),
        ({"title": "A", "locator": ".git/hooks/a.md"}, 400, "invalid_request"),
        ({"title": "A", "locator": "a/.git/a.md"}, 400, "invalid_request"),
        ({"title": "A", "locator": "base.yaml"}, 400, "invalid_request"),
        ({"title": "A", "locator": "a\\b.md"}, 400, "invalid_request"),
        ({"title": "A", "locator": "a\nb.md"}, 400, "invalid_request"),
        ({"title": "A", "locator": "x" * 300 + ".md"}, 400, "invalid_request"),
        ([], 400, "invalid_request"),
        ("title", 400, "invalid_request"),
        (None, 400, "invalid_request"),
    ],
)
def test_what_is_no_item_is_refused_and_nothing_is_committed(
    body: object, status: int, code: str, workshop: Library, max_: DescribedClient
) -> None:
    address = "/api/v1/bases/platform/runbooks"
    before = max_.get(address).json["freshness"]["published"]
    refused = max_.send("POST", f"{address}/items", body)
    assert (refused.status, refused.error) == (status, code)
    assert max_.get(address).json["freshness"]["published"] == before


def test_a_change_without_the_revision_it_starts_from_is_refused(max_: DescribedClient) -> None:
    for body in ({"title": "A"}, {"title": "A", "expected_revision": None}, {"expected_revision": "HEAD"}):
        refused = max_.send("PATCH", f"{ITEM}?id=runbooks/deploy", body)
        assert (refused.status, refused.json["error"]["details"]["field"]) == (400, "expected_revision")
    refused = max_.request("DELETE", f"{ITEM}?id=runbooks/deploy&expected_revision=HEAD")
    assert refused.json["error"]["details"] == {"parameter": "expected_revision"}


def test_a_title_is_kept_as_it_is_typed(max_: DescribedClient, base: str) -> None:
    typed = ["no", "2026-05-26", "1.10", "a: b", "# a", "'\"", "[x]", "~", "über", "两", "&a *b", "null"]
    for number, title in enumerate(typed):
        body = {"title": title, "locator": f"{number}.md", "id": f"typed-{number}", "status": "published"}
        assert max_.send("POST", f"{base}/items", body).status == 201
        assert max_.get(f"{ITEM}?id=typed-{number}").json["title"] == title
