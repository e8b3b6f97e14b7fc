"""Any sentence model in ONNX form, run by onnxruntime."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as onnxruntime_state
from tokenizers import Tokenizer

from kbgit.embedding.contract import Vectors
from kbgit.embedding.model_directory import ModelSettings, read_model_directory
from kbgit.embedding.text import readable, unit_rows
from kbgit.embedding.word_table import WordTable
from kbgit.errors import EmbedderUnavailable, EmbeddingFailure

_ONNXRUNTIME_ERRORS = tuple(
    error for error in vars(onnxruntime_state).values() if isinstance(error, type) and issubclass(error, Exception)
)
_INTEGERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
_FLOATS = {"tensor(float)"}
_KNOWN_INPUTS = {"input_ids", "inputs_embeds", "attention_mask", "token_type_ids"}
_MOST_CHARACTERS_A_TOKEN = 32
"""A text is cut here before it is tokenized, so that a book costs no more than a page."""
_BACKGROUND_NICENESS = 5
_CLOSED = "the embedder was closed"


class OnnxEmbedder:
    """The sentence model in `directory` (see `model_directory`), with `threads` threads for passages.

    One session serves all threads, each run on its caller's thread and with one text: memory is shared, vectors do not
    depend on what else is in a batch, and a query never waits for passages, whose threads are of lower priority.

    `query_model` is another form of the same model, with the same inputs and outputs, for queries alone: they are asked for
    while somebody waits.
    """

    def __init__(self, directory: Path, threads: int, query_model: Path | None = None) -> None:
        self._settings = read_model_directory(directory)
        self.fingerprint = self._settings.fingerprint
        self._tokenizer = _open_tokenizer(self._settings)
        self._session = _open_session(self._settings.model)
        self._query_session = _open_session(query_model) if query_model else self._session
        self._words = WordTable(self._settings.word_embeddings) if self._settings.word_embeddings else None
        self._inputs = {wanted.name: wanted.type for wanted in self._session.get_inputs()}
        self._output, self._is_pooled = self._choose_output()
        self._check_inputs()
        self._workers = ThreadPoolExecutor(threads, "embedding", initializer=_yield_to_queries)
        self._lock = threading.Lock()
        self._closed = False
        self.dimension = int(self._vector("").shape[0])

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of `texts`, shape (len(texts), dimension). Raises `EmbeddingFailure`."""
        prefixed = [self._settings.passage_prefix + readable(text) for text in texts]
        with self._lock:
            self._check_open()
            runs = self._workers.map(self._vector, prefixed)
        try:
            vectors = list(runs)
        except CancelledError as error:
            raise EmbedderUnavailable(_CLOSED) from error
        return unit_rows(np.stack(vectors)) if vectors else np.empty((0, self.dimension), np.float32)

    def embed_query(self, text: str) -> Vectors:
        """Unit vector of a query, shape (dimension,). Raises `EmbeddingFailure`."""
        self._check_open()
        prefixed = self._settings.query_prefix + readable(text)
        vector: Vectors = unit_rows(self._vector(prefixed, self._query_session)[None])[0]
        return vector

    def close(self) -> None:
        """Wait for the runs under way and refuse further ones."""
        with self._lock:
            self._closed = True
        self._workers.shutdown(wait=True, cancel_futures=True)

    def _vector(self, text: str, session: onnxruntime.InferenceSession | None = None) -> npt.NDArray[np.floating]:
        """The pooled vector of one prefixed text, shape (dimension,), of any length."""
        tokens = self._tokenizer.encode(text[: self._settings.max_tokens * _MOST_CHARACTERS_A_TOKEN]).ids or [0]
        try:
            (output,) = (session or self._session).run([self._output], self._feed(tokens))
        except _ONNXRUNTIME_ERRORS as error:
            raise EmbeddingFailure(f"the model {self._settings.model} failed: {error}") from error
        states: npt.NDArray[np.floating] = output[0]
        if not np.isfinite(states).all():
            raise EmbeddingFailure(f"the model {self._settings.model} answered with numbers that are not finite")
        if self._is_pooled:
            return states
        pooled: Vectors = states.mean(axis=0, dtype=np.float32) if self._settings.pooling == "mean" else states[0]
        return pooled

    def _feed(self, tokens: list[int]) -> dict[str, npt.NDArray[Any]]:
        feed: dict[str, npt.NDArray[Any]] = {}
        for name, kind in self._inputs.items():
            if name == "inputs_embeds" and self._words:
                feed[name] = self._words.rows(tokens)[None]
            else:
                values = {"input_ids": tokens, "attention_mask": [1] * len(tokens), "token_type_ids": [0] * len(tokens)}
                feed[name] = np.array([values[name]], _INTEGERS[kind])
        return feed

    def _choose_output(self) -> tuple[str, bool]:
        """Name of the output to use, and whether it is one vector a text (else one a token)."""
        outputs = {output.name: len(output.shape) for output in self._session.get_outputs()}
        if outputs.get("sentence_embedding") == 2:
            return "sentence_embedding", True
        for name, rank in outputs.items():
            if rank == 3:
                return name, False
        raise EmbeddingFailure(f"{self._settings.model} has no output that is a vector for each token or each text")

    def _check_inputs(self) -> None:
        known = _KNOWN_INPUTS if self._words else _KNOWN_INPUTS - {"inputs_embeds"}
        for name, kind in self._inputs.items():
            if name not in known or kind not in (_FLOATS if name == "inputs_embeds" else _INTEGERS):
                raise EmbeddingFailure(f"{self._settings.model} wants an input that kbgit does not know: {name} {kind}")

        if self._words and self._words.words < self._tokenizer.get_vocab_size():
            raise EmbeddingFailure(f"{self._settings.word_embeddings} has fewer rows than the tokenizer has words")

    def _check_open(self) -> None:
        if self._closed:
            raise EmbedderUnavailable(_CLOSED)


def _open_tokenizer(settings: ModelSettings) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_file(str(settings.tokenizer))
    except Exception as error:  # tokenizers raises no narrower class
        raise EmbeddingFailure(f"cannot read {settings.tokenizer}: {error}") from error
    tokenizer.enable_truncation(settings.max_tokens)
    tokenizer.no_padding()
    return tokenizer


def _open_session(model: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except _ONNXRUNTIME_ERRORS as error:
        raise EmbeddingFailure(f"cannot load the model {model}: {error}") from error


def _yield_to_queries() -> None:
    # Only Linux gives each thread its own niceness.
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _BACKGROUND_NICENESS)
