"""Opens the embedder that a setting names. A new embedder is one new file and one line in the table here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kbgit.embedding.contract import Embedder
from kbgit.embedding.deferred import DeferredEmbedder
from kbgit.embedding.e5 import E5_DIMENSION, E5_SMALL, E5_SMALL_INT8, e5_fingerprint, materialise_e5
from kbgit.embedding.hashing import HashingEmbedder
from kbgit.embedding.model_directory import MODEL_FILE
from kbgit.embedding.onnx_model import OnnxEmbedder
from kbgit.embedding.openai import OpenAIEmbedder
from kbgit.embedding.use import FastEmbedder
from kbgit.errors import InvalidSetting

NONE = "none"


@dataclass(frozen=True, slots=True)
class _Wanted:
    argument: str
    models: Path
    threads: int
    api_key: str | None


_EMBEDDERS: dict[str, Callable[[_Wanted], Embedder]] = {
    E5_SMALL: lambda wanted: _e5(E5_SMALL, wanted),
    E5_SMALL_INT8: lambda wanted: _e5(E5_SMALL_INT8, wanted),
    "fast": lambda wanted: FastEmbedder(wanted.threads),
    "hashing": lambda wanted: HashingEmbedder(),
    "onnx:": lambda wanted: OnnxEmbedder(Path(wanted.argument), wanted.threads),
    "openai:": lambda wanted: _open_openai(wanted),
}
"""Name → how to open it. A name that ends in a colon takes an argument after it."""


def open_embedder(name: str, model_directory: Path, threads: int, api_key: str | None = None) -> Embedder | None:
    """The embedder called `name`, or None for `none`.

    `e5-small`, `e5-small-int8`, `fast`, `hashing`, `onnx:DIRECTORY`, `openai:URL#MODEL`. `model_directory` is where models
    are written; `threads` is for passages (a query runs on its caller's thread); `api_key` is for `openai:`.
    Raises `InvalidSetting` for another name, `EmbeddingFailure` if the embedder cannot be used.
    """
    if name == NONE:
        return None
    kind, colon, argument = name.partition(":")
    opener = _EMBEDDERS.get(kind + colon)
    if opener is None or (colon and not argument):
        known = ", ".join(
            (*(entry for entry in _EMBEDDERS if not entry.endswith(":")), "onnx:DIRECTORY, openai:URL#MODEL")
        )
        raise InvalidSetting(f"unknown embedder {name!r}; there are {known} and {NONE}", {"embedder": name})
    return opener(_Wanted(argument, model_directory, threads, api_key))


def _e5(name: str, wanted: _Wanted) -> Embedder:
    def opened() -> Embedder:
        # A query in 8 bits costs a quarter of the time and, against passages in 32, no quality (docs/benchmarks.md).
        query_model = materialise_e5(wanted.models, E5_SMALL_INT8) / MODEL_FILE
        return OnnxEmbedder(materialise_e5(wanted.models, name), wanted.threads, query_model)

    return DeferredEmbedder(e5_fingerprint(name), E5_DIMENSION, opened)


def _open_openai(wanted: _Wanted) -> Embedder:
    url, _, model = wanted.argument.rpartition("#")
    if not model or not url:
        raise InvalidSetting("an OpenAI-compatible embedder is openai:URL#MODEL")
    return OpenAIEmbedder(url, model, wanted.api_key)
