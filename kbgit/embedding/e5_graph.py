"""The network of multilingual-e5-small as a standard ONNX graph (opset 17, no custom operators).

BERT with post-layer-normalisation (Devlin et al. 2018) in 12 layers. Input `inputs_embeds` (1, tokens, 384) are word
embeddings, which are looked up outside the graph so that the table need not be in memory; output `last_hidden_state`
(1, tokens, 384). One text a run: with two threads that is as fast as any batch at the length of a passage (18 texts of 290
tokens a second, against 17 in batches of four and 10 in batches of sixteen), needs neither mask nor padding, and makes a
vector independent of its neighbours; in the 8-bit form it would not be, since a whole input shares one scale.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from kbgit.embedding.e5_weights import E5Weights

_OPSET = 17
_IR_VERSION = 8
_INT8_MAXIMUM = 63
"""Seven bits: processors without VNNI add two products of uint8 and int8 in 16 bits, where eight would overflow."""


def e5_graph(weights: E5Weights, *, int8: bool = False) -> onnx.ModelProto:
    """The network; with `int8`, its weight matrices in 8 bits per output channel and its activations quantised as it runs.

    The 8-bit form is that of onnxruntime's dynamic quantisation with a reduced range: y = x_q · w_q × scale_x × scale_w.
    """
    return _Network(weights, int8).build()


class _Network:
    def __init__(self, weights: E5Weights, int8: bool) -> None:
        self._weights = weights
        self._int8 = int8
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: dict[str, onnx.TensorProto] = {}

    def build(self) -> onnx.ModelProto:
        shape = self._weights.shape
        state = self._embedded("inputs_embeds")
        for layer in range(shape.layers):
            state = self._layer(state, f"l{layer}")
        self._nodes[-1].output[0] = "last_hidden_state"
        dimensions = [1, "tokens", shape.hidden]
        graph = helper.make_graph(
            self._nodes,
            "multilingual-e5-small",
            [helper.make_tensor_value_info("inputs_embeds", TensorProto.FLOAT, dimensions)],
            [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, dimensions)],
            list(self._initializers.values()),
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], producer_name="kbgit")
        model.ir_version = _IR_VERSION
        return model

    def _embedded(self, words: str) -> str:
        """Word, position and type embeddings added and normalised; every token is of type 0."""
        shape = self._weights.shape
        positions = self._weights.floats("emb.pos", shape.positions, shape.hidden)
        kinds = self._weights.floats("emb.type", -1, shape.hidden)
        one, two = self._constant("one", np.array([1])), self._constant("two", np.array([2]))
        length = self._node("Slice", self._node("Shape", words), one, two)
        table = self._constant("positions", positions + kinds[0])
        used = self._node("Slice", table, self._constant("zero", np.array([0])), length)
        return self._normalised(self._node("Add", words, used), "emb.ln")

    def _layer(self, state: str, layer: str) -> str:
        attended = self._linear(self._attention(state, layer), f"{layer}.ao")
        state = self._normalised(self._node("Add", state, attended), f"{layer}.aln")
        changed = self._linear(self._gelu(self._linear(state, f"{layer}.fi")), f"{layer}.fo")
        return self._normalised(self._node("Add", state, changed), f"{layer}.oln")

    def _attention(self, state: str, layer: str) -> str:
        """Scaled dot-product attention; the three projections are one matrix product."""
        shape = self._weights.shape
        head_size = shape.hidden // shape.heads
        projected = self._linear(state, f"{layer}.q", f"{layer}.k", f"{layer}.v")
        split = self._constant("split_heads", np.array([0, 0, 3, shape.heads, head_size]))
        by_head = self._node("Transpose", self._node("Reshape", projected, split), perm=[2, 0, 3, 1, 4])
        query, key, value = (
            self._node("Gather", by_head, self._constant(f"part_{part}", np.array(part)), axis=0) for part in range(3)
        )
        scale = self._constant("attention_scale", np.array(head_size**-0.5, np.float32))
        keys = self._node("Transpose", key, perm=[0, 1, 3, 2])
        scores = self._node("MatMul", self._node("Mul", query, scale), keys)
        context = self._node("MatMul", self._node("Softmax", scores, axis=-1), value)
        joined = self._constant("join_heads", np.array([0, 0, shape.hidden]))
        return self._node("Reshape", self._node("Transpose", context, perm=[0, 2, 1, 3]), joined)

    def _gelu(self, x: str) -> str:
        """x / 2 × (1 + erf(x / √2)), in the form that onnxruntime recognises and fuses."""
        root, one, half = (
            self._constant(name, np.array(value, np.float32))
            for name, value in (("sqrt_two", 2**0.5), ("float_one", 1), ("half", 0.5))
        )
        error = self._node("Erf", self._node("Div", x, root))
        return self._node("Mul", self._node("Mul", x, self._node("Add", error, one)), half)

    def _normalised(self, x: str, name: str) -> str:
        scale = self._constant(f"{name}.w", self._weights.floats(f"{name}.w", -1))
        bias = self._constant(f"{name}.b", self._weights.floats(f"{name}.b", -1))
        return self._node("LayerNormalization", x, scale, bias, axis=-1, epsilon=self._weights.shape.epsilon)

    def _linear(self, x: str, *names: str) -> str:
        """x · Wᵀ + b, with the matrices of `names` side by side."""
        biases = [self._weights.floats(f"{name}.b", -1) for name in names]
        matrices = [self._weights.floats(f"{name}.w", len(bias), -1) for name, bias in zip(names, biases, strict=True)]
        matrix, bias = np.concatenate(matrices).T, np.concatenate(biases)
        name = names[0] if len(names) == 1 else f"{names[0]}kv"
        product = self._int8_product(x, name, matrix) if self._int8 else self._product(x, name, matrix)
        return self._node("Add", product, self._constant(f"{name}.b", bias))

    def _product(self, x: str, name: str, matrix: npt.NDArray[np.float32]) -> str:
        return self._node("MatMul", x, self._constant(f"{name}.w", matrix))

    def _int8_product(self, x: str, name: str, matrix: npt.NDArray[np.float32]) -> str:
        scales = np.abs(matrix).max(axis=0) / _INT8_MAXIMUM
        levels = np.rint(matrix / scales).astype(np.int8)
        quantised, scale, zero = self._outputs("DynamicQuantizeLinear", [x], 3)
        weight = self._constant(f"{name}.w", levels)
        no_offset = self._constant("no_offset", np.array(0, np.int8))
        total = self._node(
            "Cast", self._node("MatMulInteger", quantised, weight, zero, no_offset), to=TensorProto.FLOAT
        )
        return self._node("Mul", total, self._node("Mul", scale, self._constant(f"{name}.scale", scales)))

    def _constant(self, name: str, value: npt.NDArray[np.generic]) -> str:
        if name not in self._initializers:
            # Not np.ascontiguousarray: it turns a scalar into a vector.
            self._initializers[name] = numpy_helper.from_array(np.array(value, order="C"), name)
        return name

    def _node(self, operator: str, *inputs: str, **attributes: int | float | Sequence[int]) -> str:
        return self._outputs(operator, inputs, 1, **attributes)[0]

    def _outputs(
        self, operator: str, inputs: Sequence[str], count: int, **attributes: int | float | Sequence[int]
    ) -> list[str]:
        outputs = [f"{operator}_{len(self._nodes)}_{output}" for output in range(count)]
        self._nodes.append(helper.make_node(operator, inputs, outputs, **attributes))
        return outputs
