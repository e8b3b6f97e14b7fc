"""From upload to item: states and reasons, the one commit, names kept, places taken, rights asked again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbgit.access import Principal, Role, Scope
from kbgit.assemble import Runtime
from kbgit.base import BaseKey
from kbgit.documents.contract import Reason, State
from kbgit.documents.placing import title_of
from kbgit.documents.row import DocumentRow
from kbgit.documents.service import Documents
from kbgit.errors import (
    AlreadyExists,
    BaseNotFound,
    Conflict,
    Forbidden,
    InvalidRequest,
    NotFound,
    QueueFull,
    StorageFull,
    TooLarge,
)
from kbgit.item import ItemStatus, parse_document
from kbgit.library import Draft
from kbgit.revision import Via
from tests.documents.conftest import KEY
from tests.documents.queueing import upload
from tests.web.serving import until

BASE = str(KEY)


def commits(runtime: Runtime) -> int:
    """How many commits the published branch has."""
    repository = runtime.home.repository(KEY)
    head = repository.head()
    return len(repository.history(head)) if head else 0


def file_of(runtime: Runtime, locator: str) -> bytes:
    """An item's file, as the branch has it."""
    repository = runtime.home.repository(KEY)
    found = list(repository.git.objects([f"{repository.head()}:{locator}"]))
    assert found[0][1] == "blob", locator
    return found[0][2]


def left_behind(runtime: Runtime) -> list[str]:
    """Files of uploads, originals and workers."""
    directory = runtime.home.path / "documents"
    return [str(path) for part in ("incoming", "originals", "work") for path in (directory / part).rglob("*")]


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


# Rights


@pytest.mark.parametrize("role", [None, Role.VIEWER])
def test_the_right_is_asked_again_when_the_item_is_made(
    role: Role | None, runtime: Runtime, documents: Documents, ada: Principal, max_: Principal
) -> None:
    before = commits(runtime)
    row = upload(documents, max_, "text One")
    if role is None:
        runtime.accounts.remove_member("team:platform", "max", "test")
    else:
        runtime.accounts.set_member("team:platform", "max", role, "test")
    documents.work_off()
    row = documents.document(row.id, ada)
    assert (row.state, row.reason) == (State.FAILED, Reason.REFUSED)
    assert commits(runtime) == before


def test_an_upload_of_a_removed_user_is_refused(runtime: Runtime, documents: Documents, ada: Principal) -> None:
    row = upload(documents, runtime.accounts.principal("max"), "text One")
    runtime.accounts.remove_user("max", "test")
    documents.work_off()
    row = documents.document(row.id, ada)
    assert (row.state, row.reason) == (State.FAILED, Reason.REFUSED)


def test_writers_alone_upload_and_see_documents(runtime: Runtime, documents: Documents, ada: Principal) -> None:
    row = upload(documents, ada, "text One")
    vera, olga = runtime.accounts.principal("vera"), runtime.accounts.principal("olga")
    with pytest.raises(Forbidden):
        upload(documents, vera, "text Two")
    with pytest.raises(BaseNotFound):
        upload(documents, olga, "text Two")
    for stranger in (vera, olga):
        for ask in (documents.document, documents.cancel, documents.retry):
            with pytest.raises(NotFound) as hidden:
                ask(row.id, stranger)
            with pytest.raises(NotFound) as absent:
                ask("doc_" + "0" * 24, stranger)
            assert hidden.value.message.replace(row.id, "") == absent.value.message.replace("doc_" + "0" * 24, "")
        page = documents.documents(stranger, base=None, state=None, cursor=None, limit=50)
        assert page.as_json() == {"documents": [], "cursor": None}
    with pytest.raises(Forbidden):
        documents.documents(vera, base="runbooks", state=None, cursor=None, limit=50)
    with pytest.raises(BaseNotFound):
        documents.documents(olga, base="runbooks", state=None, cursor=None, limit=50)


def test_a_token_that_cannot_write_or_is_for_other_bases_sees_no_documents(
    documents: Documents, ada: Principal
) -> None:
    row = upload(documents, ada, "text One")
    reader = Principal("ada", ada.roles, frozenset({Scope.KNOWLEDGE_READ}))
    elsewhere = Principal("ada", ada.roles, bases=frozenset({"team:platform/shelf"}))
    for limited in (reader, elsewhere):
        with pytest.raises(NotFound):
            documents.document(row.id, limited)
        assert documents.documents(limited, base=None, state=None, cursor=None, limit=50).documents == []
    with pytest.raises(Forbidden):
        documents.document(row.id, Principal("ada", ada.roles, frozenset({Scope.ITEM_WRITE})))


def test_a_base_that_is_destroyed_takes_its_documents_with_it(
    runtime: Runtime, documents: Documents, ada: Principal
) -> None:
    canary = "velvet-anchor"
    row = upload(documents, ada, f"text {canary}", name=f"{canary}.pdf")
    kept = upload(documents, ada, "text Ibis", base="team:platform/shelf")
    runtime.bases.purge(BASE, Principal("ada", operator=True), typed_name="runbooks", dry_run=False)
    with pytest.raises(NotFound):
        documents.document(row.id, ada)
    for path in (runtime.home.path / "documents").rglob("*"):
        if path.is_file():
            assert canary.encode() not in path.read_bytes(), path
    documents.work_off()
    assert documents.document(kept.id, ada).state is State.READY


def test_a_base_that_is_destroyed_ends_the_worker_of_its_document_first(
    runtime: Runtime, documents: Documents, ada: Principal, tmp_path: Path
) -> None:
    begun = tmp_path / "gate.begun"
    upload(documents, ada, f"hold {tmp_path / 'gate'}")
    documents.start()
    until(lambda: begun.exists() and begun.read_text() != "")
    worker = Path("/proc") / begun.read_text()
    runtime.bases.purge(BASE, Principal("ada", operator=True), typed_name="runbooks", dry_run=False)
    assert not worker.exists()
    assert left_behind(runtime) == []


def test_a_base_is_destroyed_while_an_item_is_about_to_be_committed_to_it(
    runtime: Runtime, documents: Documents, ada: Principal
) -> None:
    row = upload(documents, ada, "text One")
    place = documents._placing.place
    purged = threading.Event()

    def place_after_purge(*arguments: Any) -> object:  # noqa: ANN401
        runtime.bases.purge(BASE, Principal("ada", operator=True), typed_name="runbooks", dry_run=False)
        purged.set()
        return place(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents._placing, "place", place_after_purge)
        documents.work_off()
    assert purged.is_set()
    with pytest.raises(NotFound):
        documents.document(row.id, ada)
    assert str(KEY) not in [str(base.key) for base in runtime.catalogue.bases()]
    assert not KEY.repository_path(runtime.home.repositories).exists()
    assert left_behind(runtime) == []


def test_an_archived_base_takes_documents_as_it_takes_items(
    runtime: Runtime, documents: Documents, ada: Principal
) -> None:
    archived = b"name: runbooks\nstatus: archived\n"
    runtime.writing.change_file(KEY, ada, "base.yaml", lambda _: archived, "Archive", Via.API)
    row = upload(documents, ada, "text One")
    documents.work_off()
    assert documents.document(row.id, ada).state is State.READY


# Bounds


def test_what_cannot_be_taken_in_is_refused_before_its_bytes_are_read(
    opened: Callable[..., Documents], ada: Principal
) -> None:
    documents = opened(document_max_mb=1, document_queue_max=2)

    def admit(name: str = "heron.pdf", size: int | None = 1) -> None:
        documents.admit(BASE, ada, name=name, folder="", replace=False, size=size)

    with pytest.raises(TooLarge) as too_large:
        admit(size=(1 << 20) + 1)
    assert too_large.value.details == {"limit": 1 << 20}
    for name in ("heron.exe", "heron", "heron.pdf.zip", "pdf"):
        with pytest.raises(InvalidRequest):
            admit(name)
    for name in ("x" * 497 + ".pdf", "\x00.pdf", "\ud800.pdf"):
        with pytest.raises(InvalidRequest):
            admit(name)
    for number in range(2):
        admit()
        upload(documents, ada, "text One", name=f"{number}.pdf")
    with pytest.raises(QueueFull):
        admit()
    documents.work_off()
    admit()


def test_a_disk_that_is_full_takes_nothing_in(opened: Callable[..., Documents], ada: Principal) -> None:
    documents = opened(disk_free_min_mb=1 << 40)
    with pytest.raises(StorageFull):
        documents.admit(BASE, ada, name="heron.pdf", folder="", replace=False, size=1)


def test_files_are_readable_by_their_owner_alone_and_named_by_nobody(
    runtime: Runtime, documents: Documents, ada: Principal
) -> None:
    row = upload(documents, ada, "text One", name="canary.pdf")
    (path,) = [Path(one) for one in left_behind(runtime)]
    assert path.name == row.id
    assert path.stat().st_mode & 0o777 == 0o600
    assert all(parent.stat().st_mode & 0o077 == 0 for parent in (path.parent, path.parent.parent))


# Following


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
