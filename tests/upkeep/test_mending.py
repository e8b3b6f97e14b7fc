"""Every kind of damage to what is derived is named and mended, and then the home answers as it did."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kbgit.errors import HomeLocked
from kbgit.home import Home
from kbgit.index.contract import IndexUpdate
from kbgit.index.embedded import directory_name
from kbgit.index.stamp import STAMP_NAME
from kbgit.rebuilding import scratch_prefix
from kbgit.upkeep.finding import Mend
from kbgit.upkeep.mending import carry_out, plan
from tests.upkeep.furnishing import (
    ATTIC,
    NOTES,
    RUNBOOKS,
    Furnished,
    answers,
    change_rows,
    cut,
    faults,
    garble,
    index_of,
    lexical_file,
    look,
    open_to_all,
    opened,
    without_log,
)


@pytest.fixture(scope="module")
def due(made: Furnished, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """What the home answers while nothing is wrong with it."""
    path = tmp_path_factory.mktemp("sound") / "home"
    shutil.copytree(made.path, path, symlinks=True)
    return answers(path)


def mend(path: Path) -> list[str]:
    """Look, mend, and say what was done."""
    home = Home.at(path, {"embedder": "hashing"})
    steps = plan(look(path).findings, is_served=False)
    assert carry_out(home, steps, None) == []
    return [step.action.value for step in steps]


def catalogue_of(home: Path) -> Path:
    return home / "catalogue.sqlite"


def cut_catalogue(home: Path) -> None:
    cut(catalogue_of(home))


def empty_catalogue(home: Path) -> None:
    catalogue_of(home).write_bytes(b"")


def noisy_catalogue(home: Path) -> None:
    catalogue_of(home).write_bytes(b"noise" * 10_000)


def garbled_catalogue(home: Path) -> None:
    raw = bytearray(catalogue_of(home).read_bytes())
    raw[4096:12288] = b"\xa5" * 8192
    catalogue_of(home).write_bytes(raw)


def other_number(home: Path) -> None:
    change_rows(catalogue_of(home), "UPDATE revisions SET number = number + 1 WHERE item_id = 'item_deploy'")


def other_hash(home: Path) -> None:
    change_rows(catalogue_of(home), "UPDATE items SET content_hash = 'sha256:0' WHERE item_id = 'item_heron'")


def other_provenance(home: Path) -> None:
    change_rows(catalogue_of(home), "UPDATE publications SET pushed_by = 'mallory' WHERE number = 1")


def lost_item(home: Path) -> None:
    change_rows(catalogue_of(home), "DELETE FROM items WHERE item_id = 'item_deploy'")


def draft_published(home: Path) -> None:
    change_rows(catalogue_of(home), "UPDATE items SET status = 'published' WHERE status = 'draft'")


def other_entry(home: Path) -> None:
    change_rows(catalogue_of(home), f"UPDATE bases SET entry = '{'0' * 40}' WHERE slug = 'runbooks'")


def cut_segment(home: Path) -> None:
    cut(lexical_file(home, RUNBOOKS))


def garbled_segment(home: Path) -> None:
    garble(lexical_file(home, RUNBOOKS))


def lost_segment(home: Path) -> None:
    lexical_file(home, NOTES).unlink()


def lost_stamp(home: Path) -> None:
    (index_of(home, NOTES) / "lexical" / STAMP_NAME).unlink()


def garbled_stamp(home: Path) -> None:
    garble(index_of(home, NOTES) / "lexical" / STAMP_NAME)


def index_of_another(home: Path) -> None:
    """As whole as it can be, and of another base."""
    target = index_of(home, RUNBOOKS)
    shutil.rmtree(target)
    shutil.copytree(index_of(home, NOTES), target)


def older_index(home: Path) -> None:
    """An index that says it is at the head, and lacks an item."""
    runtime = opened(home)
    try:
        state = runtime.index.state(str(RUNBOOKS))

        runtime.index.update(str(RUNBOOKS), IndexUpdate(state.head, frozenset({"item_deploy"}), []))
    finally:
        runtime.stop()


def cut_vectors(home: Path) -> None:
    cut(index_of(home, RUNBOOKS) / "vectors" / "chroma.sqlite3")


def garbled_vector_stamp(home: Path) -> None:
    garble(index_of(home, RUNBOOKS) / "vectors" / STAMP_NAME)


def cut_cache(home: Path) -> None:
    cut(home / "vectors.sqlite")


def noisy_cache(home: Path) -> None:
    (home / "vectors.sqlite").write_bytes(b"noise" * 10_000)


def no_vectors(home: Path) -> None:
    change_rows(home / "vectors.sqlite", "UPDATE vectors SET vector = zeroblob(length(vector))")


def lost_hook(home: Path) -> None:
    (home / "hooks" / "pre-receive").unlink()


def changed_hook(home: Path) -> None:
    (home / "hooks" / "post-receive").write_text("#!/bin/sh\n")


def hook_off(home: Path) -> None:
    (home / "hooks" / "pre-receive").chmod(0o644)


def other_hooks(home: Path) -> None:
    Home.at(home).repository(RUNBOOKS).configure({"core.hooksPath": "/nowhere"})


def open_home(home: Path) -> None:
    open_to_all(home)


def open_token(home: Path) -> None:
    open_to_all(home / "owner-token")


def open_record(home: Path) -> None:
    open_to_all(next((home / "memory").rglob("mem_*.md")))


def stale_server(home: Path) -> None:
    (home / "server.json").touch(mode=0o600)
    (home / "server.json").write_text('{"url": "http://127.0.0.1:9", "pid": 1}')


def leftovers(home: Path) -> None:
    (home / ".rebuilding-x1").mkdir()
    (home / ".rebuilding-x1" / "catalogue.sqlite").write_text("x")
    (home / ".server.json.123").write_text("{}")
    (home / "index" / "dropped-x").mkdir()


def orphaned_index(home: Path) -> None:
    shutil.copytree(home / "index" / directory_name(str(NOTES)), home / "index" / directory_name("personal:ada/ghost"))


def half_written_record(home: Path) -> None:
    record = next((home / "memory").rglob("mem_*.md"))
    (record.parent / ".writing-0123").touch(mode=0o600)


DAMAGES: list[tuple[Callable[[Path], None], list[str], list[Mend]]] = [
    (cut_catalogue, ["catalogue_damaged"], [Mend.DISCARD_CATALOGUE]),
    (empty_catalogue, ["catalogue_damaged"], [Mend.DISCARD_CATALOGUE]),
    (noisy_catalogue, ["catalogue_damaged"], [Mend.DISCARD_CATALOGUE]),
    (garbled_catalogue, ["catalogue_damaged"], [Mend.DISCARD_CATALOGUE]),
    (other_number, ["catalogue_differs"], [Mend.REBUILD_BASE]),
    (other_hash, ["catalogue_differs"], [Mend.REBUILD_BASE]),
    (other_provenance, ["catalogue_differs"], [Mend.REBUILD_BASE] * 3),
    (lost_item, ["catalogue_differs"], [Mend.REBUILD_BASE]),
    (draft_published, ["catalogue_differs"], [Mend.REBUILD_BASE]),
    (other_entry, ["catalogue_differs"], [Mend.REBUILD_BASE]),
    (cut_segment, ["index_damaged"], [Mend.REBUILD_BASE]),
    (garbled_segment, ["index_damaged"], [Mend.REBUILD_BASE]),
    (lost_segment, ["index_damaged"], [Mend.REBUILD_BASE]),
    (lost_stamp, ["index_damaged"], [Mend.REBUILD_BASE]),
    (garbled_stamp, ["index_damaged"], [Mend.REBUILD_BASE]),
    (index_of_another, ["index_differs"], [Mend.REBUILD_BASE]),
    (older_index, ["index_differs"], [Mend.REBUILD_BASE]),
    (cut_vectors, ["vectors_damaged"], [Mend.REBUILD_BASE]),
    (garbled_vector_stamp, ["vectors_damaged"], [Mend.REBUILD_BASE]),
    (cut_cache, ["vector_cache_damaged"], [Mend.DISCARD_VECTOR_CACHE]),
    (noisy_cache, ["vector_cache_damaged"], [Mend.DISCARD_VECTOR_CACHE]),
    (lost_hook, ["hooks_wrong"], [Mend.INSTALL_HOOKS]),
    (changed_hook, ["hooks_wrong"], [Mend.INSTALL_HOOKS]),
    (hook_off, ["hooks_wrong"], [Mend.INSTALL_HOOKS]),
    (other_hooks, ["repository_unguarded"], [Mend.INSTALL_HOOKS]),
    (open_home, ["mode_open"], [Mend.CLOSE_MODE]),
    (open_token, ["mode_open"], [Mend.CLOSE_MODE]),
    (open_record, ["mode_open"], [Mend.CLOSE_MODE]),
    (stale_server, ["server_file_stale"], [Mend.REMOVE]),
    (leftovers, ["leftover"], [Mend.REMOVE] * 3),
    (orphaned_index, ["index_orphaned"], [Mend.REMOVE]),
    (half_written_record, ["memory_leftover"], [Mend.SWEEP_MEMORY]),
]


@pytest.mark.parametrize(("damage", "codes", "actions"), DAMAGES, ids=[damage.__name__ for damage, _, _ in DAMAGES])
def test_damage_is_named_and_mended(
    furnished: Furnished,
    due: list[dict[str, object]],
    damage: Callable[[Path], None],
    codes: list[str],
    actions: list[Mend],
) -> None:
    damage(furnished.path)
    found = look(furnished.path)
    assert faults(found) == codes
    assert all(finding.kind.derived for finding in found.findings)
    assert mend(furnished.path) == actions
    assert faults(look(furnished.path)) == []
    assert answers(furnished.path) == due


def test_remembered_vectors_that_are_none_are_made_again(furnished: Furnished, due: list[dict[str, object]]) -> None:
    no_vectors(furnished.path)
    assert "vector_cache_damaged" in faults(look(furnished.path))
    mend(furnished.path)
    assert faults(look(furnished.path)) == []
    assert answers(furnished.path) == due


def test_an_interrupted_purge_is_finished(furnished: Furnished) -> None:
    home = Home.at(furnished.path)
    doomed = NOTES.repository_path(home.doomed)
    doomed.parent.mkdir(parents=True)
    NOTES.repository_path(home.repositories).rename(doomed)
    assert "purge_unfinished" in faults(look(furnished.path))
    assert "velvet anchor" in str(answers_of_files(furnished.path))
    assert Mend.FINISH_PURGE.value in mend(furnished.path)
    assert faults(look(furnished.path)) == []
    assert "velvet anchor" not in str(answers_of_files(furnished.path))


def answers_of_files(home: Path) -> bytes:
    """The bytes of every file of the index."""
    return b"".join(path.read_bytes() for path in sorted((home / "index").rglob("*")) if path.is_file())


def test_what_was_derived_from_a_lost_repository_is_kept(furnished: Furnished) -> None:
    without_log(furnished.path, RUNBOOKS)
    other_number(furnished.path)
    before = (furnished.path / "catalogue.sqlite").read_bytes()
    steps = plan(look(furnished.path).findings, is_served=False)
    assert steps == [], "nothing can be compared with, so nothing is derived from it"
    cut_segment(furnished.path)
    assert carry_out(Home.at(furnished.path), plan(look(furnished.path).findings, is_served=False), None) == []
    assert faults(look(furnished.path)) == ["publication_log_missing"]
    assert (furnished.path / "catalogue.sqlite").read_bytes() == before
    runtime = opened(furnished.path)
    try:
        assert runtime.catalogue.item(str(RUNBOOKS), "item_deploy") is not None
    finally:
        runtime.stop()


def test_from_a_repository_in_place_of_another_nothing_is_derived(furnished: Furnished) -> None:
    repositories = Home.at(furnished.path).repositories
    shutil.rmtree(RUNBOOKS.repository_path(repositories))
    shutil.copytree(ATTIC.repository_path(repositories), RUNBOOKS.repository_path(repositories))
    steps = plan(look(furnished.path).findings, is_served=False)
    assert [step.action for step in steps] == [Mend.REBUILD_BASE]
    assert "restored first" in steps[0].obstacle
    before = (furnished.path / "catalogue.sqlite").read_bytes()
    assert carry_out(Home.at(furnished.path), steps, None) == []
    assert (furnished.path / "catalogue.sqlite").read_bytes() == before


def test_a_catalogue_stays_while_a_repository_is_to_be_restored(furnished: Furnished) -> None:
    victim = max((ATTIC.repository_path(Home.at(furnished.path).repositories) / "objects").glob("[0-9a-f][0-9a-f]/*"))
    victim.unlink()
    noisy_catalogue(furnished.path)
    (step,) = plan(look(furnished.path).findings, is_served=False)
    assert step.action is Mend.DISCARD_CATALOGUE
    assert str(ATTIC) in step.obstacle
    assert carry_out(Home.at(furnished.path), [step], None) == []
    assert faults(look(furnished.path)) == ["catalogue_damaged", "repository_damaged"]


def test_the_scratch_of_a_living_process_is_no_leftover(furnished: Furnished) -> None:
    (furnished.path / f"{scratch_prefix()}x").mkdir()
    assert look(furnished.path).findings == ()


def test_beside_a_server_only_what_is_safe_is_done(furnished: Furnished) -> None:
    cut_catalogue(furnished.path)
    lost_hook(furnished.path)
    steps = {step.action: step.obstacle for step in plan(look(furnished.path).findings, is_served=True)}
    assert steps == {Mend.DISCARD_CATALOGUE: "stop the server first", Mend.INSTALL_HOOKS: ""}


def test_a_home_that_another_process_owns_is_left_alone(furnished: Furnished) -> None:
    other_number(furnished.path)
    runtime = opened(furnished.path)
    try:
        with pytest.raises(HomeLocked):
            mend(furnished.path)
    finally:
        runtime.stop()
