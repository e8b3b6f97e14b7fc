"""An embedder that is opened when it is first asked: most commands, and a server's start, need no model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from kbgit.embedding.contract import Embedder, Vectors
from kbgit.errors import EmbedderUnavailable


class DeferredEmbedder:
    """Stands for an embedder whose fingerprint and dimension are known without opening it."""

    def __init__(self, fingerprint: str, dimension: int, open_embedder: Callable[[], Embedder]) -> None:
        self.fingerprint = fingerprint
        self.dimension = dimension
        self._open_embedder = open_embedder
        self._opened: Embedder | None = None
        self._is_closed = False
        self._lock = threading.Lock()

    def _embedder(self) -> Embedder:
        with self._lock:
            if self._is_closed:
                raise EmbedderUnavailable("the embedder was closed")
            if self._opened is None:
                self._opened = self._open_embedder()
            return self._opened

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder`. The first call also raises what opening raises, and the next one tries again."""
        return self._embedder().embed_passages(texts)

    def embed_query(self, text: str) -> Vectors:
        """See `Embedder`."""
        return self._embedder().embed_query(text)

    def close(self) -> None:
        """Release the model, if it was opened, and open none any more."""
        with self._lock:
            self._is_closed = True
            if self._opened is not None:
                self._opened.close()
                self._opened = None
