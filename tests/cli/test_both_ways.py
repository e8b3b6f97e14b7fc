"""Writing and administering, through a server and without one: the same answers, and the same things done."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import PAGES, Kbgit, new_home, write

_SHA = re.compile(r"\b[0-9a-f]{40}\b")
_HEAD = re.compile(r" at [0-9a-f]{12}:")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_TOKEN = re.compile(r"kbgit_[0-9a-f]{12}_\S{43}|\b[0-9a-f]{12}\b")
_BYTES = re.compile(r'"bytes": \d+|[\d,]+ bytes')

WRITING: list[tuple[str, ...]] = [
    ("item", "create", "handbook", "--file", "PAGE", "--title", "Heron", "--tag", "bird"),
    ("item", "create", "handbook", "--file", "PAGE", "--title", "Heron"),
    ("item", "edit", "handbook/heron", "--title", "Grey heron", "--set", "owner=mia", "--unset", "tags"),
    ("item", "edit", "handbook/heron", "--title", "x", "--expect", "0" * 40),
    ("item", "edit", "handbook/heron", "--file", "PAGE", "--status", "nonsense"),
    ("item", "publish", "handbook/heron"),
    ("item", "archive", "handbook/heron"),
    ("item", "restore", "handbook/heron"),
    ("item", "unpublish", "handbook/heron"),
    ("item", "publish", "nowhere"),
    ("item", "list", "handbook"),
    ("item", "list", "handbook", "--status", "published", "--limit", "1"),
    ("item", "delete", "handbook/heron", "--dry-run"),
    ("item", "delete", "handbook/heron"),
    ("item", "delete", "handbook/heron"),
    ("base", "update", "handbook", "--description", "Ours"),
    ("base", "archive", "handbook"),
    ("base", "show", "handbook"),
    ("base", "restore", "handbook"),
    ("base", "create", "handbook"),
    ("base", "delete", "handbook", "--dry-run"),
    ("base", "delete", "handbook", "--name", "hand"),
    ("base", "delete", "handbook", "--name", "handbook"),
    ("base", "delete", "handbook", "--name", "handbook"),
]
ADMINISTERING: list[tuple[str, ...]] = [
    ("user", "create", "mia"),
    ("user", "create", "mia"),
    ("user", "create", "Mia!"),
    ("user", "create", "ida", "--administrator"),
    ("user", "list"),
    ("space", "create", "platform"),
    ("space", "create", "platform"),
    ("space", "member", "set", "team:platform", "mia", "member"),
    ("space", "member", "set", "team:platform", "nobody", "member"),
    ("space", "member", "set", "team:nowhere", "mia", "member"),
    ("space", "member", "list", "team:platform"),
    ("space", "show", "team:platform"),
    ("space", "show", "team:nowhere"),
    ("access", "explain", "mia", "write", "team:platform"),
    ("access", "explain", "mia", "delete", "team:platform/runbooks"),
    ("access", "explain", "nobody", "read", "team:platform"),
    ("base", "create", "team:platform/runbooks", "--title", "Runbooks"),
    ("token", "create", "--scope", "knowledge:read", "--name", "robot", "--base", "team:platform/runbooks"),
    ("token", "create", "--scope", "knowledge:read", "--profile", "cursor-plugin", "--expires", "30d"),
    ("token", "list", "--user", "ada"),
    ("token", "list", "--user", "nobody"),
    ("token", "revoke", "000000000000"),
    ("user", "remove", "mia", "--dry-run"),
    ("space", "member", "remove", "team:platform", "ada"),
    ("space", "member", "remove", "team:platform", "mia"),
    ("user", "remove", "mia"),
    ("user", "remove", "mia"),
    ("audit", "--space", "team:platform"),
    ("audit", "--limit", "2"),
    ("audit", "--space", "team:nowhere"),
]


def same(text: str, kbgit: Kbgit, url: str = "") -> str:
    """`text` without what two homes cannot have in common: SHAs, times, sizes, places, and how far an index is."""
    text = text.replace(str(kbgit.home.parent), "HOME")
    if url:
        text = re.sub(rf"{re.escape(url)}/git/", "HOME/home/repositories/", text)
    for pattern, word in ((_SHA, "SHA"), (_HEAD, " at SHA:"), (_TIME, "TIME"), (_TOKEN, "TOKEN"), (_BYTES, "BYTES")):
        text = pattern.sub(word, text)
    return re.sub(r'"freshness": \{[^}]*\}', '"freshness"', text)


def answers(kbgit: Kbgit, commands: list[tuple[str, ...]], page: Path, *more: str, **environment: str) -> list[Any]:
    """What each command says, in JSON and on standard error, and its exit code."""
    found = []
    for command in commands:
        arguments = [str(page) if argument == "PAGE" else argument for argument in command]
        result = kbgit.run(*arguments, *more, "--json", code=None, **environment)
        told = json.loads(result.stdout)
        told.get("tokens", []).sort(key=lambda row: row["name"])  # several may be of one second
        found.append((command, result.exit_code, json.dumps(told, indent=1, ensure_ascii=False), result.stderr))
    return found


def prepared(directory: Path) -> tuple[Kbgit, Path]:
    """A home with the base `handbook`, indexed, and a page to write."""
    kbgit = new_home(directory / "home")
    kbgit.run("base", "import", "handbook", "--from", str(write(directory / "handbook", PAGES)))
    kbgit.run("reindex")
    return kbgit, write(directory, {"page.md": "# Heron\n\nIt waits.\n"}) / "page.md"


@pytest.mark.parametrize("commands", [WRITING, ADMINISTERING], ids=["writing", "administering"])
def test_what_is_written_and_administered_is_answered_alike_with_and_without_a_server(
    commands: list[tuple[str, ...]], tmp_path: Path
) -> None:
    alone, page = prepared(tmp_path / "a" / "x")
    served, other_page = prepared(tmp_path / "b" / "x")
    first = answers(alone, commands, page)
    with served.server() as url:
        token = (served.home / "owner-token").read_text().strip()
        # Items and bases are asked of the home's own server; accounts only of a server that is named.
        there = {"KBGIT_SERVER": url, "KBGIT_TOKEN": token} if commands is ADMINISTERING else {}
        second = answers(served, commands, other_page, **there)
    for (command, code, out, err), (_, other_code, other_out, other_err) in zip(first, second, strict=True):
        expected = (code, same(out, alone), same(err, alone))
        assert expected == (other_code, same(other_out, served, url), same(other_err, served, url)), command


def test_a_base_is_exported_through_a_server_and_restored_beside_it(tmp_path: Path) -> None:
    kbgit, _ = prepared(tmp_path / "x")
    bundle = str(tmp_path / "handbook.bundle")
    with kbgit.server():
        before = kbgit.json("history", "item_deploy")
        kbgit.run("base", "export", "handbook", bundle)
        kbgit.run("base", "delete", "handbook", "--name", "handbook")
        kbgit.run("read", "item_deploy", code=1)
        assert kbgit.json("base", "import", "handbook", "--from", bundle, "--restore")["indexed"] is True
        assert kbgit.json("history", "item_deploy") == before
        assert kbgit.json("search", "rollout", "--mode", "lexical")["results"]


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Kbgit]]:
    """Makes the program as somebody on another machine: mia owns the team, tom views it, ada owns the home."""
    home = new_home(tmp_path_factory.mktemp("team") / "home")
    for name in ("mia", "tom"):
        home.run("user", "create", name)
    home.run("space", "create", "platform", "--owner", "mia")
    home.run("space", "member", "set", "team:platform", "tom", "viewer")
    home.run("base", "create", "team:platform/runbooks", "--default-status", "published")
    elsewhere = home.home.parent / "elsewhere"
    with home.server() as url:

        def person(user: str, *scopes: str) -> Kbgit:
            asked = [
                word
                for scope in scopes or ("knowledge:read", "item:write", "base:admin")
                for word in ("--scope", scope)
            ]
            token = home.json("token", "create", "--user", user, *asked)["token"]
            return Kbgit(elsewhere, {"KBGIT_SERVER": url, "KBGIT_TOKEN": token})

        yield person


def test_everybody_does_with_a_token_what_their_role_allows(team: Callable[..., Kbgit], tmp_path: Path) -> None:
    page = str(write(tmp_path, {"a.md": "# Heron\n"}) / "a.md")
    mia, tom, ada = team("mia"), team("tom"), team("ada")
    create = ("item", "create", "runbooks", "--file", page)
    assert mia.json(*create)["locator"] == "heron.md"
    refused = tom.run(*create, "--title", "Other", code=1).stderr
    assert "the role viewer does not include" in refused
    assert "runbooks" in tom.run("base", "list").stdout
    # An administrator of the home sees no team through that.
    ada.run("base", "show", "team:platform/runbooks", code=1)
    assert [row["space"] for row in tom.json("space", "list")["spaces"]] == ["personal:tom", "team:platform"]
    tom.run("user", "list", code=1)
    tom.run("audit", "--space", "team:platform", code=1)
    assert "member_set" in mia.run("audit", "--space", "team:platform").stdout
    mia.run("token", "create", "--scope", "knowledge:read", "--user", "tom", code=1)


def test_a_token_makes_only_tokens_that_give_less(team: Callable[..., Kbgit]) -> None:
    reader = team("mia", "knowledge:read")
    assert "lacks" in reader.run("token", "create", "--scope", "item:write", code=1).stderr
    made = reader.json("token", "create", "--scope", "knowledge:read", "--base", "runbooks")
    assert made["bases"] == ["team:platform/runbooks"]
    reader.run("token", "revoke", made["id"])
    states = {row["id"]: row["state"] for row in reader.json("token", "list")["tokens"]}
    assert states[made["id"]] == "revoked"


def test_a_base_is_created_on_another_machine(team: Callable[..., Kbgit]) -> None:
    mia = team("mia")
    made = mia.json("base", "create", "notes", "--description", "Mine")
    url = mia.environment["KBGIT_SERVER"]
    assert (made["base"], made["repository"]) == ("personal:mia/notes", f"{url}/git/~mia/notes.git")
    assert mia.json("base", "show", "notes")["description"] == "Mine"
    mia.run("base", "delete", "notes", "--name", "notes")
