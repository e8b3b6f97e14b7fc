"""What every embedder promises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]


class Embedder(Protocol):
    """Turns texts into unit vectors. Deterministic: the same text and `fingerprint` give the same vector."""

    fingerprint: str
    """Names model, weights and pooling; vectors of different fingerprints must never be compared."""
    dimension: int

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of `texts`, shape (len(texts), dimension).

        Raises `EmbeddingFailure`, and if it is certain that no text is to blame, `EmbedderUnavailable`.
        """
        ...

    def embed_query(self, text: str) -> Vectors:
        """Unit vector of a query, shape (dimension,). Raises `EmbeddingFailure`."""
        ...

    def close(self) -> None:
        """Release the model."""
        ...
