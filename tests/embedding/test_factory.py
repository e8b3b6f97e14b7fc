from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kbgit.embedding.factory import open_embedder
from kbgit.embedding.hashing import HashingEmbedder
from kbgit.embedding.onnx_model import OnnxEmbedder
from kbgit.errors import EmbeddingFailure, InvalidSetting


def test_none_is_no_embedder(tmp_path: Path) -> None:
    assert open_embedder("none", tmp_path, 1) is None


def test_hashing_is_the_embedder_without_a_model(tmp_path: Path) -> None:
    assert isinstance(open_embedder("hashing", tmp_path, 1), HashingEmbedder)


def test_a_directory_is_opened_with_onnx(tmp_path: Path, write_tiny_model: Callable[..., Path]) -> None:
    embedder = open_embedder(f"onnx:{write_tiny_model(tmp_path)}", tmp_path, 1)
    assert isinstance(embedder, OnnxEmbedder)
    embedder.close()


@pytest.mark.parametrize("name", ["", "e5", "E5-small", "e5-small:", "hashing:x", "none:", "onnx", "onnx:", "openai:"])
def test_another_name_is_refused_and_the_known_ones_are_listed(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidSetting, match=r"e5-small, e5-small-int8, fast, hashing, onnx:DIRECTORY.*none"):
        open_embedder(name, tmp_path, 1)


@pytest.mark.parametrize("name", ["openai:https://host/v1", "openai:#model", "openai:https://host/v1#"])
def test_openai_needs_an_address_and_a_model(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidSetting, match="openai:URL#MODEL"):
        open_embedder(name, tmp_path, 1)


def test_a_directory_without_a_model_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingFailure, match="no model directory"):
        open_embedder(f"onnx:{tmp_path}", tmp_path, 1)
