"""Who changes the files of an index, and reads Chroma's: this process, or one beside it (`kbgit.index.apart`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kbgit.index.chroma import Collection
from kbgit.index.contract import Floats, IndexedPassage
from kbgit.index.lexical_files import write_state


@dataclass(frozen=True, slots=True)
class Failed:
    """What a writer in another process answers when a request came to nothing, and why."""

    message: str
    is_damage: bool


class VectorFiles(Protocol):
    """Chroma's files in a directory, opened. Every method raises `IndexDamaged` for what is not as Chroma needs it."""

    def keys(self) -> list[str]:
        """The keys of all vectors, oldest first."""

    def count(self) -> int:
        """How many vectors there are, as Chroma counts them."""

    def fetch(self, keys: Sequence[str]) -> dict[str, Floats]:
        """The vectors (dimension,) of those of `keys` that have one."""

    def nearest(self, query: Floats, count: int) -> dict[str, float]:
        """About the `count` keys nearest to the unit vector `query` (dimension,), with their cosines."""

    def add(self, keys: Sequence[str], matrix: Floats) -> None:
        """Add vectors, the rows of `matrix` (len(keys), dimension), under keys that have none."""

    def delete(self, keys: Sequence[str]) -> None:
        """Remove the vectors of `keys`."""

    def close(self) -> None:
        """Write out what is to be written, and let the files go."""


class Writer(Protocol):
    """Does what takes time. Thread-safe."""

    def write_state(
        self, directory: Path, generation: int, gone: Sequence[int], added: Sequence[IndexedPassage], head: str | None
    ) -> None:
        """Write the next state of a lexical index; see `kbgit.index.lexical_files.write_state`."""

    def open_vectors(self, directory: Path) -> VectorFiles:
        """Open Chroma's files in `directory`; they are made where there are none."""

    def close(self) -> None:
        """Nothing is asked any more."""


class Here:
    """The writer that is this process itself."""

    def write_state(
        self, directory: Path, generation: int, gone: Sequence[int], added: Sequence[IndexedPassage], head: str | None
    ) -> None:
        """Write the next state of a lexical index. Raises `IndexFailure`."""
        write_state(directory, generation, gone, added, head)

    def open_vectors(self, directory: Path) -> VectorFiles:
        """Open Chroma's files in `directory`. Raises `IndexDamaged`, `IndexFailure`."""
        return Collection(directory)

    def close(self) -> None:
        """Nothing is to be let go."""


HERE = Here()
