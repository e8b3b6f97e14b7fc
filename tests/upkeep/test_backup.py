"""Backups: whole whatever goes on meanwhile, refused when anything in them is not as it was written."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
import subprocess
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbgit.errors import AlreadyExists, BackupDamaged, HomeProblem
from kbgit.home import Home
from kbgit.importing import BaseOptions
from kbgit.publish import base_lock
from kbgit.store.git import clean_environment
from kbgit.store.repository import PUBLICATION_LOG
from kbgit.upkeep import backup, restoring
from kbgit.upkeep.backup import back_up, check_backup
from kbgit.upkeep.manifest import MANIFEST, read_manifest
from kbgit.upkeep.restoring import restore
from tests.library.publishing import publish
from tests.upkeep.furnishing import (
    ATTIC,
    NOTES,
    OPERATOR,
    RUNBOOKS,
    Furnished,
    answers,
    asked,
    citations,
    faults,
    look,
    opened,
    writer_of,
)
from tests.writing import text


@pytest.fixture(scope="module")
def written(made: Furnished, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup, as a directory. Copied by who changes it."""
    target = tmp_path_factory.mktemp("backups") / "backup"
    back_up(Home.at(made.path), target)
    return target


@pytest.mark.parametrize("name", ["backup", "backup.tar"])
def test_what_is_backed_up_destroyed_and_restored_is_as_it_was(furnished: Furnished, tmp_path: Path, name: str) -> None:
    due = answers(furnished.path)
    back_up(Home.at(furnished.path), tmp_path / name)
    shutil.rmtree(furnished.path)
    restored = restore(tmp_path / name, furnished.path)
    assert restored.alarms == ()
    assert faults(look(furnished.path)) == []
    runtime = opened(furnished.path)
    try:
        assert citations(runtime) == furnished.cited
        for user, token in furnished.tokens.items():
            assert runtime.accounts.authenticate(token).user == user
        mia = runtime.accounts.authenticate(furnished.tokens["mia"])
        assert [runtime.memory.get(record, mia).id for record in furnished.records] == list(furnished.records)
        assert runtime.accounts.members("team:platform") == [("ada", "owner"), ("mia", "member")]
        assert not runtime.catalogue.base(str(ATTIC)).active
    finally:
        runtime.stop()
    assert answers(furnished.path) == due
    assert look(furnished.path).findings == ()


def test_whatever_is_pushed_meanwhile_a_backup_fits_together(furnished: Furnished, tmp_path: Path) -> None:
    home = Home.at(furnished.path)
    writer = writer_of(home, RUNBOOKS, tmp_path / "busy")
    stop = threading.Event()
    acknowledged: list[str] = []

    def push_on() -> None:
        while not stop.is_set():
            acknowledged.append(writer.publish({f"page {len(acknowledged)}.md": text(f"Page {len(acknowledged)}")}))

    pushing = threading.Thread(target=push_on)
    pushing.start()
    found = []
    try:
        for number in range(4):
            while len(acknowledged) <= number:
                assert pushing.is_alive()
            due = list(acknowledged)
            back_up(home, tmp_path / f"backup {number}")
            found.append(due)
    finally:
        stop.set()
        pushing.join()
    for number, due in enumerate(found):
        path = tmp_path / f"home {number}"
        assert restore(tmp_path / f"backup {number}", path).alarms == ()
        assert {finding.code for finding in look(path).findings} == {"index_missing"}
        runtime = opened(path)
        try:
            assert citations(runtime).items() >= furnished.cited.items()
            for commit in due:
                provenance = runtime.catalogue.provenance(str(RUNBOOKS), commit)
                assert provenance is not None
                assert provenance.via == "push"
        finally:
            runtime.stop()


def test_a_push_that_is_under_way_is_restored_with_who_made_it(furnished: Furnished, tmp_path: Path) -> None:
    """Its branch has moved, its publication waits: just then the backup is taken."""
    home = Home.at(furnished.path)
    writer = writer_of(home, RUNBOOKS, tmp_path / "writer")
    (home.hooks / "post-receive").write_text("#!/bin/sh\n")  # killed before it did anything
    commit = writer.publish({"late.md": text("Late")}, message="Late")
    home.install_hooks()
    back_up(home, tmp_path / "backup")
    restore(tmp_path / "backup", tmp_path / "again")
    runtime = opened(tmp_path / "again")
    try:
        provenance = runtime.catalogue.provenance(str(RUNBOOKS), commit)
        assert provenance is not None
        assert provenance.via == "push"
        assert provenance.pushed_by != "unknown"
    finally:
        runtime.stop()


def test_refs_are_of_one_moment(furnished: Furnished, tmp_path: Path) -> None:
    """While somebody publishes, the backup waits: no log can be ahead of its branch."""
    home = Home.at(furnished.path)
    repository = home.repository(RUNBOOKS)
    done = threading.Event()

    def back_up_and_say_so() -> None:
        back_up(home, tmp_path / "backup")
        done.set()

    with base_lock(repository):
        waiting = threading.Thread(target=back_up_and_say_so)
        waiting.start()
        assert not done.wait(0.3)
    waiting.join()
    assert read_manifest(tmp_path / "backup").bases[str(RUNBOOKS)].refs == repository.refs()


def test_a_backup_is_private_and_holds_nothing_derived_and_no_secret(furnished: Furnished, tmp_path: Path) -> None:
    back_up(Home.at(furnished.path), tmp_path / "backup")
    back_up(Home.at(furnished.path), tmp_path / "backup.tar")
    for path in (tmp_path / "backup", *(tmp_path / "backup").rglob("*"), tmp_path / "backup.tar"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    names = {
        path.relative_to(tmp_path / "backup").parts[0] for path in (tmp_path / "backup").rglob("*") if path.is_file()
    }
    assert names <= {MANIFEST, "accounts.sqlite", "kbgit.yaml", "memory", "repositories", "documents"}
    secret = furnished.tokens["ada"].encode()
    assert not any(secret in path.read_bytes() for path in (tmp_path / "backup").rglob("*") if path.is_file())
    assert {path.name for path in tmp_path.iterdir()} == {"home", "backup", "backup.tar"}, "nothing temporary is left"


def test_a_file_of_the_manifest_s_name_elsewhere_is_in_the_archive_too(furnished: Furnished, tmp_path: Path) -> None:
    (furnished.path / "memory" / MANIFEST).write_text("{}")
    back_up(Home.at(furnished.path), tmp_path / "backup.tar")
    assert f"memory/{MANIFEST}" in check_backup(tmp_path / "backup.tar").files


def test_the_owner_has_a_token_again(furnished: Furnished, tmp_path: Path) -> None:
    home = Home.at(furnished.path)
    back_up(home, tmp_path / "without")
    back_up(home, tmp_path / "with", with_owner_token=True)
    made = restore(tmp_path / "without", tmp_path / "one").new_token
    assert made is not None
    assert made not in furnished.tokens.values()
    assert (tmp_path / "one" / "owner-token").read_text().strip() == made
    assert stat.S_IMODE((tmp_path / "one" / "owner-token").stat().st_mode) == 0o600
    assert restore(tmp_path / "with", tmp_path / "two").new_token is None
    assert (tmp_path / "two" / "owner-token").read_text().strip() == furnished.tokens["ada"]


def test_git_alone_can_read_a_base_of_a_backup(written: Path, tmp_path: Path) -> None:
    bundle = written / "repositories" / "platform" / "runbooks.bundle"
    for arguments in (
        ["clone", "--quiet", "--branch", "main", str(bundle), "clone"],
        ["bundle", "verify", str(bundle)],
    ):
        directory = tmp_path / "clone" if arguments[0] == "bundle" else tmp_path
        command = ["git", "-C", str(directory), *arguments]
        done = subprocess.run(command, env=clean_environment(os.environ), capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
    assert PUBLICATION_LOG in read_manifest(written).bases[str(RUNBOOKS)].refs
    assert "item_deploy" in (tmp_path / "clone" / "deploy.md").read_text()


def test_bases_that_are_empty_or_made_meanwhile(furnished: Furnished, tmp_path: Path) -> None:
    runtime = opened(furnished.path)
    try:
        runtime.accounts.add_team("later", "ada", "test")
        runtime.bases.create(type(NOTES)("team:platform", "empty"), OPERATOR, BaseOptions())
        publish(runtime, NOTES, {"tagged.md": text("Tagged")})
    finally:
        runtime.stop()
    home = Home.at(furnished.path)
    tagger = {"GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.org"}
    home.repository(NOTES).git.run("tag", "--annotate", "--message", "First", "v1", "HEAD", extra=tagger)
    home.create_repository(type(NOTES)("team:unknown", "made-meanwhile"))
    manifest = back_up(home, tmp_path / "backup")
    assert manifest.left_out == ["team:unknown/made-meanwhile"]
    restore(tmp_path / "backup", tmp_path / "again")
    assert faults(look(tmp_path / "again")) == []
    again = Home.at(tmp_path / "again")
    assert again.repository(NOTES).refs() == home.repository(NOTES).refs()
    assert "team:platform/empty" in map(str, again.base_keys())


def test_nothing_is_written_over(furnished: Furnished, written: Path, tmp_path: Path) -> None:
    home = Home.at(furnished.path)
    (tmp_path / "there").mkdir()
    (tmp_path / "there.tar").write_text("mine")
    for name in ("there", "there.tar"):
        with pytest.raises(AlreadyExists):
            back_up(home, tmp_path / name)
    with pytest.raises(HomeProblem, match="within the home"):
        back_up(home, home.path / "backup")
    with pytest.raises(HomeProblem, match="no directory"):
        back_up(home, tmp_path / "nowhere" / "backup")
    with pytest.raises(HomeProblem, match="not an empty directory"):
        restore(written, home.path)
    with pytest.raises(HomeProblem, match="no backup"):
        restore(tmp_path / "nothing", tmp_path / "new")
    (tmp_path / "empty").mkdir()
    restore(written, tmp_path / "empty")
    assert faults(look(tmp_path / "empty")) == []


def test_a_dry_run_makes_nothing(written: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    assert set(restore(written, tmp_path / "new", dry_run=True).manifest.bases) == {
        str(NOTES),
        str(RUNBOOKS),
        str(ATTIC),
    }
    assert sorted(tmp_path.iterdir()) == before


def test_a_home_whose_repository_is_damaged_is_not_backed_up(furnished: Furnished, tmp_path: Path) -> None:
    objects = RUNBOOKS.repository_path(Home.at(furnished.path).repositories) / "objects"
    max(objects.glob("[0-9a-f][0-9a-f]/*"), key=lambda path: path.stat().st_size).unlink()
    with pytest.raises(Exception, match="git pack-objects failed"):
        back_up(Home.at(furnished.path), tmp_path / "backup")
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


@pytest.mark.parametrize("name", ["backup", "backup.tar"])
@pytest.mark.parametrize("step", ["copy_database", "write_bundle", "write_manifest", "check", "write_archive"])
def test_a_backup_that_fails_leaves_nothing(
    furnished: Furnished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, name: str
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(backup, step, full)
    if (step, name) == ("write_archive", "backup"):
        monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(OSError, match="No space left"):
        back_up(Home.at(furnished.path), tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_a_restore_that_fails_leaves_nothing(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(restoring, "catch_up", full)
    with pytest.raises(OSError, match="No space left"):
        restore(written, tmp_path / "home")
    assert list(tmp_path.iterdir()) == []


# Damage


def copied(written: Path, target: Path) -> Path:
    return Path(shutil.copytree(written, target))


def files_of(backup: Path) -> list[str]:
    return sorted(str(path.relative_to(backup)) for path in backup.rglob("*") if path.is_file())


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    chosen=st.integers(0, 1000), where=st.floats(0, 1, exclude_max=True), how=st.sampled_from(["flip", "cut", "drop"])
)
def test_any_damaged_byte_is_found_and_its_file_named(
    written: Path, tmp_path_factory: pytest.TempPathFactory, chosen: int, where: float, how: str
) -> None:
    damaged = copied(written, tmp_path_factory.mktemp("damaged") / "backup")
    name = files_of(damaged)[chosen % len(files_of(damaged))]
    raw = bytearray((damaged / name).read_bytes())
    place = int(where * len(raw))
    if how == "drop":
        (damaged / name).unlink()
    else:
        (damaged / name).write_bytes(
            raw[:place] if how == "cut" else raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
        )
    with pytest.raises(BackupDamaged) as caught:
        check_backup(damaged)
    assert caught.value.details["file"] == name
    assert name in caught.value.message
    with pytest.raises(BackupDamaged):
        restore(damaged, damaged.parent / "home")
    assert [path.name for path in damaged.parent.iterdir()] == ["backup"]


def test_what_is_too_much_is_found(written: Path, tmp_path: Path) -> None:
    damaged = copied(written, tmp_path / "backup")
    (damaged / "memory" / "more.md").write_text("x")
    with pytest.raises(BackupDamaged, match=r"memory/more\.md"):
        check_backup(damaged)


def forged(backup: Path, change: Callable[[dict[str, object]], None]) -> None:
    """A manifest that agrees with itself, and says something else."""
    manifest = read_manifest(backup)
    content = manifest.as_json()
    change(content)
    content.pop("checksum")
    text = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    (backup / MANIFEST).write_text(json.dumps({**content, "checksum": hashlib.sha256(text).hexdigest()}))


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["files"].update({"../outside": {"bytes": 0, "sha256": "0" * 64}}),
        lambda content: content["files"].update({"/etc/passwd": {"bytes": 0, "sha256": "0" * 64}}),
        lambda content: content["bases"].update({"team:x/../y": {"branch": "refs/heads/main", "refs": {}}}),
        lambda content: content["bases"][str(RUNBOOKS)].update({"branch": "../../HEAD"}),
        lambda content: content["bases"][str(RUNBOOKS)]["refs"].update({"refs/heads/main": "0" * 40}),
        lambda content: content.update({"format": 2}),
        lambda content: content.update({"type": "other"}),
        lambda content: content.update({"files": []}),
    ],
)
def test_a_manifest_that_leads_elsewhere_is_refused(
    written: Path, tmp_path: Path, change: Callable[[dict[str, object]], None]
) -> None:
    damaged = copied(written, tmp_path / "backup")
    forged(damaged, change)
    with pytest.raises(BackupDamaged):
        restore(damaged, tmp_path / "home")
    assert [path.name for path in tmp_path.iterdir()] == ["backup"]


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.9])
def test_a_truncated_archive_is_refused(furnished: Furnished, tmp_path: Path, part: float) -> None:
    archive = tmp_path / "backup.tar"
    back_up(Home.at(furnished.path), archive)
    raw = archive.read_bytes()
    archive.write_bytes(raw[: int(len(raw) * part)])
    with pytest.raises(BackupDamaged):
        check_backup(archive)


@pytest.mark.parametrize("kind", ["outside", "absolute", "link"])
def test_an_archive_that_leads_elsewhere_is_refused(tmp_path: Path, kind: str) -> None:
    member = tarfile.TarInfo({"outside": "../evil", "absolute": "/tmp/evil", "link": "evil"}[kind])
    if kind == "link":
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
    (tmp_path / "inner").mkdir()
    with tarfile.open(tmp_path / "inner" / "backup.tar", "w") as archive:
        archive.addfile(member)
    with pytest.raises(BackupDamaged):
        check_backup(tmp_path / "inner" / "backup.tar")
    assert not (tmp_path / "evil").exists()


def test_what_is_no_backup_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "noise.tar").write_bytes(b"noise" * 1000)
    for name in ("empty", "noise.tar"):
        with pytest.raises(BackupDamaged):
            check_backup(tmp_path / name)


def test_answers_while_a_backup_is_taken_are_as_ever(furnished: Furnished, tmp_path: Path) -> None:
    runtime = opened(furnished.path)
    try:
        due = asked(runtime)
        back_up(runtime.home, tmp_path / "backup")
        assert asked(runtime) == due
    finally:
        runtime.stop()
