"""Any text made fit for a tokenizer, and any matrix made unit vectors."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbgit.embedding.contract import Vectors


def readable(text: str) -> str:
    """`text` without what no tokenizer reads: NUL becomes a space, a lone surrogate U+FFFD, the ends are stripped."""
    if "\0" in text:
        text = text.replace("\0", " ")
    if not text.isascii():
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.strip()


def unit_rows(matrix: npt.NDArray[np.floating]) -> Vectors:
    """`matrix` (n, d) with every row at unit length; a zero row, which has no direction, becomes the first axis."""
    rows = np.array(matrix, np.float32)
    lengths = np.linalg.norm(rows, axis=1)
    empty = lengths == 0
    rows[empty, 0] = 1
    lengths[empty] = 1
    rows /= lengths[:, None]
    return rows
