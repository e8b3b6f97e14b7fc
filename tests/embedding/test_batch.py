"""A batch of which one text, or the embedder, is to blame."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kbgit.embedding.batch import embed_batch
from kbgit.embedding.contract import Vectors
from kbgit.embedding.hashing import HashingEmbedder
from kbgit.errors import EmbedderUnavailable, EmbeddingFailure

TEXTS = {str(number): f"text {number}" for number in range(5)}


class Capricious(HashingEmbedder):
    """Fails for every batch with a text of `poison`, and is gone after `answers` answers."""

    def __init__(self, poison: Sequence[str] = (), answers: int = 1000) -> None:
        self.poison = set(poison)
        self.answers = answers
        self.asked = 0

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        self.asked += 1
        if self.asked > self.answers:
            raise EmbedderUnavailable("nobody is there")
        if self.poison & set(texts):
            raise EmbeddingFailure("poison")
        return super().embed_passages(texts)


def test_a_batch_is_embedded_at_once() -> None:
    embedder = Capricious()
    found, failed = embed_batch(embedder, TEXTS)
    assert (list(found), failed, embedder.asked) == (list(TEXTS), {}, 1)


def test_a_poisoned_text_is_set_aside() -> None:
    found, failed = embed_batch(Capricious(["text 2"]), TEXTS)
    assert (list(found), list(failed)) == (["0", "1", "3", "4"], ["2"])


def test_where_every_text_fails_it_is_the_embedder() -> None:
    with pytest.raises(EmbeddingFailure, match="poison"):
        embed_batch(Capricious(list(TEXTS.values())), TEXTS)


def test_an_embedder_that_is_not_there_is_asked_once() -> None:
    embedder = Capricious(answers=0)
    with pytest.raises(EmbedderUnavailable):
        embed_batch(embedder, TEXTS)
    assert embedder.asked == 1


def test_an_embedder_that_leaves_amid_a_batch_puts_the_blame_on_no_text() -> None:
    found, failed = embed_batch(Capricious(["text 1"], answers=3), TEXTS)
    assert (list(found), list(failed)) == (["0"], ["1"])
    with pytest.raises(EmbedderUnavailable):
        embed_batch(Capricious(["text 0"], answers=2), TEXTS)
