from __future__ import annotations

import getpass
import stat
from contextlib import closing
from pathlib import Path

import pytest

from kbgit.access import Scope
from kbgit.home import Home
from tests.cli.running import Kbgit


def test_a_new_home_has_an_owner_with_a_personal_space_and_a_token_of_every_scope(tmp_path: Path) -> None:
    path = tmp_path / "home"
    found = Kbgit(path).json("init", str(path), "--owner", "ada")
    assert found["owner"] == "ada"
    assert found["space"] == "personal:ada"
    with closing(Home.at(path).accounts()) as accounts:
        owner = accounts.authenticate(found["token"])
        assert owner.user == "ada"
        assert owner.scopes == frozenset(Scope)
        assert accounts.spaces() == ["personal:ada"]


def test_the_owner_token_is_written_for_the_owner_alone_and_printed_once(tmp_path: Path) -> None:
    path = tmp_path / "home"
    shown = Kbgit(path).run("init", "--owner", "ada").stdout
    file = path / "owner-token"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert shown.count(file.read_text().strip()) == 1


def test_what_comes_next_is_said(tmp_path: Path) -> None:
    shown = Kbgit(tmp_path / "home").run("init", "--owner", "ada").stdout
    assert f"export KBGIT_HOME={tmp_path / 'home'}" in shown
    assert "kbgit base import" in shown
    assert "kbgit serve" in shown


def test_a_home_is_not_made_twice(kbgit: Kbgit) -> None:
    before = (kbgit.home / "owner-token").read_text()
    assert "is a kbgit home already" in kbgit.run("init", str(kbgit.home), code=1).stderr
    assert (kbgit.home / "owner-token").read_text() == before


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    Kbgit(tmp_path).run("init", str(tmp_path), code=3)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_an_owner_that_cannot_be_named_so_leaves_nothing_behind(tmp_path: Path) -> None:
    Kbgit(tmp_path / "home").run("init", "--owner", "Ada Lovelace", code=2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("system", "owner"),
    [("Ada.Lovelace", "ada.lovelace"), ("DOMAIN\\ada", "domain-ada"), ("会社", "owner"), ("", "owner")],
)
def test_the_system_name_is_made_valid(
    system: str, owner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: system)
    assert Kbgit(tmp_path / "home").json("init")["owner"] == owner
