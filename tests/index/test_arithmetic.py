"""Matrix products run on the thread that asks for them, so that no two of them wait for each other's workers."""

from __future__ import annotations

from pathlib import Path

from threadpoolctl import threadpool_info

from kbgit.index.embedded import EmbeddedIndex
from kbgit.index.memory import MemoryIndex


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
