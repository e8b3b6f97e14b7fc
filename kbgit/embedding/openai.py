"""Any endpoint that speaks OpenAI's embeddings API, over the standard library."""

from __future__ import annotations

import hashlib
import http.client
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from kbgit.embedding.contract import Vectors
from kbgit.embedding.text import readable, unit_rows
from kbgit.errors import EmbedderUnavailable, EmbeddingFailure, InvalidSetting

BATCH = 64
"""Texts in a request."""
TIMEOUT_SECONDS = 30.0
PASSAGE_ATTEMPTS = 5
QUERY_ATTEMPTS = 2
"""A person waits for a query: better to answer lexically soon."""

_MOST_CHARACTERS = 8000
"""A text is cut here, below the 8,191 tokens that OpenAI's models accept."""
_MOST_RESPONSE_BYTES = 64 * 2**20
_LONGEST_PAUSE_SECONDS = 30.0
_TRANSIENT = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_OF_NO_TEXT = frozenset({429, 503})
"""Answers that have nothing to do with what was asked: too many requests, out of service."""


class OpenAIEmbedder:
    """Model `model` of the endpoint at `url` (`https://host`, `…/v1` or `…/v1/embeddings`).

    `api_key` is sent as a bearer token, to that address only: redirects are not followed, and it never shows in an error.
    A request that fails in passing is repeated after `first_pause` seconds, then twice that, and so on, or after what the
    server asks for. One text is embedded at once, to learn the dimension.
    Raises `InvalidSetting` for an address that is none, `EmbeddingFailure` when the endpoint cannot be used.
    """

    def __init__(
        self,
        url: str,
        model: str,
        api_key: str | None = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        first_pause: float = 0.5,
    ) -> None:
        self._endpoint = _endpoint(url)
        self._model = model
        self._api_key = api_key
        self._timeout = timeout
        self._first_pause = first_pause
        self._closed = threading.Event()
        self._opener = urllib.request.build_opener(_NoRedirect)
        name = hashlib.sha256(f"{self._endpoint}#{model}".encode()).hexdigest()
        self.fingerprint = f"openai/{model}/{name[:16]}"
        self.dimension = 0
        self.dimension = int(self._embed(["dimension"], QUERY_ATTEMPTS).shape[1])

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of `texts`, shape (len(texts), dimension). Raises `EmbeddingFailure`."""
        batches = [self._embed(texts[at : at + BATCH], PASSAGE_ATTEMPTS) for at in range(0, len(texts), BATCH)]
        return np.concatenate(batches) if batches else np.empty((0, self.dimension), np.float32)

    def embed_query(self, text: str) -> Vectors:
        """Unit vector of a query, shape (dimension,). Raises `EmbeddingFailure`."""
        vector: Vectors = self._embed([text], QUERY_ATTEMPTS)[0]
        return vector

    def close(self) -> None:
        """End pauses between attempts and refuse further requests."""
        self._closed.set()

    def _embed(self, texts: Sequence[str], attempts: int) -> Vectors:
        # The API refuses an empty input.
        inputs = [readable(text[:_MOST_CHARACTERS]) or " " for text in texts]
        answer = self._request(json.dumps({"model": self._model, "input": inputs}).encode(), attempts)
        return unit_rows(self._vectors(answer, len(inputs)))

    def _request(self, body: bytes, attempts: int) -> bytes:
        pause = self._first_pause
        for remaining in reversed(range(attempts)):
            if self._closed.is_set():
                raise EmbedderUnavailable("the embedder was closed")
            try:
                return self._post(body)
            except _TransientFailure as failure:
                if not remaining:
                    kind = EmbedderUnavailable if failure.is_of_no_text else EmbeddingFailure
                    raise kind(failure.message) from failure
                self._closed.wait(min(failure.retry_after or pause, _LONGEST_PAUSE_SECONDS))
                pause *= 2
        raise AssertionError("attempts is at least one")

    def _post(self, body: bytes) -> bytes:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        request = urllib.request.Request(self._endpoint, body, headers, method="POST")
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                content: bytes = response.read(_MOST_RESPONSE_BYTES + 1)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error or type(error).__name__
            said = f"no answer from {self._endpoint}: {self._redacted(str(reason))}"
            raise _TransientFailure(said, is_of_no_text=_is_unreached(error)) from None
        if len(content) > _MOST_RESPONSE_BYTES:
            raise EmbeddingFailure(f"{self._endpoint} answered with more than {_MOST_RESPONSE_BYTES} bytes")
        return content

    def _refusal(self, error: urllib.error.HTTPError) -> EmbeddingFailure:
        if error.code in (401, 403):
            # Servers quote the key, or part of it, in this answer: it is not shown.
            return EmbedderUnavailable(f"{self._endpoint} refused the API key (HTTP {error.code})")
        try:
            said = self._redacted(error.read(500).decode("utf-8", "replace"))
        except (OSError, http.client.HTTPException):
            said = ""
        message = f"{self._endpoint} answered HTTP {error.code} {said}".rstrip()
        if error.code in _TRANSIENT:
            is_of_no_text = error.code in _OF_NO_TEXT
            return _TransientFailure(message, _seconds(error.headers.get("Retry-After")), is_of_no_text=is_of_no_text)
        return EmbeddingFailure(message)

    def _redacted(self, text: str) -> str:
        return text.replace(self._api_key, "***") if self._api_key else text

    def _vectors(self, answer: bytes, count: int) -> Vectors:
        try:
            entries: list[Any] = json.loads(answer)["data"]
            ordered = sorted(entries, key=lambda entry: entry["index"])
            vectors = np.array([entry["embedding"] for entry in ordered], np.float32)
            indices = [entry["index"] for entry in ordered]
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise EmbeddingFailure(f"{self._endpoint} answered with something else than embeddings") from error
        if vectors.ndim != 2 or indices != list(range(count)) or not np.isfinite(vectors).all():
            raise EmbeddingFailure(f"{self._endpoint} did not answer with one vector for each of {count} texts")
        if self.dimension and vectors.shape[1] != self.dimension:
            raise EmbeddingFailure(
                f"{self._endpoint} answered with {vectors.shape[1]} dimensions instead of {self.dimension}"
            )
        return vectors


class _TransientFailure(EmbeddingFailure):
    """A failure that may pass; `retry_after` seconds if the server said so. `is_of_no_text`: any text would have met it."""

    def __init__(self, message: str, retry_after: float | None = None, *, is_of_no_text: bool) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.is_of_no_text = is_of_no_text


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_arguments: object) -> None:
        """Refuse: urllib would send the API key to wherever it is sent."""


def _is_unreached(error: Exception) -> bool:
    """Whether there was no connection. One that breaks may have been given more than the server takes."""
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    is_broken = isinstance(reason, ConnectionError) and not isinstance(reason, ConnectionRefusedError)
    return isinstance(error, urllib.error.URLError) and not is_broken


def _endpoint(url: str) -> str:
    parts = urlsplit(url)
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or "@" in parts.netloc
        or parts.query
        or parts.fragment
    ):
        raise InvalidSetting(
            "an OpenAI-compatible embedder is openai:URL#MODEL with an http or https address, no password"
        )
    path = parts.path.rstrip("/") or "/v1"
    return f"{parts.scheme}://{parts.netloc}{path.removesuffix('/embeddings')}/embeddings"


def _seconds(text: str | None) -> float | None:
    """A `Retry-After` in seconds; None for none and for a date, which few servers send."""
    return float(text) if text and text.isascii() and text.isdigit() else None
