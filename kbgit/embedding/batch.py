"""Embedding a batch of which one text may be poison."""

from __future__ import annotations

from collections.abc import Mapping

from kbgit.embedding.contract import Embedder, Vectors
from kbgit.errors import EmbedderUnavailable, EmbeddingFailure


def embed_batch(embedder: Embedder, texts: Mapping[str, str]) -> tuple[dict[str, Vectors], dict[str, EmbeddingFailure]]:
    """Vectors by key, and what is wrong with the texts that cannot be embedded.

    If the batch fails, each text is tried alone: one that fails then is set aside, and the others go on. Raises
    `EmbeddingFailure` when every one fails: then it is the embedder. Where that says so itself, no text is tried alone or set
    aside; those that have no vector then are in neither answer.
    """
    try:
        return dict(zip(texts, embedder.embed_passages(list(texts.values())), strict=True)), {}
    except EmbeddingFailure as error:
        if len(texts) == 1 or isinstance(error, EmbedderUnavailable):
            raise
    found: dict[str, Vectors] = {}
    failed: dict[str, EmbeddingFailure] = {}
    for key, text in texts.items():
        try:
            found[key] = embedder.embed_passages([text])[0]
        except EmbedderUnavailable:
            if not found:
                raise
            break
        except EmbeddingFailure as error:
            failed[key] = error
    if not found:
        raise next(iter(failed.values()))
    return found, failed
