from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime

import pytest

from kbgit.errors import Unauthenticated
from kbgit.home import Home
from tests.cli.running import Kbgit


def test_a_team_space_is_created_and_listed_with_its_owner(kbgit: Kbgit) -> None:
    assert kbgit.json("space", "create", "platform")["space"] == "team:platform"
    spaces = {row["space"]: row["members"] for row in kbgit.json("space", "list")["spaces"]}
    assert spaces == {"personal:ada": {"ada": "owner"}, "team:platform": {"ada": "owner"}}
    assert "ada (owner)" in kbgit.run("space", "list").stdout


def test_a_space_is_not_created_twice(kbgit: Kbgit) -> None:
    kbgit.run("space", "create", "team:platform")
    assert "already" in kbgit.run("space", "create", "platform", code=1).stderr


def test_a_space_cannot_have_any_name(kbgit: Kbgit) -> None:
    kbgit.run("space", "create", "Plat form", code=2)


def test_a_space_can_have_no_unknown_owner(kbgit: Kbgit) -> None:
    assert "grace" in kbgit.run("space", "create", "platform", "--owner", "grace", code=1).stderr


def test_a_token_has_the_scopes_bases_and_time_that_were_asked_for(kbgit: Kbgit) -> None:
    kbgit.run("base", "create", "notes")
    made = kbgit.json(
        *("token", "create", "--scope", "knowledge:read", "--scope", "item:write", "--name", "robot"),
        *("--base", "notes", "--expires", "30d"),
    )
    assert made["scopes"] == ["item:write", "knowledge:read"]
    assert made["bases"] == ["personal:ada/notes"]
    lifetime = datetime.fromisoformat(made["expires_at"]) - datetime.fromisoformat(made["created_at"])
    assert lifetime.days in (29, 30)
    with closing(Home.at(kbgit.home).accounts()) as accounts:
        assert accounts.authenticate(made["token"]).bases == frozenset({"personal:ada/notes"})
    assert datetime.fromisoformat(made["created_at"]).tzinfo == UTC


def test_a_token_is_listed_without_its_text_and_revoked_at_once(kbgit: Kbgit) -> None:
    made = kbgit.json("token", "create", "--scope", "knowledge:read", "--name", "robot")
    listed = kbgit.run("token", "list").stdout
    assert made["id"] in listed
    assert made["token"].rpartition("_")[2] not in listed
    kbgit.run("token", "revoke", made["id"])
    states = {row["id"]: row["state"] for row in kbgit.json("token", "list", "--user", "ada")["tokens"]}
    assert states[made["id"]] == "revoked"
    with closing(Home.at(kbgit.home).accounts()) as accounts, pytest.raises(Unauthenticated):
        accounts.authenticate(made["token"])


@pytest.mark.parametrize(
    "arguments",
    [
        ("create",),
        ("create", "--scope", "everything"),
        ("create", "--scope", "knowledge:read", "--expires", "soon"),
        ("create", "--scope", "knowledge:read", "--expires", "0d"),
    ],
)
def test_a_token_that_makes_no_sense_is_wrong_usage(kbgit: Kbgit, arguments: tuple[str, ...]) -> None:
    kbgit.run("token", *arguments, code=2)


@pytest.mark.parametrize(
    "arguments",
    [
        ("create", "--scope", "knowledge:read", "--base", "nowhere"),
        ("create", "--scope", "knowledge:read", "--user", "grace"),
        ("revoke", "000000000000"),
        ("list", "--user", "grace"),
    ],
)
def test_a_token_for_what_is_not_there_is_refused(kbgit: Kbgit, arguments: tuple[str, ...]) -> None:
    kbgit.run("token", *arguments, code=1)


def test_without_the_owner_token_the_only_user_is_the_owner(kbgit: Kbgit) -> None:
    (kbgit.home / "owner-token").unlink()
    kbgit.run("base", "create", "notes")


def test_without_the_owner_token_nobody_is_guessed_to_be_the_owner(kbgit: Kbgit) -> None:
    (kbgit.home / "owner-token").write_text("kbgit_nonsense\n")
    with closing(Home.at(kbgit.home).accounts()) as accounts:
        accounts.add_user("grace", "test")
    assert "owner-token" in kbgit.run("base", "create", "notes", code=3).stderr
