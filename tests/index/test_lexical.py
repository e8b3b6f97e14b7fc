from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from threading import Event, Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbgit.errors import IndexDamaged, IndexFailure
from kbgit.index.contract import IndexedPassage
from kbgit.index.lexical import LexicalIndex, Snapshot
from kbgit.index.lexical_files import exclusive
from kbgit.index.stamp import STAMP_NAME

HEAD = "a" * 40
NEXT = "b" * 40


def passage(item: str, text: str, ordinal: int = 0, revision: str = HEAD) -> IndexedPassage:
    return IndexedPassage(
        "base", item, revision, ordinal, f"Title of {item}", ("One", "Two"), (3, 9), text, f"{item}.md"
    )


def holders(snapshot: Snapshot, token: str) -> list[str]:
    """The items with `token`, one for each passage that is not deleted."""
    found = []
    for live_segment in snapshot.segments:
        for row in live_segment.segment.read_postings(token).rows.tolist():
            if live_segment.live is None or live_segment.live[row]:
                found.append(live_segment.segment.passage(row, "base").item_id)
    return sorted(found)


def texts(snapshot: Snapshot) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for live_segment in snapshot.segments:
        for row in range(live_segment.segment.size):
            if live_segment.live is None or live_segment.live[row]:
                kept = live_segment.segment.passage(row, "base")
                found.setdefault(kept.item_id, []).append(kept.text)
    return {item: sorted(values) for item, values in found.items()}


@pytest.fixture
def index(tmp_path: Path) -> LexicalIndex:
    return LexicalIndex(tmp_path / "base")


def test_a_new_index_is_empty_and_has_no_head(index: LexicalIndex) -> None:
    snapshot = index.snapshot()
    assert (snapshot.head, snapshot.passages, dict(snapshot.items)) == (None, 0, {})


def test_its_directory_is_private(index: LexicalIndex) -> None:
    assert stat.S_IMODE(index.directory.stat().st_mode) == 0o700


def test_a_passage_comes_back_as_it_was_given(index: LexicalIndex) -> None:
    given_passage = IndexedPassage(
        "base", "item", HEAD, 4, "Tïtle", ("A", "B"), (10, 12), "text \ud800 \x00 漢", "a/b.md", "about", ("x", "y")
    )
    index.apply((), [given_passage], HEAD)
    (live_segment,) = index.snapshot().segments
    assert live_segment.segment.passage(0, "base") == given_passage
    assert live_segment.segment.vector_keys() == [given_passage.vector_key]


def test_what_was_applied_is_there_after_opening_again(index: LexicalIndex) -> None:
    index.apply((), [passage("one", "alpha"), passage("two", "beta")], HEAD)
    snapshot = LexicalIndex(index.directory).snapshot()
    assert snapshot.head == HEAD
    assert snapshot.items == {"one": HEAD, "two": HEAD}
    assert holders(snapshot, "alpha") == ["one"]


def test_an_item_that_changes_replaces_its_passages(index: LexicalIndex) -> None:
    index.apply((), [passage("one", "alpha"), passage("one", "alpha again", 1)], HEAD)
    index.apply(["one"], [passage("one", "beta", revision=NEXT)], NEXT)
    snapshot = index.snapshot()
    assert holders(snapshot, "alpha") == []
    assert holders(snapshot, "beta") == ["one"]
    assert snapshot.items == {"one": NEXT}


def test_an_item_twice_in_one_batch_leaves_no_stale_twin(index: LexicalIndex) -> None:
    index.apply((), [passage("one", "alpha"), passage("one", "beta", revision=NEXT)], NEXT)
    assert holders(index.snapshot(), "beta") == ["one"]
    assert holders(index.snapshot(), "alpha") == []
    index.apply(["one"], (), NEXT)
    assert holders(index.snapshot(), "beta") == []
    assert dict(index.snapshot().items) == {}


def test_adding_without_removing_leaves_no_stale_twin_either(index: LexicalIndex) -> None:
    for text in ("alpha", "beta", "gamma"):
        index.apply((), [passage("one", text)], HEAD)
    assert texts(index.snapshot()) == {"one": ["gamma"]}


def test_applying_the_same_step_again_changes_nothing(index: LexicalIndex) -> None:
    for _ in range(3):
        index.apply(["one"], [passage("one", "alpha"), passage("two", "beta")], HEAD)
    assert texts(index.snapshot()) == {"one": ["alpha"], "two": ["beta"]}


def test_an_empty_step_moves_the_head(index: LexicalIndex) -> None:
    index.apply((), [passage("one", "alpha")], HEAD)
    index.apply((), (), NEXT)
    assert LexicalIndex(index.directory).snapshot().head == NEXT


def test_the_parts_of_a_large_step_have_no_head_until_the_last(index: LexicalIndex) -> None:
    index.apply((), [passage("one", "alpha")], None)
    assert LexicalIndex(index.directory).snapshot().head is None
    index.apply((), [passage("two", "alpha")], HEAD)
    snapshot = LexicalIndex(index.directory).snapshot()
    assert (snapshot.head, holders(snapshot, "alpha")) == (HEAD, ["one", "two"])


def test_removing_what_is_not_there_is_no_error(index: LexicalIndex) -> None:
    index.apply(["nothing"], (), HEAD)
    assert index.snapshot().head == HEAD


def test_a_snapshot_goes_on_answering_while_its_files_are_superseded(index: LexicalIndex) -> None:
    index.apply((), [passage(f"item-{number}", f"alpha {number}") for number in range(50)], HEAD)
    before = index.snapshot()
    index.apply([f"item-{number}" for number in range(50)], [passage("new", "beta")], NEXT)
    assert len(holders(before, "alpha")) == 50
    assert holders(index.snapshot(), "alpha") == []


def test_many_small_steps_leave_few_segments_and_no_litter(index: LexicalIndex) -> None:
    for number in range(40):
        index.apply((), [passage(f"item-{number % 7}", f"word{number}")], HEAD)
    snapshot = index.snapshot()
    assert len(snapshot.segments) <= 5
    assert texts(snapshot) == {f"item-{number % 7}": [f"word{number}"] for number in range(33, 40)}
    names = {path.name for path in index.directory.iterdir()}
    assert len([name for name in names if name.endswith(".seg")]) == len(snapshot.segments)
    assert len([name for name in names if name.endswith(".toc")]) == 1


def test_deleted_text_leaves_the_disk_when_most_of_a_segment_is_deleted(index: LexicalIndex) -> None:
    index.apply((), [passage(f"item-{number}", f"secret{number}") for number in range(200)], HEAD)
    index.apply([f"item-{number}" for number in range(150)], (), NEXT)
    assert b"secret7" not in b"".join(path.read_bytes() for path in index.directory.iterdir())


STEPS = st.lists(
    st.tuples(
        st.sets(st.sampled_from("abcde"), max_size=3),
        st.dictionaries(st.sampled_from("abcde"), st.lists(st.sampled_from(["x", "y", "z"]), max_size=3), max_size=3),
    ),
    max_size=6,
)


@settings(max_examples=25, deadline=None)
@given(STEPS)
def test_any_sequence_of_steps_holds_what_a_dictionary_would(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[set[str], dict[str, list[str]]]]
) -> None:
    index = LexicalIndex(tmp_path_factory.mktemp("index") / "base")
    model: dict[str, list[str]] = {}
    for removed, added in steps:
        index.apply(
            removed, [passage(item, text, at) for item, them in added.items() for at, text in enumerate(them)], HEAD
        )
        model = {item: them for item, them in model.items() if item not in removed}
        model |= {item: sorted(them) for item, them in added.items() if them}
        assert texts(index.snapshot()) == model
        assert set(index.snapshot().items) == set(model)
    assert texts(LexicalIndex(index.directory).snapshot()) == model


# --- damage ----------------------------------------------------------------------------------------------------------


def filled(directory: Path) -> list[Path]:
    """An index of two segments with deletions; the files that hold its state."""
    index = LexicalIndex(directory)
    index.apply((), [passage(f"item-{number}", f"alpha {number}") for number in range(200)], HEAD)
    index.apply(["item-3"], [passage("item-4", "beta", revision=NEXT)], NEXT)
    return sorted(path for path in directory.iterdir() if not path.name.lower().endswith("lock"))


@pytest.mark.parametrize("percent", [0, 1, 50, 99])
@pytest.mark.parametrize("name", ["stamp.json", ".toc", ".seg"])
def test_a_file_cut_short_is_reported_as_damage(tmp_path: Path, name: str, percent: int) -> None:
    for path in filled(tmp_path / "base"):
        if path.name.endswith(name):
            content = path.read_bytes()
            path.write_bytes(content[: len(content) * percent // 100])
            with pytest.raises(IndexDamaged):
                LexicalIndex(tmp_path / "base")
            path.write_bytes(content)
    assert LexicalIndex(tmp_path / "base").snapshot().head == NEXT


def test_a_missing_file_is_reported_as_damage(tmp_path: Path) -> None:
    for path in filled(tmp_path / "base"):
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(IndexDamaged):
            LexicalIndex(tmp_path / "base")
        path.write_bytes(content)


def test_a_single_changed_byte_anywhere_is_reported_as_damage(tmp_path: Path) -> None:
    for path in filled(tmp_path / "base"):
        content = path.read_bytes()
        if path.name != STAMP_NAME:
            for at in range(0, len(content), max(1, len(content) // 40)):
                path.write_bytes(content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :])
                with pytest.raises(IndexDamaged):
                    LexicalIndex(tmp_path / "base")
            path.write_bytes(content)


@pytest.mark.parametrize("content", ["", "[]", "{}", "null", '{"version": 1}', "\x00" * 20, '{"files": []}'])
def test_a_stamp_that_is_none_is_damage(tmp_path: Path, content: str) -> None:
    filled(tmp_path / "base")
    (tmp_path / "base" / STAMP_NAME).write_text(content)
    with pytest.raises(IndexDamaged):
        LexicalIndex(tmp_path / "base")


def test_an_index_of_another_version_must_be_rebuilt(tmp_path: Path) -> None:
    filled(tmp_path / "base")
    path = tmp_path / "base" / STAMP_NAME
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": "0.0.0"}))
    with pytest.raises(IndexDamaged, match=r"version 0\.0\.0"):
        LexicalIndex(tmp_path / "base")


def test_what_an_unfinished_step_left_behind_is_ignored_and_then_swept(tmp_path: Path) -> None:
    filled(tmp_path / "base")
    litter = [
        tmp_path / "base" / name for name in ("_MAIN_9.toc", "MAIN_zzz.seg", "MAIN_zzz.trm", "stamp.json.partial")
    ]
    for path in litter:
        path.write_bytes(b"half")
    (tmp_path / "base" / "MAIN.tmp").mkdir()
    index = LexicalIndex(tmp_path / "base")
    assert index.snapshot().head == NEXT
    index.apply((), [passage("late", "gamma")], HEAD)
    assert not any(path.exists() for path in litter)
    assert not (tmp_path / "base" / "MAIN.tmp").exists()
    assert "late" in LexicalIndex(tmp_path / "base").snapshot().items


def test_a_directory_that_cannot_be_read_is_a_failure_not_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(IndexFailure):
        LexicalIndex(tmp_path / "file" / "base")


def test_a_read_only_directory_is_read_and_refuses_a_step(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("permissions do not bind the superuser")
    filled(tmp_path / "base")
    index = LexicalIndex(tmp_path / "base")
    (tmp_path / "base").chmod(0o500)
    try:
        assert holders(LexicalIndex(tmp_path / "base").snapshot(), "beta") == ["item-4"]
        with pytest.raises(IndexFailure):
            index.apply((), [passage("new", "x")], HEAD)
        assert index.snapshot().head == NEXT
    finally:
        (tmp_path / "base").chmod(0o700)


def test_a_step_that_fails_leaves_the_old_state_answering(index: LexicalIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    index.apply((), [passage("one", "alpha")], HEAD)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(IndexFailure, match="No space left"):
        index.apply((), [passage("two", "beta")], NEXT)
    monkeypatch.undo()
    assert index.snapshot().items == {"one": HEAD}
    assert LexicalIndex(index.directory).snapshot().head == HEAD
    index.apply((), [passage("two", "beta")], NEXT)
    assert holders(LexicalIndex(index.directory).snapshot(), "beta") == ["two"]


# --- processes and threads -------------------------------------------------------------------------------------------

WRITER = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from kbgit.index.contract import IndexedPassage
    from kbgit.index.lexical import LexicalIndex

    index = LexicalIndex(Path(sys.argv[1]))
    for number in range(10_000):
        head = f"{number:040x}"
        added = [IndexedPassage("base", f"item-{at}", head, 0, "t", (), (1, 1), f"alpha {number}") for at in range(30)]
        index.apply([], added, head)
        print(number, flush=True)
    """
)


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_a_killed_writer_leaves_a_whole_state_and_no_lock(tmp_path: Path, steps: int) -> None:
    directory = tmp_path / "base"
    with subprocess.Popen([sys.executable, "-c", WRITER, str(directory)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        last = [int(writer.stdout.readline()) for _ in range(steps)][-1]
        writer.send_signal(signal.SIGKILL)
    index = LexicalIndex(directory)
    head = index.snapshot().head
    assert head is not None
    assert int(head, 16) >= last
    assert set(index.snapshot().items.values()) == {head}
    index.apply((), [passage("after", "gamma")], NEXT)
    assert holders(index.snapshot(), "gamma") == ["after"]


def test_readers_see_whole_states_only_while_a_writer_goes_on(tmp_path: Path) -> None:
    index = LexicalIndex(tmp_path / "base")
    index.apply((), [passage(f"item-{at}", "alpha", revision=f"{0:040x}") for at in range(20)], f"{0:040x}")
    done = Event()
    problems: list[object] = []

    def check(snapshot: Snapshot) -> None:
        if set(snapshot.items.values()) != {snapshot.head} or len(holders(snapshot, "alpha")) != 20:
            problems.append(dict(snapshot.items))

    def read_shared() -> None:
        while not done.is_set():
            check(index.snapshot())

    def open_anew() -> None:
        while not done.is_set():
            check(LexicalIndex(index.directory).snapshot())

    def guarded(work: object) -> None:
        try:
            work()  # type: ignore[operator]
        except Exception as problem:  # noqa: BLE001  # whatever a reader raises is what this test is about
            problems.append(problem)

    threads = [Thread(target=guarded, args=(work,)) for work in (read_shared, read_shared, open_anew)]
    for thread in threads:
        thread.start()
    for number in range(1, 25):
        head = f"{number:040x}"
        index.apply((), [passage(f"item-{at}", "alpha", revision=head) for at in range(20)], head)
    done.set()
    for thread in threads:
        thread.join()
    assert problems == []


def test_two_threads_that_write_take_turns(index: LexicalIndex) -> None:
    def write(name: str) -> None:
        for number in range(5):
            index.apply((), [passage(f"{name}-{number}", "alpha")], HEAD)

    threads = [Thread(target=write, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(holders(index.snapshot(), "alpha")) == 10


def test_another_process_that_writes_is_named_as_the_reason(
    index: LexicalIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbgit.index.lexical_files._LOCK_SECONDS", 0.0)
    with exclusive(index.directory), pytest.raises(IndexFailure, match="another process"):
        LexicalIndex(index.directory).apply((), [passage("one", "alpha")], HEAD)
