"""Word embeddings in blocks of 4-bit weights, looked up row by row from a memory-mapped file.

A table of 250,037 rows by 384 columns is 384 MB as float32 and 54 MB as blocks. Only the pages of the words that are
really looked up become resident, and the system may drop them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kbgit.embedding.contract import Vectors
from kbgit.errors import EmbeddingFailure

BLOCK_LENGTH = 32
"""Weights in a block."""

BLOCK = np.dtype([("scale", "<f2"), ("weights", "u1", (BLOCK_LENGTH // 2,))])
"""Byte j holds weight j in its low and weight j + 16 in its high four bits; 8 stands for zero (llama.cpp's Q4_0)."""

_ZERO_POINT = 8


def dequantised(blocks: npt.NDArray[np.void]) -> Vectors:
    """The weights of `blocks` (…, n) of type `BLOCK`, shape (…, 32 × n)."""
    packed = blocks["weights"]
    levels = np.concatenate([packed & 0x0F, packed >> 4], axis=-1).astype(np.float32) - _ZERO_POINT
    weights: Vectors = levels * blocks["scale"].astype(np.float32)[..., None]
    return weights.reshape(*blocks.shape[:-1], -1)


class WordTable:
    """The word embeddings of `path`: a `.npy` file of shape (words, columns) of floats or (words, blocks) of `BLOCK`.

    Raises `EmbeddingFailure` if the file is neither.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._table = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, EOFError, ValueError) as error:
            raise EmbeddingFailure(f"cannot read the word embeddings {path}: {error}") from error
        if self._table.ndim != 2 or (self._table.dtype != BLOCK and self._table.dtype.kind != "f"):
            raise EmbeddingFailure(f"{path} is not a table of word embeddings")

    @property
    def words(self) -> int:
        """How many words have a row."""
        return int(self._table.shape[0])

    def rows(self, ids: Sequence[int]) -> Vectors:
        """The embeddings of token `ids`, shape (len(ids), columns)."""
        chosen = self._table[np.asarray(ids, np.int64)]
        return dequantised(chosen) if chosen.dtype == BLOCK else chosen.astype(np.float32)
