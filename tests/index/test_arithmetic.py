"""Matrix products run on the thread that asks for them, so that no two of them wait for each other's workers."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info

from kbgit.index.embedded import EmbeddedIndex
from kbgit.index.memory import MemoryIndex
from kbgit.index.vector_table import VectorTable, packed


def test_whoever_opens_an_index_multiplies_on_one_thread(tmp_path: Path) -> None:
    MemoryIndex(3)
    index = EmbeddedIndex(
        tmp_path / "index",
        fingerprint=None,
        dimension=None,
        cache=None,
        vector_memory_bytes=1 << 20,
        postings_memory_bytes=1 << 20,
    )
    index.close()
    assert {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"} <= {1}


def test_the_cosine_of_a_vector_does_not_depend_on_where_it_lies() -> None:
    chance = np.random.default_rng(5)
    rows = chance.standard_normal((301, 384)).astype(np.float32)
    query = chance.standard_normal(384).astype(np.float32)
    keys = [hashlib.sha256(bytes([row % 256, row // 256])).hexdigest() for row in range(len(rows))]
    expected = VectorTable(packed(keys), rows).cosines(query)
    for _ in range(20):
        chosen = chance.permutation(len(rows))[: chance.integers(1, len(rows))]
        table = VectorTable(packed([keys[row] for row in chosen]), np.ascontiguousarray(rows[chosen]))
        assert (table.cosines(query) == expected[chosen]).all()
