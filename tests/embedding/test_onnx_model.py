from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from kbgit.embedding.onnx_model import OnnxEmbedder
from kbgit.errors import EmbeddingFailure

CLS, SEP, THE, WOLF = 0, 1, 3, 10


def _states(directory: Path, *tokens: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """What the tiny model makes of `tokens`, computed from its table by hand."""
    (table,) = onnx.load(directory / "model.onnx").graph.initializer
    return np.asarray(np.tanh(numpy_helper.to_array(table)[list(tokens)]), np.float32)


def _unit(
    vector: np.ndarray[tuple[int, ...], np.dtype[np.float32]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.asarray(vector / np.linalg.norm(vector), np.float32)


def test_token_states_are_averaged(tmp_path: Path, write_tiny_model: Callable[..., Path]) -> None:
    embedder = OnnxEmbedder(write_tiny_model(tmp_path), 1)
    expected = _unit(_states(tmp_path, CLS, THE, WOLF, SEP).mean(axis=0))
    np.testing.assert_allclose(embedder.embed_passages(["the wolf"])[0], expected, atol=1e-6)


def test_the_first_token_is_taken_where_the_model_says_so(
    tmp_path: Path, write_tiny_model: Callable[..., Path]
) -> None:
    (write_tiny_model(tmp_path) / "model.json").write_text(json.dumps({"pooling": "cls"}))
    expected = _unit(_states(tmp_path, CLS)[0])
    np.testing.assert_allclose(OnnxEmbedder(tmp_path, 1).embed_query("the wolf"), expected, atol=1e-6)


def test_a_sentence_embedding_is_used_where_the_graph_gives_one(
    tmp_path: Path, write_tiny_model: Callable[..., Path]
) -> None:
    embedder = OnnxEmbedder(write_tiny_model(tmp_path, pooled=True), 1)
    expected = _unit(_states(tmp_path, CLS, THE, WOLF, SEP).max(axis=0))
    np.testing.assert_allclose(embedder.embed_query("the wolf"), expected, atol=1e-6)


def test_prefixes_go_before_queries_and_passages(tmp_path: Path, write_tiny_model: Callable[..., Path]) -> None:
    settings = {"query_prefix": "query: ", "passage_prefix": "passage: "}
    plain = OnnxEmbedder(write_tiny_model(tmp_path / "plain"), 1)
    (write_tiny_model(tmp_path / "prefixed") / "model.json").write_text(json.dumps(settings))
    prefixed = OnnxEmbedder(tmp_path / "prefixed", 1)
    np.testing.assert_array_equal(prefixed.embed_query("wolf"), plain.embed_query("query: wolf"))
    np.testing.assert_array_equal(prefixed.embed_passages(["wolf"])[0], plain.embed_query("passage: wolf"))


def test_a_text_is_truncated_to_what_the_model_takes(tmp_path: Path, write_tiny_model: Callable[..., Path]) -> None:
    (write_tiny_model(tmp_path) / "model.json").write_text(json.dumps({"max_tokens": 4}))
    embedder = OnnxEmbedder(tmp_path, 1)
    np.testing.assert_array_equal(embedder.embed_query("the wolf wolf wolf"), embedder.embed_query("the wolf"))


def test_a_graph_that_wants_less_gets_less(tmp_path: Path, write_tiny_model: Callable[..., Path]) -> None:
    full = OnnxEmbedder(write_tiny_model(tmp_path / "full"), 1)
    bare = OnnxEmbedder(write_tiny_model(tmp_path / "bare", inputs=("input_ids",)), 1)
    np.testing.assert_array_equal(full.embed_query("the wolf"), bare.embed_query("the wolf"))


def test_a_graph_that_wants_an_unknown_input_is_refused(tmp_path: Path, write_tiny_model: Callable[..., Path]) -> None:
    write_tiny_model(tmp_path, inputs=("input_ids", "pixel_values"))
    with pytest.raises(EmbeddingFailure, match="pixel_values"):
        OnnxEmbedder(tmp_path, 1)


@pytest.mark.parametrize("file", ["model.onnx", "tokenizer.json"])
@pytest.mark.parametrize("content", [b"", b"garbage", b"{}"])
def test_a_damaged_file_is_a_failure_that_names_it(
    tmp_path: Path, write_tiny_model: Callable[..., Path], file: str, content: bytes
) -> None:
    (write_tiny_model(tmp_path) / file).write_bytes(content)
    with pytest.raises(EmbeddingFailure, match=file.replace(".", r"\.")):
        OnnxEmbedder(tmp_path, 1)


def test_a_tokenizer_of_another_model_is_a_failure(tmp_path: Path, write_tiny_model: Callable[..., Path]) -> None:
    content = json.loads((write_tiny_model(tmp_path) / "tokenizer.json").read_text())
    content["model"]["vocab"]["wolf"] = 99
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(EmbeddingFailure, match=r"model\.onnx failed"):
        OnnxEmbedder(tmp_path, 1).embed_passages(["wolf"])


def test_a_table_with_too_few_words_is_refused(tmp_path: Path, write_tiny_model: Callable[..., Path]) -> None:
    write_tiny_model(tmp_path)
    np.save(tmp_path / "words.npy", np.zeros((5, 8), np.float32))
    (tmp_path / "model.json").write_text(json.dumps({"word_embeddings": "words.npy"}))
    with pytest.raises(EmbeddingFailure, match="fewer rows"):
        OnnxEmbedder(tmp_path, 1)


def test_numbers_that_are_not_finite_are_a_failure(tmp_path: Path, write_tiny_model: Callable[..., Path]) -> None:
    model = onnx.load(write_tiny_model(tmp_path) / "model.onnx")
    table = numpy_helper.to_array(model.graph.initializer[0]).copy()
    table[WOLF] = np.nan
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(table, "table"))
    onnx.save(model, tmp_path / "model.onnx")
    embedder = OnnxEmbedder(tmp_path, 1)
    with pytest.raises(EmbeddingFailure, match="not finite"):
        embedder.embed_passages(["the service", "the wolf"])
    assert embedder.embed_passages(["the service"]).shape == (1, 8)


def test_a_closed_embedder_refuses(tmp_path: Path, write_tiny_model: Callable[..., Path]) -> None:
    embedder = OnnxEmbedder(write_tiny_model(tmp_path), 1)
    embedder.close()
    with pytest.raises(EmbeddingFailure, match="closed"):
        embedder.embed_passages(["wolf"])
    with pytest.raises(EmbeddingFailure, match="closed"):
        embedder.embed_query("wolf")
    embedder.close()


def test_closing_ends_a_batch_that_is_under_way(tmp_path: Path, write_tiny_model: Callable[..., Path]) -> None:
    embedder = OnnxEmbedder(write_tiny_model(tmp_path), 1)
    outcome: list[EmbeddingFailure] = []
    started = threading.Event()

    def embed() -> None:
        try:
            while True:
                embedder.embed_passages(["the wolf rolls back the service"] * 2000)
                started.set()
        except EmbeddingFailure as failure:
            outcome.append(failure)

    thread = threading.Thread(target=embed)
    thread.start()
    assert started.wait(30)
    embedder.close()
    thread.join(30)
    assert [failure.message for failure in outcome] == ["the embedder was closed"]
