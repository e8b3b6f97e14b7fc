from __future__ import annotations

import logging
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from kbgit.embedding.cache import VectorCache
from kbgit.embedding.contract import Vectors
from kbgit.errors import IndexFailure

MODEL = "model/1"


def vectors(count: int, prefix: str = "key") -> dict[str, Vectors]:
    rows = np.random.default_rng(3).normal(size=(count, 384)).astype(np.float32)
    return {f"{prefix}{number}": row for number, row in enumerate(rows)}


@pytest.fixture
def cache(tmp_path: Path) -> VectorCache:
    return VectorCache(tmp_path / "cache" / "vectors.sqlite")


def test_what_is_put_is_got_bit_for_bit(cache: VectorCache) -> None:
    known = vectors(1200)
    cache.put_many(MODEL, known)
    found = cache.get_many(MODEL, [*known, "unknown"])
    assert found.keys() == known.keys()
    for key, vector in known.items():
        np.testing.assert_array_equal(found[key], vector)
        assert found[key].dtype == np.float32


def test_models_do_not_share_vectors(cache: VectorCache) -> None:
    cache.put_many(MODEL, vectors(2))
    assert cache.get_many("model/2", ["key0"]) == {}
    assert (cache.count(MODEL), cache.count("model/2")) == (2, 0)


def test_putting_again_replaces(cache: VectorCache) -> None:
    cache.put_many(MODEL, vectors(1))
    cache.put_many(MODEL, {"key0": np.ones(3, np.float32)})
    np.testing.assert_array_equal(cache.get_many(MODEL, ["key0"])["key0"], [1, 1, 1])


def test_vectors_outlive_the_process(cache: VectorCache, tmp_path: Path) -> None:
    cache.put_many(MODEL, vectors(3))
    cache.close()
    assert VectorCache(tmp_path / "cache" / "vectors.sqlite").count(MODEL) == 3
    assert cache.count(MODEL) == 3, "a closed cache opens again"


def test_delete_forgets_of_every_model(cache: VectorCache) -> None:
    cache.put_many(MODEL, vectors(4))
    cache.put_many("model/2", vectors(4))
    cache.delete(["key1", "key2", "unknown"])
    assert cache.get_many(MODEL, [f"key{n}" for n in range(4)]).keys() == {"key0", "key3"}
    assert cache.count("model/2") == 2


def test_prune_keeps_only_what_it_is_told_to_keep(cache: VectorCache) -> None:
    cache.put_many(MODEL, vectors(1300))
    cache.put_many("model/2", vectors(5, "other"))
    cache.prune({"key7", "other1", "unknown"})
    assert cache.get_many(MODEL, [f"key{n}" for n in range(1300)]).keys() == {"key7"}
    assert cache.count("model/2") == 1


@pytest.mark.parametrize("forget", ["delete", "prune"])
def test_a_forgotten_vector_leaves_no_byte_on_disk(cache: VectorCache, tmp_path: Path, forget: str) -> None:
    secret = np.frombuffer(b"the vector of a deleted secret!!" * 48, "<f4")
    cache.put_many(MODEL, vectors(50))
    cache.put_many(MODEL, {"secret-key": secret})
    assert b"a deleted secret" in _bytes_below(tmp_path)
    if forget == "delete":
        cache.delete(["secret-key"])
    else:
        cache.prune(vectors(50))
    content = _bytes_below(tmp_path)
    assert b"a deleted secret" not in content
    assert b"secret-key" not in content
    assert cache.count(MODEL) == 50


def _bytes_below(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())


@pytest.mark.parametrize("damage", ["not a database", "zeros", "half", "page"])
def test_a_damaged_file_is_begun_anew_with_a_warning(
    cache: VectorCache, tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "cache" / "vectors.sqlite"
    cache.put_many(MODEL, vectors(200))
    cache.close()
    content = path.read_bytes()
    path.write_bytes(
        {
            "not a database": b"something else entirely" * 1000,
            "zeros": b"\1" * len(content),
            "half": content[: len(content) // 2 // 4096 * 4096],
            "page": content[:4096] + b"\xff" * (len(content) - 4096),
        }[damage]
    )
    with caplog.at_level(logging.WARNING):
        cache.get_many(MODEL, vectors(200))
        cache.put_many(MODEL, vectors(10, "new"))
    assert "will be made again" in caplog.text
    assert cache.get_many(MODEL, vectors(10, "new")).keys() == vectors(10, "new").keys()


def test_damage_that_appears_while_the_file_is_open_is_survived_by_every_thread(
    cache: VectorCache, tmp_path: Path
) -> None:
    cache.put_many(MODEL, vectors(300))
    cache.delete(["key0"])  # folds the write-ahead log into the file
    path = tmp_path / "cache" / "vectors.sqlite"
    with path.open("r+b") as file:
        file.write(b"\xff" * path.stat().st_size)
    with ThreadPoolExecutor(4) as threads:
        for batch in threads.map(lambda n: cache.put_many(MODEL, vectors(20, f"{n}-")), range(8)):
            assert batch is None
    cache.put_many(MODEL, vectors(1, "last"))
    assert "last0" in cache.get_many(MODEL, ["last0"])


def test_a_file_of_another_version_is_begun_anew(cache: VectorCache, tmp_path: Path) -> None:
    cache.put_many(MODEL, vectors(1))
    cache.close()
    connection = sqlite3.connect(tmp_path / "cache" / "vectors.sqlite")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    assert cache.count(MODEL) == 0
    cache.put_many(MODEL, vectors(1))
    assert cache.count(MODEL) == 1


def test_a_file_that_cannot_be_opened_finds_nothing_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "vectors.sqlite").mkdir()
    cache = VectorCache(tmp_path / "vectors.sqlite")
    with caplog.at_level(logging.WARNING):
        assert cache.get_many(MODEL, ["key"]) == {}
        cache.put_many(MODEL, vectors(1))
    assert "cannot read" in caplog.text
    assert "cannot remember" in caplog.text
    with pytest.raises(IndexFailure, match="cannot erase"):
        cache.delete(["key"])


def test_threads_share_a_cache(cache: VectorCache) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: cache.put_many(MODEL, vectors(20, f"{n}-")), range(16)))
        counts = list(threads.map(lambda n: len(cache.get_many(MODEL, vectors(20, f"{n}-"))), range(16)))
    assert counts == [20] * 16


def test_processes_share_a_file(cache: VectorCache, tmp_path: Path) -> None:
    script = (
        "import sys, numpy as np\n"
        "from pathlib import Path\n"
        "from kbgit.embedding.cache import VectorCache\n"
        "cache = VectorCache(Path(sys.argv[1]))\n"
        "for n in range(20):\n"
        "    cache.put_many('model/1', {f'{sys.argv[2]}-{n}': np.full(8, n, np.float32)})\n"
    )
    path = str(tmp_path / "cache" / "vectors.sqlite")
    writers = [subprocess.Popen([sys.executable, "-c", script, path, str(writer)]) for writer in range(3)]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    assert cache.count(MODEL) == 60
