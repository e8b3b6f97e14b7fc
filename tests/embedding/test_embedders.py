"""The contract of `Embedder`, held against every embedder."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from kbgit.embedding.contract import Embedder

TEXTS = (
    "The service rolls back when the health check fails three times.",
    "Der Wolf frisst das Lamm, Größe und Straße.",
    "L'été, à l'école, on mange des crêpes.",
    "我们使用向量数据库来搜索文档。",
    "日本語のテスト文です。ｆｕｌｌ　ｗｉｄｔｈ",
    "데이터베이스를 복구하는 방법",
    "def get_user_by_id(user_id: int) -> User: ...",
    "short",
)
HOSTILE = {
    "empty": "",
    "spaces": " \t\r\n\u00a0\u3000",
    "controls": "".join(map(chr, range(32))) + "\x7f\x80\x9f",
    "NUL inside": "a\0b",
    "only NUL": "\0\0",
    "lone surrogates": "a\ud800b\udfff",
    "surrogate pair": "\ud83d\ude00",
    "growing ligature": "\ufdfa" * 100,
    "noncharacters": "\ufffe\uffff\ufdd0\U0010ffff",
    "bidi and tags": "\u202eabc\U000e0041\u200b\u200d",
    "combining": "e" + "\u0301" * 500,
    "emoji": "👩‍👩‍👧‍👦" * 50,
    "special tokens": "<s> </s> <pad> <unk> <mask> [CLS] [SEP] ▁▁▁",
    "one long word": "a" * 20_000,
    "very long": "the service rolls back " * 20_000,
    "long without spaces": "配置文件" * 10_000,
}


def test_passages_are_rows_of_unit_length(embedder: Embedder) -> None:
    vectors = embedder.embed_passages(TEXTS)
    assert vectors.shape == (len(TEXTS), embedder.dimension)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_a_query_is_one_vector_of_unit_length(embedder: Embedder) -> None:
    vector = embedder.embed_query("how does the service roll back?")
    assert vector.shape == (embedder.dimension,)
    assert vector.dtype == np.float32
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


def test_no_text_gives_no_row(embedder: Embedder) -> None:
    assert embedder.embed_passages([]).shape == (0, embedder.dimension)


def test_the_same_text_has_the_same_vector_every_time(embedder: Embedder) -> None:
    np.testing.assert_array_equal(embedder.embed_passages(TEXTS), embedder.embed_passages(TEXTS))
    np.testing.assert_array_equal(embedder.embed_query(TEXTS[0]), embedder.embed_query(TEXTS[0]))


def test_a_vector_does_not_depend_on_its_batch(embedder: Embedder) -> None:
    together = embedder.embed_passages(TEXTS)
    alone = np.concatenate([embedder.embed_passages([text]) for text in TEXTS])
    backwards = embedder.embed_passages(TEXTS[::-1])[::-1]
    np.testing.assert_allclose(together, alone, atol=1e-4)
    np.testing.assert_allclose(together, backwards, atol=1e-4)


def test_a_text_is_nearest_to_itself(embedder: Embedder) -> None:
    texts = ("the service rolls back", "wolf", "the wolf")
    passages = embedder.embed_passages(texts)
    for row, text in enumerate(texts):
        assert int(np.argmax(passages @ embedder.embed_query(text))) == row


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_text_has_a_vector_like_any_other(embedder: Embedder, kind: str) -> None:
    vectors = embedder.embed_passages(["before", HOSTILE[kind], "after"])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(vectors[[0, 2]], embedder.embed_passages(["before", "after"]), atol=1e-4)
    assert np.linalg.norm(embedder.embed_query(HOSTILE[kind])) == pytest.approx(1, abs=1e-5)


def test_threads_get_what_one_thread_gets(embedder: Embedder) -> None:
    expected_passages = embedder.embed_passages(TEXTS)
    expected_queries = np.stack([embedder.embed_query(text) for text in TEXTS])
    with ThreadPoolExecutor(6) as threads:
        passages = [threads.submit(embedder.embed_passages, TEXTS) for _ in range(4)]
        queries = list(threads.map(embedder.embed_query, TEXTS * 4))
    for future in passages:
        np.testing.assert_allclose(future.result(), expected_passages, atol=1e-4)
    np.testing.assert_allclose(np.stack(queries), np.tile(expected_queries, (4, 1)), atol=1e-4)


def test_a_fingerprint_names_the_model(embedder: Embedder) -> None:
    assert embedder.fingerprint
    assert embedder.fingerprint.isprintable()
