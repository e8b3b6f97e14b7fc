"""The store of one base's vectors: Chroma on a real disk, cut, killed and filled."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from kbgit.errors import IndexDamaged, IndexFailure
from kbgit.index.contract import Floats
from kbgit.index.vector_table import DEFAULT_FLOOR, VectorTable, cosine_floor, packed, smallest
from kbgit.index.vectors import VectorMemory, VectorStore

DIMENSION = 16
MODEL = "model/1"


def key(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def unit(matrix: Floats) -> Floats:
    return np.asarray(matrix / np.linalg.norm(matrix, axis=1, keepdims=True), np.float32)


def vectors(numbers: Sequence[int], seed: int = 0) -> dict[str, Floats]:
    """A unit vector for each number, the same at every call."""
    made = (np.random.default_rng([seed, number]).standard_normal(DIMENSION).astype(np.float32) for number in numbers)
    return {
        key(number): vector / np.float32(np.linalg.norm(vector)) for number, vector in zip(numbers, made, strict=True)
    }


def topics(count: int, dimension: int, seed: int = 0) -> Floats:
    """Vectors in groups, as texts are: a few that are near each other, all others far."""
    random = np.random.default_rng(seed)
    centres = random.standard_normal((count // 20, dimension))
    return unit((np.repeat(centres, 20, axis=0) + 0.7 * random.standard_normal((count, dimension))).astype(np.float32))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "vectors"


def opened(directory: Path, fingerprint: str = MODEL) -> VectorStore:
    return VectorStore(directory, fingerprint, DIMENSION)


def content(store: VectorStore) -> dict[str, Floats]:
    keys = list(store.keys())
    return dict(zip(keys, store.vectors(keys), strict=True))


def same(some: dict[str, Floats], others: dict[str, Floats]) -> bool:
    return some.keys() == others.keys() and all(np.allclose(some[one], others[one], atol=1e-6) for one in some)


# --- storing ---------------------------------------------------------------------------------------------------------


def test_a_store_without_vectors_writes_nothing(directory: Path) -> None:
    store = opened(directory)
    assert len(store) == 0
    assert store.nearest(next(iter(vectors([1]).values())), 5) == {}
    assert len(store.table().keys) == 0
    assert store.floor == DEFAULT_FLOOR
    store.settle()
    assert not directory.exists()


@pytest.mark.parametrize("count", [1, 40, 2500])
def test_what_was_settled_is_there_after_opening_again(directory: Path, count: int) -> None:
    store = opened(directory)
    store.add(vectors(range(count)))
    store.settle()
    for _ in range(3):
        store = opened(directory)
        assert same(content(store), vectors(range(count)))
        store.settle()


def test_adding_a_key_again_replaces_its_vector_everywhere(directory: Path) -> None:
    store = opened(directory)
    store.add(vectors(range(50)))
    store.table()
    store.add(vectors(range(10), seed=1))
    expected = vectors(range(50)) | vectors(range(10), seed=1)
    table = store.table()
    for one, vector in expected.items():
        row = table.row_of(one)
        assert row is not None
        assert np.allclose(table.matrix[row], vector, atol=1e-6)
    assert len(table.keys) == 50
    store.settle()
    assert same(content(opened(directory)), expected)


def test_removed_vectors_are_gone_and_unknown_keys_do_no_harm(directory: Path) -> None:
    store = opened(directory)
    store.add(vectors(range(50)))
    before = store.table()
    store.remove([key(number) for number in range(20)] + [key(999)])
    assert store.table().row_of(key(3)) is None
    assert before.row_of(key(3)) is not None, "a table that was handed out stays as it was"
    assert len(store) == 30
    store.settle()
    assert same(content(opened(directory)), vectors(range(20, 50)))


def test_a_table_grows_with_the_store(directory: Path) -> None:
    store = opened(directory)
    store.add(vectors(range(5)))
    tables = [store.table()]
    for start in range(5, 200, 13):
        store.add(vectors(range(start, start + 13)))
        tables.append(store.table())
    for table in tables:
        every = vectors(range(len(table.keys)))
        rows = table.rows(packed(list(every)))
        assert np.allclose(table.matrix[rows], np.array(list(every.values())), atol=1e-6)


def test_vectors_of_another_model_are_not_kept(directory: Path) -> None:
    store = opened(directory)
    store.add(vectors(range(5)))
    store.settle()
    other = opened(directory, "model/2")
    assert len(other) == 0
    other.add(vectors(range(3), seed=2))
    other.settle()
    assert same(content(opened(directory, "model/2")), vectors(range(3), seed=2))
    assert len(opened(directory, MODEL)) == 0


def test_no_text_and_only_one_constant_goes_to_the_database(directory: Path) -> None:
    store = opened(directory)
    store.add(vectors(range(5)))
    store.settle()
    sqlite = (directory / "chroma.sqlite3").read_bytes()
    assert key(1).encode() in sqlite
    assert b"chroma:document" not in sqlite


def test_a_store_at_rest_holds_no_file_open(directory: Path) -> None:
    store = opened(directory)
    store.add(vectors(range(50)))
    store.settle()
    store = opened(directory)
    store.table()
    assert no_file_is_open_below(directory)


def test_a_destroyed_store_leaves_no_file_and_none_comes_back(directory: Path) -> None:
    store = opened(directory)
    store.add(vectors(range(50)))
    table = store.table()
    store.destroy()
    assert no_file_is_open_below(directory)
    assert store.nearest(vectors([1])[key(1)], 5) == {}
    assert len(store.table().keys) == 0
    assert len(table.keys) == 50
    with pytest.raises(IndexFailure):
        store.add(vectors(range(3)))
    assert not directory.exists()
    other = opened(directory)
    other.add(vectors(range(3)))
    other.settle()
    assert len(opened(directory)) == 3


def no_file_is_open_below(directory: Path) -> bool:
    """Whether that becomes so: Chroma's threads close their files a moment after the client is closed."""
    limit = time.monotonic() + 10
    while time.monotonic() < limit:
        if not any(str(directory) in link for link in open_files()):
            return True
        time.sleep(0.01)
    return False


def open_files() -> Iterator[str]:
    for name in os.listdir("/proc/self/fd"):
        try:
            yield os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue


# --- searching -------------------------------------------------------------------------------------------------------


def test_cosines_and_rows_are_those_of_the_vectors(directory: Path) -> None:
    store = opened(directory)
    every = vectors(range(100))
    store.add(every)
    query = vectors([7], seed=9)[key(7)]
    table = store.table()
    cosines = table.cosines(query)
    wanted = [key(5), key(1000), key(99)]
    rows = table.rows(packed(wanted))
    assert rows[1] == -1
    assert cosines[rows[0]] == pytest.approx(float(every[key(5)] @ query), abs=1e-6)
    assert cosines[rows[2]] == pytest.approx(float(every[key(99)] @ query), abs=1e-6)
    assert table.rows(packed([])).shape == (0,)


def test_keys_that_differ_only_at_their_end_or_end_in_zeros_are_told_apart() -> None:
    keys = ["ab" * 31 + "00", "ab" * 31 + "01", "00" * 32, "ab" * 30 + "0000"]
    table = VectorTable(packed(keys[:2]), np.eye(2, dtype=np.float32))
    rows = table.rows(packed(keys))
    # A hash whose first half another shares is not looked for further: it has no row rather than a wrong one.
    assert set(rows.tolist()) <= {-1, 0, 1}
    assert all(row == -1 or keys[row] == one for row, one in zip(rows.tolist(), keys, strict=True))


def test_the_approximate_search_finds_nearly_all_of_the_nearest(tmp_path: Path) -> None:
    matrix = topics(6000, 64)
    keys = [key(number) for number in range(len(matrix))]
    store = VectorStore(tmp_path / "vectors", MODEL, 64)
    store.add(dict(zip(keys, matrix, strict=True)))
    store.settle()
    store = VectorStore(tmp_path / "vectors", MODEL, 64, VectorMemory(0))
    recalls = []
    for query in matrix[:2000:100]:
        cosines = matrix @ query
        nearest = {keys[row] for row in np.argsort(-cosines)[:100]}
        found = store.nearest(query, 400)
        recalls.append(len(nearest & found.keys()) / 100)
        assert all(cosine == pytest.approx(float(cosines[keys.index(one)]), abs=1e-5) for one, cosine in found.items())
    assert np.mean(recalls) > 0.9
    assert len(store.nearest(matrix[0], 400)) == 400
    assert not store.is_in_memory


def test_more_is_asked_for_than_there_is(directory: Path) -> None:
    store = opened(directory)
    store.add(vectors(range(3)))
    assert len(store.nearest(vectors([1])[key(1)], 400)) == 3


# --- floor -----------------------------------------------------------------------------------------------------------


def test_the_floor_is_near_the_median_over_all_pairs_whatever_the_order() -> None:
    matrix = unit(topics(2000, 32) + np.float32(0.2))
    keys = [key(number) for number in range(len(matrix))]
    expected = float(np.median((matrix @ matrix.T)[np.triu_indices(len(matrix), 1)]))
    floor = cosine_floor(packed(keys), matrix)
    assert floor == pytest.approx(expected, abs=0.02)
    order = np.random.default_rng(1).permutation(len(keys))
    assert cosine_floor(packed([keys[row] for row in order]), matrix[order]) == pytest.approx(floor, abs=1e-6)


def test_few_vectors_that_are_alike_say_nothing_of_unlike_ones() -> None:
    alike = unit(np.float32(0.1) * topics(40, 32) + np.float32(1))
    keys = [key(number) for number in range(40)]
    assert cosine_floor(packed(keys), alike) > DEFAULT_FLOOR
    assert cosine_floor(packed(keys[:29]), alike[:29]) == DEFAULT_FLOOR
    assert cosine_floor(packed(keys[:1]), alike[:1]) == DEFAULT_FLOOR
    assert cosine_floor(packed([]), alike[:0]) == DEFAULT_FLOOR


def test_few_vectors_show_a_model_whose_unlike_texts_are_far_apart() -> None:
    few = np.eye(3, dtype=np.float32)
    assert cosine_floor(packed([key(1), key(2), key(3)]), few) == 0.0


def test_the_floor_is_the_same_in_memory_and_on_disk(directory: Path) -> None:
    store = opened(directory)
    store.add(vectors(range(500)))
    on_disk = store.floor
    assert store.table().floor == pytest.approx(on_disk, abs=1e-6)
    store.remove([key(number) for number in range(480)])
    few = store.floor
    assert few != on_disk
    store.unload()
    assert store.floor == pytest.approx(few, abs=1e-6)
    store.remove(store.keys())
    assert store.floor == DEFAULT_FLOOR


def test_the_smallest_keys_are_chosen_and_sorted() -> None:
    keys = [key(number) for number in range(300)]
    assert [keys[row] for row in smallest(packed(keys), 10)] == sorted(keys)[:10]
    assert [keys[row] for row in smallest(packed(keys[:5]), 10)] == sorted(keys[:5])


# --- damage ----------------------------------------------------------------------------------------------------------


def stored_files(count: int, directory: Path) -> list[Path]:
    store = opened(directory)
    store.add(vectors(range(count)))
    store.settle()
    return sorted(path for path in directory.rglob("*") if path.is_file())


@pytest.mark.parametrize("count", [40, 1500])
@pytest.mark.parametrize("damage", ["emptied", "halved", "removed", "flipped"])
def test_a_damaged_file_is_noticed_or_does_not_matter(directory: Path, count: int, damage: str) -> None:
    whole = vectors(range(count))
    names = [path.relative_to(directory) for path in stored_files(count, directory)]
    original = shutil.copytree(directory, directory.with_name("original"))
    assert len(names) > (5 if count > 1000 else 1)
    for name in names:
        path = directory / name
        raw = path.read_bytes()
        if damage == "removed":
            path.unlink()
        else:
            middle = len(raw) // 2
            flipped = raw[:middle] + bytes([raw[middle] ^ 255]) + raw[middle + 1 :] if raw else raw
            path.write_bytes({"emptied": b"", "halved": raw[:middle], "flipped": flipped}[damage])
        try:
            store = opened(directory)
            assert same(content(store), whole), f"{name} {damage} was not noticed"
            store.settle()
        except IndexDamaged:
            pass
        shutil.rmtree(directory)
        shutil.copytree(original, directory)


def test_a_kill_while_vectors_are_added_is_noticed(directory: Path) -> None:
    stored_files(40, directory)
    child = subprocess.Popen([sys.executable, "-c", _ADD_FOR_EVER, str(directory)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "adding\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    with pytest.raises(IndexDamaged):
        opened(directory)


_ADD_FOR_EVER = """
import hashlib, sys
from pathlib import Path
import numpy as np
from kbgit.index.vectors import VectorStore
store = VectorStore(Path(sys.argv[1]), "model/1", 16)
number = 1000
while True:
    keys = [hashlib.sha256(str(number + step).encode()).hexdigest() for step in range(50)]
    store.add({key: np.eye(16, dtype=np.float32)[0] for key in keys})
    number += 25
    print("adding", flush=True)
"""


def test_an_index_of_another_version_is_damaged(directory: Path) -> None:
    stored_files(5, directory)
    stamp = directory / "stamp.json"
    stamp.write_text(stamp.read_text().replace("vectors/", "older/"))
    with pytest.raises(IndexDamaged, match="version"):
        opened(directory)


def test_vectors_that_are_fewer_than_were_stamped_are_noticed(directory: Path) -> None:
    store = opened(directory)
    store.add(vectors(range(40)))
    store.settle()
    stamp = (directory / "stamp.json").read_bytes()
    store.remove([key(3)])
    store.settle()
    (directory / "stamp.json").write_bytes(stamp)
    with pytest.raises(IndexDamaged, match="40 vectors were written"):
        opened(directory)


def test_what_the_system_refuses_is_no_damage(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    store = VectorStore(tmp_path / "file" / "vectors", MODEL, DIMENSION)
    with pytest.raises(IndexFailure) as raised:
        store.add(vectors(range(3)))
    assert not isinstance(raised.value, IndexDamaged)


def test_memory_is_given_to_whoever_comes_first_and_given_back(tmp_path: Path) -> None:
    memory = VectorMemory(100 * DIMENSION * 4)
    first, second = (VectorStore(tmp_path / name, MODEL, DIMENSION, memory) for name in ("first", "second"))
    first.add(vectors(range(80)))
    second.add(vectors(range(40)))
    assert first.may_be_in_memory()
    first.table()
    assert not second.may_be_in_memory()
    first.add(vectors(range(80, 120)))
    assert not first.may_be_in_memory(), "it has outgrown its room"
    assert not first.is_in_memory
    assert second.may_be_in_memory()
    second.table()
    second.destroy()
    first.remove([key(number) for number in range(50)])
    assert first.may_be_in_memory()
