"""Writes multilingual-e5-small out as an ordinary ONNX model directory, once.

model.onnx            the network, float32 or (`e5-small-int8`) with 8-bit matrices
tokenizer.json        Hugging Face tokenizers: nmt_nfkc normalisation, metaspace, unigram pieces, <s> … </s>
word_embeddings.npy   the word embeddings in 4-bit blocks, looked up outside the graph
model.json            what a loader must know, and the sizes of the files above
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from kbgit.embedding.e5_weights import WEIGHTS_SHA256, E5Vocabulary, E5Weights, find_e5_weights, read_e5_weights
from kbgit.embedding.model_directory import MODEL_FILE, SETTINGS_FILE, TOKENIZER_FILE
from kbgit.errors import EmbeddingFailure

E5_SMALL = "e5-small"
E5_SMALL_INT8 = "e5-small-int8"
E5_DIMENSION = 384
"""Of its vectors; what a written model says is held to it by a test."""

WORD_EMBEDDINGS_FILE = "word_embeddings.npy"

_WRITER_VERSION = 1
"""Raise it when what is written changes: directories and vectors of older versions are then made anew."""

_METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
_KEPT_WIDE_TILDE = "\ufdd0"
"""A noncharacter that stands for U+FF5E while NFKC runs: nmt_nfkc leaves the wide tilde alone, NFKC would not."""

_log = logging.getLogger(__name__)


def materialise_e5(models: Path, name: str = E5_SMALL) -> Path:
    """The directory of model `name` below `models`, written if it is not there or not whole.

    Takes about three seconds, once. Any number of processes may call it at once: one writes, the others wait, and
    the finished directory appears by a rename. Raises `EmbeddingFailure`.
    """
    target = models / name
    try:
        if _is_whole(target, name):
            return target
        models.mkdir(parents=True, exist_ok=True)
        with _exclusive(models / f".{name}.lock"):
            if not _is_whole(target, name):
                _replace(target, name)
    except OSError as error:
        raise EmbeddingFailure(f"cannot write the embedding model to {target}: {error.strerror}") from error
    return target


def e5_fingerprint(name: str) -> str:
    """Names weights, form and writer; also the fingerprint of the vectors."""
    return f"{name}/{_WRITER_VERSION}/{WEIGHTS_SHA256[:16]}"


def _is_whole(directory: Path, name: str) -> bool:
    try:
        settings = json.loads((directory / SETTINGS_FILE).read_bytes())
        sizes = settings["files"]
        return settings["fingerprint"] == e5_fingerprint(name) and all(
            (directory / file).stat().st_size == size for file, size in sizes.items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    with path.open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _replace(target: Path, name: str) -> None:
    """Write beside `target`, then rename. The caller holds the lock, so what lies there from before was abandoned."""
    weights = read_e5_weights(find_e5_weights())
    fresh = target.with_name(f".{name}.new")
    if fresh.exists():
        shutil.rmtree(fresh)
    _log.info("writing the embedding model to %s", target)
    fresh.mkdir()
    _write(fresh, weights, name)
    if target.exists():
        shutil.rmtree(target)
    fresh.rename(target)
    _sync(target.parent)


def _write(directory: Path, weights: E5Weights, name: str) -> None:
    # Here, because onnx takes a second to load, and a model is written once.
    from kbgit.embedding.e5_graph import e5_graph

    _write_file(directory / MODEL_FILE, e5_graph(weights, int8=name == E5_SMALL_INT8).SerializeToString())
    _write_file(directory / TOKENIZER_FILE, json.dumps(_tokenizer(weights), ensure_ascii=False).encode())
    with (directory / WORD_EMBEDDINGS_FILE).open("wb") as file:
        np.save(file, weights.blocks("emb.word", weights.shape.vocabulary), allow_pickle=False)
        _flush(file)
    settings = {
        "name": name,
        "fingerprint": e5_fingerprint(name),
        "dimension": weights.shape.hidden,
        "max_tokens": weights.shape.positions,
        "pooling": "mean",
        "query_prefix": "query: ",
        "passage_prefix": "passage: ",
        "word_embeddings": WORD_EMBEDDINGS_FILE,
        "files": {
            file: (directory / file).stat().st_size for file in (MODEL_FILE, TOKENIZER_FILE, WORD_EMBEDDINGS_FILE)
        },
    }
    _write_file(directory / SETTINGS_FILE, json.dumps(settings, indent=2).encode())
    _sync(directory)


def _tokenizer(weights: E5Weights) -> dict[str, Any]:
    """`tokenizer.json` of XLM-RoBERTa's tokenizer."""
    vocabulary = weights.vocabulary
    return {
        "version": "1.0",
        "truncation": {
            "direction": "Right",
            "max_length": weights.shape.positions,
            "strategy": "LongestFirst",
            "stride": 0,
        },
        "padding": None,
        "added_tokens": [_added_token(token, vocabulary) for token in _special_tokens(vocabulary)],
        "normalizer": {"type": "Sequence", "normalizers": _normalisers()},
        "pre_tokenizer": _METASPACE,
        "post_processor": _template(vocabulary),
        "decoder": _METASPACE,
        "model": {
            "type": "Unigram",
            "unk_id": vocabulary.unknown,
            "vocab": list(zip(vocabulary.pieces, vocabulary.scores, strict=True)),
            "byte_fallback": False,
        },
    }


def _normalisers() -> list[dict[str, Any]]:
    """What nmt_nfkc does: Nmt drops controls and turns every kind of space into one; NFKC; runs of spaces shrink."""
    return [
        {"type": "Nmt"},
        {"type": "Replace", "pattern": {"String": "～"}, "content": _KEPT_WIDE_TILDE},
        {"type": "NFKC"},
        {"type": "Replace", "pattern": {"String": _KEPT_WIDE_TILDE}, "content": "～"},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
    ]


def _special_tokens(vocabulary: E5Vocabulary) -> tuple[int, ...]:
    mask = len(vocabulary.pieces) - 1
    return (vocabulary.start, vocabulary.padding, vocabulary.end, vocabulary.unknown, mask)


def _added_token(token: int, vocabulary: E5Vocabulary) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": token, "content": vocabulary.pieces[token], **flags}


def _template(vocabulary: E5Vocabulary) -> dict[str, Any]:
    start, end = vocabulary.pieces[vocabulary.start], vocabulary.pieces[vocabulary.end]
    begin, finish = ({"SpecialToken": {"id": token, "type_id": 0}} for token in (start, end))
    first, second = ({"Sequence": {"id": sequence, "type_id": 0}} for sequence in "AB")
    return {
        "type": "TemplateProcessing",
        "single": [begin, first, finish],
        "pair": [begin, first, finish, finish, second, finish],
        "special_tokens": {
            token: {"id": token, "ids": [number], "tokens": [token]}
            for token, number in ((start, vocabulary.start), (end, vocabulary.end))
        },
    }


def _write_file(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        _flush(file)


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
