from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest

from kbgit.embedding import openai
from kbgit.embedding.factory import open_embedder
from kbgit.embedding.hashing import HashingEmbedder
from kbgit.embedding.openai import BATCH, PASSAGE_ATTEMPTS, OpenAIEmbedder
from kbgit.errors import EmbedderUnavailable, EmbeddingFailure, InvalidSetting


class Endpoint(Protocol):
    """The fixture `endpoint` (see conftest.py)."""

    url: str
    script: list[tuple[int, dict[str, str], bytes | None]]
    requests: list[dict[str, Any]]

    def close(self) -> None: ...


KEY = "sk-very-secret-0123456789"


@pytest.fixture
def embedder(endpoint: Endpoint) -> Iterator[OpenAIEmbedder]:
    opened = OpenAIEmbedder(endpoint.url, "hashing", KEY, timeout=5, first_pause=0.001)
    endpoint.requests.clear()
    yield opened
    opened.close()


def test_the_setting_names_address_and_model(tmp_path: Path, endpoint: Endpoint) -> None:
    opened = open_embedder(f"openai:{endpoint.url}#text-embedding-3-small", tmp_path, 1, api_key=KEY)
    assert isinstance(opened, OpenAIEmbedder)
    assert endpoint.requests[0]["body"]["model"] == "text-embedding-3-small"
    assert endpoint.requests[0]["headers"]["Authorization"] == f"Bearer {KEY}"


def test_vectors_are_put_in_the_order_of_their_texts(embedder: OpenAIEmbedder) -> None:
    texts = [f"text number {number}" for number in range(7)]
    expected = HashingEmbedder().embed_passages(texts)
    np.testing.assert_allclose(embedder.embed_passages(texts), expected, atol=1e-6)


def test_texts_are_sent_in_batches(endpoint: Endpoint, embedder: OpenAIEmbedder) -> None:
    vectors = embedder.embed_passages(["text"] * (2 * BATCH + 1))
    assert vectors.shape == (2 * BATCH + 1, 64)
    assert [len(request["body"]["input"]) for request in endpoint.requests] == [BATCH, BATCH, 1]


def test_the_key_goes_into_the_header_and_an_empty_text_is_sent_as_a_space(
    endpoint: Endpoint, embedder: OpenAIEmbedder
) -> None:
    embedder.embed_query("")
    (request,) = endpoint.requests
    assert request["path"] == "/v1/embeddings"
    assert request["headers"]["Authorization"] == f"Bearer {KEY}"
    assert request["body"] == {"model": "hashing", "input": [" "]}


def test_without_a_key_no_header_is_sent(endpoint: Endpoint) -> None:
    OpenAIEmbedder(endpoint.url, "hashing")
    assert "Authorization" not in endpoint.requests[0]["headers"]


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/", "/v1/embeddings"])
def test_an_address_may_be_given_with_or_without_its_path(endpoint: Endpoint, suffix: str) -> None:
    OpenAIEmbedder(endpoint.url + suffix, "hashing")
    assert endpoint.requests[0]["path"] == "/v1/embeddings"


def test_another_path_is_kept(endpoint: Endpoint) -> None:
    OpenAIEmbedder(endpoint.url + "/api/openai", "hashing")
    assert endpoint.requests[0]["path"] == "/api/openai/embeddings"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "host",
        "ftp://host/v1",
        "file:///etc/passwd",
        "https://",
        "https://user:pw@host",
        "https://:pw@host",
        "https://host?k=1",
    ],
)
def test_what_is_no_plain_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidSetting, match="http or https"):
        OpenAIEmbedder(url, "model")


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_passing_failure_is_tried_again(endpoint: Endpoint, embedder: OpenAIEmbedder, status: int) -> None:
    endpoint.script = [(status, {}, b"busy")] * (PASSAGE_ATTEMPTS - 1)
    assert embedder.embed_passages(["text"]).shape == (1, 64)
    assert len(endpoint.requests) == PASSAGE_ATTEMPTS


def test_a_closed_connection_is_tried_again(endpoint: Endpoint, embedder: OpenAIEmbedder) -> None:
    endpoint.script = [(0, {}, None)]
    assert embedder.embed_query("text").shape == (64,)
    assert len(endpoint.requests) == 2


def test_a_failure_that_lasts_is_reported_after_the_last_attempt(endpoint: Endpoint, embedder: OpenAIEmbedder) -> None:
    endpoint.script = [(503, {}, b"down for repair")] * PASSAGE_ATTEMPTS
    with pytest.raises(EmbeddingFailure, match="HTTP 503 down for repair"):
        embedder.embed_passages(["text"])
    assert not endpoint.script


def test_the_server_may_say_when_to_come_back(endpoint: Endpoint) -> None:
    slow = OpenAIEmbedder(endpoint.url, "hashing", first_pause=600)
    endpoint.script = [(429, {"Retry-After": "1"}, b"")]
    before = time.monotonic()
    slow.embed_query("text")
    assert 1 <= time.monotonic() - before < openai._LONGEST_PAUSE_SECONDS


def test_a_refused_request_is_not_tried_again(endpoint: Endpoint, embedder: OpenAIEmbedder) -> None:
    endpoint.script = [(400, {}, b"unknown model")]
    with pytest.raises(EmbeddingFailure, match="HTTP 400 unknown model"):
        embedder.embed_passages(["text"])
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 500])
def test_the_key_shows_in_no_error(endpoint: Endpoint, embedder: OpenAIEmbedder, status: int) -> None:
    endpoint.script = [(status, {}, f"Incorrect API key provided: {KEY}".encode())] * 2
    with pytest.raises(EmbeddingFailure) as caught:
        embedder.embed_query("text")
    error: BaseException | None = caught.value
    while error:
        assert KEY not in repr(error) + str(error)
        error = error.__cause__
    assert KEY not in json.dumps(caught.value.as_json())


def test_a_redirect_is_not_followed(endpoint: Endpoint, embedder: OpenAIEmbedder) -> None:
    endpoint.script = [(307, {"Location": f"{endpoint.url}/elsewhere"}, b""), (302, {"Location": "/elsewhere"}, b"")]
    for code in (307, 302):
        with pytest.raises(EmbeddingFailure, match=f"HTTP {code}"):
            embedder.embed_query("text")
    assert [request["path"] for request in endpoint.requests] == ["/v1/embeddings"] * 2


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"data": {}}',
        b'{"data": []}',
        b'{"data": [{"index": 0}]}',
        b'{"data": [{"index": 1, "embedding": [1, 2]}]}',
        b'{"data": [{"index": 0, "embedding": "AAAA"}]}',
        b'{"data": [{"index": 0, "embedding": [NaN, 1]}]}',
        b'{"data": [{"index": 0, "embedding": [1, 2]}]}',
        b'{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}',
        b"\xff\xfe",
    ],
)
def test_an_answer_without_the_right_vectors_is_a_failure(
    endpoint: Endpoint, embedder: OpenAIEmbedder, answer: bytes
) -> None:
    endpoint.script = [(200, {}, answer)]
    with pytest.raises(EmbeddingFailure, match=r"http://127"):
        embedder.embed_query("text")


def test_nobody_listening_is_a_failure(endpoint: Endpoint) -> None:
    url = endpoint.url
    embedder = OpenAIEmbedder(url, "hashing", KEY, first_pause=0.001)
    endpoint.close()
    with pytest.raises(EmbedderUnavailable, match="no answer from"):
        embedder.embed_query("text")


@pytest.mark.parametrize(
    ("status", "is_of_no_text"),
    [(401, True), (403, True), (429, True), (503, True), (400, False), (413, False), (500, False), (0, False)],
)
def test_what_no_text_is_to_blame_for_is_told_apart(
    endpoint: Endpoint, embedder: OpenAIEmbedder, status: int, is_of_no_text: bool
) -> None:
    endpoint.script = [(status, {}, b"no" if status else None)] * PASSAGE_ATTEMPTS  # 0: closes the connection
    with pytest.raises(EmbeddingFailure) as caught:
        embedder.embed_passages(["text"])
    assert isinstance(caught.value, EmbedderUnavailable) == is_of_no_text


def test_closing_ends_a_pause(endpoint: Endpoint) -> None:
    patient = OpenAIEmbedder(endpoint.url, "hashing", first_pause=600)
    endpoint.script = [(503, {}, b"")] * 2
    failures: list[Exception] = []

    def embed() -> None:
        try:
            patient.embed_query("text")
        except EmbeddingFailure as error:
            failures.append(error)

    thread = threading.Thread(target=embed)
    thread.start()
    patient.close()
    thread.join(10)
    assert not thread.is_alive()
    assert [str(failure) for failure in failures] == ["the embedder was closed"]


def test_the_fingerprint_tells_endpoints_and_models_apart(endpoint: Endpoint) -> None:
    urls_and_models = [("", "a"), ("", "b"), ("/other", "a")]
    fingerprints = {OpenAIEmbedder(endpoint.url + path, model).fingerprint for path, model in urls_and_models}
    assert len(fingerprints) == 3
