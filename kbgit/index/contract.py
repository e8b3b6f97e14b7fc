"""What every index backend promises.

A backend holds, for each base, the passages of the published items at one head, and scores them. It never decides
who may see what: callers pass a `Scope` and a backend scores nothing outside it, so that neither a result nor a
statistic (document frequency, average length, count) can come from a passage the caller may not read.

All state is derived. A backend stamps a base with the head it was built from only after everything else is durable.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class IndexedPassage:
    """A passage with what is needed to rank and to show it.

    `base` is the base's key, `revision` the full commit SHA, `lines` the 1-based inclusive lines in the canonical
    content. `title`, `description`, `tags`, `section` and `locator` are searched with more weight than `text`.
    """

    base: str
    item_id: str
    revision: str
    ordinal: int
    title: str
    section: tuple[str, ...]
    lines: tuple[int, int]
    text: str
    locator: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()

    @property
    def embedding_text(self) -> str:
        """The text that is embedded: the passage under its title and headings, so that it stands alone."""
        heading = " > ".join(dict.fromkeys(part for part in (self.title, *self.section) if part))
        return f"{heading}\n{self.text}" if heading else self.text

    @property
    def vector_key(self) -> str:
        """SHA-256 (hex) of `embedding_text`: equal texts share one vector, so nothing is embedded twice."""
        return hashlib.sha256(self.embedding_text.encode("utf-8", "surrogatepass")).hexdigest()


def item_number(item_id: str) -> int:
    """64 bits of an item's id, signed; with 64 bits of a passage's vector key it gives `Scores.order`."""
    return int.from_bytes(
        hashlib.blake2b(item_id.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big", signed=True
    )


@dataclass(frozen=True, slots=True)
class IndexUpdate:
    """The step of one base from whatever is indexed to `head`: atomic, and idempotent.

    Every passage of the items in `removed` goes, then `added` comes. An item that changed is in both. A `head` of None
    says that more steps follow before any head is reached: the stamp stays as it is.
    """

    head: str | None
    removed: frozenset[str]
    added: Sequence[IndexedPassage]


@dataclass(frozen=True, slots=True)
class BaseState:
    """What is indexed of a base: `head` is None when nothing is; `vectors` of `passages` have their vector."""

    head: str | None
    items: int
    passages: int
    vectors: int


@dataclass(frozen=True, slots=True)
class Scope:
    """What a query may touch: base key → item ids, or None for every indexed item of that base."""

    bases: Mapping[str, frozenset[str] | None]


@dataclass(frozen=True, slots=True)
class Query:
    """A query for both legs.

    `text` is any text; parts in double quotes are exact phrases that must occur. `exclude` are words or phrases that
    must not occur. `vector` (unit length, the embedder's dimension) asks for the semantic leg; None leaves it out.
    """

    text: str
    exclude: tuple[str, ...] = ()
    vector: Floats | None = None


class Scores(Protocol):
    """Both legs' scores for every passage in scope, n of them, as parallel arrays, from one snapshot.

    A passage that a required phrase or an exclusion rules out is not among the n.
    """

    @property
    def lexical(self) -> Floats:
        """BM25 scores, shape (n,); 0 where no query term occurs."""
        ...

    @property
    def lexical_bound(self) -> float:
        """The query's own upper bound of `lexical`, unseen terms included; > 0."""
        ...

    @property
    def cosine(self) -> Floats | None:
        """Cosine similarities, shape (n,), NaN where a passage has no vector yet; None when the leg was not asked."""
        ...

    @property
    def cosine_floor(self) -> float:
        """The median cosine between unrelated texts, from which a cosine begins to mean something."""
        ...

    @property
    def item(self) -> Integers:
        """Item ordinal of each passage, shape (n,): passages of one item share it. Not stable between queries."""
        ...

    def order(self, rows: Integers) -> Integers:
        """A number for each of `rows` that depends on the passage alone: equal scores are ordered by it, in every index of
        the same passages alike."""
        ...

    def passage(self, row: int) -> IndexedPassage:
        """The passage at `row` (0 ≤ row < n)."""
        ...


@dataclass(frozen=True, slots=True)
class PendingVectors:
    """Passages of a base that have no vector yet: vector key → text to embed, newest first."""

    base: str
    texts: Mapping[str, str] = field(default_factory=dict)


class Index(Protocol):
    """An index of all bases of a home. Methods may be called from several threads; `update` serialises itself."""

    def state(self, base: str) -> BaseState:
        """What is indexed of `base`; the empty state for an unknown base."""
        ...

    def items(self, base: str) -> Mapping[str, str]:
        """Item id → revision of everything indexed of `base`."""
        ...

    def update(self, base: str, update: IndexUpdate) -> None:
        """Apply one step, durably, then stamp its head. Raises `IndexFailure`; then the old state still answers."""
        ...

    def rebuild(self, base: str, updates: Iterable[IndexUpdate]) -> None:
        """Build `base` anew from nothing by `updates`, of which the last has a head. Until that is complete, everything
        answers from what was there, and so it stays if this raises; then all changes at once. Vectors that are known are
        kept. Whoever calls this lets nobody `update` the base meanwhile."""
        ...

    def pending_vectors(self, base: str, limit: int) -> PendingVectors:
        """At most `limit` passages without vector, the most recently indexed first."""
        ...

    def add_vectors(self, base: str, vectors: Mapping[str, Floats]) -> None:
        """Store unit vectors by vector key; keys that no passage has (any more) are ignored."""
        ...

    def score(self, query: Query, scope: Scope) -> Scores:
        """Score every passage in `scope`. Any text is a valid query; nothing in it raises."""
        ...

    def drop(self, base: str) -> None:
        """Forget a base entirely: no byte of its passages or vectors stays on disk."""
        ...

    def bases(self) -> Iterable[str]:
        """Keys of the bases that have anything indexed."""
        ...

    def close(self) -> None:
        """Release files and locks. The index can be opened again."""
        ...
