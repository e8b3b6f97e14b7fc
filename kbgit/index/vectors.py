"""The vectors of one base: in Chroma on disk (`kbgit.index.chroma`), and exactly in memory.

    store = VectorStore(directory, fingerprint, dimension)
    store.add({key: vector})                      # unit vectors by the SHA-256 of the text that was embedded
    table = store.table()                         # all of them as one immutable matrix
    table.cosines(query), table.rows(keys)        # exact, and joined by key
    store.nearest(query, count)                   # Chroma's approximate search, when the matrix is not to be in memory
    store.settle()                                # everything so far is durable and whole

Chroma holds keys, vectors and one constant of metadata; no text. Its directory is private to one process. A client costs
5 MB, 6 threads and 11 open files, so it is open only while something is written or searched in it (opening takes 10 ms)
and 50 bases at rest cost nothing but their matrices.

Durability. Chroma changes its files in place, does not sync all of them, and can be wedged by a kill in a way that later
shows in some queries only; a cut file can make it crash the whole process. So a *stamp* (see `kbgit.index.stamp`) names
its files by size and CRC-32; it is removed before the first change and written when the client is closed, and Chroma is
shown no file that is not as it was stamped. A store that a kill left unstamped is damaged, which costs little: vectors
come back from the cache of embeddings.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from threading import Lock, RLock

import numpy as np

from kbgit.errors import IndexDamaged, IndexFailure
from kbgit.index.chroma import DATABASE, LARGEST_PAGE, SAVED_GRAPH, translated
from kbgit.index.contract import Floats
from kbgit.index.stamp import STAMP_NAME, Stamp
from kbgit.index.vector_table import FLOOR_SAMPLE, UNIT_TOLERANCE, VectorTable, cosine_floor, packed
from kbgit.index.writer import HERE, VectorFiles, Writer

VERSION = "vectors/1"
_PROBES = 3


class VectorMemory:
    """How many bytes of vectors may be in memory, over all bases; who comes first is served first. Thread-safe."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._admitted: dict[VectorStore, int] = {}
        self._taken = 0
        self._lock = Lock()

    def admits(self, store: VectorStore) -> bool:
        """Whether there is room for all of `store`, which it takes then. One that has outgrown its room loses it."""
        with self._lock:
            self._taken -= self._admitted.pop(store, 0)
            size = store.nbytes
            if self._taken + size > self._limit:
                return False
            self._admitted[store] = size
            self._taken += size
            return True

    def leave(self, store: VectorStore) -> None:
        """Give its room back."""
        with self._lock:
            self._taken -= self._admitted.pop(store, 0)


class VectorStore:
    """The vectors of one base in a directory of its own. Thread-safe.

    Every method may raise `IndexDamaged`: the store is of no use then, `destroy` it and open another. `IndexFailure`
    says that the system refused something (a permission, the disk is full).
    """

    def __init__(
        self,
        directory: Path,
        fingerprint: str,
        dimension: int,
        memory: VectorMemory | None = None,
        writer: Writer = HERE,
    ) -> None:
        """Open what is in `directory`; start anew where there is nothing, or vectors of another `fingerprint`.

        What `memory` admits (None: anything) is read into memory at once. `writer` opens Chroma's files.
        """
        self.dimension = dimension
        self._directory = directory
        self._fingerprint = fingerprint
        self._memory = memory
        self._writer = writer
        self._lock = RLock()
        self._is_destroyed = False
        self._chroma: VectorFiles | None = None
        self._keys: dict[str, None] = {}
        self._table: VectorTable | None = None
        self._buffer: Floats = np.empty((0, dimension), np.float32)
        self._sampled_floor: float | None = None
        self._opened_marks: list[tuple[str, int, int]] = []
        stamp = self._whole_stamp()
        if stamp is not None:
            try:
                self._read_keys(stamp.generation)
            except IndexFailure:
                if self._memory is not None:
                    self._memory.leave(self)
                if self._chroma is not None:
                    with suppress(IndexFailure):
                        self._chroma.close()  # or whoever opens the directory next would get this client
                raise

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def keys(self) -> Collection[str]:
        """The keys of all vectors, oldest first; a copy."""
        with self._lock:
            return tuple(self._keys)

    @property
    def nbytes(self) -> int:
        """Size of all vectors as a matrix, in bytes, whether it is in memory or not."""
        return len(self._keys) * self.dimension * 4

    @property
    def is_in_memory(self) -> bool:
        """Whether `table` answers without reading the disk."""
        return self._table is not None

    def may_be_in_memory(self) -> bool:
        """Whether there is room for `table`; if not, memory that it had is freed."""
        if self._memory is None or self._memory.admits(self):
            return True
        self.unload()
        return False

    # --- writing -----------------------------------------------------------------------------------------------------

    def add(self, vectors: Mapping[str, Floats]) -> None:
        """Store unit vectors (dimension,) by key; a key that is there already gets the new one."""
        if not vectors:
            return
        keys = list(vectors)
        matrix = np.stack([np.asarray(vectors[key], np.float32) for key in keys])
        with self._lock:
            chroma = self._writing()
            self._forget([key for key in keys if key in self._keys], chroma)
            chroma.add(keys, matrix)
            self._keys.update(dict.fromkeys(keys))
            self._sampled_floor = None
            if self._table is not None:
                self._append(self._table, keys, matrix)

    def remove(self, keys: Collection[str]) -> None:
        """Remove the vectors of those of `keys` that have one."""
        with self._lock:
            known = [key for key in keys if key in self._keys]
            if known:
                self._forget(known, self._writing())

    def settle(self) -> None:
        """Make all changes durable and close the files."""
        with self._lock:
            chroma, self._chroma = self._chroma, None
            if chroma is None:
                return
            chroma.close()
            with translated(self._directory):
                if self._marks() != self._opened_marks or not (self._directory / STAMP_NAME).exists():
                    # The stamp's head and generation are what its files must agree with: the model, and how many.
                    Stamp.write(self._directory, VERSION, self._fingerprint, len(self._keys), self._files(), None)

    def destroy(self) -> None:
        """Remove every file. The store is empty then, and takes no more vectors; tables that were handed out stay valid.

        Who still holds it cannot make its directory come back.
        """
        with self._lock:
            self._is_destroyed = True
            chroma, self._chroma = self._chroma, None
            if chroma is not None:
                with suppress(IndexFailure):  # what is removed need not be whole
                    chroma.close()
            self.unload()
            self._keys = {}
            self._sampled_floor = None
            with translated(self._directory):
                if self._directory.exists():
                    shutil.rmtree(self._directory)

    # --- reading -----------------------------------------------------------------------------------------------------

    def table(self) -> VectorTable:
        """All vectors, read into memory by the first call and kept there until `unload`."""
        if (known := self._table) is not None:
            return known  # without waiting for a writer
        with self._lock:
            if self._table is None:
                self._load()
                self._rest()
            assert self._table is not None
            return self._table

    def unload(self) -> None:
        """Free the memory of `table`; tables that were handed out stay valid."""
        if self._memory is not None:
            self._memory.leave(self)
        if self._table is None:
            return
        with self._lock:
            self._table = None
            self._buffer = np.empty((0, self.dimension), np.float32)

    def vectors(self, keys: Sequence[str]) -> Floats:
        """The vectors of `keys`, all of which must be known; shape (len(keys), dimension)."""
        matrix = np.empty((len(keys), self.dimension), np.float32)
        with self._lock:
            for start in range(0, len(keys), LARGEST_PAGE):
                page = keys[start : start + LARGEST_PAGE]
                found = self._reading().fetch(page)
                if found.keys() != set(page):
                    raise IndexDamaged(f"{self._directory}: Chroma lost {len(set(page) - found.keys())} vectors")
                for row, key in enumerate(page, start):
                    matrix[row] = found[key]
        if len(keys) and np.abs(np.linalg.norm(matrix, axis=1) - 1).max() > UNIT_TOLERANCE:
            raise IndexDamaged(f"{self._directory}: Chroma's vectors are not of unit length")
        return matrix

    def nearest(self, query: Floats, count: int) -> dict[str, float]:
        """About the `count` keys nearest to the unit vector `query`, with their cosines; approximate."""
        with self._lock:
            if not self._keys:
                return {}
            return self._reading().nearest(query, min(count, len(self._keys)))

    @property
    def floor(self) -> float:
        """`cosine_floor` of all vectors, also when they are not in memory."""
        if (table := self._table) is not None:
            return table.floor  # without waiting for a writer
        with self._lock:
            if self._sampled_floor is None:
                keys = sorted(self._keys)[:FLOOR_SAMPLE]
                self._sampled_floor = cosine_floor(packed(keys), self.vectors(keys))
            return self._sampled_floor

    # --- inside ------------------------------------------------------------------------------------------------------

    def _whole_stamp(self) -> Stamp | None:
        """The stamp, if vectors of this fingerprint are there and every file is as it was stamped. None: nothing is."""
        with translated(self._directory):
            if not self._directory.is_dir() or not any(self._directory.iterdir()):
                return None
            stamp = Stamp.read(self._directory, VERSION)
            if stamp.head != self._fingerprint:
                shutil.rmtree(self._directory)
                return None
            stamp.check(self._directory)
            # Every opening adds a row to this file, so that a CRC cannot tell.
            if not (self._directory / DATABASE).is_file():
                raise IndexDamaged(f"{self._directory / DATABASE} is missing")
            with closing(sqlite3.connect(self._directory / DATABASE)) as database:
                answer = database.execute("PRAGMA quick_check(1)").fetchone()[0]
            if answer != "ok":
                raise IndexDamaged(f"{self._directory / DATABASE}: {answer}")
        return stamp

    def _read_keys(self, stamped: int) -> None:
        """Read the keys, and ask Chroma for some vectors by themselves: a wedged collection does not find them."""
        chroma = self._reading()
        self._keys = dict.fromkeys(chroma.keys())
        counts = {stamped, chroma.count(), len(self._keys)}
        if len(counts) > 1:
            raise IndexDamaged(f"{self._directory}: {stamped} vectors were written, Chroma has {len(self._keys)}")
        some = slice(None, None, max(1, len(self._keys) // _PROBES))
        if self.may_be_in_memory():
            probes = self._load().matrix[some][:_PROBES]
        else:
            probes = self.vectors(list(self._keys)[some][:_PROBES])
        for probe in probes:
            if max(chroma.nearest(probe, 1).values(), default=0.0) < 1 - UNIT_TOLERANCE:
                raise IndexDamaged(f"{self._directory}: Chroma does not find a vector by itself")
        self._rest()

    def _load(self) -> VectorTable:
        """Read all vectors into memory."""
        keys = list(self._keys)
        self._buffer = np.empty((0, self.dimension), np.float32)
        self._table = VectorTable(packed(keys), self.vectors(keys))
        return self._table

    def _files(self) -> list[str]:
        """Names of the files that do not change until something is written.

        A graph that was not saved yet (it is from about 1,000 vectors on) has files, but Chroma makes them anew, of
        arbitrary content, whenever it opens them.
        """
        graphs = [path.parent for path in self._directory.glob(f"*/{SAVED_GRAPH}")]
        found = (path.relative_to(self._directory) for graph in graphs for path in graph.iterdir())
        return sorted(path.as_posix() for path in found)

    def _marks(self) -> list[tuple[str, int, int]]:
        states = ((name, (self._directory / name).stat()) for name in self._files())
        return [(name, state.st_size, state.st_mtime_ns) for name, state in states]

    def _reading(self) -> VectorFiles:
        self._check_there()
        if self._chroma is None:
            with translated(self._directory):
                self._opened_marks = self._marks()
            self._chroma = self._writer.open_vectors(self._directory)
        return self._chroma

    def _check_there(self) -> None:
        if self._is_destroyed:
            raise IndexFailure(f"the vectors in {self._directory} were removed")

    def _rest(self) -> None:
        """Close the files, unless changes are under way."""
        if (self._directory / STAMP_NAME).exists():
            self.settle()

    def _writing(self) -> VectorFiles:
        """Chroma, its files no longer vouched for."""
        self._check_there()
        with translated(self._directory):
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self._directory / STAMP_NAME).unlink(missing_ok=True)
        return self._reading()

    def _forget(self, keys: Sequence[str], chroma: VectorFiles) -> None:
        if not keys:
            return
        chroma.delete(keys)
        for key in keys:
            del self._keys[key]
        self._sampled_floor = None
        if self._table is not None:
            gone = self._table.rows(packed(keys))
            kept = np.ones(len(self._table.keys), np.bool_)
            kept[gone[gone >= 0]] = False
            self._buffer = self._table.matrix[kept]
            self._table = VectorTable(self._table.keys[kept], self._buffer)

    def _append(self, table: VectorTable, keys: Sequence[str], matrix: Floats) -> None:
        """Replace the table by one with more rows. Tables share a buffer that grows behind their ends."""
        start, end = len(table.keys), len(table.keys) + len(keys)
        if end > len(self._buffer):
            self._buffer = np.empty((end + end // 4, self.dimension), np.float32)
            self._buffer[:start] = table.matrix
        self._buffer[start:end] = matrix
        self._table = VectorTable(np.concatenate([table.keys, packed(keys)]), self._buffer[:end])
