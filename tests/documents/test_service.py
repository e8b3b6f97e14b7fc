"""From upload to item: states and reasons, the one commit, names kept, places taken, rights asked again."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbgit.access import Principal
from kbgit.assemble import Runtime
from kbgit.base import BaseKey
from kbgit.documents.contract import Reason, State
from kbgit.documents.placing import title_of
from kbgit.documents.service import Documents
from kbgit.errors import (
    AlreadyExists,
    Conflict,
    InvalidRequest,
    NotFound,
)
from kbgit.item import ItemStatus, parse_document
from kbgit.library import Draft
from kbgit.revision import Via
from tests.documents.queueing import KEY, commits, file_of, left_behind, upload
from tests.web.serving import until

BASE = str(KEY)


# The way to an item


def test_a_document_becomes_a_draft_with_its_source_by_one_commit_of_its_uploader(
    runtime: Runtime, documents: Documents, max_: Principal
) -> None:
    before = commits(runtime)
    row = upload(documents, max_, "text Grey heron", name="Grey Heron.PDF", folder="birds")
    assert (row.state, row.source.media_type, row.uploader) == (State.QUEUED, "application/pdf", "max")
    assert commits(runtime) == before
    documents.work_off()
    row = documents.document(row.id, max_)
    assert (row.state, row.reason, row.notes) == (State.READY, None, ("One picture is left out.",))
    assert commits(runtime) == before + 1
    item = runtime.catalogue.items_at(BASE, ["birds/Grey Heron.PDF.md"])[0]
    assert (item.item_id, item.revision, item.status) == (row.item_id, row.revision, ItemStatus.DRAFT)
    assert item.title == "Grey heron"
    parsed = parse_document(file_of(runtime, item.path))
    assert parsed.metadata == row.source.fields
    assert parsed.content == "# Grey heron\n\ntext Grey heron\n"
    provenance = runtime.catalogue.provenance(BASE, item.revision)
    assert provenance is not None
    assert (provenance.pushed_by, provenance.via) == ("max", Via.API)
    assert left_behind(runtime) == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("fail encrypted", Reason.ENCRYPTED),
        ("fail no_text_layer", Reason.NO_TEXT_LAYER),
        ("fail corrupt", Reason.CORRUPT),
        ("eat", Reason.TOO_LARGE),
        ("sleep", Reason.TIMEOUT),
        ("signal SIGKILL", Reason.CRASHED),
        ("raise canary", Reason.CRASHED),
    ],
)
def test_a_document_that_cannot_be_read_fails_with_its_reason_and_commits_nothing(
    content: str, reason: Reason, runtime: Runtime, opened: Callable[..., Documents], ada: Principal
) -> None:
    documents, before = opened(document_seconds=1.0), commits(runtime)
    failing, fine = upload(documents, ada, content), upload(documents, ada, "text Ibis", name="ibis.pdf")
    documents.work_off()
    row = documents.document(failing.id, ada)
    assert (row.state, row.reason) == (State.FAILED, reason)
    assert row.detail
    assert "canary" not in row.detail
    assert row.attempts == (3 if content == "signal SIGKILL" else 1)
    assert documents.document(fine.id, ada).state is State.READY, "the others go on"
    assert commits(runtime) == before + 1
    assert [Path(path).name for path in left_behind(runtime)] == [row.id], "kept for another attempt"


def test_a_worker_that_was_killed_is_tried_again_and_loses_nothing(
    documents: Documents, ada: Principal, tmp_path: Path
) -> None:
    row = upload(documents, ada, f"once {tmp_path / 'seen'}")
    documents.work_off()
    row = documents.document(row.id, ada)
    assert (row.state, row.attempts) == (State.READY, 2)


NAMES = [
    "Übersicht & Größe.pdf",
    "报告 2026.pdf",
    "تقرير.pdf",
    "<script>alert(1)</script>.pdf",
    '"><img src=x onerror=alert(1)>.pdf',
    "a\\b: c | d?.pdf",
    "zero\u200bwidth \u202egnp.pdf",
    "tab\tnew\nline.pdf",
    "../../../etc/passwd.pdf",
    "C:\\Windows\\con.pdf",
    "---.pdf",
    "null: ~ # no.pdf",
    "  spaces  .pdf",
    "e\u0301 decomposed.pdf",
    ".pdf.pdf",
    "x" * 400 + ".pdf",
]


def test_names_in_any_script_and_with_markup_are_kept_exactly(
    runtime: Runtime, documents: Documents, ada: Principal
) -> None:
    rows = [upload(documents, ada, f"fine {number}", name=name) for number, name in enumerate(NAMES)]
    documents.work_off()
    for name, row in zip(NAMES, rows, strict=True):
        row = documents.document(row.id, ada)
        assert row.state is State.READY, (name, row.detail)
        assert row.source.name == name
        source = parse_document(file_of(runtime, row.locator)).metadata["source"]
        assert isinstance(source, dict)
        assert source["name"] == name
        assert ".." not in row.locator.split("/")


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.text(st.characters(exclude_categories=["Cs"]), max_size=80))
def test_a_name_is_admitted_or_refused_but_never_an_error(name: str, documents: Documents, ada: Principal) -> None:
    try:
        wish = documents.admit(BASE, ada, name=f"{name}.pdf", folder=name, replace=False, size=1)
    except InvalidRequest:
        return
    assert wish.name == f"{name}.pdf"
    assert wish.locator.endswith(".md")


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("deep/in/Annual Report.pdf", "Annual Report"),
        ("C:\\files\\x.y.pdf", "x.y"),
        ("a\n b\t.pdf", "a b"),
        (".pdf", ".pdf"),
        ("\u3000.pdf", "Untitled"),
    ],
)
def test_a_file_without_a_title_is_called_by_its_name(name: str, title: str) -> None:
    assert title_of(name) == title


# Places


def test_the_same_bytes_at_the_same_place_are_ready_at_once_and_commit_nothing(
    runtime: Runtime, documents: Documents, ada: Principal, max_: Principal
) -> None:
    first = upload(documents, ada, "text One")
    documents.work_off()
    before = commits(runtime)
    again = upload(documents, max_, "text One")
    assert again.id != first.id
    assert (again.state, again.item_id) == (State.READY, documents.document(first.id, ada).item_id)
    assert commits(runtime) == before
    assert left_behind(runtime) == []


def test_of_two_uploads_of_the_same_file_one_commits(
    runtime: Runtime, opened: Callable[..., Documents], ada: Principal, max_: Principal, tmp_path: Path
) -> None:
    documents, before = opened(document_workers=2), commits(runtime)
    gate = tmp_path / "gate"
    rows = [upload(documents, caller, f"hold {gate}") for caller in (ada, max_)]
    documents.start()
    until(lambda: all(documents.document(row.id, ada).state is State.EXTRACTING for row in rows))
    gate.touch()
    until(lambda: all(documents.document(row.id, ada).state.is_final for row in rows))
    done = [documents.document(row.id, ada) for row in rows]
    assert {(row.state, row.item_id, row.revision) for row in done} == {
        (State.READY, done[0].item_id, done[0].revision)
    }
    assert commits(runtime) == before + 1


def test_other_bytes_at_a_place_are_refused_unless_they_replace(
    runtime: Runtime, documents: Documents, ada: Principal
) -> None:
    upload(documents, ada, "text One")
    documents.work_off()
    with pytest.raises(AlreadyExists) as refusal:
        upload(documents, ada, "text Two")
    assert refusal.value.details == {"locator": "heron.pdf.md"}
    assert left_behind(runtime) == []


def test_a_replacement_is_a_new_revision_that_keeps_status_and_other_fields(
    runtime: Runtime, documents: Documents, ada: Principal
) -> None:
    first = upload(documents, ada, "text One")
    documents.work_off()
    item = documents.document(first.id, ada).item_id or ""
    draft = Draft(title="My own title", status=ItemStatus.PUBLISHED, tags=["bird"], metadata={"owner": "max"})
    revision = documents.document(first.id, ada).revision or ""
    runtime.writing.update(item, ada, draft, base=None, expected_revision=revision, via=Via.API)
    second = upload(documents, ada, "text Two", replace=True)
    documents.work_off()
    second = documents.document(second.id, ada)
    assert (second.state, second.item_id) == (State.READY, item)
    parsed = parse_document(file_of(runtime, "heron.pdf.md"))
    assert parsed.content == "# Two\n\ntext Two\n"
    assert (parsed.title, parsed.status, parsed.tags) == ("My own title", ItemStatus.PUBLISHED, ("bird",))
    assert parsed.metadata == {"owner": "max", **second.source.fields}
    row = runtime.catalogue.item(BASE, item)
    assert row is not None
    assert row.number == 3
    assert row.revision == second.revision


def test_a_place_that_was_taken_meanwhile_is_refused_then(
    runtime: Runtime, documents: Documents, ada: Principal
) -> None:
    row = upload(documents, ada, "text One")
    runtime.writing.create(
        BASE, ada, Draft(title="x", content="mine\n"), locator="heron.pdf.md", item_id=None, via=Via.API
    )
    documents.work_off()
    row = documents.document(row.id, ada)
    assert (row.state, row.reason) == (State.FAILED, Reason.REFUSED)
    assert "heron.pdf.md" in row.detail
    assert b"mine" in file_of(runtime, "heron.pdf.md")


def test_a_name_that_differs_in_case_only_is_refused_as_a_push_would_be(documents: Documents, ada: Principal) -> None:
    upload(documents, ada, "text One", name="heron.pdf")
    twin = upload(documents, ada, "text Two", name="HERON.pdf")
    documents.work_off()
    row = documents.document(twin.id, ada)
    assert (row.state, row.reason) == (State.FAILED, Reason.REFUSED)


def test_items_go_below_the_directory_that_a_base_keeps_its_items_in(
    runtime: Runtime, documents: Documents, ada: Principal
) -> None:
    from_settings = "name: runbooks\nsubdir: docs\n"
    runtime.writing.change_file(KEY, ada, "base.yaml", lambda _: from_settings.encode(), "Move", Via.API)
    row = upload(documents, ada, "text One")
    documents.work_off()
    assert row.locator == "docs/heron.pdf.md"
    assert documents.document(row.id, ada).state is State.READY


# Crashes


def test_an_item_that_was_committed_just_before_a_crash_is_not_committed_again(
    runtime: Runtime, opened: Callable[..., Documents], ada: Principal
) -> None:
    documents = opened()
    row = upload(documents, ada, "text One")
    with pytest.MonkeyPatch.context() as crash:  # the commit is made, the row is never told
        crash.setattr(documents._store, "finish_ready", lambda *_: False)
        documents.work_off()
    assert documents.document(row.id, ada).state is State.EXTRACTING
    before = commits(runtime)
    documents._originals.path(row.id).touch()
    after_restart = opened()
    after_restart.start()
    until(lambda: after_restart.document(row.id, ada).state.is_final)
    done = after_restart.document(row.id, ada)
    assert (done.state, done.attempts) == (State.READY, 1)
    assert done.item_id
    assert commits(runtime) == before


def test_what_was_being_extracted_at_the_end_is_extracted_by_the_next_server(
    runtime: Runtime, opened: Callable[..., Documents], ada: Principal, tmp_path: Path
) -> None:
    gate, begun = tmp_path / "gate", tmp_path / "gate.begun"
    first = opened()
    row, waiting = upload(first, ada, f"hold {gate}"), upload(first, ada, "text Ibis", name="ibis.pdf")
    first.start()
    until(begun.exists)
    first.stop()
    (runtime.home.path / "documents" / "incoming" / "broken-off").write_text("half")
    (runtime.home.path / "documents" / "originals" / "doc_of_nobody").write_text("whole")
    (runtime.home.path / "documents" / "work" / "old").mkdir()
    second = opened()
    assert second.document(row.id, ada).state is State.QUEUED
    gate.touch()
    second.start()
    until(lambda: all(second.document(one.id, ada).state is State.READY for one in (row, waiting)))
    assert second.document(row.id, ada).attempts == 1, "an attempt that the server ended is none"
    until(lambda: left_behind(runtime) == [])


# Cancelling and trying again


def test_a_queued_document_is_cancelled(runtime: Runtime, documents: Documents, ada: Principal) -> None:
    before = commits(runtime)
    row = upload(documents, ada, "text One")
    assert documents.cancel(row.id, ada).state is State.CANCELLED
    assert documents.cancel(row.id, ada).state is State.CANCELLED, "once more changes nothing"
    documents.work_off()
    assert documents.document(row.id, ada).state is State.CANCELLED
    assert commits(runtime) == before
    assert left_behind(runtime) == []


def test_a_document_that_is_being_extracted_is_cancelled_and_its_worker_ended(
    runtime: Runtime, documents: Documents, ada: Principal, tmp_path: Path
) -> None:
    before, begun = commits(runtime), tmp_path / "gate.begun"
    row = upload(documents, ada, f"hold {tmp_path / 'gate'}")
    documents.start()
    until(lambda: begun.exists() and begun.read_text() != "")
    worker = Path("/proc") / begun.read_text()
    assert documents.cancel(row.id, ada).state is State.CANCELLED
    until(lambda: not worker.exists())
    until(lambda: left_behind(runtime) == [])
    assert documents.document(row.id, ada).state is State.CANCELLED
    assert commits(runtime) == before


def test_a_document_that_is_cancelled_when_its_text_is_there_already_makes_no_item(
    runtime: Runtime, documents: Documents, ada: Principal
) -> None:
    before = commits(runtime)
    row = upload(documents, ada, "text One")
    extracted = documents._pool._extracted

    def extract_then_cancel(*arguments: Any) -> object:  # noqa: ANN401
        found = extracted(*arguments)
        assert documents.cancel(row.id, ada).state is State.CANCELLED
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents._pool, "_extracted", extract_then_cancel)
        documents.work_off()
    assert documents.document(row.id, ada).state is State.CANCELLED
    assert commits(runtime) == before
    assert left_behind(runtime) == []


def test_a_document_whose_item_is_being_stored_is_not_cancelled(
    runtime: Runtime, documents: Documents, ada: Principal
) -> None:
    row = upload(documents, ada, "text One")
    refusals = []
    place = documents._placing.place

    def place_while_cancelled(*arguments: Any) -> object:  # noqa: ANN401
        with pytest.raises(Conflict) as refusal:
            documents.cancel(row.id, ada)
        refusals.append(refusal.value)
        return place(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents._placing, "place", place_while_cancelled)
        documents.work_off()
    assert len(refusals) == 1
    assert documents.document(row.id, ada).state is State.READY


def test_a_ready_document_is_an_item_and_is_not_cancelled_or_tried_again(documents: Documents, ada: Principal) -> None:
    row = upload(documents, ada, "text One")
    documents.work_off()
    with pytest.raises(Conflict):
        documents.cancel(row.id, ada)
    with pytest.raises(Conflict):
        documents.retry(row.id, ada)
    assert documents.document(row.id, ada).state is State.READY


def test_a_failed_document_is_tried_again(documents: Documents, ada: Principal, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    row = upload(documents, ada, f"once {seen}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kbgit.documents.pool.MOST_ATTEMPTS", 1)
        documents.work_off()
    assert documents.document(row.id, ada).state is State.FAILED
    assert documents.retry(row.id, ada).state is State.QUEUED
    with pytest.raises(Conflict):
        documents.retry(row.id, ada)
    documents.work_off()
    assert documents.document(row.id, ada).state is State.READY


def test_cancelling_a_failed_document_removes_its_file(runtime: Runtime, documents: Documents, ada: Principal) -> None:
    row = upload(documents, ada, "fail corrupt")
    documents.work_off()
    assert left_behind(runtime) != []
    assert documents.cancel(row.id, ada).state is State.CANCELLED
    assert left_behind(runtime) == []
    with pytest.raises(Conflict):
        documents.retry(row.id, ada)


def test_documents_that_have_been_done_for_long_are_forgotten_with_their_files(
    runtime: Runtime, opened: Callable[..., Documents], ada: Principal
) -> None:
    documents = opened(document_keep_days=0.01)
    failed = upload(documents, ada, "fail corrupt")
    documents.work_off()
    documents._clock = lambda: time.time() + 3_600
    documents._forget_old()
    with pytest.raises(NotFound):
        documents.document(failed.id, ada)
    assert left_behind(runtime) == []


def test_one_base_of_many_writers_takes_everything_that_came_at_once(
    runtime: Runtime, opened: Callable[..., Documents], ada: Principal
) -> None:
    documents, before = opened(document_workers=3), commits(runtime)
    rows = [upload(documents, ada, f"text {number}", name=f"{number}.pdf") for number in range(9)]
    documents.start()
    until(lambda: all(documents.document(row.id, ada).state.is_final for row in rows), 60)
    assert {documents.document(row.id, ada).state for row in rows} == {State.READY}
    assert commits(runtime) == before + 9
    assert BaseKey.parse(rows[0].base) == KEY
