"""The queue on disk: which state follows which, whoever comes first, and what is told of it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kbgit.documents.contract import Reason, State
from kbgit.documents.row import NewDocument
from kbgit.documents.store import DocumentStore
from kbgit.errors import HomeProblem, NotFound
from kbgit.importing import SourceFile
from kbgit.revision import Via

SHA = "a" * 40


def new(name: str = "heron.pdf", base: str = "team:platform/runbooks") -> NewDocument:
    source = SourceFile.of(name, "application/pdf", name.encode())
    return NewDocument(base, "ada", source, "birds", f"birds/{name}.md", False, Via.API)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DocumentStore]:
    made = DocumentStore(tmp_path / "queue.sqlite", lambda: 1_000.0)
    yield made
    made.close()


def test_documents_are_claimed_in_the_order_in_which_they_came(store: DocumentStore) -> None:
    added = [store.add(new(f"{number}.pdf")).id for number in range(3)]
    claimed = []
    while (row := store.claim()) is not None:
        assert (row.state, row.attempts) == (State.EXTRACTING, 1)
        claimed.append(row.id)
    assert claimed == added


def test_a_document_is_claimed_once_however_many_ask_for_it(store: DocumentStore) -> None:
    added = {store.add(new(f"{number}.pdf")).id for number in range(20)}
    claimed: list[str] = []

    def ask() -> None:
        while (row := store.claim()) is not None:
            claimed.append(row.id)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(claimed) == 20
    assert set(claimed) == added


def test_what_is_stored_is_what_was_given(store: DocumentStore) -> None:
    given = new("日本語 <b>&amp;.pdf")
    row = store.document(store.add(given).id)
    assert NewDocument(row.base, row.uploader, row.source, row.folder, row.locator, row.replace, row.via) == given


def test_a_queue_survives_its_process(store: DocumentStore) -> None:
    waiting, begun = store.add(new("1.pdf")), store.add(new("2.pdf"))
    assert store.claim() is not None
    store.close()
    again = DocumentStore(store._database.path)
    assert again.recover() == 1
    assert {row.id: (row.state, row.attempts) for row in again.documents([waiting.base], None, None, 10)} == {
        waiting.id: (State.QUEUED, 0),
        begun.id: (State.QUEUED, 0),
    }
    again.close()


def test_an_id_is_none_that_can_be_guessed(store: DocumentStore) -> None:
    first, second = store.add(new()).id, store.add(new()).id
    assert len(first) == len("doc_") + 24
    assert first[:8] != second[:8]


def test_events_tell_every_change_in_order(store: DocumentStore) -> None:
    row = store.add(new())
    store.claim()
    store.requeue(row.id, counts=True)
    store.claim()
    store.finish_failed(row.id, Reason.CORRUPT, "it is damaged")
    store.retry(row.id)
    store.claim()
    store.finish_ready(row.id, "item", SHA, ("note",))
    told = [event.state.value for event in store.events([row.base], 0, 100)]
    assert told == ["queued", "extracting", "queued", "extracting", "failed", "queued", "extracting", "ready"]
    assert store.events(["team:platform/other"], 0, 100) == []
    assert store.events([], 0, 100) == []
    last = store.document(row.id)
    assert (last.reason, last.detail, last.item_id, last.revision, last.notes) == (None, "", "item", SHA, ("note",))


def test_what_is_forgotten_is_gone_from_the_file(store: DocumentStore, tmp_path: Path) -> None:
    canary = "velvet-anchor"
    gone, stays = store.add(new(f"{canary}.pdf")), store.add(new(base="team:platform/other"))
    assert store.forget_base(gone.base) == [gone.id]
    with pytest.raises(NotFound):
        store.document(gone.id)
    assert store.document(stays.id) == stays
    for path in tmp_path.iterdir():
        assert canary.encode() not in path.read_bytes()


def test_what_is_old_and_final_is_forgotten(tmp_path: Path) -> None:
    now = [100.0]
    store = DocumentStore(tmp_path / "queue.sqlite", lambda: now[0])
    failed, queued = store.add(new("1.pdf")), store.add(new("2.pdf"))
    store.claim()
    store.finish_failed(failed.id, Reason.CORRUPT, "")
    now[0] = 200.0
    fresh = store.add(new("3.pdf"))
    store.cancel(fresh.id)
    assert store.forget_before(150) == [failed.id]
    left = {row.id for row in store.documents([queued.base], None, None, 10)}
    assert left == {queued.id, fresh.id}
    assert {event.document for event in store.events([queued.base], 0, 100)} == left
    store.close()


def test_a_file_of_another_version_or_a_damaged_one_is_refused_with_a_way_out(tmp_path: Path) -> None:
    path = tmp_path / "queue.sqlite"
    DocumentStore(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(HomeProblem, match="version 99"):
        DocumentStore(path)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    path.write_bytes(b"no database at all, and long enough to be read as one" * 100)
    with pytest.raises(HomeProblem, match="damaged"):
        DocumentStore(path)


# Every order of every change, against a model of one line for each

ALLOWED: dict[str, tuple[set[State], State]] = {
    "requeue": ({State.EXTRACTING}, State.QUEUED),
    "finish_ready": ({State.EXTRACTING}, State.READY),
    "finish_failed": ({State.EXTRACTING}, State.FAILED),
    "cancel": ({State.QUEUED, State.EXTRACTING, State.FAILED}, State.CANCELLED),
    "retry": ({State.FAILED}, State.QUEUED),
}
CHANGES: dict[str, Callable[[DocumentStore, str], bool]] = {
    "requeue": lambda store, document: store.requeue(document, counts=True),
    "finish_ready": lambda store, document: store.finish_ready(document, "item", SHA, ()),
    "finish_failed": lambda store, document: store.finish_failed(document, Reason.CORRUPT, "x"),
    "cancel": lambda store, document: store.cancel(document),
    "retry": lambda store, document: store.retry(document),
}


class StoreOrders(RuleBasedStateMachine):
    """The store beside its model: documents are added, claimed and changed in any order."""

    directory: ClassVar[Path]
    number: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        StoreOrders.number += 1
        self.store = DocumentStore(self.directory / f"{StoreOrders.number}.sqlite")
        self.states: dict[str, State] = {}
        self.told = 0

    def teardown(self) -> None:
        self.store.close()

    @rule()
    def add(self) -> None:
        self.states[self.store.add(new(f"{len(self.states)}.pdf")).id] = State.QUEUED
        self.told += 1

    @rule()
    def claim(self) -> None:
        row = self.store.claim()
        oldest = next((one for one, state in self.states.items() if state is State.QUEUED), None)
        assert (row.id if row else None) == oldest
        if row:
            self.states[row.id] = State.EXTRACTING
            self.told += 1

    @rule(change=st.sampled_from(sorted(CHANGES)), which=st.integers(0, 3))
    def move(self, change: str, which: int) -> None:
        if which >= len(self.states):
            assert not CHANGES[change](self.store, "doc_of_nobody")
            return
        document = list(self.states)[which]
        before, after = ALLOWED[change]
        is_due = self.states[document] in before
        assert CHANGES[change](self.store, document) is is_due
        if is_due:
            self.states[document] = after
            self.told += 1

    @invariant()
    def states_are_those_of_the_model(self) -> None:
        rows = self.store.documents([new().base], None, None, 100)
        assert {row.id: row.state for row in rows} == self.states
        assert len(self.store.events([new().base], 0, 1_000)) == self.told
        pending = [state for state in self.states.values() if not state.is_final]
        assert self.store.pending() == len(pending)


def test_every_order_of_changes_leads_where_it_should(tmp_path: Path) -> None:
    StoreOrders.directory = tmp_path
    StoreOrders.TestCase.settings = settings(max_examples=15, stateful_step_count=15, deadline=None)
    StoreOrders.TestCase().runTest()
