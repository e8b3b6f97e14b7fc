"""A home: its settings file, its repositories, its hooks."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kbgit.base import BaseKey
from kbgit.errors import AlreadyExists, BaseNotFound, GitFailure, HomeProblem, InvalidSetting
from kbgit.home import SERVER_HOOKS, Home
from kbgit.store import Repository
from tests.writing import Writer, text

BROKEN = "---\ntitle: a: b\n---\n"


def test_a_new_home_is_private_and_opens_with_the_defaults(home: Home) -> None:
    assert home.path.stat().st_mode & 0o777 == 0o700
    assert Home.at(home.path) == home
    assert home.base_keys() == []
    home.check_hooks()


def test_a_home_is_made_neither_twice_nor_over_other_files(home: Home, tmp_path: Path) -> None:
    with pytest.raises(AlreadyExists):
        Home.create(home.path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.md").write_text("years of work")
    with pytest.raises(HomeProblem):
        Home.create(tmp_path / "full")
    with pytest.raises(HomeProblem):
        Home.create(tmp_path / "full" / "thesis.md")
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.md"]


def test_a_directory_that_is_no_home_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(HomeProblem, match="kbgit init"):
        Home.at(tmp_path)


def test_the_settings_file_is_read_as_text_whatever_yaml_would_make_of_it(home: Home) -> None:
    (home.path / "kbgit.yaml").write_text("watch: off\nport: 0080\nlog_level: 'debug'\nsweep_seconds: 2\nhost: 0x7f\n")
    settings = Home.at(home.path).settings
    assert (settings.watch, settings.port, settings.log_level, settings.sweep_seconds) == ("off", 80, "debug", 2.0)
    assert settings.host == "0x7f"
    assert Home.at(home.path, {"port": "81"}).settings.port == 81


@pytest.mark.parametrize("written", ["port: [", "- a\n", "just text", "prot: 1", "port: many", b"\xff\xfe", "port:\n"])
def test_a_settings_file_that_cannot_be_read_is_a_typed_error(home: Home, written: str | bytes) -> None:
    (home.path / "kbgit.yaml").write_bytes(written if isinstance(written, bytes) else written.encode())
    with pytest.raises(InvalidSetting):
        Home.at(home.path)


def test_bases_are_found_by_their_repositories(home: Home) -> None:
    keys = [BaseKey("personal:ada", "notes"), BaseKey("team:platform", "runbooks")]
    for key in keys:
        home.create_repository(key)
    (home.repositories / "platform" / "rest.git").mkdir()
    assert sorted(map(str, home.base_keys())) == sorted(map(str, keys))
    assert home.repository(keys[0]).path == home.repositories / "~ada" / "notes.git"
    with pytest.raises(AlreadyExists):
        home.create_repository(keys[0])
    with pytest.raises(BaseNotFound):
        home.repository(BaseKey("team:platform", "rest"))


def test_a_repository_whose_name_is_no_base_s_is_left_alone_and_spoils_no_other(
    home: Home, base_repository: Repository, key: BaseKey, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(base_repository.path, base_repository.path.with_name("runbooks (copy).git"))
    assert home.base_keys() == [key]
    assert "runbooks (copy).git" in caplog.text
    home.check_gate()


def test_a_repository_that_cannot_be_made_or_set_up_is_not_there(
    home: Home, key: BaseKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(GitFailure):
        home.create_repository(key, "no..branch")

    def refuse(*_: object) -> None:
        raise GitFailure("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(Repository, "configure", refuse)
        with pytest.raises(GitFailure, match="no space"):
            home.create_repository(key)
    assert home.base_keys() == []
    assert list(key.repository_path(home.repositories).parent.iterdir()) == []
    home.check_repository(home.create_repository(key))


def test_what_a_kill_left_of_a_repository_in_the_making_is_no_base_and_is_removed(home: Home, key: BaseKey) -> None:
    made = home.create_repository(key)
    left = made.path.with_name(".notes.git.new-0123abcd")
    shutil.copytree(made.path, left)
    assert home.base_keys() == [key]
    home.remove_unfinished()
    assert not left.exists()
    assert home.base_keys() == [key]


@pytest.mark.parametrize("name", SERVER_HOOKS)
@pytest.mark.parametrize("damage", ["not executable", "gone", "replaced", "a directory"])
def test_hooks_that_would_be_skipped_are_noticed_and_restored(home: Home, name: str, damage: str) -> None:
    hook = home.hooks / name
    if damage == "not executable":
        hook.chmod(0o644)
    else:
        hook.unlink()
    if damage == "replaced":
        hook.write_text("#!/bin/sh\nexit 0\n")
        hook.chmod(0o755)
    if damage == "a directory":
        hook.mkdir()
    with pytest.raises(HomeProblem, match="kbgit hooks install"):
        home.check_hooks()
    if damage == "a directory":
        hook.rmdir()
    home.install_hooks()
    home.check_hooks()


def test_hooks_without_an_interpreter_are_noticed(home: Home) -> None:
    (home.hooks / "python").write_text("/nowhere/python\n")
    with pytest.raises(HomeProblem, match="interpreter"):
        home.check_hooks()


def test_hooks_that_cannot_run_let_nothing_in(home: Home, base_repository: Repository, writer: Writer) -> None:
    (home.hooks / "python").write_text("/nowhere/python\n")
    writer.commit({"a.md": text()})
    assert not writer.push().ok
    assert base_repository.head() is None


@pytest.mark.parametrize("name", SERVER_HOOKS)
def test_no_variable_leads_a_hook_elsewhere(home: Home, base_repository: Repository, name: str, tmp_path: Path) -> None:
    decoy = tmp_path / "decoy" / "hooks"
    decoy.mkdir(parents=True)
    (decoy / "python").write_text("/bin/true\n")
    hook = os.path.relpath(home.hooks / name, base_repository.path)
    environment = {"PATH": os.environ["PATH"], "CDPATH": str(decoy.parent), "python": "/bin/true", "GIT_DIR": "."}

    def run(path: str) -> int:
        return subprocess.run([path], cwd=base_repository.path, env=environment, input=b"x", check=False).returncode

    assert run(hook) != 0, "what it was given is no line of a push"
    (home.hooks / "python").unlink()
    assert run(hook) == run(str(home.hooks / name)) == 1


def test_a_repository_that_runs_other_hooks_is_noticed_and_mended(home: Home, base_repository: Repository) -> None:
    home.check_repository(base_repository)
    for value in ("/nowhere", "hooks", "../../other"):
        base_repository.configure({"core.hooksPath": value})
        with pytest.raises(HomeProblem, match="kbgit hooks install"):
            home.check_repository(base_repository)
    base_repository.git.run("config", "--unset", "core.hooksPath")
    with pytest.raises(HomeProblem):
        home.check_repository(base_repository)
    home.install_hooks()
    home.check_repository(base_repository)


@pytest.mark.parametrize("move", [os.rename, lambda old, new: shutil.copytree(old, new, symlinks=True)])
def test_a_home_that_was_moved_or_copied_still_checks_pushes_with_its_own_hooks(
    home: Home, key: BaseKey, writer: Writer, tmp_path: Path, move: Callable[[Path, Path], object]
) -> None:
    writer.publish({"a.md": text()})
    move(home.path, tmp_path / "elsewhere")
    moved = Home.at(tmp_path / "elsewhere")
    moved.check_hooks()
    moved.check_repository(moved.repository(key))
    writer.remote = str(moved.repository(key).path)
    head = writer.publish({"b.md": text()})
    catalogue = moved.catalogue()
    assert catalogue.base(str(key)).head == head
    catalogue.close()
    writer.commit({"c.md": BROKEN})
    assert "c.md:2" in writer.push().said
    if home.path.exists():
        original = home.catalogue()
        assert len(original.items(str(key))) == 1, "the copy's pushes are no business of the original"
        original.close()


def test_a_damaged_catalogue_is_derived_again_and_blocks_no_push(home: Home, key: BaseKey, writer: Writer) -> None:
    first = writer.publish({"a.md": text(id="a")})
    home.discard_catalogue()
    (home.path / "catalogue.sqlite").write_bytes(b"no database" * 1000)
    second = writer.publish({"b.md": text(id="b")})
    catalogue = home.catalogue()
    assert [item.revision for item in catalogue.items(str(key))] == [first, second]
    catalogue.close()


def test_the_gate_is_shut_when_one_repository_runs_other_hooks(home: Home, base_repository: Repository) -> None:
    home.check_gate()
    base_repository.configure({"core.hooksPath": "/tmp"})
    with pytest.raises(HomeProblem, match="unchecked"):
        home.check_gate()
