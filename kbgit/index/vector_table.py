"""Vectors in memory: all those of a base as one matrix, joined with passages by key, and what is typical of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kbgit.index.contract import Floats, Integers

DEFAULT_FLOOR = 0.75
"""The median cosine between unrelated texts that is assumed where it cannot be measured.

That of multilingual-e5-small is 0.75 to 0.86 within six collections in five languages, and 0.73 across them.
"""
HIGHEST_FLOOR = 0.80
"""The most that a collection's median says of its queries: texts of one kind are closer to each other than a question is to
any of them. Against the bare median this costs at most 0.3 nDCG@10 on six collections and gains 1.5 on the most uniform.
"""
FEWEST_FOR_FLOOR = 30
"""Vectors below which a high median says that the texts are alike, rather than what the model makes of unlike ones."""

UNIT_TOLERANCE = 1e-2
"""How far the length of a unit vector may be from 1."""

Keys = npt.NDArray[np.bytes_]
"""Vector keys as 32 bytes each, dtype S32."""

FLOOR_SAMPLE = 200
"""Vectors whose pairs the floor is the median of."""


def packed(keys: Collection[str]) -> Keys:
    """Hexadecimal SHA-256 keys as an array, shape (len(keys),)."""
    return np.frombuffer(bytes.fromhex("".join(keys)), dtype="S32")


def cosine_floor(keys: Keys, matrix: Floats) -> float:
    """The median cosine between unrelated texts, from the vectors `matrix` (n, dimension) of `keys` (n,).

    Taken over all pairs of the 200 smallest keys: those are hashes, so this is a random sample, and the same one in
    whatever order the vectors came. It is at most HIGHEST_FLOOR, and a few vectors can only lower the default.
    """
    if len(keys) < 2:
        return DEFAULT_FLOOR
    sample = matrix[smallest(keys, FLOOR_SAMPLE)]
    median = float(np.median((sample @ sample.T)[np.triu_indices(len(sample), 1)]))
    return min(median, HIGHEST_FLOOR if len(keys) >= FEWEST_FOR_FLOOR else DEFAULT_FLOOR)


def smallest(keys: Keys, count: int) -> Integers:
    """Indices of the `count` smallest of `keys`, in their order; all of them if there are fewer."""
    heads = _heads(keys)
    chosen = np.argpartition(heads, count)[:count] if count < len(keys) else np.arange(len(keys))
    return chosen[np.argsort(heads[chosen])].astype(np.int64)


def _heads(keys: Keys) -> npt.NDArray[np.uint64]:
    """The first eight bytes of each key as a number."""
    return np.ascontiguousarray(keys).view(">u8").reshape(-1, 4)[:, 0].astype(np.uint64)


@dataclass(frozen=True, eq=False)
class VectorTable:
    """Vectors in memory: `matrix` (n, dimension) and the keys of its rows, `keys` (n,). Immutable."""

    keys: Keys
    matrix: Floats

    def cosines(self, query: Floats) -> Floats:
        """Cosine similarity of the unit vector `query` (dimension,) with each row, shape (n,)."""
        # Row by row: a matrix product rounds a row otherwise at another place, and a rebuilt index would rank ties otherwise.
        similar: Floats = np.vecdot(self.matrix, query)
        return similar

    def rows(self, keys: Keys) -> Integers:
        """The row of each of `keys`, -1 where there is none; shape (len(keys),)."""
        if not len(self.keys) or not len(keys):
            return np.full(len(keys), -1, np.int64)
        heads, order = self._sorted
        at = np.minimum(np.searchsorted(heads, _heads(keys)), len(heads) - 1)
        rows = order[at]
        return np.where(self.keys[rows] == keys, rows, -1)

    def row_of(self, key: str) -> int | None:
        """The row of one key."""
        row = int(self.rows(packed([key]))[0])
        return row if row >= 0 else None

    @cached_property
    def floor(self) -> float:
        """`cosine_floor` of these vectors."""
        return cosine_floor(self.keys, self.matrix)

    @cached_property
    def _sorted(self) -> tuple[npt.NDArray[np.uint64], Integers]:
        heads = _heads(self.keys)
        order = np.argsort(heads, kind="stable").astype(np.int64)
        return heads[order], order
