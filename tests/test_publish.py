"""Publication: the log in Git, the catalogue, and what happens when somebody moves things behind kbgit's back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kbgit.base import BaseKey
from kbgit.catalogue import Catalogue
from kbgit.errors import HistoryRewritten, TimedOut
from kbgit.home import Home
from kbgit.item import parse_document
from kbgit.publish import Announcement, announce, base_lock, catch_up, rebuild
from kbgit.revision import Via
from kbgit.rows import BaseRow
from kbgit.store import Repository
from kbgit.store.repository import PUBLICATION_LOG
from tests.writing import WRITER_ENVIRONMENT, tables, text

NOW = 1_800_000_000
MAIN = "refs/heads/main"


@dataclass
class Press:
    """A base that is published without hooks: commits are made, announced and moved one step at a time."""

    home: Home
    key: BaseKey
    catalogue: Catalogue
    repository: Repository
    now: float = NOW
    heads: list[str] = field(default_factory=list)

    def commit(self, files: Mapping[str, str | None], parent: str | None = None) -> str:
        raw = {name: content.encode() if content is not None else None for name, content in files.items()}
        parent = parent or self.repository.head()
        return self.repository.commit_files(raw, parent=parent, message="m", author="A <a@x>", when=NOW)

    def announce(self, new: str, user: str = "max", via: Via = Via.PUSH, at: int = NOW - 100) -> None:
        announce(self.repository, Announcement(MAIN, self.repository.head(), new, user, via, at))

    def move(self, new: str) -> str:
        self.repository.git.run("update-ref", MAIN, new)
        return new

    def catch_up(self) -> BaseRow:
        return catch_up(self.repository, self.catalogue, self.base, self.home.limits, clock=lambda: self.now)

    def publish(self, files: Mapping[str, str | None], user: str = "max", via: Via = Via.PUSH) -> str:
        commit = self.commit(files)
        self.announce(commit, user, via)
        self.move(commit)
        self.catch_up()
        return commit

    @property
    def base(self) -> BaseRow:
        return self.catalogue.base(str(self.key))

    def publications(self) -> list[tuple[str, str, str, int]]:
        """(head, by whom, how, when), oldest first."""
        rows = tables(self.home, ["publications"])["publications"]
        return [(str(r[3]), str(r[4]), str(r[5]), int(str(r[6]))) for r in sorted(rows, key=lambda r: int(str(r[1])))]


@pytest.fixture
def press(home: Home, key: BaseKey, base_repository: Repository, catalogue: Catalogue) -> Press:
    catalogue.add_base(key)
    return Press(home, key, catalogue, base_repository)


# The log


def test_each_publication_is_an_entry_that_names_head_pusher_way_and_time(press: Press) -> None:
    first = press.publish({"a.md": text()}, "ada", Via.IMPORT)
    second = press.publish({"a.md": text("Two")}, "max", Via.WEB)
    entries = press.repository.log_entries()
    assert [entry.parents for entry in entries] == [(first,), (entries[0].sha, second)]
    assert "Kbgit-Pushed-By: ada" in entries[0].message
    assert "Kbgit-Via: web" in entries[1].message
    assert press.publications() == [(first, "ada", "import", NOW - 100), (second, "max", "web", NOW - 100)]
    assert press.repository.ref(PUBLICATION_LOG) == press.base.entry == entries[1].sha
    assert press.repository.tree(entries[1].sha) == []


def test_pushes_that_nobody_catalogued_are_published_one_by_one(press: Press) -> None:
    heads = []
    for number, user in enumerate(("ada", "max", "eve")):
        heads.append(press.commit({"a.md": text(f"T{number}")}))
        press.announce(heads[-1], user, at=NOW - 50 + number)
        press.move(heads[-1])
    press.catch_up()
    assert press.publications() == [
        (heads[0], "ada", "push", NOW - 50), (heads[1], "max", "push", NOW - 49), (heads[2], "eve", "push", NOW - 48),
    ]  # fmt: skip


def test_a_branch_that_was_moved_by_hand_is_published_as_by_nobody_known(press: Press) -> None:
    press.publish({"a.md": text()})
    first = press.move(press.commit({"a.md": text("Two")}))
    second = press.move(press.commit({"a.md": text("Three")}))
    press.catch_up()
    assert press.publications()[1:] == [(second, "unknown", "unknown", NOW)]
    assert {row.sha for row in press.catalogue.revisions(str(press.key), "runbooks/a")} >= {first, second}


def test_an_announcement_after_a_move_by_hand_still_names_its_pusher(press: Press) -> None:
    press.publish({"a.md": text()})
    press.move(press.commit({"a.md": text("By hand")}))
    announced = press.commit({"a.md": text("Pushed")})
    press.announce(announced, "eve")
    press.move(announced)
    press.catch_up()
    assert press.publications()[-1][:2] == (announced, "eve")


def test_an_announced_push_that_lost_its_race_is_credited_to_nobody(press: Press) -> None:
    press.publish({"a.md": text()})
    lost, won = press.commit({"a.md": text("Lost")}), press.commit({"a.md": text("Won")})
    press.announce(lost, "eve")
    press.announce(won, "max")
    press.move(won)
    outbox = press.repository.path / "kbgit-outbox"
    os.utime(outbox / lost, (NOW, NOW))
    press.catch_up()
    assert press.publications()[-1][:2] == (won, "max")
    assert len(press.publications()) == 2
    assert [path.name for path in outbox.iterdir()] == [lost]
    os.utime(outbox / lost, (NOW - 4000, NOW - 4000))
    press.publish({"a.md": text("Next")})
    assert list(outbox.iterdir()) == [], "after an hour it is forgotten"


@pytest.mark.parametrize(
    "record", ["", "{", "{}", '{"ref": 1}', "[]", '{"ref":"r","old":null,"by":"x","via":"pigeon","at":1}']
)
def test_an_unreadable_announcement_is_none(press: Press, record: str) -> None:
    commit = press.move(press.commit({"a.md": text()}))
    (press.repository.path / "kbgit-outbox").mkdir()
    (press.repository.path / "kbgit-outbox" / commit).write_text(record)
    (press.repository.path / "kbgit-outbox" / "rest").write_text("x")
    press.catch_up()
    assert press.publications() == [(commit, "unknown", "unknown", NOW)]


def test_any_user_name_comes_through_the_log(press: Press) -> None:
    commit = press.commit({"a.md": text()})
    press.announce(commit, "local:müller 測試")
    press.move(commit)
    press.catch_up()
    assert press.publications()[0][1] == "local:müller 測試"


def test_published_commits_survive_the_loss_of_their_branch_and_gc(press: Press) -> None:
    heads = [press.publish({"a.md": text(f"T{number}")}) for number in range(3)]
    press.repository.git.run("update-ref", "-d", MAIN)
    press.repository.git.run("reflog", "expire", "--expire=now", "--all")
    press.repository.git.run("gc", "--quiet", "--prune=now")
    assert all(press.repository.has_commit(head) for head in heads)
    for row in press.catalogue.revisions(str(press.key), "runbooks/a"):
        assert row.blob is not None
        assert parse_document(press.repository.blob(row.blob)).content_hash == row.content_hash


def test_a_revision_is_the_same_bytes_after_rename_edit_archive_removal_and_gc(press: Press) -> None:
    cited = press.publish({"a.md": text("First", id="x")})
    row = press.catalogue.revision(str(press.key), "x", cited)
    assert row is not None
    assert row.blob is not None
    before = press.repository.blob(row.blob)
    press.publish({"a.md": None, "moved/b.md": text("First", id="x")})
    press.publish({"moved/b.md": text("Edited", id="x", status="archived")})
    press.publish({"moved/b.md": None})
    press.repository.git.run("gc", "--quiet", "--aggressive", "--prune=now")
    assert press.catalogue.revision(str(press.key), "x", cited) == row
    assert press.repository.blob(row.blob) == before
    rebuild(press.repository, press.catalogue, press.base, press.home.limits)
    assert press.catalogue.revision(str(press.key), "x", cited) == row


def test_a_commit_is_no_revision_of_what_it_did_not_change(press: Press) -> None:
    before = press.publish({"a.md": text(id="x")})
    press.publish({"b.md": text(id="y")})
    for sha in (before, "0" * 40, before[:7], before.upper(), press.repository.ref(PUBLICATION_LOG) or ""):
        assert press.catalogue.revision(str(press.key), "y", sha) is None


# Catching up


def test_catching_up_twice_changes_nothing(press: Press) -> None:
    press.publish({"a.md": text()})
    state, log = tables(press.home), press.repository.ref(PUBLICATION_LOG)
    press.catch_up()
    rows = press.base
    assert tables(press.home) == state
    assert press.repository.ref(PUBLICATION_LOG) == log
    assert catch_up(press.repository, press.catalogue, rows, press.home.limits) is rows, "not even a lock is taken"


def test_an_empty_base_is_caught_up_with(press: Press) -> None:
    assert press.catch_up().head is None
    assert press.repository.refs() == {}


def test_many_who_catch_up_at_once_publish_each_head_once(press: Press) -> None:
    for number in range(3):
        press.move(press.commit({"a.md": text(f"T{number}")}))
        stale = press.base
        with ThreadPoolExecutor(6) as pool:
            catalogues = [press.home.catalogue() for _ in range(6)]
            done = list(
                pool.map(
                    lambda c, base: catch_up(press.repository, c, base, press.home.limits), catalogues, [stale] * 6
                )
            )
        assert {row.head for row in done} == {press.repository.head()}
        for catalogue in catalogues:
            catalogue.close()
    assert len(press.publications()) == len(press.repository.log_entries()) == 3


def test_whoever_waits_for_the_lock_too_long_is_told(press: Press) -> None:
    with base_lock(press.repository), pytest.raises(TimedOut), base_lock(press.repository, 0.02):
        pass
    with base_lock(press.repository, 0.02):
        pass


def test_the_lock_dies_with_its_holder(press: Press) -> None:
    holder = (
        "import sys; from pathlib import Path; from kbgit.publish import base_lock; from kbgit.store import Repository\n"
        "with base_lock(Repository.at(Path(sys.argv[1]))): print('held', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", holder, str(press.repository.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    with pytest.raises(TimedOut), base_lock(press.repository, 0):
        pass
    process.kill()
    process.communicate()
    with base_lock(press.repository, 5):
        pass


def test_a_lost_catalogue_is_derived_again_from_git_alone(press: Press) -> None:
    press.publish({"a.md": text(id="x"), "base.yaml": "name: Runbooks\ndefault_status: published\n"}, "ada")
    press.publish({"a.md": None, "b.md": text(id="x", tags="[one, two]", owner="ops"), "c.md": "# No header\n"})
    press.publish({"c.md": None})
    before = tables(press.home)
    press.catalogue.close()
    press.home.discard_catalogue()
    press.catalogue = press.home.catalogue()
    press.catalogue.add_base(press.key)
    press.catch_up()
    assert tables(press.home) == before
    assert {row[1] for row in press.publications()} == {"ada", "max"}
    press.catalogue.close()


def test_a_bad_item_never_blocks_the_good_ones(press: Press) -> None:
    files = {f"{number}.md": text(f"T{number}") for number in range(20)}
    bad = {"bad.md": "---\ntitle: a: b\n---\n", "worse.md": "\x00", "dup.md": text(id="x"), "dup2.md": text(id="x")}
    head = press.publish({**files, **bad})
    assert press.base.head == head
    assert len(press.catalogue.items(str(press.key))) == 20
    assert [(p.path, p.line) for p in press.catalogue.problems(str(press.key))] == [
        ("bad.md", 2), ("dup.md", 4), ("dup2.md", 4), ("worse.md", 1),
    ]  # fmt: skip
    press.publish({"bad.md": text("Mended"), "dup.md": None})
    assert [p.path for p in press.catalogue.problems(str(press.key))] == ["worse.md"]
    assert len(press.catalogue.items(str(press.key))) == 22


def test_any_date_and_any_words_of_a_commit_can_be_catalogued(press: Press) -> None:
    tree = press.repository.git.run("rev-parse", f"{press.commit({'a.md': text()})}^{{tree}}").decode().strip()
    raw = f"tree {tree}\nauthor A <a@x> {10**25} +0000\ncommitter\x01 <\x02> -7 +9999\nencoding utf-7\n\n+2AA- \x00 x\n"
    stored = press.repository.git.run("hash-object", "-w", "-t", "commit", "--literally", "--stdin", stdin=raw.encode())
    press.move(stored.decode().strip())
    assert press.catch_up().head == press.repository.head()
    provenance = press.catalogue.provenance(str(press.key), press.repository.head() or "")
    assert provenance is not None
    assert json.dumps(provenance.as_json())


# Behind kbgit's back


def delete_branch(press: Press) -> None:
    press.repository.git.run("update-ref", "-d", MAIN)


def go_back(press: Press) -> None:
    press.move(press.heads[0])


def replace_history(press: Press) -> None:
    other = press.repository.commit_files({"z.md": b"z"}, parent=None, message="m", author="A <a@x>")
    press.move(other)


def squash(press: Press) -> None:
    tree = press.repository.git.run("rev-parse", f"{press.heads[-1]}^{{tree}}").decode().strip()
    press.move(press.repository.git.run("commit-tree", tree, stdin=b"m", extra=WRITER_ENVIRONMENT).decode().strip())


def lose_log(press: Press) -> None:
    press.repository.git.run("update-ref", "-d", PUBLICATION_LOG)
    press.move(press.commit({"a.md": text("Later")}))


def rewind_log(press: Press) -> None:
    press.repository.git.run("update-ref", PUBLICATION_LOG, press.repository.log_entries()[0].sha)
    press.move(press.commit({"a.md": text("Later")}))


def empty_repository(press: Press) -> None:
    shutil.rmtree(press.repository.path)
    press.repository = press.home.create_repository(press.key)


def other_repository(press: Press) -> None:
    empty_repository(press)
    press.move(press.commit({"z.md": text("Z")}))


def other_home_directory(press: Press) -> None:
    empty_repository(press)
    stranger = Press(press.home, press.key, press.catalogue, press.repository)
    commit = stranger.commit({"z.md": text("Z")})
    stranger.move(commit)
    press.repository.append_to_log("Publish\n", commit, None, NOW)


REWRITES = [delete_branch, go_back, replace_history, squash, lose_log, rewind_log, empty_repository, other_repository,
            other_home_directory]  # fmt: skip


@pytest.mark.parametrize("rewrite", REWRITES, ids=lambda act: act.__name__)
def test_what_was_published_stays_as_it_was_when_history_is_rewritten(press: Press, rewrite: object) -> None:
    press.heads = [press.publish({f"{n}.md": text(f"T{n}"), "a.md": text(f"A{n}")}) for n in range(3)]
    before = tables(press.home)
    assert callable(rewrite)
    rewrite(press)
    for _ in range(2):
        with pytest.raises(HistoryRewritten, match="team:platform/runbooks"):
            press.catch_up()
    after = tables(press.home)
    assert press.base.alarm
    assert {name: rows for name, rows in after.items() if name != "bases"} == {
        name: rows for name, rows in before.items() if name != "bases"
    }
    assert press.base.head == press.heads[-1]


def test_the_alarm_ends_when_the_branch_is_put_back(press: Press) -> None:
    press.publish({"a.md": text()})
    head = press.publish({"b.md": text("B")})
    delete_branch(press)
    with pytest.raises(HistoryRewritten, match="put the branch back"):
        press.catch_up()
    press.move(head)
    assert press.catch_up().alarm == ""
    assert press.base.alarm == ""
    press.publish({"c.md": text("C")})
    assert len(press.catalogue.items(str(press.key))) == 3


def test_gc_is_no_deletion(press: Press) -> None:
    head = press.publish({"a.md": text()})
    for command in (["pack-refs", "--all", "--prune"], ["gc", "--quiet", "--prune=now"]):
        press.repository.git.run(*command)
        assert press.catch_up().head == head
    second = press.publish({"a.md": text("Two")})
    assert press.base.head == second


def test_a_home_with_decoys_in_its_environment_writes_to_its_own_repositories(
    press: Press, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoy = Repository.create(tmp_path / "decoy.git").path
    before = sorted((str(path), path.stat().st_size) for path in decoy.rglob("*"))
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"):
        monkeypatch.setenv(name, str(decoy))
    opened = Repository.at(press.repository.path)
    inside = Press(press.home, press.key, press.catalogue, opened)
    head = inside.publish({"a.md": text()})
    assert press.repository.head() == head
    assert sorted((str(path), path.stat().st_size) for path in decoy.rglob("*")) == before


@pytest.fixture(autouse=True)
def _closed(press: Press) -> Iterator[None]:
    yield
    press.repository.close()
