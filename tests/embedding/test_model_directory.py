from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kbgit.embedding.model_directory import read_model_directory
from kbgit.errors import EmbeddingFailure


@pytest.fixture
def directory(tmp_path: Path, write_tiny_model: Callable[..., Path]) -> Path:
    return write_tiny_model(tmp_path / "model")


def _write(path: Path, content: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))


def test_a_graph_and_a_tokenizer_are_enough(directory: Path) -> None:
    settings = read_model_directory(directory)
    assert settings.model == directory / "model.onnx"
    assert (settings.max_tokens, settings.pooling) == (512, "mean")
    assert (settings.query_prefix, settings.passage_prefix, settings.word_embeddings) == ("", "", None)


def test_the_graph_may_be_where_sentence_transformers_puts_it(directory: Path) -> None:
    (directory / "onnx").mkdir()
    (directory / "model.onnx").rename(directory / "onnx" / "model.onnx")
    assert read_model_directory(directory).model == directory / "onnx" / "model.onnx"


def test_settings_of_sentence_transformers_are_understood(directory: Path) -> None:
    _write(directory / "1_Pooling" / "config.json", {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False})
    _write(directory / "sentence_bert_config.json", {"max_seq_length": 256})
    _write(directory / "tokenizer_config.json", {"model_max_length": 10**30})
    _write(directory / "config_sentence_transformers.json", {"prompts": {"query": "q: ", "document": "d: "}})
    settings = read_model_directory(directory)
    assert (settings.max_tokens, settings.pooling) == (256, "cls")
    assert (settings.query_prefix, settings.passage_prefix) == ("q: ", "d: ")


def test_model_json_comes_before_all_else(directory: Path) -> None:
    _write(directory / "sentence_bert_config.json", {"max_seq_length": 256})
    _write(
        directory / "model.json",
        {"fingerprint": "mine/1", "max_tokens": 64, "query_prefix": "ask: ", "word_embeddings": "words.npy"},
    )
    settings = read_model_directory(directory)
    assert (settings.fingerprint, settings.max_tokens, settings.query_prefix) == ("mine/1", 64, "ask: ")
    assert settings.word_embeddings == directory / "words.npy"


def test_word_embeddings_are_sought_in_the_directory_only(directory: Path) -> None:
    _write(directory / "model.json", {"fingerprint": "mine/1", "word_embeddings": "../../etc/words.npy"})
    assert read_model_directory(directory).word_embeddings == directory / "words.npy"


def _change_graph(directory: Path) -> None:
    (directory / "model.onnx").write_bytes(b"another")


def _change_weights(directory: Path) -> None:
    (directory / "model.onnx.data").write_bytes(b"weights beside the graph")


def _change_tokenizer(directory: Path) -> None:
    (directory / "tokenizer.json").write_text("{}")


def _change_settings(directory: Path) -> None:
    _write(directory / "sentence_bert_config.json", {"max_seq_length": 100})


@pytest.mark.parametrize("change", [_change_graph, _change_weights, _change_tokenizer, _change_settings])
def test_the_fingerprint_changes_with_whatever_decides_a_vector(
    directory: Path, change: Callable[[Path], None]
) -> None:
    before = read_model_directory(directory).fingerprint
    assert read_model_directory(directory).fingerprint == before
    change(directory)
    assert read_model_directory(directory).fingerprint != before


@pytest.mark.parametrize("missing", ["model.onnx", "tokenizer.json"])
def test_a_directory_without_graph_or_tokenizer_is_refused(directory: Path, missing: str) -> None:
    (directory / missing).unlink()
    with pytest.raises(EmbeddingFailure, match="no model directory"):
        read_model_directory(directory)


@pytest.mark.parametrize("pooling", ["pooling_mode_max_tokens", "pooling_mode_lasttoken"])
def test_another_pooling_is_refused(directory: Path, pooling: str) -> None:
    _write(directory / "1_Pooling" / "config.json", {pooling: True, "pooling_mode_mean_tokens": False})
    with pytest.raises(EmbeddingFailure, match=pooling):
        read_model_directory(directory)


def test_two_poolings_at_once_are_refused(directory: Path) -> None:
    _write(directory / "1_Pooling" / "config.json", {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True})
    with pytest.raises(EmbeddingFailure, match="pooling"):
        read_model_directory(directory)


def test_a_further_layer_after_pooling_is_refused(directory: Path) -> None:
    (directory / "2_Dense").mkdir()
    with pytest.raises(EmbeddingFailure, match="Dense"):
        read_model_directory(directory)


@pytest.mark.parametrize(
    "content",
    [{"max_tokens": "512"}, {"max_tokens": True}, {"pooling": None}, {"word_embeddings": 1}, {"fingerprint": []}],
)
def test_a_setting_of_another_type_is_refused_by_name(directory: Path, content: dict[str, Any]) -> None:
    _write(directory / "model.json", content)
    with pytest.raises(EmbeddingFailure, match=next(iter(content))):
        read_model_directory(directory)


@pytest.mark.parametrize("content", ["", "{", "[]", "null"])
def test_settings_that_are_no_json_object_are_refused(directory: Path, content: str) -> None:
    (directory / "model.json").write_text(content)
    with pytest.raises(EmbeddingFailure, match=r"model\.json"):
        read_model_directory(directory)
