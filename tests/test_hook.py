"""Pushing, as Git does it: which refs may move, who may do what, all or nothing, by every way in."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kbgit.base import BaseKey
from kbgit.catalogue import Catalogue
from kbgit.home import Home
from kbgit.store import Repository
from kbgit.store.repository import PUBLICATION_LOG
from tests.writing import Done, Writer, loose_objects, text

BROKEN = "---\ntitle: Release: plan\n---\n"
NO_RIGHTS = {"KBGIT_RIGHTS": ""}


@pytest.fixture
def published(writer: Writer) -> str:
    """The commit that is published: one item, `a.md`."""
    return writer.publish({"a.md": text("First")})


# What a push says and leaves behind


def test_a_push_is_published_with_a_receipt(writer: Writer, catalogue: Catalogue, key: BaseKey) -> None:
    head = writer.commit(
        {
            "a.md": text("Deploy"),
            "b.md": text("Later", status="draft"),
            "c.md": text("Old", status="archived"),
            "d.txt": "",
        }
    )
    said = writer.push().said
    assert f"published  Deploy  knowledge:runbooks/a@{head}" in said
    assert f"draft      Later  knowledge:runbooks/b@{head}" in said
    assert f"archived   Old  knowledge:runbooks/c@{head}" in said
    assert "no item    d.txt: not a .md file" in said
    assert catalogue.base(str(key)).head == head


def test_a_refused_push_leaves_no_object_and_no_ref_behind(
    writer: Writer, base_repository: Repository, published: str, catalogue: Catalogue, key: BaseKey
) -> None:
    objects, refs = loose_objects(base_repository.path), base_repository.refs()
    refused = writer.commit({"b.md": BROKEN, "large.bin": "x" * 100_000})
    done = writer.push()
    assert not done.ok
    assert loose_objects(base_repository.path) == objects
    assert not base_repository.has_commit(refused)
    assert base_repository.refs() == refs
    assert catalogue.base(str(key)).head == published
    assert not list((base_repository.path / "kbgit-outbox").glob("*"))


def test_what_the_system_refuses_is_said_in_a_line(writer: Writer, base_repository: Repository) -> None:
    (base_repository.path / "kbgit-outbox").write_text("no directory")
    writer.commit({"a.md": text()})
    done = writer.push()
    assert not done.ok
    assert "kbgit: home_problem: the disk or the system refused something: File exists" in done.said
    assert "Traceback" not in done.said


def test_the_writer_sees_every_problem_at_once_with_line_and_mend(writer: Writer, published: str) -> None:
    writer.commit({"b.md": BROKEN, "c.md": text(status="open"), "d.md": "---\nid: x\nid: y\n---\n", "AUX.md": "x"})
    said = writer.push().said
    assert 'b.md:2: unreadable front matter: a colon inside an unquoted value; write title: "Release: plan"' in said
    assert "c.md:3: unknown status 'open'" in said
    assert "d.md:3: duplicate key `id`, lines 2 and 3" in said
    assert "AUX.md:1: 'AUX.md' is a device name on Windows" in said
    assert "nothing was changed" in said


def test_what_a_name_could_do_to_a_terminal_is_escaped(writer: Writer) -> None:
    writer.commit({"a\x1b[2J.md": "x"})
    said = writer.push().said
    assert "\x1b[2J" not in said
    assert "a\\u001b[2J.md" in said


def test_titles_in_every_script_reach_the_writer_whatever_the_locale(writer: Writer) -> None:
    writer.commit({"测试 “x” 🦊.md": text("設定 é")})
    done = writer.push(environment={"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"})
    assert done.ok
    assert "設定 é" in done.said
    assert "knowledge:runbooks/测试 “x” 🦊@" in done.said


# Which refs may move


@pytest.mark.parametrize("branch", ["main", "master", "trunk"])
def test_the_first_push_names_the_published_branch(
    base_repository: Repository, writer: Writer, branch: str, catalogue: Catalogue, key: BaseKey
) -> None:
    writer.git("symbolic-ref", "HEAD", f"refs/heads/{branch}")
    head = writer.publish({"a.md": text()})
    assert base_repository.published_branch() == f"refs/heads/{branch}"
    assert catalogue.base(str(key)).head == head
    second = writer.publish({"a.md": text(body="More.\n")})
    assert catalogue.base(str(key)).head == second


def test_of_several_first_branches_the_usual_one_is_published(base_repository: Repository, writer: Writer) -> None:
    head = writer.commit({"a.md": text()})
    assert writer.push("HEAD:refs/heads/develop", "HEAD:refs/heads/master", "HEAD:refs/heads/zoo").ok
    assert base_repository.published_branch() == "refs/heads/master"
    assert base_repository.head() == head


def test_a_branch_beside_the_published_one_is_a_proposal_and_publishes_nothing(
    writer: Writer, published: str, catalogue: Catalogue, key: BaseKey, base_repository: Repository
) -> None:
    proposed = writer.commit({"a.md": BROKEN, "base.yaml": "status: archived\n"})
    done = writer.push("HEAD:refs/heads/proposal", environment=NO_RIGHTS)
    assert done.ok, "a proposal may be unfinished"
    assert "not published: refs/heads/proposal" in done.said
    assert catalogue.base(str(key)).head == published
    assert base_repository.head() == published
    assert base_repository.ref("refs/heads/proposal") == proposed
    writer.git("reset", "--quiet", "--hard", published)
    writer.commit({"b.md": text()})
    assert writer.push("--force", "HEAD:refs/heads/proposal").ok, "a proposal may be rewritten"
    assert writer.push(":refs/heads/proposal").ok, "and taken back"
    assert base_repository.refs().keys() == {"refs/heads/main", PUBLICATION_LOG}


def test_a_proposal_cannot_bring_names_that_no_clone_can_hold(writer: Writer, published: str) -> None:
    writer.commit({"AUX.md": text()})
    done = writer.push("HEAD:refs/heads/proposal")
    assert not done.ok
    assert "device name" in done.said


def test_published_history_is_append_only(writer: Writer, published: str, base_repository: Repository) -> None:
    head = writer.publish({"a.md": text("Second")})
    writer.git("commit", "--amend", "--quiet", "--message", "Amended")
    attempts = {
        "amended": writer.push("--force", "HEAD:refs/heads/main"),
        "older": writer.push("--force", f"{published}:refs/heads/main"),
        "deleted": writer.push(":refs/heads/main"),
        "unrelated": writer.push("--force", f"{writer.commit_tree(writer.tree([]))}:refs/heads/main"),
    }
    assert not [name for name, done in attempts.items() if done.ok]
    assert "cannot be rewritten; merge or rebase" in attempts["amended"].said
    assert (
        "cannot be deleted" in attempts["deleted"].said or "deletion of the current branch" in attempts["deleted"].said
    )
    assert base_repository.head() == head


def test_a_tag_is_set_once(writer: Writer, published: str, base_repository: Repository) -> None:
    writer.git("tag", "--annotate", "--message", "One", "v1")
    assert writer.push("refs/tags/v1").ok
    tagged = base_repository.ref("refs/tags/v1")
    writer.commit({"b.md": text()})
    assert not writer.push("--force", "HEAD:refs/tags/v1").ok
    assert not writer.push(":refs/tags/v1").ok
    assert base_repository.ref("refs/tags/v1") == tagged
    assert writer.push("HEAD:refs/tags/v2").ok


def test_a_tag_names_a_commit_that_every_clone_can_hold(
    writer: Writer, published: str, base_repository: Repository
) -> None:
    blob = writer.blob(text())
    tree = writer.tree([("100644", "AUX.md", blob)])
    bad, unfinished = writer.commit_tree(tree), writer.commit({"b.md": BROKEN})
    for wrong in (blob, tree):
        assert "must name a commit" in writer.push(f"{wrong}:refs/tags/v1", f"{wrong}:refs/tags/v2").said
    assert "device name" in writer.push(f"{bad}:refs/tags/v1").said
    assert writer.push(f"{unfinished}:refs/tags/draft", f"{published}:refs/tags/v1").ok


@pytest.mark.parametrize("ref", ["refs/notes/commits", "refs/for/main", PUBLICATION_LOG, "refs/kbgit/other"])
def test_other_refs_are_refused(writer: Writer, published: str, ref: str, base_repository: Repository) -> None:
    before = base_repository.refs()
    assert not writer.push("--force", f"HEAD:{ref}").ok
    assert not writer.push("--force", f":{ref}").ok
    assert base_repository.refs() == before


def test_a_ref_may_have_characters_that_python_takes_for_line_ends(
    writer: Writer, published: str, base_repository: Repository
) -> None:
    assert writer.push("HEAD:refs/heads/a\u2028b", "HEAD:refs/heads/c\u0085d").ok
    assert {"refs/heads/a\u2028b", "refs/heads/c\u0085d"} < base_repository.refs().keys()


@pytest.mark.parametrize("atomic", [True, False])
def test_of_several_refs_all_or_none_move_and_the_client_is_told_the_truth(
    writer: Writer, published: str, base_repository: Repository, atomic: bool
) -> None:
    before = base_repository.refs()
    good = writer.commit({"b.md": text()})
    writer.commit({"c.md": BROKEN})
    options = ["--atomic"] if atomic else []
    done = writer.push(*options, f"{good}:refs/heads/good", "HEAD:refs/heads/main", f"{good}:refs/tags/v1")
    assert not done.ok
    assert done.said.count("[remote rejected]") == 3
    assert base_repository.refs() == before
    assert writer.push(*options, f"{good}:refs/heads/good", f"{good}:refs/heads/main", f"{good}:refs/tags/v1").ok
    moved = {"refs/heads/main", "refs/heads/good", "refs/tags/v1"}
    assert {base_repository.ref(name) for name in moved} == {good}


def test_of_concurrent_pushes_exactly_one_wins_and_the_others_are_told(
    writer: Writer, new_writer: Callable[[str], Writer], catalogue: Catalogue, key: BaseKey, base_repository: Repository
) -> None:
    writer.publish({"a.md": text()})
    writers = [new_writer(f"writer-{n}") for n in range(5)]
    heads = [one.commit({"a.md": text(f"Version {n}")}, f"By {n}") for n, one in enumerate(writers)]
    with ThreadPoolExecutor(len(writers)) as pool:
        done = list(pool.map(Writer.push, writers))
    winners = [head for head, result in zip(heads, done, strict=True) if result.ok]
    assert winners == [base_repository.head()]
    assert all("reject" in result.said or "failed to update" in result.said for result in done if not result.ok)
    assert catalogue.base(str(key)).head == winners[0]
    assert catalogue.publication_count(str(key)) == 2
    loser = next(one for one, result in zip(writers, done, strict=True) if not result.ok)
    loser.git("pull", "--quiet", "--rebase", "--strategy-option=theirs")
    assert loser.push().ok


def test_first_pushes_to_one_empty_base_do_not_get_in_each_others_way(
    new_writer: Callable[[str], Writer], catalogue: Catalogue, key: BaseKey, base_repository: Repository
) -> None:
    writers = [new_writer(f"writer-{n}") for n in range(4)]
    heads = [one.commit({"a.md": text(f"Version {n}")}, f"By {n}") for n, one in enumerate(writers)]
    with ThreadPoolExecutor(len(writers)) as pool:
        done = list(pool.map(Writer.push, writers))
    assert [head for head, result in zip(heads, done, strict=True) if result.ok] == [base_repository.head()]
    assert "Traceback" not in "".join(result.said for result in done)
    assert catalogue.base(str(key)).head == base_repository.head()


# Who may do what


def test_whoever_the_transport_names_is_recorded_and_not_the_author(
    writer: Writer, catalogue: Catalogue, key: BaseKey
) -> None:
    forged = {f"GIT_{who}_{what}": "owner@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    writer.write({"a.md": text()})
    writer.git("add", "--all")
    writer.git("commit", "--quiet", "--message", "As somebody else", environment=forged)
    assert writer.push(environment={"KBGIT_USER": "max", "KBGIT_VIA": "web"}).ok
    provenance = catalogue.provenance(str(key), writer.head)
    assert provenance is not None
    assert (provenance.pushed_by, provenance.via) == ("max", "web")
    assert provenance.author == provenance.committer == "owner@example.org <owner@example.org>"


def test_who_pushes_by_path_is_their_system_account_whatever_they_call_themselves(
    writer: Writer, catalogue: Catalogue, key: BaseKey
) -> None:
    writer.commit({"a.md": text()})
    assert writer.push(environment={"LOGNAME": "mallory\nKbgit-Via: api", "USER": "mallory", "KBGIT_USER": ""}).ok
    provenance = catalogue.provenance(str(key), writer.head)
    assert provenance is not None
    assert provenance.pushed_by.startswith("local:")
    assert "mallory" not in provenance.pushed_by


@pytest.mark.parametrize(
    "settings", ["status: archived\n", "default_status: published\n", "admission: lenient\n", "name: X\n"]
)
def test_settings_need_the_right_to_administer(writer: Writer, published: str, settings: str) -> None:
    writer.commit({"base.yaml": settings})
    refused = writer.push(environment={"KBGIT_RIGHTS": "delete"})
    assert not refused.ok
    assert "base:admin" in refused.said
    assert writer.push(environment={"KBGIT_RIGHTS": "administer"}).ok


def test_without_rights_everything_else_in_the_settings_file_and_beside_it_can_change(
    writer: Writer, published: str
) -> None:
    writer.publish({"base.yaml": "name: X\n"})
    writer.commit({"base.yaml": "# a remark\nname: X\n", "b.md": text(), "a.md": text("Changed"), "c.txt": "x"})
    assert writer.push(environment=NO_RIGHTS).ok


@pytest.fixture
def two_items(writer: Writer) -> Writer:
    """A writer of a published base with one item that names itself, one that does not, and a submodule."""
    entries = [
        ("160000", "theme", "1" * 40),
        ("100644", "named.md", writer.blob(text("Named", id="named"))),
        ("100644", "pathed.md", writer.blob(text("Pathed"))),
        ("100644", "notes.txt", writer.blob("x")),
    ]
    assert writer.push(f"{writer.commit_entries(entries)}:refs/heads/main").ok
    writer.git("pull", "--quiet")
    return writer


def remove(writer: Writer) -> None:
    writer.git("rm", "--quiet", "named.md")


def remove_and_use_its_words_elsewhere(writer: Writer) -> None:
    remove(writer)
    writer.write({"new.md": text("Named")})


def make_no_item(writer: Writer) -> None:
    writer.git("mv", "pathed.md", "pathed.txt")


def hide(writer: Writer) -> None:
    (writer.path / ".trash").mkdir()
    writer.git("mv", "pathed.md", ".trash/pathed.md")


def move(writer: Writer) -> None:
    writer.git("mv", "pathed.md", "moved.md")


def move_and_edit(writer: Writer) -> None:
    writer.git("mv", "named.md", "moved.md")
    writer.write({"moved.md": text("Another title", id="named", body="Another text.\n")})


def archive(writer: Writer) -> None:
    writer.write({"named.md": text("Named", status="archived", id="named")})


def remove_another_file(writer: Writer) -> None:
    writer.git("rm", "--quiet", "notes.txt")


def remove_a_submodule(writer: Writer) -> None:
    writer.git("rm", "--quiet", "--cached", "theme")


DELETIONS = [remove, remove_and_use_its_words_elsewhere, make_no_item, hide]
NO_DELETIONS = [move, move_and_edit, archive, remove_another_file, remove_a_submodule]


@pytest.mark.parametrize("act", [*DELETIONS, *NO_DELETIONS])
def test_deleting_items_needs_its_right_and_renaming_does_not(two_items: Writer, act: Callable[[Writer], None]) -> None:
    act(two_items)
    two_items.git("add", "--all", ":!theme")
    two_items.git("commit", "--quiet", "--message", "Change")
    done = two_items.push(environment=NO_RIGHTS)
    assert done.ok is (act in NO_DELETIONS), done.said
    if not done.ok:
        assert "deletes an item, which needs base:admin" in done.said
        assert two_items.push(environment={"KBGIT_RIGHTS": "delete"}).ok


# By every way in


@pytest.fixture
def remote_shell(tmp_path: Path) -> Path:
    """A stand-in for ssh that runs the command here, as sshd would with a forced command's environment."""
    script = tmp_path / "ssh"
    script.write_text('#!/bin/sh\n[ "$1" = -G ] && exit 1\nshift\nKBGIT_USER=max exec sh -c "$*"\n')
    script.chmod(0o755)
    return script


@pytest.mark.parametrize("way", ["path", "file", "ssh"])
def test_the_verdict_is_the_same_by_every_way_in(
    writer: Writer, way: str, remote_shell: Path, base_repository: Repository, catalogue: Catalogue, key: BaseKey
) -> None:
    path = str(base_repository.path)
    writer.remote = {"path": path, "file": f"file://{path}", "ssh": f"ssh://host{path}"}[way]
    writer.environment |= {"GIT_SSH_COMMAND": str(remote_shell), "GIT_SSH_VARIANT": "simple"}
    first = writer.publish({"a.md": text()})
    writer.commit({"b.md": BROKEN})
    refused = writer.push()
    assert [line.removeprefix("remote: ").rstrip() for line in refused.said.splitlines() if "b.md" in line] == [
        'kbgit:   b.md:2: unreadable front matter: a colon inside an unquoted value; write title: "Release: plan"'
    ]
    writer.git("reset", "--quiet", "--hard", first)
    writer.git("commit", "--amend", "--quiet", "--message", "Rewritten")
    assert "cannot be rewritten" in writer.push("--force").said
    assert not writer.push(":refs/heads/main").ok
    assert base_repository.head() == catalogue.base(str(key)).head == first
    listed = writer.git("ls-remote", writer.remote)
    assert "refs/heads/main" in listed
    assert "refs/kbgit" not in listed
    provenance = catalogue.provenance(str(key), first)
    assert provenance is not None
    assert (provenance.pushed_by == "max") is (way == "ssh")


def test_the_publication_log_can_be_fetched_by_nobody(
    writer: Writer, published: str, base_repository: Repository
) -> None:
    entry = base_repository.ref(PUBLICATION_LOG)
    assert entry
    assert not writer.run("fetch", writer.remote, PUBLICATION_LOG).ok
    for version in ("0", "1"):
        assert not writer.run("-c", f"protocol.version={version}", "fetch", writer.remote, entry).ok


def test_objects_that_fsck_refuses_are_refused(writer: Writer, published: str, base_repository: Repository) -> None:
    blob = writer.blob("x")
    by_hand = {
        "a name with .git": b"100644 .git\0" + bytes.fromhex(blob),
        "a name with dots": b"100644 ..\0" + bytes.fromhex(blob),
        "the same name twice": b"100644 b\0" + bytes.fromhex(blob) + b"100644 b\0" + bytes.fromhex(blob),
        "names out of order": b"100644 b\0" + bytes.fromhex(blob) + b"100644 a\0" + bytes.fromhex(blob),
        "an empty name": b"100644 \0" + bytes.fromhex(blob),
        "a set-uid program": b"104755 run.sh\0" + bytes.fromhex(blob),
        "a set-uid item": b"104644 b.md\0" + bytes.fromhex(blob),
    }
    for what, raw in by_hand.items():
        tree = writer.git("hash-object", "-w", "-t", "tree", "--literally", "--stdin", stdin=raw)
        commit = writer.commit_tree(tree, published)
        assert not writer.push(f"{commit}:refs/heads/main").ok, what
    assert base_repository.head() == published


# Failing closed


def test_a_home_that_cannot_be_read_lets_nothing_in(
    home: Home, writer: Writer, published: str, base_repository: Repository
) -> None:
    (home.path / "kbgit.yaml").write_text("prot: 80\n")
    writer.commit({"b.md": text()})
    done = writer.push()
    assert not done.ok
    assert "invalid_setting: no setting is called 'prot'" in done.said
    assert base_repository.head() == published


def test_a_catalogue_that_cannot_be_used_lets_nothing_in_and_says_so(
    home: Home, writer: Writer, published: str, base_repository: Repository
) -> None:
    home.discard_catalogue()
    (home.path / "catalogue.sqlite").mkdir()
    writer.commit({"b.md": text()})
    done = writer.push()
    assert not done.ok
    assert "index_failure" in done.said
    assert "Traceback" not in done.said
    assert base_repository.head() == published


def test_a_failing_post_receive_loses_nothing(
    home: Home, writer: Writer, published: str, catalogue: Catalogue, key: BaseKey
) -> None:
    hook = home.hooks / "post-receive"
    shutil.move(hook, hook.with_suffix(".away"))
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    missed = writer.commit({"b.md": text(id="b")})
    assert writer.push(environment={"KBGIT_USER": "max"}).ok
    assert catalogue.base(str(key)).head == published
    shutil.move(hook.with_suffix(".away"), hook)
    # The gate knows what was published meanwhile: the next push cannot take the id of an item that nobody catalogued yet.
    writer.commit({"c.md": text(id="b")})
    done: Done = writer.push()
    assert "the id 'b' is also that of b.md" in done.said
    assert catalogue.base(str(key)).head == missed
    provenance = catalogue.provenance(str(key), missed)
    assert provenance is not None
    assert provenance.pushed_by == "max"


def test_the_hooks_run_without_the_writers_python_settings(writer: Writer, tmp_path: Path) -> None:
    (tmp_path / "trap").mkdir()
    (tmp_path / "trap" / "kbgit.py").write_text("raise SystemExit(0)")
    writer.commit({"a.md": BROKEN})
    trap = str(tmp_path / "trap")
    assert not writer.push(environment={"PYTHONPATH": trap, "PYTHONSTARTUP": trap, "PYTHONHOME": sys.prefix}).ok


def test_a_branch_deleted_behind_the_back_can_only_be_put_back(
    writer: Writer, published: str, base_repository: Repository, catalogue: Catalogue, key: BaseKey
) -> None:
    base_repository.git.run("update-ref", "-d", "refs/heads/main")
    unrelated = writer.commit_tree(writer.tree([("100644", "z.md", writer.blob(text("Z")))]))
    refused = writer.push(f"{unrelated}:refs/heads/main")
    assert not refused.ok
    assert "cannot be rewritten" in refused.said
    assert writer.push("HEAD:refs/heads/proposal").ok
    assert base_repository.published_branch() == "refs/heads/main", "no other branch takes its place"
    assert catalogue.base(str(key)).alarm
    later = writer.publish({"b.md": text("B")})
    base = catalogue.base(str(key))
    assert (base.head, base.alarm) == (later, "")
    assert catalogue.provenance(str(key), published) is not None
