"""Text and code files imported over HTTP; who may, and what becomes of them, is tested elsewhere."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.web.conftest import Library
from tests.web.described import DescribedClient


@pytest.fixture
def max_(workshop: Library) -> DescribedClient:
    return workshop.client("max")


def given(**files: str | bytes) -> list[dict[str, str]]:
    return [
        {
            "name": name.replace("__", "."),
            "content": base64.b64encode(text.encode() if isinstance(text, str) else text).decode(),
        }
        for name, text in files.items()
    ]


def test_files_are_imported_once_and_read_by_their_citation(max_: DescribedClient, base: str) -> None:
    body = {"files": given(run__py="print(1)\n", bad__md="---\na: b: c\n---\n"), "status": "published", "folder": "in"}
    done = max_.send("POST", f"{base}/files", body)
    assert done.status == 200
    assert done.json["counts"] == {"created": 1, "updated": 0, "unchanged": 0, "refused": 1}
    made, refused = done.json["files"]
    assert (made["locator"], made["status"]) == ("in/run.py.md", "published")
    assert (refused["error"]["code"], refused["error"]["details"]["line"]) == ("document_problem", 2)
    assert refused["reference"] is None
    cited = max_.get(f"/api/v1/knowledge/resolve?reference={made['reference']}").json
    assert cited["content"] == "```python\nprint(1)\n```\n"
    again = max_.send("POST", f"{base}/files", body).json
    assert (again["head"], again["files"][0]["outcome"]) == (done.json["head"], "unchanged")


def test_a_dry_run_says_what_would_be_done(max_: DescribedClient, base: str) -> None:
    told = max_.send("POST", f"{base}/files", {"files": given(a__txt="words"), "dry_run": True}).json
    assert (told["dry_run"], told["files"][0]["outcome"], told["files"][0]["reference"]) == (True, "created", None)
    assert max_.get(f"{base}/items").json["items"] == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"files": None},
        {"files": {}},
        {"files": ["a"]},
        {"files": [{"name": "a.md"}]},
        {"files": [{"name": "a.md", "content": "eA==", "more": 1}]},
        {"files": [{"name": "", "content": "eA=="}]},
        {"files": [{"name": "x" * 2000, "content": "eA=="}]},
        {"files": [{"name": 1, "content": "eA=="}]},
        {"files": [{"name": "a.md", "content": "not base64!"}]},
        {"files": [{"name": "a.md", "content": "eA"}]},
        {"files": [{"name": "a.md", "content": None}]},
        {"files": [], "status": "live"},
        {"files": [], "replace": "yes"},
        {"files": [], "folder": 1},
        {"files": [{"name": "a.md", "content": "eA=="}] * 1001},
        [],
    ],
)
def test_what_cannot_be_understood_is_refused_whole(body: Any, max_: DescribedClient, base: str) -> None:  # noqa: ANN401
    refused = max_.send("POST", f"{base}/files", body)
    assert (refused.status, refused.error) == (400, "invalid_request")
    assert max_.get(f"{base}/items").json["items"] == []


def test_more_than_a_request_may_hold_is_refused(max_: DescribedClient, base: str) -> None:
    refused = max_.send("POST", f"{base}/files", {"files": given(a__txt="x" * (3 << 20))})
    assert (refused.status, refused.error) == (413, "too_large")


def test_names_lead_nowhere_outside_and_keep_their_script(max_: DescribedClient, base: str) -> None:
    files = [
        {"name": name, "content": "eA=="}
        for name in ("../../x.txt", "/etc/x.md", "C:\\y.txt", "年假/наша.txt", "<b>.txt")
    ]
    told = max_.send("POST", f"{base}/files", {"files": files, "folder": "../up"}).json
    assert [row["locator"] for row in told["files"]] == [
        *("up/x.txt.md", "up/etc/x.md", "up/C-/y.txt.md", "up/年假/наша.txt.md", "up/-b-.txt.md")
    ]
    assert {row["outcome"] for row in told["files"]} == {"created"}
