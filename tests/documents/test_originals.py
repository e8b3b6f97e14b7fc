"""Files of uploads: where they are, who may read them, and that nothing of them stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kbgit.documents.originals import Originals
from kbgit.errors import StorageFull


@pytest.fixture
def originals(tmp_path: Path) -> Originals:
    return Originals(tmp_path / "documents", keep_free=0)


def files(tmp_path: Path) -> set[str]:
    return {str(path.relative_to(tmp_path / "documents")) for path in (tmp_path / "documents").rglob("*")}


EMPTY = {"incoming", "originals", "work"}


def test_what_arrived_becomes_an_original_and_is_removed_once(originals: Originals, tmp_path: Path) -> None:
    arriving = originals.new_incoming()
    arriving.write_bytes(b"whole")
    assert arriving.stat().st_mode & 0o777 == 0o600
    originals.adopt(arriving, "doc_1")
    assert originals.path("doc_1").read_bytes() == b"whole"
    assert files(tmp_path) == {*EMPTY, "originals/doc_1"}
    originals.remove("doc_1")
    originals.remove("doc_1")
    assert files(tmp_path) == EMPTY


def test_a_workplace_goes_with_all_that_a_worker_did_to_it(originals: Originals, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    with originals.workplace() as workplace:
        inner = workplace / "a" / "b"
        inner.mkdir(parents=True)
        (inner / "file").write_text("x")
        (workplace / "link").symlink_to(outside)
        os.mkfifo(workplace / "pipe")
        inner.chmod(0)
        (workplace / "a").chmod(0o500)
    assert files(tmp_path) == EMPTY
    assert (outside / "kept").read_text() == "kept"


def test_a_workplace_goes_however_deep_a_worker_dug(originals: Originals, tmp_path: Path) -> None:
    with originals.workplace() as workplace:
        above = os.open(workplace, os.O_RDONLY)
        for _ in range(3_000):  # beyond the longest path, and beyond any recursion
            os.mkdir("deeper", dir_fd=above)
            inner = os.open("deeper", os.O_RDONLY, dir_fd=above)
            os.close(above)
            above = inner
        os.close(above)
    assert files(tmp_path) == EMPTY


def test_tidying_leaves_only_what_documents_need(originals: Originals, tmp_path: Path) -> None:
    for name in ("originals/doc_1", "originals/doc_2", "incoming/half", "work/file"):
        (tmp_path / "documents" / name).write_text("x")
    (tmp_path / "documents" / "work" / "old" / "deep").mkdir(parents=True)
    originals.tidy({"doc_1"})
    assert files(tmp_path) == {*EMPTY, "originals/doc_1"}


def test_a_file_that_would_fill_the_disk_is_refused(tmp_path: Path) -> None:
    originals = Originals(tmp_path / "documents", keep_free=0)
    originals.require_space(1)
    with pytest.raises(StorageFull):
        originals.require_space(1 << 60)
