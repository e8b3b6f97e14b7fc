"""Writing through the library: one commit each, nothing lost, nothing else touched."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable

import pytest

from kbgit.access import Principal, Role, Scope
from kbgit.assemble import Runtime
from kbgit.base import BaseKey, BaseStatus
from kbgit.errors import (
    AlreadyExists,
    BaseArchived,
    BaseNotFound,
    DocumentProblem,
    Forbidden,
    InvalidRequest,
    ItemDeleted,
    ItemNotFound,
    PushRefused,
    SpaceNotFound,
    StaleRevision,
)
from kbgit.importing import BaseOptions
from kbgit.item import ItemStatus
from kbgit.library import Draft, SearchRequest
from kbgit.ranking import Mode
from kbgit.revision import Via
from tests.library.conftest import reader_of
from tests.writing import text

ADA = Principal("ada", {"team:a": Role.OWNER})
MIA = Principal("mia", {"team:a": Role.MEMBER})
VERA = reader_of("team:a", scopes=frozenset(Scope))
STRANGER = Principal("sam", {"team:b": Role.OWNER})


@pytest.fixture
def notes(imported: Callable[..., BaseKey]) -> BaseKey:
    """A base with one published item, whose header has its own style."""
    header = "---\n# ours\ntitle: 'One'   # keep\nid: one\nstatus: published\ntags: [a,  b]\n---\nfirst\n"
    return imported({"one.md": header, "two.md": text("Two", id="two")}, space="team:a")


def revision_of(runtime: Runtime, item: str) -> str:
    revision = runtime.library.read(item, ADA).citation.revision
    assert revision is not None
    return revision


def found(runtime: Runtime, query: str, caller: Principal = ADA) -> list[str]:
    runtime.indexer.sweep()
    request = SearchRequest(query=query, mode=Mode.LEXICAL)
    return [result.item_id for result in runtime.library.search(request, caller).results]


def test_an_item_is_created_as_a_draft_and_published_by_one_line(runtime: Runtime, notes: BaseKey) -> None:
    draft = Draft(title="Release: plan", content="# Plan\n\nheron\n", tags=["x"], metadata={"owner": "platform"})
    made = runtime.writing.create(str(notes), MIA, draft, locator=None, item_id="plan", via=Via.API)
    assert (made.status, made.locator) == (ItemStatus.DRAFT, "release-plan.md")
    assert not found(runtime, "heron")
    published = runtime.writing.set_status(
        "plan", MIA, ItemStatus.PUBLISHED, base=None, expected_revision=None, via=Via.API
    )
    assert found(runtime, "heron") == ["plan"]
    repository = runtime.home.repository(notes)
    assert published.citation is not None
    revision = str(published.citation.revision)
    changed = repository.git.run("diff-tree", "--numstat", "-r", f"{revision}^", revision)
    assert changed.decode().split()[:2] == ["1", "1"]
    view = runtime.library.read("plan", VERA)
    assert (view.title, view.metadata, view.content) == ("Release: plan", {"owner": "platform"}, "# Plan\n\nheron\n")
    assert (view.provenance.pushed_by, view.provenance.via) == ("mia", Via.API)


def test_an_update_changes_only_the_bytes_it_means_to_change(runtime: Runtime, notes: BaseKey) -> None:
    before = runtime.home.repository(notes)
    old = revision_of(runtime, "one")
    done = runtime.writing.update("one", MIA, Draft(title="Uno"), base=None, expected_revision=old, via=Via.API)
    assert done.citation is not None
    shown = before.git.run("show", f"{done.citation.revision}:one.md").decode()
    assert shown == "---\n# ours\ntitle: 'Uno'   # keep\nid: one\nstatus: published\ntags: [a,  b]\n---\nfirst\n"
    assert done.receipt.as_json()["published"][0]["citation"] == str(done.citation)


def test_a_stale_update_is_refused_with_the_difference_and_nothing_is_lost(runtime: Runtime, notes: BaseKey) -> None:
    old = revision_of(runtime, "one")
    runtime.writing.update("one", MIA, Draft(content="second\n"), base=None, expected_revision=old, via=Via.API)
    with pytest.raises(StaleRevision) as refusal:
        runtime.writing.update("one", ADA, Draft(content="third\n"), base=None, expected_revision=old, via=Via.API)
    assert "-first\n+second\n" in refusal.value.details["diff"]
    assert refusal.value.details["current"] == revision_of(runtime, "one")
    assert runtime.library.read("one", ADA).content == "second\n"


def test_saving_what_is_there_makes_no_commit(runtime: Runtime, notes: BaseKey) -> None:
    old = revision_of(runtime, "one")
    same = runtime.writing.update("one", MIA, Draft(title="One"), base=None, expected_revision=old, via=Via.API)
    assert same.citation is not None
    assert same.citation.revision == old
    assert runtime.catalogue.commit_count(str(notes)) == 1


def test_a_change_of_another_item_in_between_is_no_conflict(runtime: Runtime, notes: BaseKey) -> None:
    old = revision_of(runtime, "one")
    other = revision_of(runtime, "two")
    runtime.writing.update("two", MIA, Draft(content="x\n"), base=None, expected_revision=other, via=Via.API)
    runtime.writing.update("one", MIA, Draft(content="y\n"), base=None, expected_revision=old, via=Via.API)
    assert runtime.library.read("two", ADA).content == "x\n"
    assert runtime.library.read("one", ADA).content == "y\n"


def test_what_would_be_no_item_is_refused_and_leaves_the_branch_alone(runtime: Runtime, notes: BaseKey) -> None:
    head = runtime.home.repository(notes).head()
    for refusal, draft, locator, item_id in (
        (PushRefused, Draft(title="X"), None, "one"),
        (AlreadyExists, Draft(title="X"), "one.md", None),
        (InvalidRequest, Draft(title="X"), "../out.md", None),
        (InvalidRequest, Draft(title="X"), "/etc/passwd.md", None),
        (InvalidRequest, Draft(title="X"), ".git/x.md", None),
        (InvalidRequest, Draft(title="X"), "a\\b.md", None),
        (InvalidRequest, Draft(title="X"), "x.txt", None),
        (InvalidRequest, Draft(title="!!!"), None, None),
        (InvalidRequest, Draft(title="X", metadata={"id": "y"}), None, None),
        (DocumentProblem, Draft(title="X"), None, "no/slash"),
        (DocumentProblem, Draft(title="X", content="a\x00b"), None, None),
    ):
        with pytest.raises(refusal):
            runtime.writing.create(str(notes), MIA, draft, locator=locator, item_id=item_id, via=Via.API)
    assert runtime.home.repository(notes).head() == head


def test_whoever_may_not_write_is_told_the_rule_and_whoever_may_not_see_is_told_nothing(
    runtime: Runtime, notes: BaseKey
) -> None:
    old = revision_of(runtime, "one")
    with pytest.raises(Forbidden) as refusal:
        runtime.writing.update("one", VERA, Draft(title="X"), base=None, expected_revision=old, via=Via.API)
    assert "viewer" in refusal.value.details["rule"]
    with pytest.raises(ItemNotFound):
        runtime.writing.update("one", STRANGER, Draft(title="X"), base=None, expected_revision=old, via=Via.API)
    with pytest.raises(BaseNotFound):
        runtime.writing.create(str(notes), STRANGER, Draft(title="X"), locator=None, item_id=None, via=Via.API)
    with pytest.raises(Forbidden):
        runtime.writing.delete("one", MIA, base=None, expected_revision=old, via=Via.API)


def test_archiving_and_restoring_an_item_takes_it_out_of_search_and_brings_it_back(
    runtime: Runtime, notes: BaseKey
) -> None:
    for status, expected in ((ItemStatus.ARCHIVED, []), (ItemStatus.PUBLISHED, ["one"])):
        runtime.writing.set_status("one", MIA, status, base=None, expected_revision=None, via=Via.API)
        assert found(runtime, "first") == expected


def test_a_deleted_items_citations_still_resolve(runtime: Runtime, notes: BaseKey) -> None:
    pin = runtime.library.read("one", ADA).citation
    runtime.writing.delete("one", ADA, base=None, expected_revision=pin.revision, via=Via.API)
    with pytest.raises(ItemDeleted):
        runtime.library.read("one", ADA)
    assert runtime.library.resolve(str(pin), VERA).content == "first\n"


def test_of_concurrent_writers_every_acknowledged_change_is_in_history_once(runtime: Runtime, notes: BaseKey) -> None:
    done: list[str] = []
    told: list[str] = []

    def write(number: int) -> None:
        for _ in range(3):
            old = runtime.library.read("one", ADA).citation.revision
            assert old is not None
            try:
                draft = Draft(content=f"writer {number}\n" + old)
                result = runtime.writing.update("one", MIA, draft, base=None, expected_revision=old, via=Via.API)
            except StaleRevision as loser:
                told.append(str(loser.details["current"]))
            else:
                assert result.citation is not None
                done.append(str(result.citation.revision))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) + len(told) == 18
    history = runtime.library.revisions("one", ADA, limit=100).revisions
    assert sorted(done) == sorted(r.citation.revision for r in history if r.number > 1 and r.citation.revision)


# Bases


def test_a_base_is_created_changed_archived_and_restored(runtime: Runtime) -> None:
    accounts = runtime.accounts
    for user in ("ada", "mia"):
        accounts.add_user(user, "test")
    accounts.add_team("a", "ada", "test")
    key = BaseKey("team:a", "guides")
    made = runtime.bases.create(key, ADA, BaseOptions(name="Guides", default_status=ItemStatus.PUBLISHED))
    assert (made.settings.name, made.settings.default_status) == ("Guides", ItemStatus.PUBLISHED)
    runtime.writing.create(
        str(key), ADA, Draft(title="Heron", status=ItemStatus.PUBLISHED), locator=None, item_id=None, via=Via.API
    )
    pin = runtime.library.read("guides/heron", ADA).citation
    runtime.bases.set_status(str(key), ADA, BaseStatus.ARCHIVED, Via.API)
    assert not found(runtime, "heron")
    with pytest.raises(BaseArchived):
        runtime.library.read("guides/heron", ADA)
    assert runtime.library.resolve(str(pin), ADA).base.settings.status is BaseStatus.ARCHIVED
    runtime.bases.set_status(str(key), ADA, BaseStatus.ACTIVE, Via.API)
    assert found(runtime, "heron") == ["guides/heron"]
    assert runtime.library.base(str(key), ADA).row.settings.name == "Guides"
    for caller, refusal in ((MIA, Forbidden), (STRANGER, BaseNotFound)):
        with pytest.raises(refusal):
            runtime.bases.set_status(str(key), caller, BaseStatus.ARCHIVED, Via.API)
    with pytest.raises(SpaceNotFound):
        runtime.bases.create(BaseKey("team:a", "other"), STRANGER, BaseOptions())


def test_a_purged_base_leaves_no_byte_and_others_are_as_before(
    runtime: Runtime, imported: Callable[..., BaseKey]
) -> None:
    canary = "zanzibarcanary"
    doomed = imported(
        {f"{canary}.md": text(f"The {canary}", tags=f"[{canary}]", body=f"{canary} words\n")}, "doomed", "team:a"
    )
    imported({"a.md": text("Other", body="words\n")}, "kept", "team:a")
    pin = runtime.library.read("kept/a", ADA).citation
    preview = runtime.bases.purge(str(doomed), ADA, typed_name="", dry_run=True)
    assert (preview.items, preview.commits, preview.done) == (1, 1, False)
    assert found(runtime, canary)
    with pytest.raises(InvalidRequest):
        runtime.bases.purge(str(doomed), ADA, typed_name="doom", dry_run=False)
    runtime.bases.purge(str(doomed), ADA, typed_name="doomed", dry_run=False)
    assert not found(runtime, canary)
    assert runtime.library.resolve(str(pin), ADA).title == "Other"
    assert found(runtime, "words") == ["kept/a"]
    # In a child process: reading a live SQLite file here would drop this process's locks on it.
    home = str(runtime.home.path)
    assert subprocess.run(["grep", "-rlaF", canary, home], capture_output=True, check=False).stdout == b""
    assert not [path for path in runtime.home.path.rglob("*") if canary in path.name]
    for key in runtime.home.base_keys():  # Git's objects are compressed: look into each
        objects = runtime.home.repository(key).git.run("cat-file", "--batch-all-objects", "--batch")
        assert objects
        assert canary.encode() not in objects


def test_an_exported_base_is_imported_with_its_history_and_its_provenance(
    runtime: Runtime, notes: BaseKey, tmp_path: object
) -> None:
    bundle = b"".join(runtime.bases.export(str(notes), ADA))
    assert bundle.startswith(b"# v2 git bundle")
    with pytest.raises(Forbidden):
        runtime.bases.export(str(notes), MIA).__next__()


# The whole text


def raw_of(runtime: Runtime, key: BaseKey, path: str) -> bytes:
    return runtime.home.repository(key).git.run("cat-file", "blob", f"HEAD:{path}")


def test_a_text_is_stored_as_it_was_typed_and_unchanged_text_makes_no_revision(
    runtime: Runtime, notes: BaseKey
) -> None:
    before = runtime.writing.text_of("one", MIA, base=str(notes))
    assert before.text.startswith("---\n# ours\ntitle: 'One'   # keep\n")
    typed = before.text.replace("first\n", "second  \n\n  third\t") + "no newline at the end"
    changed = runtime.writing.replace_text(
        "one", MIA, typed, base=str(notes), expected_revision=before.revision, via=Via.WEB
    )
    assert raw_of(runtime, notes, "one.md") == typed.encode()
    assert changed.citation is not None
    assert runtime.library.read("one", MIA).provenance.via is Via.WEB
    again = runtime.writing.replace_text(
        "one", MIA, typed, base=None, expected_revision=str(changed.citation.revision), via=Via.WEB
    )
    assert again.citation == changed.citation


@pytest.mark.parametrize("manner", [b"%s", b"\xef\xbb\xbf%s"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_browsers_line_ends_change_no_other_line_of_the_file(
    runtime: Runtime, notes: BaseKey, manner: bytes, end: bytes
) -> None:
    raw = manner % b"---\nid: one\ntitle: One\n---\nfirst\nlast\n".replace(b"\n", end)
    runtime.writing.change_file(notes, ADA, "one.md", lambda _: raw, "Store", Via.API)
    now = runtime.writing.text_of("one", MIA, base=None)
    assert now.text == "---\nid: one\ntitle: One\n---\nfirst\nlast\n"
    typed = now.text.replace("last", "new").replace("\n", "\r\n")
    runtime.writing.replace_text("one", MIA, typed, base=None, expected_revision=now.revision, via=Via.WEB)
    assert raw_of(runtime, notes, "one.md") == raw.replace(b"last", b"new")


def test_a_text_that_is_no_item_is_refused_with_its_line_and_nothing_changes(runtime: Runtime, notes: BaseKey) -> None:
    before = runtime.writing.text_of("one", MIA, base=None)
    for text_, line in (("---\ntitle: a: b\n---\n", 2), ("---\nid: one\nstatus: nonsense\n---\n", 3), ("\ud800", 1)):
        with pytest.raises(DocumentProblem) as refused:
            runtime.writing.replace_text("one", MIA, text_, base=None, expected_revision=before.revision, via=Via.WEB)
        assert refused.value.line == line
    assert runtime.writing.text_of("one", MIA, base=None) == before


def test_a_text_replaces_only_the_revision_it_was_made_from(runtime: Runtime, notes: BaseKey) -> None:
    before = runtime.writing.text_of("one", MIA, base=None)
    runtime.writing.update(
        "one", ADA, Draft(content="theirs\n"), base=None, expected_revision=before.revision, via=Via.API
    )
    with pytest.raises(StaleRevision) as stale:
        runtime.writing.replace_text(
            "one", MIA, before.text + "mine", base=None, expected_revision=before.revision, via=Via.WEB
        )
    assert "+theirs" in stale.value.details["diff"]
    assert "theirs" in runtime.writing.text_of("one", MIA, base=None).text


def test_a_new_item_is_made_from_a_whole_text_at_the_path_its_title_gives(runtime: Runtime, notes: BaseKey) -> None:
    made = runtime.writing.create_text(
        str(notes), MIA, "---\r\ntitle: New Thing\r\n---\r\nbody", locator=None, via=Via.WEB
    )
    assert (made.locator, made.status) == ("new-thing.md", ItemStatus.DRAFT)
    assert raw_of(runtime, notes, "new-thing.md") == b"---\ntitle: New Thing\n---\nbody"
    with pytest.raises(AlreadyExists):
        runtime.writing.create_text(str(notes), MIA, "# New thing", locator=None, via=Via.WEB)
    with pytest.raises(InvalidRequest):
        runtime.writing.create_text(str(notes), MIA, "no title", locator=None, via=Via.WEB)


def test_only_writers_get_and_give_whole_texts(runtime: Runtime, notes: BaseKey) -> None:
    for caller, error in ((VERA, Forbidden), (STRANGER, ItemNotFound)):
        with pytest.raises(error):
            runtime.writing.text_of("one", caller, base=None)
        with pytest.raises(error):
            runtime.writing.replace_text("one", caller, "x", base=None, expected_revision="none", via=Via.WEB)
    for caller, error_ in ((VERA, Forbidden), (STRANGER, BaseNotFound)):
        with pytest.raises(error_):
            runtime.writing.create_text(str(notes), caller, "# x", locator=None, via=Via.WEB)
