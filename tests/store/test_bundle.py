from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kbgit.errors import GitFailure
from kbgit.store import Repository
from kbgit.store.bundle import bundle_refs, unpack_bundle, write_bundle

AUTHOR = "Ada <ada@example.org>"


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    made = Repository.create(tmp_path / "one.git")
    first = made.commit_files({"a.md": b"A\n"}, parent=None, message="First", author=AUTHOR, when=1_700_000_001)
    second = made.commit_files({"b.md": b"B\n"}, parent=first, message="Second", author=AUTHOR, when=1_700_000_002)
    made.move_ref("refs/heads/main", second, None)
    made.append_to_log("Publish", second, None, 1_700_000_003)
    yield made
    made.close()


def test_what_is_bundled_comes_back_with_every_ref(repository: Repository, tmp_path: Path) -> None:
    write_bundle(repository, tmp_path / "all.bundle", repository.refs())
    assert bundle_refs(tmp_path / "all.bundle") == repository.refs()
    other = Repository.create(tmp_path / "two.git")
    unpack_bundle(tmp_path / "all.bundle", other)
    assert other.refs() == repository.refs()
    assert other.tree("main") == repository.tree("main")
    assert other.log_entries() == repository.log_entries()


def test_a_bundle_is_of_the_refs_that_were_given_whatever_was_pushed_since(
    repository: Repository, tmp_path: Path
) -> None:
    refs = repository.refs()
    third = repository.commit_files(
        {"c.md": b"C\n"}, parent=repository.head(), message="Third", author=AUTHOR, when=1_700_000_004
    )
    repository.move_ref("refs/heads/main", third, repository.head())
    write_bundle(repository, tmp_path / "all.bundle", refs)
    other = Repository.create(tmp_path / "two.git")
    unpack_bundle(tmp_path / "all.bundle", other)
    assert other.refs() == refs
    assert not other.has_commit(third)


def test_a_bundle_of_an_object_that_is_not_there_is_refused(repository: Repository, tmp_path: Path) -> None:
    with pytest.raises(GitFailure):
        write_bundle(repository, tmp_path / "all.bundle", {"refs/heads/main": "0123456789" * 4})
    assert [path.name for path in tmp_path.iterdir()] == ["one.git"]


@pytest.mark.parametrize("content", [b"", b"noise", b"# v2 git bundle\n", b"# v2 git bundle\n-0123 prerequisite\n\n"])
def test_what_is_no_bundle_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "some.bundle").write_bytes(content)
    with pytest.raises(GitFailure):
        bundle_refs(tmp_path / "some.bundle")
    with pytest.raises(GitFailure):
        unpack_bundle(tmp_path / "some.bundle", Repository.create(tmp_path / "two.git"))


def test_a_damaged_pack_is_refused(repository: Repository, tmp_path: Path) -> None:
    path = tmp_path / "all.bundle"
    write_bundle(repository, path, repository.refs())
    raw = bytearray(path.read_bytes())
    raw[-30] ^= 1
    path.write_bytes(raw)
    with pytest.raises(GitFailure):
        unpack_bundle(path, Repository.create(tmp_path / "two.git"))
