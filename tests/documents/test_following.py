"""Documents listed, and followers told what becomes of them."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from kbgit.access import Principal
from kbgit.assemble import Runtime
from kbgit.documents.row import DocumentRow
from kbgit.documents.service import Documents
from kbgit.errors import (
    InvalidRequest,
)
from tests.documents.queueing import KEY, upload
from tests.web.serving import until

BASE = str(KEY)


def test_documents_are_listed_in_pages_newest_first(documents: Documents, ada: Principal) -> None:
    rows = [upload(documents, ada, f"text {number}", name=f"{number}.pdf") for number in range(5)]
    elsewhere = upload(documents, ada, "text x", base="team:platform/shelf")
    documents.cancel(rows[1].id, ada)
    found: list[DocumentRow] = []
    cursor = None
    while True:
        page = documents.documents(ada, base="runbooks", state="queued", cursor=cursor, limit=2)
        found += page.documents
        cursor = page.cursor
        if cursor is None:
            break
    assert [row.id for row in found] == [rows[number].id for number in (4, 3, 2, 0)]
    everything = documents.documents(ada, base=None, state=None, cursor=None, limit=200)
    assert everything.documents[0].id == elsewhere.id
    for wrong in ({"state": "lost"}, {"limit": 0}, {"limit": 201}, {"cursor": "1"}):
        asked: dict[str, Any] = {"base": None, "state": None, "cursor": None, "limit": 1, **wrong}
        with pytest.raises(InvalidRequest):
            documents.documents(ada, **asked)


def test_events_follow_a_document_from_where_a_follower_began(documents: Documents, ada: Principal) -> None:
    before = upload(documents, ada, "text Old", name="old.pdf")
    documents.work_off()
    start = documents.events(ada, after=None, wait=0)
    assert start.events == ()
    row = upload(documents, ada, "text One")
    documents.work_off()
    page = documents.events(ada, after=start.cursor, wait=0)
    assert [(event.document, event.state.value) for event in page.events] == [
        (row.id, state) for state in ("queued", "extracting", "ready")
    ]
    assert documents.events(ada, after=page.cursor, wait=0).events == []
    assert before.id not in str(page)


def test_events_of_hidden_documents_are_passed_over_in_silence(
    runtime: Runtime, documents: Documents, ada: Principal
) -> None:
    olga = runtime.accounts.principal("olga")
    start = documents.events(olga, after=None, wait=0)
    upload(documents, ada, "text One")
    page = documents.events(olga, after=start.cursor, wait=0)
    assert page.events == []
    assert len(page.cursor) == len(start.cursor)


def test_a_follower_that_waits_is_answered_when_something_happens(documents: Documents, ada: Principal) -> None:
    cursor = documents.events(ada, after=None, wait=0).cursor
    answered: list[str] = []
    begun = threading.Event()

    def follow() -> None:
        begun.set()
        page = documents.events(ada, after=cursor, wait=10)
        answered.extend(event.document for event in page.events)

    thread = threading.Thread(target=follow)
    thread.start()
    begun.wait(5)
    row = upload(documents, ada, "text One")
    thread.join(10)
    assert answered == [row.id]


def test_only_so_many_wait_and_the_others_are_answered_at_once(documents: Documents, ada: Principal) -> None:
    cursor = documents.events(ada, after=None, wait=0).cursor
    threads = [
        threading.Thread(target=documents.events, args=(ada,), kwargs={"after": cursor, "wait": 10}) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    until(lambda: documents._waiting._value == 0)
    started = time.monotonic()
    assert documents.events(ada, after=cursor, wait=10).events == []
    assert time.monotonic() - started < 5
    upload(documents, ada, "text One")
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def test_followers_are_answered_when_the_server_is_about_to_end(documents: Documents, ada: Principal) -> None:
    cursor = documents.events(ada, after=None, wait=0).cursor
    thread = threading.Thread(target=documents.events, args=(ada,), kwargs={"after": cursor, "wait": 10})
    started = time.monotonic()
    thread.start()
    until(lambda: documents._waiting._value < 8)
    documents.stop_waiting()
    thread.join(8)
    assert not thread.is_alive()
    assert time.monotonic() - started < 8


def test_nobody_waits_longer_than_allowed(documents: Documents, ada: Principal) -> None:
    with pytest.raises(InvalidRequest):
        documents.events(ada, after=None, wait=11)
