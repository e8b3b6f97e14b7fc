"""The process that writes the index: what it does for another, and what comes of its death or of the other's."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pickle
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

from kbgit.errors import IndexDamaged, IndexFailure, WriterEnded
from kbgit.index.apart import Apart
from kbgit.index.contract import IndexedPassage, IndexUpdate
from kbgit.index.embedded import EmbeddedIndex
from kbgit.index.lexical import LexicalIndex
from kbgit.index.lexical_files import exclusive
from kbgit.index.vectors import VectorStore
from tests.web.serving import until

BASE = "personal:ada/notes"
HEAD = "1" * 40
NEXT = "2" * 40
DIMENSION = 16


def passage(item: str, text: str) -> IndexedPassage:
    return IndexedPassage(BASE, item, HEAD, 0, f"About {item}", (), (1, 1), text)


def unit(number: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    vector = np.random.default_rng(number).normal(size=DIMENSION).astype(np.float32)
    return vector / np.linalg.norm(vector)


def key(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def whole_index(directory: Path, writer: Apart) -> EmbeddedIndex:
    return EmbeddedIndex(
        directory / "index",
        fingerprint="random/1",
        dimension=DIMENSION,
        cache=None,
        vector_memory_bytes=1 << 20,
        postings_memory_bytes=1 << 20,
        writer=writer,
    )


@pytest.fixture
def apart(tmp_path: Path) -> Iterator[Apart]:
    writer = Apart(tmp_path, os.environ)
    yield writer
    writer.close()


def kill(apart: Apart) -> None:
    assert apart.pid is not None
    os.kill(apart.pid, signal.SIGKILL)


@contextmanager
def stopped(apart: Apart) -> Iterator[Callable[[], None]]:
    """The process, held still; gives what kills it."""
    assert apart.pid is not None
    os.kill(apart.pid, signal.SIGSTOP)
    try:
        yield lambda: kill(apart)
    finally:
        with suppress(ProcessLookupError):
            os.kill(apart.pid or 0, signal.SIGCONT)


def test_it_is_started_by_the_first_writing_and_ends_when_it_is_closed(apart: Apart, tmp_path: Path) -> None:
    index = LexicalIndex(tmp_path / "base", apart)
    assert apart.pid is None
    index.apply((), [passage("one", "alpha")], HEAD)
    pid = apart.pid
    assert pid is not None
    assert str(tmp_path) in Path(f"/proc/{pid}/cmdline").read_text()
    apart.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert dict(LexicalIndex(tmp_path / "base").snapshot().items) == {"one": HEAD}


def test_what_it_writes_is_what_would_be_written_here(apart: Apart, tmp_path: Path) -> None:
    indexes = [LexicalIndex(tmp_path / "here"), LexicalIndex(tmp_path / "apart", apart)]
    for index in indexes:
        index.apply((), [passage(f"item-{n}", "alpha beta") for n in range(70)], HEAD)
        index.apply(["item-3"], [passage("item-4", "gamma")], NEXT)
    here, other = (index.snapshot() for index in indexes)
    assert here.items == other.items
    assert here.head == other.head == NEXT
    assert [s.segment.read_postings("beta").rows.tolist() for s in here.segments] == [
        s.segment.read_postings("beta").rows.tolist() for s in other.segments
    ]


def test_one_that_was_killed_is_replaced_and_what_it_was_told_is_done(apart: Apart, tmp_path: Path) -> None:
    index = LexicalIndex(tmp_path / "base", apart)
    index.apply((), [passage("one", "alpha")], HEAD)
    first = apart.pid
    kill(apart)
    index.apply((), [passage("two", "beta")], NEXT)
    assert apart.pid not in (None, first)
    assert dict(index.snapshot().items) == {"one": HEAD, "two": HEAD}
    assert index.snapshot().head == NEXT


def test_a_death_between_the_stamp_and_the_answer_writes_nothing_twice(apart: Apart, tmp_path: Path) -> None:
    class Forgetful(Apart):
        """Its first answer is lost on the way."""

        asked = 0

        def write_state(self, *arguments: object) -> None:
            super().write_state(*arguments)  # type: ignore[arg-type]
            Forgetful.asked += 1
            if Forgetful.asked == 1:
                raise WriterEnded("it ended before it could tell")

    writer = Forgetful(tmp_path, os.environ)
    try:
        index = LexicalIndex(tmp_path / "base", writer)
        index.apply((), [passage("one", "alpha")], HEAD)
    finally:
        writer.close()
    assert Forgetful.asked == 2
    assert index.snapshot().passages == 1
    assert dict(index.snapshot().items) == {"one": HEAD}


def test_its_refusals_are_told_as_they_would_be_here(
    apart: Apart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = LexicalIndex(tmp_path / "base", apart)
    index.apply((), [passage("one", "alpha")], HEAD)
    with exclusive(index.directory), pytest.raises(IndexFailure, match="another process"):
        index.apply((), [passage("two", "beta")], NEXT)
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(IndexFailure):
        apart.open_vectors(tmp_path / "file" / "vectors")
    with pytest.raises(IndexFailure, match="changed by another process"):
        apart.write_state(index.directory, 7, [], [], NEXT)
    assert dict(index.snapshot().items) == {"one": HEAD}, "the state before still answers"


def test_a_fault_in_it_is_an_answer_and_ends_nothing(apart: Apart, tmp_path: Path) -> None:
    index = LexicalIndex(tmp_path / "base", apart)
    index.apply((), [passage("one", "alpha")], HEAD)
    with pytest.raises(IndexFailure, match=r"Error at .*lexical_files\.py:"):
        apart.write_state(index.directory, index.snapshot().generation, [10**9], [], NEXT)
    with pytest.raises(IndexFailure) as fault:  # whose message quotes what it was given
        apart.write_state(index.directory, index.snapshot().generation, [], ["a secret"], NEXT)  # type: ignore[list-item]
    assert "secret" not in fault.value.message
    index.apply((), [passage("two", "beta")], NEXT)
    assert dict(index.snapshot().items) == {"one": HEAD, "two": HEAD}


def test_vectors_that_it_had_open_when_it_was_killed_count_as_damaged(apart: Apart, tmp_path: Path) -> None:
    store = VectorStore(tmp_path / "vectors", "model/1", DIMENSION, writer=apart)
    store.add({key(1): unit(1)})
    kill(apart)
    with pytest.raises(IndexDamaged):
        store.add({key(2): unit(2)})
    store.destroy()
    again = VectorStore(tmp_path / "vectors", "model/1", DIMENSION, writer=apart)
    again.add({key(number): unit(number) for number in range(3)})
    again.settle()
    assert len(VectorStore(tmp_path / "vectors", "model/1", DIMENSION)) == 3


def test_settled_vectors_survive_it(apart: Apart, tmp_path: Path) -> None:
    store = VectorStore(tmp_path / "vectors", "model/1", DIMENSION, writer=apart)
    store.add({key(1): unit(1)})
    store.settle()
    kill(apart)
    store.add({key(2): unit(2)})
    store.settle()
    assert set(VectorStore(tmp_path / "vectors", "model/1", DIMENSION).keys()) == {key(1), key(2)}


def test_searches_answer_while_it_stands_still(apart: Apart, tmp_path: Path) -> None:
    index = LexicalIndex(tmp_path / "base", apart)
    index.apply((), [passage("one", "alpha")], HEAD)
    store = VectorStore(tmp_path / "vectors", "model/1", DIMENSION, writer=apart)
    store.add({key(number): unit(number) for number in range(40)})
    store.settle()
    store.table()  # read into memory, as when a home is opened
    with stopped(apart):
        assert index.snapshot().segments[0].segment.read_postings("alpha").rows.tolist() == [0]
        assert store.table().cosines(unit(7)).argmax() == store.table().row_of(key(7))
        assert store.floor < 1


def test_a_whole_index_gets_over_a_death_at_any_time(tmp_path: Path) -> None:
    writer = Apart(tmp_path, os.environ)
    index = whole_index(tmp_path, writer)
    try:
        for number in range(6):
            index.update(BASE, IndexUpdate(HEAD, frozenset(), [passage(f"item-{number}", f"text {number}")]))
            for attempt in range(3):
                with suppress(IndexFailure):
                    if attempt == 0 and number % 2:
                        kill(writer)
                    pending = index.pending_vectors(BASE, 100).texts
                    index.add_vectors(BASE, {name: unit(int(name[:8], 16)) for name in pending})
        state = index.state(BASE)
        assert (state.items, state.vectors) == (6, 6)
    finally:
        index.close()


def test_an_index_is_closed_although_its_writer_died_amid_vectors(tmp_path: Path) -> None:
    writer = Apart(tmp_path, os.environ)
    index = whole_index(tmp_path, writer)
    index.update(BASE, IndexUpdate(HEAD, frozenset(), [passage("one", "alpha"), passage("two", "beta")]))
    some = next(iter(index.pending_vectors(BASE, 100).texts))
    index.add_vectors(BASE, {some: unit(1)})  # not all of them, so nothing is settled
    pid = writer.pid
    assert pid is not None
    kill(writer)
    index.close()
    assert writer.pid is None
    again = whole_index(tmp_path, Apart(tmp_path, os.environ))
    assert (again.state(BASE).items, again.state(BASE).vectors) == (2, 0)
    again.close()


def test_where_no_file_can_be_opened_it_lives_on(apart: Apart, tmp_path: Path) -> None:
    store = VectorStore(tmp_path / "vectors", "model/1", DIMENSION, writer=apart)
    store.add({key(1): unit(1)})
    index = LexicalIndex(tmp_path / "base", apart)
    pid = apart.pid
    assert pid is not None
    for whose in (os.getpid(), pid):
        soft, hard = resource.prlimit(whose, resource.RLIMIT_NOFILE)
        resource.prlimit(whose, resource.RLIMIT_NOFILE, (1, hard))
        try:
            with pytest.raises(IndexFailure):
                apart.write_state(index.directory, 0, [], [passage("one", "alpha")], HEAD)
        finally:
            resource.prlimit(whose, resource.RLIMIT_NOFILE, (soft, hard))
    store.add({key(2): unit(2)})
    store.settle()
    index.apply((), [passage("one", "alpha")], HEAD)
    assert apart.pid == pid
    assert len(VectorStore(tmp_path / "vectors", "model/1", DIMENSION)) == 2


def test_a_question_that_cannot_be_asked_gives_nobody_its_answer(apart: Apart, tmp_path: Path) -> None:
    opened = apart.open_vectors(tmp_path / "vectors")
    opened.add([key(1)], unit(1)[None, :])
    with pytest.raises((AttributeError, pickle.PicklingError)):
        opened.fetch([lambda: None])  # type: ignore[list-item]
    with pytest.raises(IndexDamaged):
        opened.count()


_OWNER = """
import json, os, sys
from pathlib import Path
from kbgit.index.apart import Apart
from kbgit.index.lexical import LexicalIndex
from tests.index.test_apart import passage, HEAD
directory = Path(sys.argv[1])
lock = open(directory / "lock", "w")
import fcntl
fcntl.flock(lock, fcntl.LOCK_EX)
apart = Apart(directory, os.environ, holding=[lock.fileno()])
LexicalIndex(directory / "base", apart).apply((), [passage("one", "alpha")], HEAD)
print(json.dumps(apart.pid), flush=True)
sys.stdin.read()
"""


def test_it_ends_with_whom_it_writes_for_and_holds_the_lock_until_then(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    pid = json.loads(owner.stdout.readline())
    os.kill(pid, signal.SIGSTOP)  # as if it were in the middle of something
    owner.kill()
    owner.communicate()
    with open(tmp_path / "lock", "w") as lock:
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.kill(pid, signal.SIGCONT)

        def is_free() -> bool:
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            return False

        until(is_free, 30)


def test_it_is_told_no_secret(tmp_path: Path) -> None:
    environment: Mapping[str, str] = {**os.environ, "KBGIT_EMBEDDER_API_KEY": "sesame", "PASSWORD": "sesame"}
    writer = Apart(tmp_path, environment)
    try:
        LexicalIndex(tmp_path / "base", writer).apply((), [passage("one", "alpha")], HEAD)
        assert b"sesame" not in Path(f"/proc/{writer.pid}/environ").read_bytes()
    finally:
        writer.close()


def test_a_signal_to_the_whole_group_leaves_it_to_whom_it_writes_for(apart: Apart, tmp_path: Path) -> None:
    index = LexicalIndex(tmp_path / "base", apart)
    index.apply((), [passage("one", "alpha")], HEAD)
    before = apart.pid
    assert before is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(before, number)
    index.apply((), [passage("two", "beta")], NEXT)
    assert apart.pid == before
