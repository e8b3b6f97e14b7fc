"""One repository: refs, trees, histories, blobs, commits, the publication log; checked against Git itself."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbgit.errors import GitFailure
from kbgit.store import Repository
from kbgit.store.repository import PUBLICATION_LOG
from tests.writing import Writer, clone

STRANGE = [
    '测试 "x".md', "tab\there.md", "line\nend.md", "emoji 🦊.md", "back\\slash.md", " lead.md", "-dash.md", ":colon.md",
    "quote'.md", "a/b/c.md", unicodedata.normalize("NFD", "é.md"), "é.md",
]  # fmt: skip


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    """A repository without hooks."""
    made = Repository.create(tmp_path / "plain.git")
    yield made
    made.close()


@pytest.fixture
def author(repository: Repository, tmp_path: Path) -> Writer:
    return clone(repository.path, tmp_path / "author")


def commit(repository: Repository, files: dict[str, bytes | None], parent: str | None = None) -> str:
    made = repository.commit_files(files, parent=parent, message="m", author="Ada <ada@x>", when=1_700_000_000)
    repository.move_ref("refs/heads/main", made, parent)
    return made


def test_an_empty_repository_has_a_branch_and_no_head(repository: Repository) -> None:
    assert repository.published_branch() == "refs/heads/main"
    assert repository.head() is None
    assert repository.refs() == {}
    assert repository.log_entries() == []


def test_what_is_no_repository_is_a_typed_error(tmp_path: Path) -> None:
    with pytest.raises(GitFailure):
        Repository.at(tmp_path)


def test_a_detached_head_says_how_to_mend_it(repository: Repository) -> None:
    (repository.path / "HEAD").write_text("0" * 40 + "\n")
    with pytest.raises(GitFailure, match="symbolic-ref"):
        repository.published_branch()


def test_a_ref_or_a_head_that_cannot_be_read_is_none_or_a_typed_error(repository: Repository) -> None:
    commit(repository, {"a.md": b"1"})
    (repository.path / "refs/heads/main").write_bytes(b"\xff\xfe\x00 no commit")
    assert repository.head() is None
    head = repository.path / "HEAD"
    head.write_bytes(b"ref: refs/heads/\xff\n")
    assert repository.head() is None
    head.unlink()
    with pytest.raises(GitFailure):
        repository.head()
    head.symlink_to(head)
    with pytest.raises(GitFailure, match="cannot be read"):
        repository.head()


def test_a_long_lived_process_sees_every_move_of_a_ref_packed_or_not(repository: Repository, author: Writer) -> None:
    first = commit(repository, {"a.md": b"1"})
    long_lived = Repository.at(repository.path)
    assert long_lived.head() == first
    repository.git.run("pack-refs", "--all")
    assert not (repository.path / "refs/heads/main").exists()
    assert long_lived.head() == first
    second = commit(repository, {"a.md": b"2"}, first)
    assert long_lived.head() == second, "the loose ref wins over the packed one"
    repository.git.run("gc", "--quiet", "--prune=now")
    assert long_lived.head() == second
    assert long_lived.blob(long_lived.tree(second)[0].sha) == b"2"
    repository.git.run("update-ref", "-d", "refs/heads/main")
    assert long_lived.head() is None, "a deleted ref does not come back from the packed ones"


def test_a_blob_is_read_after_gc_replaced_the_packs_it_was_in(repository: Repository) -> None:
    head = commit(repository, {f"{n}.md": b"%d" % n for n in range(30)})
    repository.git.run("gc", "--quiet", "--prune=now")
    entries = repository.tree(head)
    assert repository.blob(entries[0].sha) == b"0"
    later = commit(repository, {"x.md": b"x"}, head)
    repository.git.run("repack", "-a", "-d", "-f", "--quiet")
    assert [repository.blob(entry.sha) for entry in repository.tree(later)][-1] == b"x"
    with pytest.raises(GitFailure):
        repository.blob("0" * 40)
    with pytest.raises(GitFailure):
        repository.blob(head)


def test_names_of_refs_may_have_characters_that_python_takes_for_line_ends(
    repository: Repository, author: Writer
) -> None:
    head = commit(repository, {"a.md": b"1"})
    names = ["refs/heads/a\u2028b", "refs/heads/c\u0085d", "refs/heads/e é"[:-2] + "é"]
    for name in names:
        repository.move_ref(name, head, None)
    assert repository.refs().keys() == {*names, "refs/heads/main"}
    repository.git.run("pack-refs", "--all")
    assert [repository.ref(name) for name in names] == [head] * 3


def test_a_ref_moves_only_from_where_it_is(repository: Repository) -> None:
    first = commit(repository, {"a.md": b"1"})
    second = repository.commit_files({"a.md": b"2"}, parent=first, message="m", author="A <a@x>")
    with pytest.raises(GitFailure):
        repository.move_ref("refs/heads/main", second, None)
    with pytest.raises(GitFailure):
        repository.move_ref("refs/heads/main", second, second)
    assert repository.head() == first


def test_any_name_of_a_file_goes_in_and_comes_out_byte_for_byte(repository: Repository) -> None:
    files: dict[str, bytes | None] = {name: f"text of {name}\n".encode() for name in STRANGE}
    head = commit(repository, files)
    assert {entry.path for entry in repository.tree(head)} == {name.encode() for name in STRANGE}
    assert {change.path for change in repository.changes(None, head)} == {name.encode() for name in STRANGE}
    assert {c.path for _, changes in repository.commit_changes([head]) for c in changes} == {
        n.encode() for n in STRANGE
    }
    assert {repository.blob(entry.sha).decode() for entry in repository.tree(head)} == {
        f"text of {name}\n" for name in STRANGE
    }
    repository.git.run("fsck", "--strict", "--no-dangling")


def test_committing_files_sets_removes_and_leaves_the_rest(repository: Repository) -> None:
    first = commit(repository, {"a.md": b"1", "b.md": b"2", "docs/c.md": b"3"})
    second = commit(repository, {"a.md": b"4", "b.md": None}, first)
    assert {entry.path: repository.blob(entry.sha) for entry in repository.tree(second)} == {
        b"a.md": b"4",
        b"docs/c.md": b"3",
    }
    changes = {change.path: (change.old is None, change.new is None) for change in repository.changes(first, second)}
    assert changes == {b"a.md": (False, False), b"b.md": (False, True)}
    assert repository.refs().keys() == {"refs/heads/main"}, "no scratch ref stays behind"


def test_a_commit_is_told_with_its_own_words(repository: Repository, author: Writer) -> None:
    made = repository.commit_files(
        {"a.md": b"1"}, parent=None, message="Zeile eins\n\nZeile zwei é\n", author="Åsa Ö <å@x>",
        when=1_234_567_890,
    )  # fmt: skip
    [told] = repository.commits([made])
    assert (told.author, told.committer, told.committed_at) == ("Åsa Ö <å@x>", "Åsa Ö <å@x>", 1_234_567_890)
    assert (told.message, told.parents, told.signed) == ("Zeile eins\n\nZeile zwei é", (), False)


@pytest.mark.parametrize(
    ("encoding", "known"),
    [("iso-8859-1", True), ("klingon", False), ("utf-8", False), ("hex", False), ("undefined", False), ("idna", False)],
)
def test_a_commit_in_another_encoding_is_read_in_it(repository: Repository, encoding: str, known: bool) -> None:
    tree = repository.git.run("hash-object", "-w", "-t", "tree", "--stdin").decode().strip()
    parent = "0123456789" * 4
    raw = (
        f"tree {tree}\nparent {parent}\nauthor Jörg <j@x> 1 +0000\ncommitter Jörg <j@x> 1 +0000\n"
        f"encoding {encoding}\n\nGrüße\n"
    )
    stored = repository.git.run("hash-object", "-w", "-t", "commit", "--stdin", stdin=raw.encode("latin-1"))
    [told] = repository.commits([stored.decode().strip()])
    assert told.parents == (parent,)
    if known:
        assert (told.author, told.message) == ("Jörg <j@x>", "Grüße")
    else:
        assert "\N{REPLACEMENT CHARACTER}" in told.author


def test_a_signature_is_noticed_and_is_no_part_of_the_words(repository: Repository) -> None:
    tree = repository.git.run("hash-object", "-w", "-t", "tree", "--stdin").decode().strip()
    raw = (
        f"tree {tree}\nauthor A <a@x> 1 +0000\ncommitter A <a@x> 2 +0100\ngpgsig -----BEGIN PGP SIGNATURE-----\n"
        " author Eve <e@x> 9 +0000\n -----END PGP SIGNATURE-----\n\nSigned\n"
    )
    stored = repository.git.run("hash-object", "-w", "-t", "commit", "--stdin", stdin=raw.encode())
    [told] = repository.commits([stored.decode().strip()])
    assert (told.author, told.committed_at, told.message, told.signed) == ("A <a@x>", 2, "Signed", True)


def test_the_changes_of_a_merge_are_those_against_every_parent(repository: Repository) -> None:
    start = commit(repository, {"a.md": b"1", "b.md": b"1", "c.md": b"1"})
    ours = repository.commit_files({"a.md": b"2"}, parent=start, message="o", author="A <a@x>")
    theirs = repository.commit_files({"b.md": b"2", "c.md": b"2"}, parent=start, message="t", author="A <a@x>")
    tree = repository.commit_files(
        {"a.md": b"2", "b.md": b"2", "c.md": b"3"}, parent=start, message="x", author="A <a@x>"
    )
    merge = repository.git.run(
        *("-c", "user.name=A", "-c", "user.email=a@x", "commit-tree", f"{tree}^{{tree}}", "-p", ours, "-p", theirs),
        stdin=b"m",
    )
    sha = merge.decode().strip()
    assert [(name, [c.path for c in changes]) for name, changes in repository.commit_changes([sha, start])] == [
        (sha, [b"c.md"]),
        (start, [b"a.md", b"b.md", b"c.md"]),
    ]
    assert repository.history(sha, without=[ours]) == [theirs, sha]
    assert repository.history(sha)[0] == start
    assert repository.is_ancestor(ours, sha)
    assert not repository.is_ancestor(sha, ours)


def test_a_difference_shows_the_names_that_the_files_had(repository: Repository) -> None:
    head = commit(repository, {"a.md": b"one\n", "b.md": b"two\n"})
    old, new = (entry.sha for entry in repository.tree(head))
    shown = repository.difference(old, new, "old.md", "new.md")
    assert "--- a/old.md" in shown
    assert "+++ b/new.md" in shown
    assert "-one\n+two\n" in shown


def test_the_publication_log_is_a_chain_that_keeps_every_published_head(repository: Repository) -> None:
    heads = [commit(repository, {"a.md": b"1"})]
    heads.append(commit(repository, {"a.md": b"2"}, heads[0]))
    heads.append(commit(repository, {"a.md": b"3"}, heads[1]))
    entries: list[str] = []
    for head in heads:
        entries.append(
            repository.append_to_log(f"Publish {head}\n", head, entries[-1] if entries else None, 1_700_000_000)
        )
    told = repository.log_entries()
    assert [entry.sha for entry in told] == entries
    assert [entry.parents for entry in told] == [
        (heads[0],), (entries[0], heads[1]), (entries[1], heads[2]),
    ]  # fmt: skip
    assert [entry.sha for entry in repository.log_entries(after=entries[0])] == entries[1:]
    assert repository.log_entries(after=entries[2]) == []
    repository.git.run("update-ref", "-d", "refs/heads/main")
    repository.git.run("gc", "--quiet", "--prune=now")
    assert all(repository.has_commit(head) for head in heads)
    assert repository.ref(PUBLICATION_LOG) == entries[2]
    with pytest.raises(GitFailure):
        repository.append_to_log("late", heads[0], entries[1], 1)


@pytest.mark.parametrize(("encoding", "spelled"), [("utf-7", b"+2AA-"), ("unicode_escape", b"\\ud800")])
def test_an_encoding_cannot_smuggle_in_what_is_no_text(repository: Repository, encoding: str, spelled: bytes) -> None:
    tree = repository.git.run("hash-object", "-w", "-t", "tree", "--stdin").decode().strip()
    raw = f"tree {tree}\nauthor A <a@x> 1 +0000\ncommitter A <a@x> 1 +0000\nencoding {encoding}\n\n".encode() + spelled
    stored = repository.git.run("hash-object", "-w", "-t", "commit", "--stdin", stdin=raw).decode().strip()
    [told] = repository.commits([stored])
    assert told.message.encode() == spelled


@pytest.mark.parametrize(("claimed", "told"), [("9" * 30, 2**63 - 1), ("4102444800", 4_102_444_800), ("-5", -5)])
def test_a_date_may_be_far_away_but_not_beyond_what_can_be_stored(
    repository: Repository, claimed: str, told: int
) -> None:
    tree = repository.git.run("hash-object", "-w", "-t", "tree", "--stdin").decode().strip()
    raw = f"tree {tree}\nauthor A <a@x> {claimed} +0000\ncommitter A <a@x> {claimed} +0000\n\nm\n".encode()
    stored = (
        repository.git.run("hash-object", "-w", "-t", "commit", "--literally", "--stdin", stdin=raw).decode().strip()
    )
    assert next(repository.commits([stored])).committed_at == told
