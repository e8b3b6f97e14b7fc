"""What an inspection says of sound homes, and of each kind of damage that nothing derives again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbgit.base import BaseKey
from kbgit.home import Home
from kbgit.importing import BaseOptions
from kbgit.publish import accept_rewrite
from kbgit.upkeep.finding import KINDS, Severity
from kbgit.upkeep.inspection import inspect
from tests.library.publishing import publish
from tests.upkeep.furnishing import (
    ATTIC,
    NOTES,
    OPERATOR,
    RUNBOOKS,
    Furnished,
    an_object_of,
    change_rows,
    faults,
    look,
    new_home,
    opened,
    without_log,
    writer_of,
)
from tests.writing import text


@pytest.mark.parametrize("full", [False, True])
def test_of_a_sound_home_nothing_is_found(furnished: Furnished, full: bool) -> None:
    found = look(furnished.path, full=full)
    assert found.findings == ()
    assert found.bases == [str(ATTIC), str(RUNBOOKS), str(NOTES)]


def test_an_inspection_leaves_the_home_as_it_is(furnished: Furnished) -> None:
    def files() -> dict[str, bytes]:
        # SQLite makes these two for whoever reads, and removes them with whoever writes.
        found = (
            path for path in furnished.path.rglob("*") if path.is_file() and path.suffix[-4:] not in ("-wal", "-shm")
        )
        return {str(path): path.read_bytes() for path in found if not path.name.endswith(("-wal", "-shm"))}

    before = files()
    look(furnished.path)
    assert files() == before


def test_an_empty_home_and_an_empty_base_are_sound(tmp_path: Path) -> None:
    new_home(tmp_path / "home")
    runtime = opened(tmp_path / "home")
    try:
        runtime.accounts.add_user("ada", "test")
        assert look(tmp_path / "home").findings == ()
        runtime.bases.create(NOTES, OPERATOR, BaseOptions())
    finally:
        runtime.stop()
    assert faults(look(tmp_path / "home")) == []


def test_only_the_bases_that_are_asked_for_are_looked_at(furnished: Furnished) -> None:
    without_log(furnished.path, RUNBOOKS)
    home = Home.at(furnished.path)
    assert inspect(home, is_served=False, bases=[NOTES]).findings == ()
    assert faults(inspect(home, is_served=False, bases=[RUNBOOKS])) == ["publication_log_missing"]


def test_what_is_not_published_or_indexed_yet_is_no_fault(furnished: Furnished, tmp_path: Path) -> None:
    writer = writer_of(Home.at(furnished.path), RUNBOOKS, tmp_path / "late")
    writer.publish({"late.md": text("Late")})
    found = look(furnished.path)
    assert {finding.code for finding in found.findings} == {"index_behind"}
    assert found.is_sound
    repository = Home.at(furnished.path).repository(NOTES)
    head = repository.head()
    new = repository.commit_files({"x.md": b"# X\n"}, parent=head, message="x", author="A <a@example.org>")
    repository.move_ref("refs/heads/main", new, head)
    assert {finding.code for finding in look(furnished.path).findings} == {"index_behind", "publication_pending"}


def test_a_home_without_anything_derived_is_sound(furnished: Furnished) -> None:
    shutil.rmtree(furnished.path / "index")
    for name in ("catalogue", "vectors"):
        for path in furnished.path.glob(f"{name}.sqlite*"):
            path.unlink()
    found = look(furnished.path)
    assert found.is_sound
    assert {finding.code for finding in found.findings} == {"catalogue_missing", "index_missing"}


def test_an_accepted_rewrite_is_sound_and_another_is_not(furnished: Furnished) -> None:
    home = Home.at(furnished.path)
    repository = home.repository(RUNBOOKS)
    head = repository.head()
    other = repository.commit_files({"new.md": b"# New\n"}, parent=None, message="x", author="A <a@example.org>")
    repository.move_ref("refs/heads/main", other, head)
    assert faults(look(furnished.path)) == ["branch_rewritten"]
    catalogue = home.catalogue()
    accept_rewrite(repository, catalogue, catalogue.base(str(RUNBOOKS)), "ada", home.limits)
    catalogue.close()
    assert faults(look(furnished.path)) == []


FILES = st.sampled_from(["a.md", "b.md", "sub/c.md", "sub/dé.md", "e.md"])
STEPS = st.one_of(
    st.tuples(st.just("write"), FILES, st.sampled_from(["published", "draft", "archived"]), st.integers(0, 3)),
    st.tuples(st.just("remove"), FILES),
    st.tuples(st.just("rename"), FILES, FILES),
    st.tuples(st.just("settings"), st.sampled_from(["published", "draft"])),
    st.tuples(st.just("reindex")),
)


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEPS, min_size=8, max_size=25))
def test_after_any_operations_nothing_is_found(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, ...]]
) -> None:
    path = tmp_path_factory.mktemp("random") / "home"
    new_home(path)
    runtime = opened(path)
    key = BaseKey("personal:ada", "random")
    files: dict[str, str] = {}
    try:
        runtime.accounts.add_user("ada", "test")
        runtime.bases.create(key, OPERATOR, BaseOptions())
        for number, (what, *rest) in enumerate(steps):
            changed: dict[str, str | None] = {}
            if what == "write":
                name, status, item = rest
                taken = {text.partition("id: ")[2].partition("\n")[0] for at, text in files.items() if at != name}
                own = {"id": f"item_{item}"} if item and f"item_{item}" not in taken else {}
                changed = {name: text(f"Page {number}", status=status, body=f"Words {number % 3}.\n", **own)}
            elif what == "remove" and rest[0] in files:
                changed = {rest[0]: None}
            elif what == "rename" and rest[0] in files and rest[1] not in files:
                changed = {rest[1]: files[rest[0]], rest[0]: None}
            elif what == "settings":
                changed = {"base.yaml": f"name: Random\ndefault_status: {rest[0]}\n"}
            elif what == "reindex":
                runtime.indexer.rebuild(key)
            if changed:
                publish(runtime, key, changed)
                files = {name: page for name, page in {**files, **changed}.items() if page and name.endswith(".md")}
        while runtime.indexer.embed_some():
            pass
    finally:
        runtime.stop()
    assert look(path).findings == ()


# What only a backup mends


def lose_object(home: Path) -> None:
    an_object_of(home / "repositories" / "platform" / "runbooks.git").unlink()


def garble_object(home: Path) -> None:
    victim = an_object_of(home / "repositories" / "platform" / "runbooks.git")
    victim.chmod(0o644)
    victim.write_bytes(b"noise" + victim.read_bytes()[5:])


def lose_log(home: Path) -> None:
    without_log(home, RUNBOOKS)


def lose_repository(home: Path) -> None:
    shutil.rmtree(home / "repositories" / "platform" / "runbooks.git")


def cut_log(home: Path) -> None:
    repository = Home.at(home).repository(RUNBOOKS)
    repository.git.run("update-ref", "refs/kbgit/publications", repository.head() or "")


def lose_accounts(home: Path) -> None:
    for path in home.glob("accounts.sqlite*"):
        path.unlink()


def garble_accounts(home: Path) -> None:
    path = home / "accounts.sqlite"
    path.write_bytes(path.read_bytes()[:4096] + b"\xa5" * 8192)


def orphan_space(home: Path) -> None:
    change_rows(home / "accounts.sqlite", "DELETE FROM members WHERE space = 'team:platform'")


def forget_space(home: Path) -> None:
    change_rows(home / "accounts.sqlite", "DELETE FROM members", "DELETE FROM spaces WHERE key = 'team:platform'")


def garble_record(home: Path) -> None:
    next((home / "memory").rglob("mem_*.md")).write_bytes(b"no header at all")


def replace_repository(home: Path) -> None:
    repositories = home / "repositories"
    shutil.rmtree(repositories / "platform" / "runbooks.git")
    shutil.copytree(repositories / "platform" / "attic.git", repositories / "platform" / "runbooks.git")


def empty_repository(home: Path) -> None:
    shutil.rmtree(home / "repositories" / "platform" / "runbooks.git")
    Home.at(home).create_repository(RUNBOOKS)


def older_repository(home: Path) -> None:
    """As it was two publications ago."""
    repository = Home.at(home).repository(RUNBOOKS)
    *_, older, _, _ = repository.log_entries()
    repository.git.run("update-ref", "refs/kbgit/publications", older.sha)
    repository.git.run("update-ref", "refs/heads/main", older.parents[-1])


LOSSES: list[tuple[Callable[[Path], None], list[str]]] = [
    (lose_object, ["repository_damaged"]),
    (garble_object, ["repository_damaged"]),
    (lose_log, ["publication_log_missing"]),
    (cut_log, ["publication_log_broken"]),
    (lose_repository, ["repository_missing"]),
    (replace_repository, ["index_differs", "repository_replaced"]),
    (empty_repository, ["publication_log_missing"]),
    (older_repository, ["index_differs", "repository_replaced"]),
    (lose_accounts, ["accounts_missing"]),
    (garble_accounts, ["accounts_damaged"]),
    (orphan_space, ["accounts_inconsistent"]),
    (forget_space, ["accounts_inconsistent", "space_unknown"]),
    (garble_record, ["memory_unreadable"]),
]


@pytest.mark.parametrize(("lose", "due"), LOSSES, ids=[lose.__name__ for lose, _ in LOSSES])
def test_a_loss_is_named(furnished: Furnished, lose: Callable[[Path], None], due: list[str]) -> None:
    lose(furnished.path)
    found = look(furnished.path)
    assert faults(found) == due
    lost = [finding for finding in found.findings if not finding.kind.derived]
    assert lost
    for finding in lost:
        assert finding.kind.action is None
        assert finding.where
        assert any(word in finding.kind.mend for word in ("backup", "put the branch back", "space"))


def test_every_kind_says_what_it_means_and_what_mends_it() -> None:
    for code, kind in KINDS.items():
        assert kind.meaning.endswith("."), code
        assert kind.mend, code
        assert not kind.mend.endswith("."), code
        assert kind.severity is Severity.FAULT or kind.mend.startswith("nothing"), code
