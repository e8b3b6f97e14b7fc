"""Files imported into a base: `kbgit.library.filing`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from kbgit.access import Principal, Role, Scope
from kbgit.admission import Limits
from kbgit.assemble import Runtime
from kbgit.base import BaseKey
from kbgit.errors import BaseNotFound, Forbidden, InvalidRequest
from kbgit.importing import BaseOptions
from kbgit.item import ItemStatus
from kbgit.library import Draft, FiledFile, Filing, FilingResult, SearchRequest
from kbgit.library.filing import MOST_FILES
from kbgit.ranking import Mode
from kbgit.revision import Via
from tests.library.conftest import reader_of

MIA = Principal("mia", {"team:a": Role.MEMBER})
ADA = Principal("ada", {"team:a": Role.OWNER})
VERA = reader_of("team:a", scopes=frozenset(Scope))
STRANGER = Principal("sam", {"team:b": Role.OWNER})


@pytest.fixture
def notes(runtime: Runtime) -> BaseKey:
    key = BaseKey("team:a", "notes")
    runtime.accounts.add_user("ada", "test")
    runtime.accounts.add_team("a", "ada", "test")
    runtime.bases.create(key, ADA, BaseOptions(name="Notes"))
    return key


@pytest.fixture
def file_into(runtime: Runtime, notes: BaseKey) -> Callable[..., FilingResult]:
    """Imports files as Mia, given as names with texts or bytes."""

    def file(files: dict[str, str | bytes], **options: object) -> FilingResult:
        given = [(name, text.encode() if isinstance(text, str) else text) for name, text in files.items()]
        return runtime.filing.import_files(str(notes), MIA, given, **options)  # type: ignore[arg-type]

    return file


def outcomes(result: FilingResult) -> list[str]:
    return [file.outcome.value for file in result.files]


def codes(result: FilingResult) -> list[str | None]:
    return [file.error.code if file.error else None for file in result.files]


def commits(runtime: Runtime, key: BaseKey) -> int:
    repository = runtime.indexer.repository(key)
    counted = subprocess.run(
        ["git", "-C", str(repository.path), "rev-list", "--count", "main"], capture_output=True, check=True
    )
    return int(counted.stdout)


def text_of(runtime: Runtime, key: BaseKey, path: str) -> str:
    item = runtime.catalogue.items_at(str(key), [path])[0]
    return runtime.indexer.repository(key).blob(item.blob).decode()


def edit(runtime: Runtime, file: FiledFile, draft: Draft) -> None:
    assert file.item is not None
    item = runtime.catalogue.item("team:a/notes", file.item.item_id)
    assert item is not None
    runtime.writing.update(item.item_id, MIA, draft, base=None, expected_revision=item.revision, via=Via.WEB)


def test_files_become_items_in_one_commit(
    runtime: Runtime, notes: BaseKey, file_into: Callable[..., FilingResult]
) -> None:
    before = commits(runtime, notes)
    result = file_into({"src/run.py": "print('```')\n", "Notes.md": "---\ntags: [a]\n---\n# N\n", "t.txt": "Words.\n"})
    assert commits(runtime, notes) == before + 1
    assert result.as_json()["counts"] == {"created": 3, "updated": 0, "unchanged": 0, "refused": 0}
    assert [file.locator for file in result.files] == ["src/run.py.md", "Notes.md", "t.txt.md"]
    code, page, words = (file.item for file in result.files)
    assert code is not None
    assert page is not None
    assert words is not None
    assert (code.item_id, code.title, code.status) == ("notes/src/run.py", "run.py", ItemStatus.DRAFT)
    assert (page.title, page.tags, words.title) == ("N", ("a",), "t.txt")
    source = code.metadata["source"]
    assert isinstance(source, dict)
    assert (source["name"], source["media_type"], source["size"]) == ("src/run.py", "text/x-python", "13")
    assert code.metadata["source_type"] == "file"
    assert result.head == code.revision
    read = runtime.library.read(code.item_id, MIA, revision=code.revision)
    assert read.content == "~~~python\nprint('```')\n~~~\n"
    assert read.provenance.via is Via.IMPORT


def test_what_is_published_is_found(runtime: Runtime, file_into: Callable[..., FilingResult]) -> None:
    file_into({"a.py": "zygote = 1\n", "own.md": "---\nstatus: draft\n---\nzygote\n"}, status=ItemStatus.PUBLISHED)
    runtime.indexer.sweep()
    found = runtime.library.search(SearchRequest(query="zygote", mode=Mode.LEXICAL), MIA).results
    assert [result.item_id for result in found] == ["notes/a.py"]


def test_the_same_files_again_change_nothing(
    runtime: Runtime, notes: BaseKey, file_into: Callable[..., FilingResult]
) -> None:
    files: dict[str, str | bytes] = {
        "a.py": "1\n",
        "b.md": "# B\r\n",
        "c.csv": "a,b\n",
        "d.txt": "Grüße\n".encode("cp1252"),
    }
    first = file_into(files)
    before = commits(runtime, notes)
    again = file_into(files)
    assert outcomes(again) == ["unchanged"] * 4
    assert commits(runtime, notes) == before
    assert [file.item for file in again.files] == [file.item for file in first.files]
    assert again.head == first.head
    edit(runtime, first.files[0], Draft(content="mine\n"))
    assert outcomes(file_into(files)) == ["unchanged"] * 4


def test_only_what_changed_is_changed(runtime: Runtime, notes: BaseKey, file_into: Callable[..., FilingResult]) -> None:
    file_into({"a.py": "1\n", "b.py": "2\n"})
    before = text_of(runtime, notes, "b.py.md")
    assert outcomes(file_into({"a.py": "3\n", "b.py": "2\n"})) == ["updated", "unchanged"]
    assert "\n3\n" in text_of(runtime, notes, "a.py.md")
    assert text_of(runtime, notes, "b.py.md") == before


def test_a_changed_file_keeps_what_people_said_about_its_item(
    runtime: Runtime, notes: BaseKey, file_into: Callable[..., FilingResult]
) -> None:
    first = file_into({"a.py": "1\n"})
    edit(runtime, first.files[0], Draft(tags=["x"], title="Mine", status=ItemStatus.PUBLISHED))
    again = file_into({"a.py": "2\n"})
    item = again.files[0].item
    assert item is not None
    assert outcomes(again) == ["updated"]
    assert (item.tags, item.title, item.status) == (("x",), "Mine", ItemStatus.PUBLISHED)
    assert "\n2\n" in text_of(runtime, notes, "a.py.md")


def test_front_matter_is_merged_field_by_field(
    runtime: Runtime, notes: BaseKey, file_into: Callable[..., FilingResult]
) -> None:
    first = file_into({"a.md": "---\ntitle: One\ntags: [a]\nowner: kim\nold: x\n---\nbody\n"})
    edit(runtime, first.files[0], Draft(tags=["mine"], metadata={"more": "y"}))
    again = file_into({"a.md": "---\ntitle: Two\ntags: [b]\nowner: kim\nnew: [1, 2]\ndeep: [[a]]\n---\nbody 2\n"})
    item = again.files[0].item
    assert item is not None
    assert (item.title, item.tags) == ("Two", ("mine",))
    assert (item.metadata["owner"], item.metadata["more"], item.metadata["new"]) == ("kim", "y", ["1", "2"])
    assert "old" not in item.metadata
    assert any("`tags` was changed here" in note for note in again.files[0].notes)
    assert any("`deep`" in note for note in again.files[0].notes)


def test_an_edited_text_is_a_conflict_unless_it_is_to_be_replaced(
    runtime: Runtime, notes: BaseKey, file_into: Callable[..., FilingResult]
) -> None:
    first = file_into({"a.py": "1\n", "b.py": "1\n"})
    edit(runtime, first.files[0], Draft(content="mine\n"))
    again = file_into({"a.py": "2\n", "b.py": "2\n"})
    assert (outcomes(again), codes(again)) == (["refused", "updated"], ["conflict", None])
    assert "mine" in text_of(runtime, notes, "a.py.md")
    assert outcomes(file_into({"a.py": "2\n"}, replace=True)) == ["updated"]
    assert "mine" not in text_of(runtime, notes, "a.py.md")
    assert outcomes(file_into({"a.py": "3\n"})) == ["updated"]


def test_an_item_that_no_import_made_is_not_overwritten(
    runtime: Runtime, notes: BaseKey, file_into: Callable[..., FilingResult]
) -> None:
    draft = Draft(title="Mine", content="by hand\n", tags=["x"])
    runtime.writing.create(str(notes), MIA, draft, locator="a.md", item_id="own-id", via=Via.WEB)
    refused = file_into({"a.md": "# File\n", "b.md": "# B\n"})
    assert (outcomes(refused), codes(refused)) == (["refused", "created"], ["already_exists", None])
    replaced = file_into({"a.md": "---\ntitle: File\nowner: kim\n---\nfrom file\n"}, replace=True)
    item = replaced.files[0].item
    assert item is not None
    assert (item.item_id, item.title, item.tags, item.metadata["owner"]) == ("own-id", "Mine", ("x",), "kim")
    assert text_of(runtime, notes, "a.md").endswith("from file\n")


def test_two_originals_of_one_place_do_not_overwrite_each_other(file_into: Callable[..., FilingResult]) -> None:
    result = file_into({"a?b.txt": "1\n", "a*b.txt": "2\n", "x.md": "1\n", "x.markdown": "2\n"})
    assert outcomes(result) == ["created", "refused", "created", "refused"]
    assert codes(file_into({"a*b.txt": "2\n"})) == ["already_exists"]


def test_a_bad_file_stops_no_other(runtime: Runtime, notes: BaseKey, file_into: Callable[..., FilingResult]) -> None:
    most = runtime.home.limits.item_bytes
    given: dict[str, tuple[str | bytes, str | None]] = {
        "good.py": ("1\n", None),
        "bad.md": ("---\nx: 1\ntitle: a: b\n---\n", "document_problem"),
        "program.py": (b"\x7fELF" + bytes(50), "unsupported_file"),
        "a.exe": (b"", "unsupported_file"),
        "large.txt": ("x" * (most + 1), "too_large"),
        "huge.txt": ("x" * (5 * most), "too_large"),
        "GOOD.py": ("2\n", "already_exists"),
        "twice.md": ("---\nid: one\n---\n", None),
        "other.md": ("---\nid: ONE\n---\n", "conflict"),
        "good.py.md/x.txt": ("under a file\n", "already_exists"),
        "status.md": ("---\nstatus: live\n---\n", "document_problem"),
        "merge.md": ("<<<<<<< a\n=======\n>>>>>>> b\n", "document_problem"),
        "../../etc/x.txt": ("goes nowhere else\n", None),
        "C:\\a\\con.txt": ("reserved\n", None),
        "bi\u202edi\x00.txt": ("name\n", None),
        "last.yaml": ("a: 1\n", None),
    }
    result = file_into({name: content for name, (content, _) in given.items()})
    assert dict(zip(given, codes(result), strict=True)) == {name: code for name, (_, code) in given.items()}
    assert result.files[1].error is not None
    assert result.files[1].error.details["line"] == 3
    assert {file.locator for file in result.files if file.item} == {
        *("good.py.md", "twice.md", "etc/x.txt.md", "last.yaml.md"),
        *(file.locator for file in result.files if file.name.startswith(("C:", "bi"))),
    }
    assert commits(runtime, notes) == 2
    assert outcomes(file_into({name: content for name, (content, _) in given.items()})).count("unchanged") == 6


def test_what_is_taken_in_the_base_is_refused_for_itself(
    runtime: Runtime, notes: BaseKey, file_into: Callable[..., FilingResult]
) -> None:
    runtime.writing.create(str(notes), MIA, Draft(title="x"), locator="Docs/x.md", item_id="taken", via=Via.API)
    result = file_into({"docs/y.txt": "1\n", "z.md": "---\nid: TAKEN\n---\n", "w.txt": "w\n"})
    assert codes(result) == ["already_exists", "conflict", None]


def test_what_the_gate_refuses_is_refused_for_itself(runtime: Runtime, notes: BaseKey) -> None:
    generous = Filing(runtime.catalogue, runtime.indexer, runtime.writing, Limits(item_bytes=1 << 30))
    large = b"x" * (runtime.home.limits.item_bytes + 1)
    result = generous.import_files(str(notes), MIA, [("a.txt", large), ("b.txt", b"b"), ("c.txt", large)])
    assert codes(result) == ["push_refused", None, "push_refused"]
    assert result.files[0].error is not None
    assert [problem["code"] for problem in result.files[0].error.details["problems"]] == ["too_large"]
    assert [item.path for item in runtime.catalogue.items(str(notes))] == ["b.txt.md"]


def test_folder_and_subdir_say_where_files_go(
    runtime: Runtime, notes: BaseKey, file_into: Callable[..., FilingResult]
) -> None:
    assert file_into({"a.py": "1\n"}, folder="src/../lib").files[0].locator == "src/lib/a.py.md"
    runtime.bases.update(str(notes), ADA, BaseOptions(subdir="docs"), Via.API)
    filed = file_into({"a.py": "1\n"}, folder="lib").files[0]
    assert (filed.locator, filed.outcome.value) == ("docs/lib/a.py.md", "created")
    assert filed.item is not None


def test_a_dry_run_writes_nothing(runtime: Runtime, notes: BaseKey, file_into: Callable[..., FilingResult]) -> None:
    file_into({"a.py": "1\n"})
    before = commits(runtime, notes)
    result = file_into({"a.py": "2\n", "b.py": "1\n", "c.exe": ""}, dry_run=True)
    assert (outcomes(result), result.dry_run) == (["updated", "created", "refused"], True)
    assert commits(runtime, notes) == before
    assert result.files[1].as_json()["reference"] is None


def test_publishing_is_no_side_effect_of_an_import_again(file_into: Callable[..., FilingResult]) -> None:
    file_into({"a.py": "1\n", "b.py": "1\n"})
    again = file_into({"a.py": "1\n", "b.py": "2\n"}, status=ItemStatus.PUBLISHED)
    for file in again.files:
        assert file.item is not None
        assert file.item.status is ItemStatus.DRAFT
        assert any("publish it by itself" in note for note in file.notes)


def test_an_item_that_was_removed_comes_back(runtime: Runtime, file_into: Callable[..., FilingResult]) -> None:
    file_into({"a.py": "1\n"})
    runtime.writing.delete("notes/a.py", ADA, base=None, expected_revision=None, via=Via.API)
    assert outcomes(file_into({"a.py": "1\n"})) == ["created"]
    assert outcomes(file_into({"a.py": "2\n"})) == ["updated"]


def test_nothing_at_all_is_no_commit(runtime: Runtime, notes: BaseKey) -> None:
    key = BaseKey("team:a", "empty")
    runtime.bases.create(key, ADA, BaseOptions())
    assert runtime.filing.import_files(str(key), MIA, []).head is None
    filed = runtime.filing.import_files(str(key), MIA, [("a.py", b"1\n")])
    assert outcomes(filed) == ["created"]


def test_only_writers_import_and_for_others_there_is_no_base(runtime: Runtime, notes: BaseKey) -> None:
    files = [("a.py", b"1\n")]
    with pytest.raises(Forbidden):
        runtime.filing.import_files(str(notes), VERA, files)
    with pytest.raises(BaseNotFound):
        runtime.filing.import_files(str(notes), STRANGER, files)
    with pytest.raises(InvalidRequest):
        runtime.filing.import_files(str(notes), MIA, files * (MOST_FILES + 1))
    assert runtime.catalogue.items(str(notes)) == []
