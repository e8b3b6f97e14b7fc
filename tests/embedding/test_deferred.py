"""An embedder that is opened when it is first asked."""

from __future__ import annotations

import pytest

from kbgit.embedding.contract import Embedder
from kbgit.embedding.deferred import DeferredEmbedder
from kbgit.embedding.hashing import HashingEmbedder
from kbgit.errors import EmbedderUnavailable, EmbeddingFailure


def test_it_is_opened_once_by_the_first_question_and_never_after_it_was_closed() -> None:
    opened: list[Embedder] = []

    def opening() -> Embedder:
        opened.append(HashingEmbedder())
        return opened[-1]

    embedder = DeferredEmbedder("hashing/1", 64, opening)
    assert not opened
    assert embedder.embed_query("text").tolist() == embedder.embed_passages(["text"])[0].tolist()
    embedder.close()
    embedder.close()
    with pytest.raises(EmbedderUnavailable, match="closed"):
        embedder.embed_query("text")
    assert len(opened) == 1


def test_one_that_cannot_be_opened_is_tried_again() -> None:
    hindrances = ["no model yet"]

    def opening() -> Embedder:
        if hindrances:
            raise EmbeddingFailure(hindrances.pop())
        return HashingEmbedder()

    embedder = DeferredEmbedder("hashing/1", 64, opening)
    with pytest.raises(EmbeddingFailure, match="no model yet"):
        embedder.embed_query("text")
    assert embedder.embed_query("text").shape == (64,)
