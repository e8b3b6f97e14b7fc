from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from kbgit.embedding.word_table import BLOCK, WordTable, dequantised
from kbgit.errors import EmbeddingFailure


def _blocks(*contents: tuple[float, list[int]]) -> npt.NDArray[np.void]:
    """Blocks of (scale, 32 levels), packed by hand: byte j has weight j below and weight j + 16 above."""
    packed = b"".join(
        np.float16(scale).tobytes() + bytes(levels[j] | levels[j + 16] << 4 for j in range(16))
        for scale, levels in contents
    )
    return np.frombuffer(packed, BLOCK)


def test_a_block_is_a_scale_times_levels_around_eight() -> None:
    levels = [(7 * j) % 16 for j in range(32)]
    expected = [0.5 * (level - 8) for level in levels] + [-2.0 * (level - 8) for level in levels[::-1]]
    weights = dequantised(_blocks((0.5, levels), (-2.0, levels[::-1])))
    np.testing.assert_array_equal(weights, np.array(expected, np.float32))


def test_rows_of_blocks_are_looked_up_and_dequantised(tmp_path: Path) -> None:
    np.save(tmp_path / "words.npy", np.stack([_blocks((row + 1, [row] * 32), (1, [8] * 32)) for row in range(5)]))
    words = WordTable(tmp_path / "words.npy")
    assert words.words == 5
    rows = words.rows([4, 0, 4])
    assert rows.shape == (3, 64)
    np.testing.assert_array_equal(rows[:, 0], [5 * (4 - 8), 1 * (0 - 8), 5 * (4 - 8)])
    np.testing.assert_array_equal(rows[:, 32:], 0)


def test_a_table_of_floats_is_looked_up_as_it_is(tmp_path: Path) -> None:
    table = np.arange(12, dtype=np.float16).reshape(4, 3)
    np.save(tmp_path / "words.npy", table)
    rows = WordTable(tmp_path / "words.npy").rows([2, 0])
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, [[6, 7, 8], [0, 1, 2]])


@pytest.mark.parametrize("content", [b"", b"no array", b"\x93NUMPY\x01\x00"])
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "words.npy").write_bytes(content)
    with pytest.raises(EmbeddingFailure, match=r"words\.npy"):
        WordTable(tmp_path / "words.npy")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingFailure, match=r"words\.npy"):
        WordTable(tmp_path / "words.npy")


@pytest.mark.parametrize("table", [np.zeros(3, np.float32), np.zeros((2, 2), np.int64)])
def test_an_array_of_another_kind_is_refused(
    tmp_path: Path, table: np.ndarray[tuple[int, ...], np.dtype[np.generic]]
) -> None:
    np.save(tmp_path / "words.npy", table)
    with pytest.raises(EmbeddingFailure, match="not a table"):
        WordTable(tmp_path / "words.npy")
