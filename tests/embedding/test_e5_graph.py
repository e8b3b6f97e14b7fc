"""The ONNX graph against a forward pass written out in NumPy."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest

from kbgit.embedding.contract import Vectors
from kbgit.embedding.e5_graph import e5_graph
from kbgit.embedding.e5_weights import E5Weights
from kbgit.embedding.word_table import dequantised

pytestmark = pytest.mark.model

SENTENCES = ([0, 46692, 12, 35378, 8999, 2], [0, 41, 1294, 12, 6, 2], [0, 2], [0, *range(100, 140), 2])

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _words(weights: E5Weights, tokens: list[int]) -> Vectors:
    return dequantised(weights.blocks("emb.word", weights.shape.vocabulary)[tokens])


def _normalised(weights: E5Weights, x: npt.NDArray[np.float64], name: str) -> npt.NDArray[np.float64]:
    mean, variance = x.mean(axis=-1, keepdims=True), x.var(axis=-1, keepdims=True)
    scaled = (x - mean) / np.sqrt(variance + weights.shape.epsilon)
    return np.asarray(scaled * weights.floats(f"{name}.w", -1) + weights.floats(f"{name}.b", -1))


def _linear(weights: E5Weights, x: npt.NDArray[np.float64], name: str) -> npt.NDArray[np.float64]:
    bias = weights.floats(f"{name}.b", -1)
    return np.asarray(x @ weights.floats(f"{name}.w", len(bias), -1).T.astype(np.float64) + bias)


def reference_states(weights: E5Weights, tokens: list[int]) -> npt.NDArray[np.float64]:
    """Token states after the last layer, shape (len(tokens), hidden), in double precision, head by head."""
    shape = weights.shape
    words = _words(weights, tokens).astype(np.float64)
    positions = weights.floats("emb.pos", shape.positions, shape.hidden)[: len(tokens)]
    x = _normalised(weights, words + positions + weights.floats("emb.type", -1, shape.hidden)[0], "emb.ln")
    size = shape.hidden // shape.heads
    for layer in range(shape.layers):
        query, key, value = (_linear(weights, x, f"l{layer}.{part}") for part in "qkv")
        context = np.empty_like(x)
        for head in range(shape.heads):
            part = slice(head * size, (head + 1) * size)
            scores = query[:, part] @ key[:, part].T / math.sqrt(size)
            attention = np.exp(scores - scores.max(axis=1, keepdims=True))
            context[:, part] = attention / attention.sum(axis=1, keepdims=True) @ value[:, part]
        x = _normalised(weights, x + _linear(weights, context, f"l{layer}.ao"), f"l{layer}.aln")
        inner = _linear(weights, x, f"l{layer}.fi")
        inner = inner / 2 * (1 + _erf(inner / math.sqrt(2)))
        x = _normalised(weights, x + _linear(weights, inner, f"l{layer}.fo"), f"l{layer}.oln")
    return x


@pytest.fixture(scope="module")
def float_model(e5_weights: E5Weights) -> onnx.ModelProto:
    return e5_graph(e5_weights)


def _run(model: onnx.ModelProto, weights: E5Weights, tokens: list[int]) -> Vectors:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    states: Vectors = session.run(None, {"inputs_embeds": _words(weights, tokens)[None]})[0][0]
    return states


@pytest.mark.parametrize("tokens", SENTENCES, ids=len)
def test_the_graph_computes_what_the_network_is_defined_to(
    float_model: onnx.ModelProto, e5_weights: E5Weights, tokens: list[int]
) -> None:
    np.testing.assert_allclose(
        _run(float_model, e5_weights, tokens), reference_states(e5_weights, tokens), atol=2e-4, rtol=1e-3
    )


def test_the_8_bit_graph_stays_close(e5_weights: E5Weights) -> None:
    model = e5_graph(e5_weights, int8=True)
    for tokens in SENTENCES:
        exact = reference_states(e5_weights, tokens).mean(axis=0)
        near = _run(model, e5_weights, tokens).mean(axis=0)
        assert exact @ near / np.linalg.norm(exact) / np.linalg.norm(near) > 0.99
    assert model.ByteSize() < 25e6


@pytest.mark.parametrize("int8", [False, True])
def test_the_graph_is_valid_and_uses_only_standard_operators(e5_weights: E5Weights, int8: bool) -> None:
    model = e5_graph(e5_weights, int8=int8)
    onnx.checker.check_model(model, full_check=True)
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 17)]
    assert {node.domain for node in model.graph.node} == {""}
