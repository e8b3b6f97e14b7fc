"""`hashing`: an embedder without a model, for tests and for a first look.

It counts words and trigrams of characters into 64 signed buckets (feature hashing, Weinberger et al. 2009). Texts that
share words are near each other; it knows nothing of meaning. Never a choice for real search.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence

import numpy as np

from kbgit.embedding.contract import Vectors
from kbgit.embedding.text import readable, unit_rows

_WORD = re.compile(r"\w+")
_TRIGRAM_WEIGHT = 0.25


class HashingEmbedder:
    """Unit vectors of hashed words and trigrams; needs no model, no file and no time."""

    dimension = 64
    fingerprint = "hashing/1"

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of `texts`, shape (len(texts), 64)."""
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for feature, weight in _features(readable(text)):
                bucket, negative = divmod(zlib.crc32(feature.encode()) % (2 * self.dimension), 2)
                row[bucket] += -weight if negative else weight
        return unit_rows(vectors)

    def embed_query(self, text: str) -> Vectors:
        """Unit vector of a query, shape (64,): the same as that of a passage."""
        vector: Vectors = self.embed_passages([text])[0]
        return vector

    def close(self) -> None:
        """Nothing to release."""


def _features(text: str) -> Iterator[tuple[str, float]]:
    for word in _WORD.findall(text.casefold()):
        yield word, 1.0
        framed = f"<{word}>"
        for start in range(len(framed) - 2):
            yield framed[start : start + 3], _TRIGRAM_WEIGHT
