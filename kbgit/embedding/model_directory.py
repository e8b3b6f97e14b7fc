"""What a directory says about the sentence model in it.

Two layouts are read. kbgit's own has a `model.json`:

    name, fingerprint, dimension, max_tokens, pooling ("mean" or "cls"), query_prefix, passage_prefix,
    word_embeddings (file name, or absent: the graph looks words up itself)

every key optional. Without that file the layout of sentence-transformers is understood: `tokenizer.json`, `model.onnx`
or `onnx/model.onnx`, a directory for each further part (`1_Pooling/config.json`), `sentence_bert_config.json`,
`config_sentence_transformers.json`, `tokenizer_config.json`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbgit.errors import EmbeddingFailure

MODEL_FILE = "model.onnx"
TOKENIZER_FILE = "tokenizer.json"
SETTINGS_FILE = "model.json"

POOLINGS = ("mean", "cls")

_KINDS: dict[str, type] = {
    "fingerprint": str,
    "max_tokens": int,
    "pooling": str,
    "query_prefix": str,
    "passage_prefix": str,
    "word_embeddings": str,
}
_DEFAULT_MAX_TOKENS = 512
_MOST_TOKENS = 8192
"""A stated limit above this stands for "none": `tokenizer_config.json` then says 10^30."""
_KNOWN_MODULES = {"Transformer", "Pooling", "Normalize"}
_PASSAGE_PROMPTS = ("passage", "document", "search_document")
_QUERY_PROMPTS = ("query", "search_query")


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How to run a model. `pooling` makes one vector of many token vectors; prefixes go before each text."""

    model: Path
    tokenizer: Path
    fingerprint: str
    max_tokens: int = _DEFAULT_MAX_TOKENS
    pooling: str = "mean"
    query_prefix: str = ""
    passage_prefix: str = ""
    word_embeddings: Path | None = None


def read_model_directory(directory: Path) -> ModelSettings:
    """The settings of the model in `directory`. Raises `EmbeddingFailure` for one that kbgit cannot run."""
    read = _own_settings if (directory / SETTINGS_FILE).is_file() else _sentence_transformers_settings
    stated = read(directory)
    candidates = (directory / MODEL_FILE, directory / "onnx" / MODEL_FILE)
    model = next((path for path in candidates if path.is_file()), None)
    tokenizer = directory / TOKENIZER_FILE
    if model is None or not tokenizer.is_file():
        raise EmbeddingFailure(f"{directory} is no model directory: it must hold {MODEL_FILE} and {TOKENIZER_FILE}")
    for key, value in stated.items():
        if type(value) is not _KINDS[key]:
            raise EmbeddingFailure(f"{directory} states {key} {value!r}, which is not of type {_KINDS[key].__name__}")
    if "word_embeddings" in stated:
        # Only the name counts: a model directory is self-contained.
        stated["word_embeddings"] = directory / Path(stated["word_embeddings"]).name
    fingerprint = stated.pop("fingerprint", None) or _fingerprint(model, tokenizer, stated)
    settings = ModelSettings(model, tokenizer, fingerprint, **stated)
    if settings.pooling not in POOLINGS:
        raise EmbeddingFailure(f"{directory} wants pooling {settings.pooling!r}; kbgit knows {' and '.join(POOLINGS)}")
    return settings


def _own_settings(directory: Path) -> dict[str, Any]:
    written = _json_object(directory / SETTINGS_FILE)
    return {key: written[key] for key in _KINDS if key in written}


def _sentence_transformers_settings(directory: Path) -> dict[str, Any]:
    modules = {path.name.partition("_")[2] for path in directory.glob("[0-9]_*") if path.is_dir()}
    unknown = modules - _KNOWN_MODULES
    if unknown:
        raise EmbeddingFailure(f"{directory} has parts that kbgit cannot run: {', '.join(sorted(unknown))}")
    prompts = _json_object(directory / "config_sentence_transformers.json").get("prompts")
    if not isinstance(prompts, dict):
        prompts = {}
    limits = (
        _json_object(directory / "sentence_bert_config.json").get("max_seq_length"),
        _json_object(directory / "tokenizer_config.json").get("model_max_length"),
    )
    return {
        "max_tokens": min(
            (limit for limit in limits if isinstance(limit, int) and limit <= _MOST_TOKENS), default=_DEFAULT_MAX_TOKENS
        ),
        "pooling": _pooling(_json_object(directory / "1_Pooling" / "config.json")),
        "query_prefix": next((prompts[name] for name in _QUERY_PROMPTS if name in prompts), ""),
        "passage_prefix": next((prompts[name] for name in _PASSAGE_PROMPTS if name in prompts), ""),
    }


def _pooling(config: dict[str, Any]) -> str:
    chosen = [key for key, value in config.items() if key.startswith("pooling_mode_") and value is True]
    names = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
    if not chosen:
        return "mean"
    return names.get(chosen[0], chosen[0]) if len(chosen) == 1 else "+".join(chosen)


def _fingerprint(model: Path, tokenizer: Path, stated: dict[str, Any]) -> str:
    """SHA-256 over everything that decides a vector: graph, weights beside the graph, tokenizer, settings."""
    digest = hashlib.sha256(json.dumps(stated, sort_keys=True, default=lambda path: path.name).encode())
    words = stated.get("word_embeddings")
    parts = [*sorted(model.parent.glob(f"{model.name}*")), tokenizer, *([words] if words else [])]
    try:
        for part in parts:
            with part.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    except OSError as error:
        raise EmbeddingFailure(f"cannot read {error.filename}: {error.strerror}") from error
    return f"onnx/{digest.hexdigest()[:32]}"


def _json_object(path: Path) -> dict[str, Any]:
    """The content of `path`; empty if there is no such file."""
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise EmbeddingFailure(f"cannot read {path}: {error}") from error
    if not isinstance(content, dict):
        raise EmbeddingFailure(f"{path} must hold a JSON object")
    return content
