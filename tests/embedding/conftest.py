"""What the tests of embedders share: a tiny ONNX model, a local endpoint, and the real model, written once a session."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from kbgit.embedding.contract import Embedder
from kbgit.embedding.e5 import E5_SMALL, E5_SMALL_INT8, materialise_e5
from kbgit.embedding.e5_weights import E5Weights, find_e5_weights, read_e5_weights
from kbgit.embedding.factory import open_embedder
from kbgit.embedding.hashing import HashingEmbedder
from kbgit.embedding.onnx_model import OnnxEmbedder
from kbgit.errors import EmbeddingFailure

TINY_WORDS = ("[CLS]", "[SEP]", "[UNK]", "the", "service", "rolls", "back", "query", "passage", ":", "wolf")
TINY_DIMENSION = 8


@pytest.fixture(scope="session")
def write_tiny_model() -> Callable[..., Path]:
    """Writes a sentence model of eleven words, in the layout of sentence-transformers, into a directory."""
    return _write_tiny_model


def _write_tiny_model(
    directory: Path,
    *,
    inputs: tuple[str, ...] = ("input_ids", "attention_mask", "token_type_ids"),
    pooled: bool = False,
) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    table = np.random.default_rng(7).normal(size=(len(TINY_WORDS), TINY_DIMENSION)).astype(np.float32)
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["tokens"])]
    for name in inputs[1:]:
        # Every input takes part, as in a real model: the mask multiplies, the types add nothing.
        nodes.append(helper.make_node("Cast", [name], [f"{name}_float"], to=TensorProto.FLOAT))
        nodes.append(helper.make_node("Identity", [f"{name}_float"], [f"{name}_used"]))
    nodes.append(helper.make_node("Tanh", ["tokens"], ["last_hidden_state"]))
    outputs = [
        helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "length", TINY_DIMENSION])
    ]
    if pooled:
        nodes.append(helper.make_node("ReduceMax", ["last_hidden_state"], ["sentence_embedding"], axes=[1], keepdims=0))
        outputs.append(
            helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["batch", TINY_DIMENSION])
        )
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in inputs],
        outputs,
        [numpy_helper.from_array(table, "table")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, directory / "model.onnx")
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(TINY_WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, [("[CLS]", 0), ("[SEP]", 1)])
    tokenizer.save(str(directory / "tokenizer.json"))
    return directory


class EmbeddingsEndpoint:
    """A real HTTP server on the loopback that answers as OpenAI's API does, or with what `script` holds first.

    An entry of `script` is (status, headers, body); a body of None closes the connection without an answer.
    """

    def __init__(self) -> None:
        self.script: list[tuple[int, dict[str, str], bytes | None]] = []
        self.requests: list[dict[str, Any]] = []
        self.hold: threading.Event | None = None
        endpoint, model = self, HashingEmbedder()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.requests.append({"path": self.path, "headers": dict(self.headers), "body": body})
                if endpoint.script:
                    status, headers, answer = endpoint.script.pop(0)
                    if answer is None:
                        self.close_connection = True
                        return
                else:
                    vectors = 3 * model.embed_passages(body["input"])
                    entries = [{"index": row, "embedding": vector.tolist()} for row, vector in enumerate(vectors)]
                    # In another order than asked for: only `index` counts.
                    status, headers, answer = 200, {}, json.dumps({"data": entries[::-1]}).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *arguments: object) -> None:
                """Stay silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture(scope="session", autouse=True)
def _no_proxy_for_the_loopback() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("no_proxy", "127.0.0.1")
        yield


@pytest.fixture
def endpoint() -> Iterator[EmbeddingsEndpoint]:
    server = EmbeddingsEndpoint()
    yield server
    server.close()


@pytest.fixture(scope="session")
def e5_weights() -> E5Weights:
    return read_e5_weights(find_e5_weights())


@pytest.fixture(scope="session")
def models_directory(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Where the real models are written: one directory for all workers of a run."""
    base = tmp_path_factory.getbasetemp()
    return (base if worker_id == "master" else base.parent) / "models"


@pytest.fixture(scope="session")
def e5_small(models_directory: Path) -> Iterator[OnnxEmbedder]:
    embedder = OnnxEmbedder(materialise_e5(models_directory, E5_SMALL), 2)
    yield embedder
    embedder.close()


@pytest.fixture(
    scope="session",
    params=[
        "hashing",
        "onnx",
        "openai",
        "fast",
        pytest.param(E5_SMALL, marks=pytest.mark.model),
        pytest.param(E5_SMALL_INT8, marks=pytest.mark.model),
    ],
)
def embedder(
    request: pytest.FixtureRequest, models_directory: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Embedder]:
    """Each embedder that can run here, opened as a user would."""
    name: str = request.param
    server: EmbeddingsEndpoint | None = None
    if name == "onnx":
        name = f"onnx:{_write_tiny_model(tmp_path_factory.mktemp('tiny'))}"
    elif name == "openai":
        server = EmbeddingsEndpoint()
        name = f"openai:{server.url}#hashing"
    if name == E5_SMALL:
        yield request.getfixturevalue("e5_small")
        return
    try:
        opened = cast(Embedder, open_embedder(name, models_directory, 2))
    except EmbeddingFailure as error:
        if name != "fast" or "not installed" not in error.message:
            raise
        pytest.skip(error.message)
    yield opened
    opened.close()
    if server:
        server.close()
