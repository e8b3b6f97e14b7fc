from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime

import pytest

from kbgit.errors import Unauthenticated
from kbgit.home import Home
from tests.cli.running import Kbgit


def test_a_team_space_is_created_and_listed_with_its_owner(kbgit: Kbgit) -> None:
    assert kbgit.json("space", "create", "platform")["space"] == "team:platform"
    spaces = {row["space"]: (row["role"], row["members"]) for row in kbgit.json("space", "list")["spaces"]}
    assert spaces == {"personal:ada": ("owner", {"ada": "owner"}), "team:platform": ("owner", {"ada": "owner"})}
    assert "ada (owner)" in kbgit.run("space", "list").stdout


def test_users_are_created_listed_and_removed_for_good(kbgit: Kbgit) -> None:
    assert kbgit.json("user", "create", "mia") == {
        **{"type": "user_created", "user": "mia", "administrator": False, "space": "personal:mia"}
    }
    kbgit.run("user", "create", "ida", "--administrator")
    assert kbgit.run("user", "list").stdout.split() == ["ada", "ida", "mia"]
    token = kbgit.json("token", "create", "--user", "mia", "--scope", "knowledge:read")["token"]
    kbgit.run("user", "remove", "mia")
    assert kbgit.json("user", "list")["users"] == ["ada", "ida"]
    with closing(Home.at(kbgit.home).accounts()) as accounts, pytest.raises(Unauthenticated):
        accounts.authenticate(token)
    assert "take another name" in kbgit.run("user", "create", "mia", code=1).stderr
    kbgit.run("user", "remove", "mia", code=1)


def test_a_removal_says_before_what_it_takes_and_what_stands_in_its_way(kbgit: Kbgit) -> None:
    kbgit.run("user", "create", "mia")
    kbgit.run("space", "create", "platform", "--owner", "mia")
    made = kbgit.json("token", "create", "--user", "mia", "--scope", "knowledge:read")
    preview = kbgit.json("user", "remove", "mia", "--dry-run")
    assert (preview["tokens"], preview["roles"]) == ([made["id"]], {"team:platform": "owner"})
    assert preview["last_owner_of"] == ["team:platform"]
    assert "last owner" in kbgit.run("user", "remove", "mia", code=1).stderr
    kbgit.run("space", "member", "set", "team:platform", "ada", "owner")
    assert kbgit.json("user", "remove", "mia", "--dry-run")["last_owner_of"] == []
    assert kbgit.json("user", "list")["users"] == ["ada", "mia"]
    kbgit.run("user", "remove", "mia")
    kbgit.run("user", "remove", "nobody", "--dry-run", code=1)


@pytest.mark.parametrize("space", ["team:platform", "platform"])
def test_members_of_a_team_are_set_and_removed(kbgit: Kbgit, space: str) -> None:
    kbgit.run("user", "create", "mia")
    kbgit.run("space", "create", "platform")
    assert kbgit.run("space", "member", "set", space, "mia", "admin").stdout == "mia is admin of team:platform\n"
    kbgit.run("space", "member", "set", space, "mia", "viewer")
    assert kbgit.json("space", "member", "list", space)["members"] == [
        {"user": "ada", "role": "owner"},
        {"user": "mia", "role": "viewer"},
    ]
    assert kbgit.json("space", "show", space)["members"] == {"ada": "owner", "mia": "viewer"}
    kbgit.run("space", "member", "remove", space, "mia")
    kbgit.run("space", "member", "remove", space, "mia", code=1)
    assert "last owner" in kbgit.run("space", "member", "remove", space, "ada", code=1).stderr


def test_nobody_gets_into_a_personal_space(kbgit: Kbgit) -> None:
    kbgit.run("user", "create", "mia")
    for space in ("personal:mia", "~mia"):
        assert "one owner" in kbgit.run("space", "member", "set", space, "ada", "viewer", code=2).stderr
    kbgit.run("space", "member", "set", "team:platform", "mia", "king", code=2)
    kbgit.run("space", "show", "Plat form", code=2)


def test_an_access_is_explained_by_its_rule_and_the_exit_code(kbgit: Kbgit) -> None:
    kbgit.run("user", "create", "mia")
    kbgit.run("space", "create", "platform")
    kbgit.run("space", "member", "set", "platform", "mia", "member")
    assert kbgit.run("access", "explain", "mia", "write", "platform/runbooks").stdout == (
        "yes: role member in team:platform, scope item:write\n"
    )
    refused = kbgit.json("access", "explain", "mia", "delete", "team:platform", code=1)
    assert (refused["allowed"], refused["rule"]) == (False, "the role member does not include: delete items")
    assert "nobody else" in kbgit.run("access", "explain", "ada", "read", "personal:mia/notes", code=1).stdout
    kbgit.run("access", "explain", "mia", "dance", "platform", code=2)


def test_the_audit_log_is_paged_and_tells_who_did_what(kbgit: Kbgit) -> None:
    kbgit.run("user", "create", "mia")
    kbgit.run("space", "create", "platform")
    kbgit.run("space", "member", "set", "platform", "mia", "member")
    first = kbgit.json("audit", "--limit", "2")
    assert [(entry["event"], entry["actor"]) for entry in first["entries"]] == [
        ("member_set", "ada"),
        ("space_added", "ada"),
    ]
    assert f"--cursor {first['cursor']}" in kbgit.run("audit", "--limit", "2").stdout
    rest = kbgit.json("audit", "--cursor", first["cursor"])
    assert rest["entries"][0]["event"] == "user_added"
    assert rest["cursor"] is None
    assert len(kbgit.json("audit", "--space", "platform")["entries"]) == 2
    kbgit.run("audit", "--limit", "0", code=2)
    kbgit.run("audit", "--cursor", "x", code=2)
    kbgit.run("audit", "--space", "team:nowhere", code=1)


def test_accounts_are_administered_beside_a_running_server_from_its_next_request_on(kbgit: Kbgit) -> None:
    kbgit.run("user", "create", "mia")
    with kbgit.server() as url:
        made = kbgit.json("token", "create", "--user", "mia", "--scope", "knowledge:read")
        elsewhere = Kbgit(kbgit.home / "nowhere", {"KBGIT_SERVER": url, "KBGIT_TOKEN": made["token"]})
        elsewhere.run("base", "list")
        kbgit.run("token", "revoke", made["id"])
        elsewhere.run("base", "list", code=1)


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
        *("--base", "notes", "--expires", "30d", "--profile", "cursor-plugin"),
    )
    assert made["scopes"] == ["item:write", "knowledge:read"]
    assert (made["bases"], made["profile"]) == (["personal:ada/notes"], "cursor-plugin")
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
