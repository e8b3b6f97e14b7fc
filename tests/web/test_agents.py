"""What agents ask over plain HTTP: citations, changes, memory, recall."""

from __future__ import annotations

from typing import Any

import pytest

from tests.web.conftest import Library

VERIFY = "/api/v1/citations/verify"
CHANGES = "/api/v1/knowledge/changes"
MEMORY = "/api/v1/memory"
RECALL = "/api/v1/recall"
NOWHERE = "knowledge:nowhere@" + "0" * 40


def cited(library: Library, lines: str = "") -> str:
    return f"knowledge:runbooks/deploy@{library.heads[0]}{lines}"


def test_citations_are_verified_in_their_order(library: Library) -> None:
    asked = [NOWHERE, cited(library), cited(library, "#L1-L1"), "nonsense"]
    answer = library.client("max").send("POST", VERIFY, {"citations": asked})
    assert answer.status == 200
    verdicts = answer.json["verdicts"]
    assert [one["citation"] for one in verdicts] == asked
    assert [one["state"] for one in verdicts] == ["unknown", "superseded", "changed", "unknown"]
    assert answer.json["holds"] is False
    assert answer.json["counts"] == {"unknown": 2, "superseded": 1, "changed": 1}
    brief = library.client("max").send("POST", VERIFY, {"citations": asked, "differences": False})
    assert "differences" in verdicts[2]
    assert "differences" not in brief.json["verdicts"][2]


def test_what_a_caller_may_not_see_is_unknown_like_what_never_was(library: Library) -> None:
    answer = library.client("olga").send("POST", VERIFY, {"citations": [cited(library), NOWHERE]})
    first, second = answer.json["verdicts"]
    assert {**first, "citation": ""} == {**second, "citation": ""}


def test_changes_are_listed_since_a_commit_a_time_and_citations(library: Library) -> None:
    client = library.client("max")
    since = client.get(f"{CHANGES}?since_commit={library.heads[0]}&base=runbooks")
    kinds = {one["knowledge_item_id"]: one["kind"] for one in since.json["changes"]}
    assert kinds["runbooks/deploy"] == "changed"
    assert kinds["runbooks/deploy/revisions"] == "added"
    assert client.get(f"{CHANGES}?since_time=2000-01-01T00:00:00Z").json["changes"]
    by_citation = client.send("POST", CHANGES, {"since_citations": [cited(library), NOWHERE]})
    assert [one["knowledge_item_id"] for one in by_citation.json["changes"]] == ["runbooks/deploy"]
    assert by_citation.json["unknown"] == [NOWHERE]


def test_changes_come_in_pages(library: Library) -> None:
    client, found, cursor = library.client("max"), [], ""
    while True:
        page = client.get(f"{CHANGES}?since_time=2000-01-01T00:00:00Z&limit=1{cursor}").json
        found += [one["knowledge_item_id"] for one in page["changes"]]
        if page["cursor"] is None:
            break
        cursor = f"&cursor={page['cursor'].replace(' ', '%20')}".replace("+", "%2B")
    assert len(found) == len(set(found)) > 2


@pytest.mark.parametrize(
    "query", ["", "?since_time=yesterday", "?since_commit=abc", "?since_time=2000-01-01T00:00:00Z&limit=0"]
)
def test_a_question_for_changes_that_makes_no_sense_is_refused(library: Library, query: str) -> None:
    assert library.client("max").get(CHANGES + query).error == "invalid_request"


def test_a_record_is_kept_listed_recalled_exported_and_forgotten(workshop: Library) -> None:
    max_ = workshop.client("max")
    record = {"text": "Fridays are quiet.\n\n> quoted", "project": "rest", "space": "team:platform", "tags": ["deploy"]}
    kept = max_.send("POST", MEMORY, record)
    assert kept.status == 201
    assert (kept.json["author"], kept.json["kind"], kept.json["expires_at"]) == ("max", "knowledge", None)
    ada = workshop.client("ada")
    listed = ada.get(f"{MEMORY}?project=rest&query=quiet&kind=knowledge").json["records"]
    assert [one["id"] for one in listed] == [kept.json["id"]]
    recalled = ada.send("POST", RECALL, {"query": "quiet Fridays", "project": "rest", "include_knowledge": False})
    assert [one["id"] for one in recalled.json["memory"]] == [kept.json["id"]]
    assert recalled.json["sources"]["knowledge"]["asked"] is False
    exported = ada.get(f"{MEMORY}/export?space=team:platform&project=rest")
    assert exported.json["projects"][0]["records"][0]["author"] == "max"
    markdown = ada.get(f"{MEMORY}/export?project=rest&format=markdown")
    assert markdown.headers["content-type"] == "text/markdown; charset=utf-8"
    assert "> Fridays are quiet." in markdown.body.decode()
    assert ada.request("DELETE", f"{MEMORY}/{kept.json['id']}").status == 200
    assert max_.request("DELETE", f"{MEMORY}/{kept.json['id']}").error == "not_found"


def test_memory_of_others_is_not_there(workshop: Library) -> None:
    kept = workshop.client("ada").send("POST", MEMORY, {"text": "Mine alone.", "project": "diary"}).json
    for who in ("max", "kim", "olga", "root"):
        client = workshop.client(who)
        assert client.get(f"{MEMORY}?project=diary").json["records"] == []
        assert client.get(f"{MEMORY}?space=personal:ada").error == "space_not_found"
        assert "Mine alone" not in client.get(f"{MEMORY}/export").body.decode()
        assert client.request("DELETE", f"{MEMORY}/{kept['id']}").error == "not_found"


@pytest.mark.parametrize(
    ("path", "body", "scope"),
    [
        (MEMORY, {"text": "x", "project": "p"}, "memory:write"),
        (VERIFY, {"citations": ["x"]}, "knowledge:read"),
        (CHANGES, {"since_time": "2000-01-01T00:00:00Z"}, "knowledge:read"),
    ],
)
def test_a_token_without_the_scope_is_told_which(
    workshop: Library, path: str, body: dict[str, Any], scope: str
) -> None:
    who = "memory" if scope == "knowledge:read" else "reader"
    refused = workshop.client(who).send("POST", path, body)
    assert (refused.status, refused.error) == (403, "forbidden")
    assert refused.json["error"]["details"]["scope"] == scope
    assert f'scope="{scope}"' in refused.headers["www-authenticate"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", MEMORY, {"text": "x"}),
        ("POST", MEMORY, {"text": "x", "project": "p", "kind": "rumour"}),
        ("POST", MEMORY, ["x"]),
        ("POST", RECALL, {"query": "x", "memory_limit": 51}),
        ("POST", RECALL, {"query": "x" * 10_000}),
        ("POST", VERIFY, {"citations": "x"}),
        ("POST", CHANGES, {"since_time": "2000-01-01T00:00:00Z", "since_commit": "0" * 40}),
        ("GET", f"{MEMORY}?kind=rumour", None),
        ("GET", f"{MEMORY}/export?format=xml", None),
        ("GET", f"{MEMORY}?cursor=x", None),
    ],
)
def test_what_cannot_be_understood_is_refused(workshop: Library, method: str, path: str, body: object) -> None:
    client = workshop.client("ada")
    answer = client.get(path) if body is None else client.send(method, path, body)
    assert (answer.status, answer.error) == (400, "invalid_request")


def test_documents_are_linked_to_a_project_and_unlinked_and_stay_as_they_are(library: Library) -> None:
    max_ = library.client("max")
    link = {"space": "team:platform", "project": "harbour", "reference": cited(library)}
    before = max_.get(f"/api/v1/knowledge/resolve?reference={cited(library)}").json
    linked = max_.send("POST", f"{MEMORY}/documents", link)
    assert (linked.status, linked.json["documents"]) == (200, [cited(library)])
    assert max_.send("POST", f"{MEMORY}/documents", link).json["documents"] == [cited(library)]
    projects = library.client("vera").get(f"{MEMORY}/projects?space=team:platform").json["projects"]
    assert [cited(library)] in [project["documents"] for project in projects]
    assert library.client("olga").get(f"{MEMORY}/projects?space=team:platform").error == "space_not_found"
    address = f"{MEMORY}/documents?space=team:platform&project=harbour&reference={cited(library)}"
    assert max_.request("DELETE", address).json["documents"] == []
    assert max_.request("DELETE", address).error == "not_found"
    assert max_.get(f"/api/v1/knowledge/resolve?reference={cited(library)}").json == before
