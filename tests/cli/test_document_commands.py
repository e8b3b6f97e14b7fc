"""`kbgit document`, through a server and without one."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.cli.running import Kbgit, new_home, wait_until

NAME = "a <b>broken</b>\x1b[2J report.pdf"


@pytest.fixture
def kbgit(tmp_path: Path) -> Kbgit:
    """Ada's home, with a base in which a document failed and another one is cancelled."""
    made = new_home(tmp_path / "home")
    (tmp_path / "home" / "kbgit.yaml").write_text("embedder: none\nwatch: off\n")
    made.run("base", "create", "notes")
    with made.server() as url:
        token = (made.home / "owner-token").read_text().strip()
        for query in ("a%20%3Cb%3Ebroken%3C/b%3E%1B%5B2J%20report.pdf", "other.docx"):
            address = f"{url}/api/v1/bases/~ada/notes/documents?name={query}"
            request = Request(address, b"no document at all", {"Authorization": f"Bearer {token}"}, method="POST")
            with urlopen(request) as answer:
                assert answer.status == 202
        wait_until(lambda: {row["state"] for row in listed(made)} == {"failed"})
        made.run("document", "cancel", listed(made)[0]["id"])
    return made


def listed(kbgit: Kbgit, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = kbgit.json("document", "list", *arguments)["documents"]
    return found


def test_documents_are_listed_shown_and_moved_with_and_without_a_server(kbgit: Kbgit) -> None:
    alone = kbgit.json("document", "list")
    failed, cancelled = alone["documents"][1], alone["documents"][0]
    assert (failed["state"], failed["reason"], failed["name"]) == ("failed", "corrupt", NAME)
    assert (cancelled["state"], cancelled["name"]) == ("cancelled", "other.docx")
    shown = kbgit.json("document", "show", failed["id"])
    assert shown == failed
    with kbgit.server():
        assert kbgit.json("document", "list") == alone
        assert kbgit.json("document", "show", failed["id"]) == shown
        refused = kbgit.json("document", "retry", cancelled["id"], code=1)
        assert refused["error"]["code"] == "conflict"
        assert kbgit.json("document", "retry", failed["id"])["state"] in ("queued", "extracting", "failed")
        wait_until(lambda: listed(kbgit)[1]["state"] == "failed")
    assert kbgit.json("document", "retry", failed["id"])["state"] == "queued"
    assert kbgit.json("document", "cancel", failed["id"])["state"] == "cancelled"
    assert kbgit.json("document", "show", "doc_nowhere", code=1)["error"]["code"] == "not_found"


def test_a_list_is_filtered_and_cut(kbgit: Kbgit) -> None:
    assert [row["state"] for row in listed(kbgit, "--state", "failed")] == ["failed"]
    assert len(listed(kbgit, "--base", "notes", "--limit", "1")) == 1
    assert kbgit.json("document", "list", "--base", "nowhere", code=1)["error"]["code"] == "base_not_found"


def test_people_read_what_went_wrong_and_no_terminal_obeys_a_name(kbgit: Kbgit) -> None:
    printed = kbgit.run("document", "list").output
    assert "failed: corrupt" in printed
    assert "\x1b[2J" not in printed
    failed = listed(kbgit)[1]
    shown = kbgit.run("document", "show", failed["id"]).output
    assert failed["detail"] in shown
    assert failed["id"] in shown
    assert "\x1b[2J" not in shown
