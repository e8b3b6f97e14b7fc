"""One directory of vectors as Chroma keeps it. The only module that knows Chroma.

    opened = Collection(directory)              # made where there is nothing
    opened.add(keys, matrix), opened.delete(keys)
    opened.fetch(keys), opened.nearest(query, count)
    opened.close()

Chroma holds keys, vectors and one constant of metadata; no text. An open client costs 5 MB, 6 threads and 11 open files.
What makes its files durable, and finds out that they are not whole, is `kbgit.index.vectors`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from kbgit.errors import IndexDamaged, IndexFailure
from kbgit.index.allocation import fill_new_memory
from kbgit.index.contract import Floats

DATABASE = "chroma.sqlite3"
SAVED_GRAPH = "index_metadata.pickle"
LARGEST_PAGE = 2000
_NAME = "vectors"
_METADATA = {"kind": "passage"}  # Chroma refuses to have none
# Search as exact as the graph allows: beyond the memory bound there is no second chance.
_GRAPH = {"space": "cosine", "ef_construction": 200, "ef_search": 500}


@cache
def _settings() -> Any:  # noqa: ANN401 - Chroma's settings, whose type is known once it is imported
    """Chroma's settings: read once, because that takes longer than opening a collection."""
    from chromadb.config import Settings

    return Settings(
        _env_file=None,  # a stray .env must not choose another server
        anonymized_telemetry=False,
        chroma_api_impl="chromadb.api.rust.RustBindingsAPI",
    )


class Collection:
    """Chroma's collection in a directory, opened; made if it is not there. Every complaint becomes `IndexDamaged`."""

    def __init__(self, directory: Path) -> None:
        # Not at the top: importing Chroma takes half a second and 50 MB, which commands without vectors need not pay.
        import chromadb
        from chromadb.errors import ChromaError

        fill_new_memory()  # before anything is allocated that Chroma may write out unfilled
        self._directory = directory
        self._foreign = (ChromaError, RuntimeError, ValueError)
        with self._translated():
            self._client: Any = chromadb.PersistentClient(path=str(directory), settings=_settings().model_copy())
            try:
                self._collection: Any = self._client.get_or_create_collection(
                    _NAME, embedding_function=None, configuration={"hnsw": _GRAPH}
                )
                self._largest_batch = int(self._client.get_max_batch_size())
            except BaseException:
                self._client.close()
                raise

    def keys(self) -> list[str]:
        """The keys of all vectors, oldest first."""
        with self._translated():
            return list(self._collection.get(include=[])["ids"])

    def count(self) -> int:
        """How many vectors there are, as Chroma counts them."""
        with self._translated():
            return int(self._collection.count())

    def fetch(self, keys: Sequence[str]) -> dict[str, Floats]:
        """The vectors (dimension,) of those of `keys` that have one."""
        if not keys:
            return {}  # to Chroma no ids means every id
        with self._translated():
            found = self._collection.get(ids=list(keys), include=["embeddings"])
            return dict(zip(found["ids"], np.asarray(found["embeddings"], np.float32), strict=True))

    def nearest(self, query: Floats, count: int) -> dict[str, float]:
        """About the `count` keys nearest to `query` (dimension,), with their cosines."""
        with self._translated():
            found = self._collection.query(query_embeddings=query[None, :], n_results=count, include=["distances"])
            return {key: 1.0 - distance for key, distance in zip(found["ids"][0], found["distances"][0], strict=True)}

    def add(self, keys: Sequence[str], matrix: Floats) -> None:
        """Add the rows of `matrix` (len(keys), dimension)."""

        def add(start: int, end: int) -> None:
            page = list(keys[start:end])
            self._collection.add(ids=page, embeddings=matrix[start:end], metadatas=[_METADATA] * len(page))

        self._paged(len(keys), add)

    def delete(self, keys: Sequence[str]) -> None:
        """Remove the vectors of `keys`."""
        self._paged(len(keys), lambda start, end: self._collection.delete(ids=list(keys[start:end])))

    def close(self) -> None:
        """Write out what is to be written, and let the files go."""
        with self._translated():
            self._client.close()

    def _paged(self, total: int, step: Callable[[int, int], None]) -> None:
        page = min(self._largest_batch, LARGEST_PAGE)
        with self._translated():
            for start in range(0, total, page):
                step(start, min(start + page, total))

    def _translated(self) -> AbstractContextManager[None]:
        return translated(self._directory, *self._foreign)


@contextmanager
def translated(directory: Path, *foreign: type[Exception]) -> Iterator[None]:
    """SQLite's and the `foreign` complaints as `IndexDamaged`, the system's refusals as `IndexFailure`."""
    damage: tuple[type[Exception], ...] = (sqlite3.Error, *foreign)
    try:
        yield
    except (OSError, sqlite3.OperationalError) as problem:
        raise IndexFailure(f"vectors in {directory}: {problem}") from problem
    except damage as problem:
        raise IndexDamaged(f"vectors in {directory}: {problem}") from problem
