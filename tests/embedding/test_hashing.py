from __future__ import annotations

import numpy as np

from kbgit.embedding.hashing import HashingEmbedder


def test_texts_that_share_words_are_near_each_other() -> None:
    embedder = HashingEmbedder()
    passages = embedder.embed_passages(["roll back a failed deployment", "rotate the database password", "bake bread"])
    scores = passages @ embedder.embed_query("deployment failed, how to roll back")
    assert int(np.argmax(scores)) == 0
    assert scores[0] > 0.5


def test_parts_of_words_count() -> None:
    embedder = HashingEmbedder()
    passages = embedder.embed_passages(["deployments", "bread"])
    scores = passages @ embedder.embed_query("deployment")
    assert scores[0] > scores[1] + 0.2


def test_case_does_not_count() -> None:
    embedder = HashingEmbedder()
    np.testing.assert_array_equal(embedder.embed_query("Straße ROLLBACK"), embedder.embed_query("STRASSE rollback"))


def test_vectors_are_the_same_in_every_process() -> None:
    vector = HashingEmbedder().embed_query("wolf")
    assert {int(bucket): round(float(vector[bucket]), 4) for bucket in np.flatnonzero(vector)} == {
        15: 0.2132,
        36: -0.2132,
        46: 0.4264,
        49: 0.8528,
    }
