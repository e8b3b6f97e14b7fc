"""Decoded posting lists: what one segment holds under a token, as arrays; and the memory that keeps them.

A *term* here is a tuple of tokens that count as one (two spellings of a word, the words a fragment was expanded to):
its posting list is the union of theirs, by the largest weight, so that a passage that has several is not counted twice.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

Term = tuple[str, ...]
"""Tokens that count as one."""

Rows = npt.NDArray[np.int64]
Weights = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]
"""Sorted places of a token in a segment: row × 2³² + position."""

ROW_SHIFT = 32

MOST_COMPLETIONS = 8192
"""Tokens that one character of a script without spaces may stand for; only pairs of characters begin with one."""


@dataclass(frozen=True, slots=True)
class Postings:
    """The rows of a segment that hold a term, ascending, and the term's weight in each."""

    rows: Rows
    weights: Weights

    @property
    def nbytes(self) -> int:
        """Memory of both arrays, in bytes."""
        return self.rows.nbytes + self.weights.nbytes


class PostingSource(Protocol):
    """An immutable segment that posting lists can be read from."""

    @property
    def segment_id(self) -> str:
        """Names the segment; never reused for another."""
        ...

    def read_postings(self, token: str) -> Postings:
        """The posting list of `token`; empty when it does not occur."""
        ...

    def read_places(self, token: str) -> Places:
        """The places of `token`; empty when it does not occur."""
        ...

    def read_lexicon(self) -> str:
        """Every token of the segment, sorted by code point, each between newlines."""
        ...


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The tokens of a segment in one text, for finding those that begin with or contain something."""

    text: str

    @property
    def nbytes(self) -> int:
        """Memory, roughly: most tokens are Latin."""
        return len(self.text)

    def starting_with(self, prefix: str, limit: int) -> list[str]:
        """At most `limit` tokens that begin with `prefix`, sorted."""
        return self._find("\n" + prefix, limit)

    def containing(self, part: str, limit: int) -> list[str]:
        """At most `limit` tokens that contain `part` anywhere, sorted."""
        return self._find(part, limit)

    def _find(self, wanted: str, limit: int) -> list[str]:
        found: list[str] = []
        at = self.text.find(wanted)
        while at >= 0 and len(found) < limit:
            start = self.text.rfind("\n", 0, at + 1) + 1
            end = self.text.find("\n", at + 1)
            found.append(self.text[start:end])
            at = self.text.find(wanted, end)
        return found


@dataclass(frozen=True, slots=True)
class Completion:
    """The tokens that one character stands for."""

    term: Term

    @property
    def nbytes(self) -> int:
        """Memory, roughly."""
        return 80 * len(self.term)


_S = TypeVar("_S", bound=_Sized)
EMPTY = Postings(np.empty(0, np.int64), np.empty(0, np.float32))


class PostingsCache:
    """Posting lists of all segments of all bases in memory, the least recently used going first. Thread-safe."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._bytes = 0
        self._entries: OrderedDict[Hashable, _Sized] = OrderedDict()
        self._lock = Lock()

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        return self._bytes

    def postings(self, source: PostingSource, term: Term) -> Postings:
        """The posting list of `term` in `source`."""
        if len(term) == 1:
            return self._keep((source.segment_id, "postings", term[0]), lambda: source.read_postings(term[0]))
        return self._keep(
            (source.segment_id, "postings", term),
            lambda: _union([self.postings(source, (token,)) for token in term]),
        )

    def places(self, source: PostingSource, term: Term) -> Places:
        """The places of `term` in `source`."""
        if len(term) == 1:
            return self._keep((source.segment_id, "places", term[0]), lambda: source.read_places(term[0]))
        return self._keep(
            (source.segment_id, "places", term),
            lambda: np.unique(np.concatenate([self.places(source, (token,)) for token in term])),
        )

    def lexicon(self, source: PostingSource) -> Lexicon:
        """The tokens of `source`."""
        return self._keep((source.segment_id, "lexicon"), lambda: Lexicon(source.read_lexicon()))

    def completed(self, source: PostingSource, character: str) -> Term:
        """`character`, and every pair of characters in `source` that begins with it, as one term."""

        def read() -> Completion:
            tokens = self.lexicon(source).starting_with(character, MOST_COMPLETIONS)
            return Completion(tuple(dict.fromkeys((character, *tokens))))

        return self._keep((source.segment_id, "completion", character), read).term

    def _keep(self, key: Hashable, read: Callable[[], _S]) -> _S:
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
                return found  # type: ignore[return-value]  # a key's second part says what it holds
        made = read()
        with self._lock:
            if key not in self._entries:
                self._entries[key] = made
                self._bytes += made.nbytes + _ENTRY_BYTES
            while self._bytes > self._limit and self._entries:
                _, dropped = self._entries.popitem(last=False)
                self._bytes -= dropped.nbytes + _ENTRY_BYTES
        return made


_ENTRY_BYTES = 400
"""What an entry costs beside its arrays."""


def _union(lists: Sequence[Postings]) -> Postings:
    """The union of posting lists, by the largest weight."""
    rows = np.concatenate([postings.rows for postings in lists])
    if not rows.size:
        return EMPTY
    weights = np.concatenate([postings.weights for postings in lists])
    order = np.lexsort((-weights, rows))
    rows = rows[order]
    first = np.concatenate(([True], rows[1:] != rows[:-1]))
    return Postings(rows[first], weights[order][first])
