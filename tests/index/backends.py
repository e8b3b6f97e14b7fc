"""What tests of index backends share: small passages, vectors that depend on nothing else, and answers to compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from kbgit.index.contract import Floats, Index, IndexedPassage, IndexUpdate, Query, Scope, Scores
from kbgit.index.embedded import EmbeddedIndex
from kbgit.index.writer import HERE, Writer

DIMENSION = 16
ADA = "personal:ada/notes"
WEB = "team:web/handbook"
EVERYTHING = Scope({ADA: None, WEB: None})
ONE = "1" * 40
TWO = "2" * 40
MEGABYTES = 1 << 20


def embedded(directory: Path, dimension: int | None = DIMENSION, writer: Writer = HERE) -> Index:
    """The index that kbgit has, on disk; without a dimension it has no embedder."""
    return EmbeddedIndex(
        directory,
        fingerprint=None if dimension is None else "random/1",
        dimension=dimension,
        cache=None,
        vector_memory_bytes=64 * MEGABYTES,
        postings_memory_bytes=64 * MEGABYTES,
        writer=writer,
    )


def passage(item: str, text: str, *, base: str = ADA, revision: str = ONE, ordinal: int = 0) -> IndexedPassage:
    """One passage of an item."""
    return IndexedPassage(base, item, revision, ordinal, f"About {item}", (), (1, 1), text)


def add(index: Index, *passages: IndexedPassage, head: str | None = ONE, removed: Sequence[str] = ()) -> None:
    """Add passages, all of one base."""
    index.update(passages[0].base, IndexUpdate(head, frozenset(removed), passages))


def remove(index: Index, base: str, *items: str, head: str = TWO) -> None:
    """Remove items of a base."""
    index.update(base, IndexUpdate(head, frozenset(items), ()))


def vector_of(key: str) -> Floats:
    """A unit vector that depends on nothing but the key."""
    vector = np.random.default_rng(int(key[:16], 16)).standard_normal(DIMENSION).astype(np.float32)
    return vector / np.float32(np.linalg.norm(vector))


QUERY_VECTOR = vector_of("f" * 64)


def embed(index: Index, base: str = ADA) -> None:
    """Give every passage of a base its vector."""
    while texts := index.pending_vectors(base, 7).texts:
        index.add_vectors(base, {key: vector_of(key) for key in texts})


Place = tuple[str, str, str, int]


@dataclass
class Answer:
    """What `score` answered, by passage, in no order."""

    lexical: dict[Place, float]
    cosine: dict[Place, float] | None
    bound: float
    floor: float

    def close_to(self, other: Answer) -> bool:
        """The same but for rounding."""
        return (
            _close(self.lexical, other.lexical)
            and (self.cosine is None) == (other.cosine is None)
            and _close(self.cosine or {}, other.cosine or {})
            and self.bound == pytest.approx(other.bound, abs=1e-4)
            and self.floor == pytest.approx(other.floor, abs=1e-4)
        )

    @property
    def items(self) -> set[str]:
        """The items with a lexical score."""
        return {place[1] for place, score in self.lexical.items() if score > 0}


def _close(some: Mapping[Place, float], others: Mapping[Place, float]) -> bool:
    return some.keys() == others.keys() and all(
        some[place] == pytest.approx(others[place], abs=1e-4, nan_ok=True) for place in some
    )


def places(scores: Scores) -> list[Place]:
    """Which passages were scored, in the order of the scores."""
    found = [scores.passage(row) for row in range(len(scores.lexical))]
    return [(one.base, one.item_id, one.revision, one.ordinal) for one in found]


def ask(index: Index, text: str, scope: Scope = EVERYTHING, *, exclude: Sequence[str] = ()) -> Answer:
    """What a query in words, and always the same vector, is answered."""
    scores = index.score(Query(text, tuple(exclude), QUERY_VECTOR), scope)
    assert scores.cosine is not None
    assert len(scores.lexical) == len(scores.cosine) == len(scores.item)
    where = places(scores)
    assert len(set(where)) == len(where), "a passage twice"
    return Answer(
        dict(zip(where, scores.lexical.tolist(), strict=True)),
        dict(zip(where, scores.cosine.tolist(), strict=True)),
        scores.lexical_bound,
        scores.cosine_floor,
    )
