from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kbgit.errors import HomeProblem, TooLarge
from kbgit.memory import MemoryKind, MemoryLimits, MemoryRecord, NewRecord, ProjectKey
from kbgit.memory.files import MOST_DOCUMENTS, ProjectFiles, Stamp, projects_in, spaces_in
from kbgit.memory.records import new_record
from tests.memory.conftest import ADA, START, Memory, Opener

KEY = ProjectKey("personal:ada", "harbour")


def made(text: str = "A text.") -> MemoryRecord:
    return new_record(NewRecord("harbour", text), "ada", START, MemoryLimits())


@pytest.fixture
def files(tmp_path: Path) -> ProjectFiles:
    return ProjectFiles(tmp_path / "memory", KEY)


def test_files_are_plain_markdown_in_private_directories(memory: Memory) -> None:
    record = memory.store.remember(NewRecord("harbour", "Ask ben.\n", title="Deploys"), ADA)
    path = memory.directory / "~ada" / "harbour" / f"{record.id}.md"
    assert path.read_text().startswith(f"---\nid: {record.id}\nkind: knowledge\ntitle: Deploys\nauthor: ada\n")
    assert path.read_text().endswith("\n---\nAsk ben.\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for directory in (memory.directory, path.parent.parent, path.parent):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_what_another_process_wrote_removed_or_edited_is_seen_at_once(open_memory: Opener) -> None:
    here, there = open_memory(), open_memory()
    record = here.store.remember(NewRecord("harbour", "One harbour."), ADA)
    assert [one.id for one in there.store.records(ADA).records] == [record.id]
    path = here.directory / "~ada" / "harbour" / f"{record.id}.md"
    path.write_text(path.read_text().replace("One harbour.", "Two lighthouses."))
    assert here.store.get(record.id, ADA).text == "Two lighthouses."
    assert [hit.record.id for hit in here.store.search("lighthouses", ADA).hits] == [record.id]
    assert not here.store.search("harbour.", ADA).hits
    there.store.forget(record.id, ADA)
    assert not here.store.records(ADA).records
    assert not here.store.search("lighthouses", ADA).hits


def damage_text(path: Path) -> None:
    path.write_bytes(b"---\nid: [\n---\n\xff")


def damage_kind(path: Path) -> None:
    path.unlink()
    path.mkdir()


def damage_link(path: Path) -> None:
    target = path.with_suffix(".txt")
    path.rename(target)
    path.symlink_to(target)


def damage_size(path: Path) -> None:
    path.write_bytes(b"x" * (5 << 20))


@pytest.mark.parametrize("damage", [damage_text, damage_kind, damage_link, damage_size])
def test_an_unreadable_file_is_reported_and_spoils_no_other(memory: Memory, damage: Callable[[Path], None]) -> None:
    spoiled = memory.store.remember(NewRecord("harbour", "One."), ADA)
    sound = memory.store.remember(NewRecord("harbour", "Two."), ADA)
    damage(memory.directory / "~ada" / "harbour" / f"{spoiled.id}.md")
    page = memory.store.records(ADA)
    assert [record.id for record in page.records] == [sound.id]
    assert [problem.file for problem in page.problems] == [f"{spoiled.id}.md"]
    assert [problem.file for problem in memory.store.search("two", ADA).problems] == [f"{spoiled.id}.md"]
    assert [hit.record.id for hit in memory.store.search("one two", ADA).hits] == [sound.id]
    assert [problem.file for problem in memory.store.export(ADA).problems] == [f"{spoiled.id}.md"]
    assert memory.store.projects(ADA)[0].as_json()["problems"][0]["file"] == f"{spoiled.id}.md"


def test_a_record_that_is_forgotten_while_its_project_is_read_is_no_problem(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = memory.store.remember(NewRecord("harbour", "One."), ADA)
    kept = memory.store.remember(NewRecord("harbour", "Two."), ADA)
    listing = ProjectFiles._listing

    def and_then_forgotten(files: ProjectFiles) -> Iterator[tuple[str, Stamp]]:
        found = [(name, (0, 0, 0, 0)) for name, _ in listing(files)]  # as if each were new
        (files.path / f"{gone.id}.md").unlink(missing_ok=True)
        yield from found

    monkeypatch.setattr(ProjectFiles, "_listing", and_then_forgotten)
    page = memory.store.records(ADA)
    assert [record.id for record in page.records] == [kept.id]
    assert page.problems == []


def test_what_cannot_be_read_is_not_kept_open(memory: Memory) -> None:
    record = memory.store.remember(NewRecord("harbour", "One."), ADA)
    damage_kind(memory.directory / "~ada" / "harbour" / f"{record.id}.md")
    memory.store.records(ADA)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        assert memory.store.records(ADA).problems
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_markdown_file_under_a_foreign_name_is_reported(memory: Memory) -> None:
    record = memory.store.remember(NewRecord("harbour", "One."), ADA)
    directory = memory.directory / "~ada" / "harbour"
    (directory / "mem_copy.md").write_bytes((directory / f"{record.id}.md").read_bytes())
    page = memory.store.records(ADA)
    assert [one.id for one in page.records] == [record.id]
    assert [problem.file for problem in page.problems] == ["mem_copy.md"]


def test_a_project_that_cannot_be_listed_is_reported_not_empty(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.store.remember(NewRecord("closed", "One."), ADA)
    kept = memory.store.remember(NewRecord("open", "One."), ADA)
    scandir = os.scandir

    def refusing(path: Path) -> object:  # a permission cannot be taken from tests that run as root
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    page = memory.store.records(ADA)
    assert [record.id for record in page.records] == [kept.id]
    assert [(problem.project.slug, problem.file) for problem in page.problems] == [("closed", "")]
    assert [hit.record.id for hit in memory.store.search("one", ADA).hits] == [kept.id]
    brief = memory.store.remember(NewRecord("open", "For now.", MemoryKind.WORKING), ADA)
    memory.clock.now += 15 * 86_400
    memory.store.sweep()  # goes on with the others
    assert f"~ada/open/{brief.id}.md" not in memory.files


def test_no_link_is_followed_to_a_project(memory: Memory) -> None:
    memory.store.remember(NewRecord("harbour", "One."), ADA)
    directory = memory.directory / "~ada" / "harbour"
    directory.with_name("linked").symlink_to(directory)
    assert [view.key.slug for view in memory.store.projects(ADA)] == ["harbour"]
    with pytest.raises(HomeProblem):
        memory.store.remember(NewRecord("linked", "x"), ADA)


def test_directories_that_kbgit_did_not_make_are_left_alone(memory: Memory) -> None:
    memory.store.remember(NewRecord("harbour", "One."), ADA)
    (memory.directory / "Lost & Found").mkdir()
    (memory.directory / "~ada" / "UPPER").mkdir()
    assert list(spaces_in(memory.directory)) == ["personal:ada"]
    assert list(projects_in(memory.directory, "personal:ada")) == [KEY]
    assert len(memory.store.records(ADA).records) == 1


def test_what_a_crash_left_is_never_read_and_is_swept(memory: Memory) -> None:
    record = memory.store.remember(NewRecord("harbour", "One."), ADA)
    directory = memory.directory / "~ada" / "harbour"
    (directory / ".writing-0123456789abcdef").write_bytes((directory / f"{record.id}.md").read_bytes()[:40])
    page = memory.store.records(ADA)
    assert ([one.id for one in page.records], list(page.problems)) == ([record.id], [])
    memory.store.sweep()
    assert memory.files == [f"~ada/harbour/{record.id}.md"]


def test_a_sweep_does_not_take_a_file_that_is_being_written(files: ProjectFiles) -> None:
    record, swept = made(), threading.Event()

    def sweep() -> None:
        with ProjectFiles(files.path.parent.parent, KEY).changing():
            files.sweep()
        swept.set()

    with files.changing():
        temporary = files.path / ".writing-mine"
        temporary.write_bytes(b"half")
        thread = threading.Thread(target=sweep)
        thread.start()
        assert not swept.wait(0.05)
        assert temporary.exists()
        files.write(record)
    thread.join(10)
    assert swept.is_set()
    assert list(files.read().records) == [record.id]


def test_a_failed_write_leaves_nothing(files: ProjectFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(_: int) -> None:
        raise OSError(28, "No space left on device")

    with files.changing():
        files.write(made())
    before = sorted(os.listdir(files.path))
    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(HomeProblem, match="No space left"), files.changing():
        files.write(made())
    assert sorted(os.listdir(files.path)) == before


def test_two_writers_lose_nothing(open_memory: Opener) -> None:
    stores = [open_memory().store for _ in range(4)]

    def work(number: int) -> list[str]:
        store = stores[number % len(stores)]
        kept = []
        for step in range(6):
            record = store.remember(NewRecord("harbour", f"Writer {number}, step {step}."), ADA)
            store.link(KEY, f"item-{number}-{step}", ADA)
            if step % 2:
                store.forget(record.id, ADA)
            else:
                kept.append(record.id)
        return kept

    with ThreadPoolExecutor(8) as pool:
        expected = [record_id for kept in pool.map(work, range(8)) for record_id in kept]
    for store in stores:
        assert {record.id for record in store.records(ADA, limit=200).records} == set(expected)
        assert len(store.project(KEY, ADA).documents) == 48
        assert len(store.search("writer", ADA, limit=200).hits) == len(expected)


def test_writers_survive_that_the_project_vanishes_between_them(open_memory: Opener) -> None:
    """Forgetting the last record removes the directory, while the next writer already waits for its lock."""
    stores = [open_memory().store for _ in range(2)]

    def work(store: int) -> None:
        for _ in range(20):
            record = stores[store].remember(NewRecord("brief", "x"), ADA)
            stores[store].forget(record.id, ADA)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))
    assert not stores[0].records(ADA).records
    assert not open_memory().files


def test_forgetting_the_last_record_forgets_the_project(memory: Memory) -> None:
    record = memory.store.remember(NewRecord("secret-name", "x"), ADA)
    memory.store.forget(record.id, ADA)
    assert not list((memory.directory / "~ada").iterdir())
    assert not memory.store.projects(ADA)


def test_the_project_file_keeps_what_people_wrote_into_it(files: ProjectFiles) -> None:
    with files.changing():
        (files.path / "project.yaml").write_text("# ours\nnote: 'keep me'\ndocuments:\n  - knowledge:a")
        assert files.change_documents(lambda before: (*before, "knowledge:b")) == ("knowledge:a", "knowledge:b")
    written = (files.path / "project.yaml").read_text()
    assert written == """# ours\nnote: 'keep me'\ndocuments:\n  - knowledge:a\n  - "knowledge:b"\n"""
    with files.changing():
        files.change_documents(lambda _: ())
    assert (files.path / "project.yaml").read_text() == "# ours\nnote: 'keep me'\n"


def test_a_damaged_project_file_is_reported_and_not_written_over(files: ProjectFiles) -> None:
    record = made()
    with files.changing():
        files.write(record)
        (files.path / "project.yaml").write_text("documents: [")
        with pytest.raises(HomeProblem, match=r"project\.yaml"):
            files.change_documents(lambda before: (*before, "knowledge:b"))
    contents = files.read()
    assert list(contents.records) == [record.id]
    assert [problem.file for problem in contents.problems] == ["project.yaml"]
    assert (files.path / "project.yaml").read_text() == "documents: ["


def test_linked_documents_are_bounded(files: ProjectFiles) -> None:
    with files.changing(), pytest.raises(TooLarge):
        files.change_documents(lambda _: tuple(f"knowledge:{number}" for number in range(MOST_DOCUMENTS + 1)))
    with files.changing():
        most = tuple(f"knowledge:{number}" for number in range(MOST_DOCUMENTS))
        files.change_documents(lambda _: most)
    assert files.read().documents == most
