"""Who may upload and see documents, and how much is taken in."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kbgit.access import Principal, Role, Scope
from kbgit.assemble import Runtime
from kbgit.documents.contract import Reason, State
from kbgit.documents.service import Documents
from kbgit.errors import (
    BaseNotFound,
    Forbidden,
    InvalidRequest,
    NotFound,
    QueueFull,
    StorageFull,
    TooLarge,
)
from kbgit.revision import Via
from tests.documents.queueing import KEY, commits, left_behind, upload
from tests.web.serving import until

BASE = str(KEY)


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
