"""One base of the default index: the generation that answers, and how it is updated, built anew, given up and removed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import RLock

from kbgit.errors import IndexDamaged, IndexFailure
from kbgit.index.contract import BaseState, Floats, IndexUpdate
from kbgit.index.generation import EMPTY_STATE, Generation, Model, View, remove_tree
from kbgit.index.vectors import VectorStore
from kbgit.index.writer import Writer

log = logging.getLogger(__name__)


class BaseIndex:
    """One base, by the generation that answers. Thread-safe."""

    def __init__(self, base: str, directory: Path, model: Model | None, writer: Writer) -> None:
        self._base = base
        self._directory = directory
        self._model = model
        self._writer = writer
        self._changing = RLock()
        self._current: Generation | None = None
        self._is_open = False
        self._is_dropped = False

    def state(self) -> BaseState:
        """What is indexed."""
        generation = self._present()
        return generation.state if generation else EMPTY_STATE

    def items(self) -> Mapping[str, str]:
        """Item id → revision of what is indexed."""
        generation = self._present()
        return generation.lexical.snapshot().items if generation else {}

    def wanted(self) -> Iterable[str]:
        """The vector keys of all passages."""
        generation = self._present()
        return generation.wanted.keys() if generation else ()

    def view(self) -> View | None:
        """What answers; None where there is nothing."""
        generation = self._present()
        return generation.view() if generation else None

    def update(self, update: IndexUpdate) -> None:
        """Apply one step. Raises `IndexFailure`; then the old state still answers."""
        with self._changing:
            generation = self._present()
            if self._is_dropped:
                raise IndexFailure(f"{self._base} was dropped")
            if generation is None:
                generation = self._current = self._begin(1)
            try:
                generation.apply(update)
            except IndexDamaged as problem:
                self._give_up(generation, problem)
                raise
            with suppress(IndexFailure):  # what has no use any more does no harm; the next update tries again
                self._change_vectors(generation, generation.trim)

    def rebuild(self, updates: Iterable[IndexUpdate]) -> None:
        """Build anew beside what answers. Raises `IndexFailure`; then nothing has changed."""
        current = self._present()
        built = self._begin(current.number + 1 if current else 1)
        try:
            for update in updates:
                built.apply(update)
            with suppress(IndexFailure):  # what is missing yet is embedded as ever
                built.fill()
                built.take_vectors(current)
        except BaseException:
            built.remove()
            raise
        with self._changing:
            if self._is_dropped:
                built.remove()
                raise IndexFailure(f"{self._base} was dropped")
            old, self._current = self._current, built
            if old is not None:
                old.remove()

    def pending(self, limit: int) -> dict[str, str]:
        """Vector key → text of at most `limit` passages without a vector, after the cache was asked for theirs."""
        with self._changing:
            generation = self._present()
            if generation is None:
                return {}
            self._change_vectors(generation, generation.fill)
            try:
                return generation.texts(limit)
            except IndexDamaged as problem:
                self._give_up(generation, problem)
                return {}

    def add_vectors(self, vectors: Mapping[str, Floats]) -> None:
        """Store the vectors of pending passages. Raises `IndexFailure`."""
        with self._changing:
            if generation := self._present():
                self._change_vectors(generation, lambda: generation.add(vectors))

    def lost_vectors(self, vectors: VectorStore | None, problem: IndexFailure) -> None:
        """Begin `vectors` anew, if they are still in use."""
        with self._changing:
            if self._current is not None and self._current.vectors is vectors:
                self._current.lose_vectors(problem)

    def is_sound(self) -> bool:
        """Whether what answers is as it was written; if not, it is given up and the base is empty."""
        with self._changing:
            if self._current is None:
                return False
            try:
                self._current.lexical.refresh()
            except IndexDamaged as problem:
                self._give_up(self._current, problem)
                return False
            except IndexFailure as problem:
                log.error("%s is left out of a search: %s", self._base, problem)
                return False
            return True

    def drop(self, trash: Path) -> None:
        """Remove everything, by way of the directory `trash`. Nothing can be written here any more."""
        with self._changing:
            self._is_dropped = True
            if self._current is not None and self._current.vectors is not None:
                with suppress(IndexFailure):
                    self._current.vectors.destroy()
            self._current = None
            self._is_open = True
            # Renamed first, so that a crash leaves no half of it that could be taken for a base.
            try:
                if self._directory.exists():
                    self._directory.rename(trash)
            except OSError as problem:
                raise IndexFailure(f"{self._directory} cannot be removed: {problem}") from problem
            remove_tree(trash)

    def close(self) -> None:
        """Release files and memory."""
        with self._changing:
            if self._current is not None:
                self._current.close()
            self._current = None
            self._is_open = False

    # --- inside ------------------------------------------------------------------------------------------------------

    def _present(self) -> Generation | None:
        self._open()
        return self._current

    def _open(self) -> None:
        if self._is_open:
            return
        with self._changing:
            if self._is_open:
                return
            for number in self._numbers():
                generation = self._opened(number)
                if generation is None:
                    continue
                if self._current is None or (self._current.state.head is None and generation.state.head is not None):
                    if self._current is not None:
                        self._current.remove()
                    self._current = generation
                else:
                    generation.remove()
            self._is_open = True
            if (current := self._current) is not None:
                # A crash may have come between a step and what follows from it; vectors of no passage move the floor.
                with suppress(IndexFailure):
                    self._change_vectors(current, current.trim)

    def _numbers(self) -> list[int]:
        """The numbers of the generations on disk, the newest first."""
        try:
            names = [path.name for path in self._directory.iterdir()]
        except FileNotFoundError:
            return []
        except OSError as problem:
            raise IndexFailure(f"{self._directory} cannot be read: {problem}") from problem
        return sorted((int(name) for name in names if name.isdecimal()), reverse=True)

    def _opened(self, number: int) -> Generation | None:
        directory = self._directory / str(number)
        try:
            return Generation(number, directory, self._model, self._writer)
        except IndexDamaged as problem:
            log.warning("the index of %s must be built anew: %s", self._base, problem)
            remove_tree(directory)
            return None

    def _begin(self, number: int) -> Generation:
        directory = self._directory / str(number)
        remove_tree(directory)
        return Generation(number, directory, self._model, self._writer)

    def _give_up(self, generation: Generation, problem: IndexFailure) -> None:
        log.error("the index of %s must be built anew: %s", self._base, problem)
        self._current = None
        generation.remove()

    def _change_vectors(self, generation: Generation, change: Callable[[], None]) -> None:
        """Change vectors; damaged ones are begun anew. Raises `IndexFailure` all the same, so that nobody tries at once."""
        try:
            change()
        except IndexDamaged as problem:
            generation.lose_vectors(problem)
            raise
