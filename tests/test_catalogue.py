"""The catalogue's tables: what can be asked of them, and what they keep apart."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from kbgit.base import BaseKey
from kbgit.catalogue import VERSION, Catalogue
from kbgit.errors import BaseNotFound
from kbgit.home import Home
from kbgit.item import ItemStatus
from kbgit.publish import catch_up
from kbgit.sqlite import Database
from tests.writing import tables, text

Publish = Callable[[dict[str, str | None]], str]
OTHER = BaseKey("personal:ada", "notes")


@pytest.fixture
def publish(home: Home, catalogue: Catalogue, key: BaseKey) -> Publish:
    """Publishes one commit with the given files; its name."""
    return lambda files: _publish(home, catalogue, key, files)


def _publish(home: Home, catalogue: Catalogue, key: BaseKey, files: dict[str, str | None]) -> str:
    if key not in home.base_keys():
        home.create_repository(key)
    repository = home.repository(key)
    old = repository.head()
    raw = {name: content.encode() if content is not None else None for name, content in files.items()}
    new = repository.commit_files(raw, parent=old, message="Words", author="A <a@x>", when=1_700_000_000)
    repository.move_ref("refs/heads/main", new, old)
    catalogue.add_base(key)
    catch_up(repository, catalogue, catalogue.base(str(key)), home.limits, clock=lambda: 1_800_000_000)
    return new


def test_a_base_has_its_settings_and_its_head(catalogue: Catalogue, publish: Publish, key: BaseKey) -> None:
    head = publish({"base.yaml": "name: Runbooks\ndescription: How\nstatus: archived\n", "a.md": text()})
    base = catalogue.base(str(key))
    assert (base.key, base.head, base.settings.name, base.active) == (key, head, "Runbooks", False)
    assert catalogue.bases() == [base]
    catalogue.add_base(key)
    assert catalogue.base(str(key)) == base
    with pytest.raises(BaseNotFound):
        catalogue.base("team:platform/other")


def test_items_are_listed_by_id_status_place_and_page(catalogue: Catalogue, publish: Publish, key: BaseKey) -> None:
    statuses = ["draft", "published", "archived"]
    publish({f"{folder}/{n}.md": text(status=statuses[n]) for folder in ("a", "a_b", "B") for n in range(3)})
    listed = [item.item_id for item in catalogue.items(str(key))]
    assert listed == sorted(listed)
    assert len(listed) == 9
    assert [item.path for item in catalogue.items(str(key), prefix="a/")] == ["a/0.md", "a/1.md", "a/2.md"]
    assert len(catalogue.items(str(key), prefix="a_", statuses=["draft", "archived"])) == 2
    assert [item.item_id for item in catalogue.items(str(key), after=listed[3], limit=2)] == listed[4:6]
    assert catalogue.counts(str(key)) == {"draft": 3, "published": 3, "archived": 3}
    assert set(catalogue.published(str(key))) == {"runbooks/a/1", "runbooks/a_b/1", "runbooks/B/1"}


def test_filters_are_exact_and_must_all_hold(catalogue: Catalogue, publish: Publish, key: BaseKey) -> None:
    publish({
        "a.md": text(tags="[one, two]", owner="ops", teams="[x, y]"),
        "b.md": text(tags="one", owner="Ops"),
        "c.md": text(tags="[one, two]", owner="ops", status2="x", nested="{a: b}"),
        "d.md": text(tags="[o%]", owner="no"),
    })  # fmt: skip
    matching = partial(catalogue.matching, str(key))
    assert matching(tags=["one", "two"]) == {"runbooks/a", "runbooks/c"}
    assert matching(tags=["one"], metadata={"owner": "Ops"}) == {"runbooks/b"}
    assert matching(metadata={"teams": "y"}) == {"runbooks/a"}
    assert matching(tags=["o%"]) == {"runbooks/d"}
    assert matching(tags=["%"]) == matching(metadata={"nested": "b"}) == matching(prefix="%") == frozenset()
    assert matching(metadata={"owner": "no"}, prefix="d") == {"runbooks/d"}


def test_a_filter_sees_the_present_fields_only(catalogue: Catalogue, publish: Publish, key: BaseKey) -> None:
    publish({"a.md": text(tags="[one]", owner="ops")})
    publish({"a.md": text(tags="[two]")})
    assert catalogue.matching(str(key), tags=["one"]) == frozenset()
    assert catalogue.matching(str(key), metadata={"owner": "ops"}) == frozenset()
    assert catalogue.matching(str(key), tags=["two"]) == {"runbooks/a"}


def test_a_file_may_take_another_id_without_leaving_its_place(
    catalogue: Catalogue, publish: Publish, key: BaseKey
) -> None:
    first = publish({"a.md": text(), "b.md": text(id="x"), "c.md": text(id="y")})
    publish({"a.md": text(id="a"), "b.md": text(id="y"), "c.md": text(id="x")})
    assert [(item.item_id, item.path) for item in catalogue.items(str(key))] == [
        ("a", "a.md"), ("x", "c.md"), ("y", "b.md"),
    ]  # fmt: skip
    assert catalogue.revision(str(key), "runbooks/a", first) is not None
    assert catalogue.removed_since(str(key), first) == [("runbooks/a", "a.md")]
    publish({"a.md": text()})
    assert [item.item_id for item in catalogue.items(str(key))] == ["runbooks/a", "x", "y"]


def test_ids_that_differ_in_case_only_are_one(catalogue: Catalogue, publish: Publish, key: BaseKey) -> None:
    publish({"a.md": text(id="Item_X")})
    assert catalogue.paths_by_folded_id(str(key), ["item_x", "other"]) == {"item_x": "a.md"}
    publish({"a.md": text(id="item_x")})
    assert [item.item_id for item in catalogue.items(str(key))] == ["item_x"]


def test_an_items_history_is_newest_first_and_in_pages(catalogue: Catalogue, publish: Publish, key: BaseKey) -> None:
    heads = [publish({"a.md": text(f"T{n}"), f"{n}.md": text()}) for n in range(4)]
    heads.append(publish({"a.md": None}))
    rows = catalogue.revisions(str(key), "runbooks/a")
    assert [(row.sha, row.number) for row in rows] == [(head, n + 1) for n, head in enumerate(heads)][::-1]
    assert rows[0].blob is None
    assert rows[0].was_published is False
    page = catalogue.revisions(str(key), "runbooks/a", before=rows[1].position, limit=2)
    assert page == rows[2:4]
    assert catalogue.revision_positions(str(key), "runbooks/a") == [row.position for row in reversed(rows)]
    assert catalogue.item(str(key), "runbooks/a") is None


def test_what_readers_may_see_is_what_was_published(catalogue: Catalogue, publish: Publish, key: BaseKey) -> None:
    for status in ("draft", "published", "archived", "draft"):
        publish({"a.md": text(status=status)})
    rows = catalogue.revisions(str(key), "runbooks/a")
    assert [row.was_published for row in rows] == [False, False, True, False]
    assert [row.status for row in rows] == [
        ItemStatus.DRAFT, ItemStatus.ARCHIVED, ItemStatus.PUBLISHED, ItemStatus.DRAFT,
    ]  # fmt: skip


def test_provenance_says_who_what_when_and_how(catalogue: Catalogue, publish: Publish, key: BaseKey) -> None:
    head = publish({"a.md": text()})
    provenance = catalogue.provenance(str(key), head)
    assert provenance is not None
    assert provenance.as_json() == {
        "author": "A <a@x>", "committer": "A <a@x>", "pushed_by": "unknown", "message": "Words", "via": "unknown",
        "committed_at": "2023-11-14T22:13:20Z", "published_at": "2027-01-15T08:00:00Z", "signature": "none",
    }  # fmt: skip
    assert catalogue.provenance(str(key), "0" * 40) is None
    assert catalogue.commit_position(str(key), head) == 0
    assert catalogue.commit_position(str(key), "0" * 40) is None


def test_bases_are_kept_apart(home: Home, catalogue: Catalogue, publish: Publish, key: BaseKey) -> None:
    head = publish({"a.md": text(id="shared", tags="[one]")})
    other = _publish(home, catalogue, OTHER, {"z.md": text("Mine", id="shared")})
    assert catalogue.bases_with_item("shared") == [str(OTHER), str(key)]
    assert catalogue.bases_with_item("nothing") == []
    assert catalogue.revision(str(key), "shared", other) is None
    assert catalogue.revision(str(OTHER), "shared", head) is None
    assert catalogue.matching(str(OTHER), tags=["one"]) == frozenset()
    catalogue.reset(OTHER)
    assert catalogue.base(str(OTHER)).head is None
    assert catalogue.base(str(key)).head == head
    assert catalogue.item(str(key), "shared") is not None


def test_a_removed_base_leaves_no_byte(home: Home, catalogue: Catalogue, publish: Publish, key: BaseKey) -> None:
    publish(
        {
            "kiwi.md": text("Kiwi canary", id="canary-item", owner="canary-owner"),
            "bad.md": "---\nid: can/ary-bad\n---\n",
        }
    )
    _publish(home, catalogue, OTHER, {"z.md": text("Mine")})
    catalogue.remove_base(str(key))
    assert [base.key for base in catalogue.bases()] == [OTHER]
    assert {row[0] for rows in tables(home).values() for row in rows} == {str(OTHER)}
    stored = b"".join(path.read_bytes() for path in home.path.glob("catalogue.sqlite*"))
    for canary in (b"canary", b"ary-bad", b"kiwi", b"Kiwi", str(key).encode()):
        assert canary not in stored


def test_a_reader_sees_an_old_or_a_new_state_and_no_mixture(
    home: Home, catalogue: Catalogue, publish: Publish, key: BaseKey
) -> None:
    publish({"base.yaml": "name: '0'\n", "a.md": text("T0"), "b.md": text("T0")})
    finished = False

    def read() -> set[tuple[str, ...]]:
        seen: set[tuple[str, ...]] = set()
        reader = sqlite3.connect(home.path / "catalogue.sqlite")
        while not finished:
            reader.execute("BEGIN")
            names = [row[0] for row in reader.execute("SELECT name FROM bases")]
            titles = [row[0] for row in reader.execute("SELECT title FROM items ORDER BY path")]
            reader.execute("ROLLBACK")
            seen.add((*names, *titles))
        reader.close()
        return seen

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        for n in range(1, 8):
            publish({"base.yaml": f"name: '{n}'\n", "a.md": text(f"T{n}"), "b.md": text(f"T{n}")})
        finished = True
        seen = set().union(*(reader.result() for reader in readers))
    assert seen <= {(str(n), f"T{n}", f"T{n}") for n in range(8)}


def test_processes_that_open_a_new_file_at_once_all_get_it(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from kbgit.catalogue import Catalogue; from kbgit.base import BaseKey\n"
        "sys.stdin.readline()\n"
        "catalogue = Catalogue(Path(sys.argv[1])); catalogue.add_base(BaseKey('team:a', sys.argv[2]))"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "new.sqlite"), f"b{n}"],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for n in range(6)
    ]
    said = [process.communicate(b"go\n", timeout=60)[1].decode() for process in processes]
    assert [process.returncode for process in processes] == [0] * 6, said
    catalogue = Catalogue(tmp_path / "new.sqlite")
    assert len(catalogue.bases()) == 6
    catalogue.close()


def test_a_failed_transaction_leaves_nothing(tmp_path: Path) -> None:
    database = Database(tmp_path / "x.sqlite", "CREATE TABLE t (n INTEGER) STRICT;\n", 3)
    assert database.version == 3
    with pytest.raises(sqlite3.IntegrityError), database.transaction() as connection:
        connection.executemany("INSERT INTO t VALUES (?)", [(1,), ("no number",)])
    with database.transaction() as connection:
        connection.execute("INSERT INTO t VALUES (2)")
    assert [row["n"] for row in database.connection().execute("SELECT n FROM t")] == [2]
    database.close()


def test_a_catalogue_of_another_version_is_derived_again(home: Home, publish: Publish, key: BaseKey) -> None:
    publish({"a.md": text()})
    connection = sqlite3.connect(home.path / "catalogue.sqlite")
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    reopened = home.catalogue()
    assert reopened.bases() == []
    assert reopened.is_current_version
    reopened.close()
