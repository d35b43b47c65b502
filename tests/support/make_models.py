"""Writes the example models of `resources/models`: `python -m tests.support.make_models [FOLDER]`.

Weights are seeded, so the same bytes come out every time.  `bert_tiny` has the operator sequence of the dynamo
exporter's BERT (and its module paths as metadata), small enough to carry its weights; PolyBench's jacobi stencils have
20 time steps of 30 points; the others are one kernel each.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FOLDER = Path(__file__).parents[2] / "resources" / "models"
FLOAT, FLOAT16, INT64 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64


@dataclass(frozen=True, slots=True)
class Sizes:
    """Dimensions of a BERT encoder."""

    sequence: int
    hidden: int
    heads: int
    vocabulary: int
    inner: int


TINY = Sizes(sequence=32, hidden=64, heads=2, vocabulary=100, inner=256)


class Model:
    """A graph under construction; every node's output has the node's name.  sizes: of the encoder, where it has one."""

    def __init__(self, name: str, seed: int = 0, sizes: Sizes = TINY) -> None:
        self.name = name
        self.sizes = sizes
        self.random = np.random.RandomState(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, onnx.TensorProto] = {}
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, element: int, *shape: int) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, element, shape))
        return name

    def output(self, name: str, element: int, *shape: int) -> None:
        self.outputs.append(helper.make_tensor_value_info(name, element, shape))

    def constant(self, name: str, value: np.ndarray) -> str:
        if name not in self.weights:
            self.weights[name] = numpy_helper.from_array(np.asarray(value, order="C"), name)
        return name

    def weight(self, name: str, *shape: int, mean: float = 0.0, deviation: float = 0.05) -> str:
        values = self.random.standard_normal(shape) * deviation + mean
        return self.constant(name, values.astype(np.float32))

    def node(self, kind: str, inputs: list[str], output: str, scope: str = "", **attributes: object) -> str:
        node = helper.make_node(kind, inputs, [output], name=f"node_{output}", **attributes)
        if scope:
            node.metadata_props.add(key="namespace", value=namespace(scope, output))
        self.nodes.append(node)
        return output

    def save(self, folder: Path) -> None:
        weights = list(self.weights.values())
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], producer_name="loomscope")
        model.ir_version = 10
        onnx.checker.check_model(model, full_check=True)
        (folder / f"{self.name}.onnx").write_bytes(model.SerializeToString(deterministic=True))


def namespace(scope: str, node: str) -> str:
    """The module path as the dynamo exporter writes it: every enclosing module with its class."""
    parts = scope.split(".")
    modules = [".".join(parts[: at + 1]) for at in range(len(parts))]
    path = "/".join(f"{module}: loomscope.example.Module" for module in modules)
    return f": loomscope.example.Wrapped/{path}/{node}: aten.{node}"


def bert_tiny() -> Model:
    """A BERT encoder with pooler, batch 1: 2 layers of 64, 2 heads, 32 tokens of a vocabulary of 100."""
    return bert("bert_tiny", 2, TINY)


def bert(name: str, layers: int, sizes: Sizes) -> Model:
    """A BERT encoder with pooler, batch 1: 34 operators a layer."""
    m = Model(name, sizes=sizes)
    hidden = sizes.hidden
    for fed in ("input_ids", "attention_mask", "token_type_ids"):
        m.input(fed, INT64, 1, sizes.sequence)
    x = _embeddings(m)
    mask = _mask(m)
    for layer in range(layers):
        x = _layer(m, f"model.encoder.layer.{layer}", x, mask)
    scope = "model.pooler"
    first = m.node("Gather", [x, m.constant("first", np.array(0))], "select", scope, axis=1)
    dense = [first, m.weight(f"{scope}.weight", hidden, hidden), m.weight(f"{scope}.bias", hidden)]
    pooled = m.node(
        "Tanh", [m.node("Gemm", dense, "pooled", f"{scope}.dense", transB=1)], "tanh", f"{scope}.activation"
    )
    m.output(x, FLOAT, 1, sizes.sequence, hidden)
    m.output(pooled, FLOAT, 1, hidden)
    return m


def _embeddings(m: Model) -> str:
    scope = "model.embeddings"
    words = m.weight(f"{scope}.word_embeddings.weight", m.sizes.vocabulary, m.sizes.hidden, deviation=0.5)
    kinds = m.weight(f"{scope}.token_type_embeddings.weight", 2, m.sizes.hidden, deviation=0.5)
    places = m.weight(f"{scope}.position_embeddings.weight", 2 * m.sizes.sequence, m.sizes.hidden, deviation=0.5)
    word = m.node("Gather", [words, "input_ids"], "embedding", f"{scope}.word_embeddings", axis=0)
    kind = m.node("Gather", [kinds, "token_type_ids"], "embedding_1", f"{scope}.token_type_embeddings", axis=0)
    total = m.node("Add", [word, kind], "add", scope)
    ids = m.constant("position_ids", np.arange(m.sizes.sequence)[None])
    place = m.node("Gather", [places, ids], "embedding_2", f"{scope}.position_embeddings", axis=0)
    return _normalised(m, f"{scope}.LayerNorm", m.node("Add", [total, place], "add_1", scope), "layer_norm")


def _mask(m: Model) -> str:
    """0 where a token may look, the lowest number where it may not: [1, 1, 32, 32]."""
    scope = "model"
    keep = m.node("Cast", ["attention_mask"], "_to_copy", scope, to=TensorProto.BOOL)
    rows = np.stack([np.zeros(m.sizes.sequence, np.int64), np.arange(m.sizes.sequence)], -1)[None, None, None]
    columns = m.node("GatherND", [keep, m.constant("mask_index", rows)], "index", scope, batch_dims=0)
    every = m.constant("every_row", np.ones((1, 1, m.sizes.sequence, 1), bool))
    both = m.node("And", [every, columns], "bitwise_and", scope)
    zero = m.constant("zero", np.float32(0))
    lowest = m.constant("lowest", np.float32(np.finfo(np.float32).min))
    return m.node("Where", [both, zero, lowest], "where", scope)


def _linear(m: Model, scope: str, x: str, wide: int, deep: int, output: str) -> str:
    product = m.node("MatMul", [x, m.weight(f"{scope}.weight", wide, deep, deviation=0.15)], f"{output}_product", scope)
    return m.node("Add", [product, m.weight(f"{scope}.bias", deep)], output, scope)


def _normalised(m: Model, scope: str, x: str, output: str) -> str:
    scale, shift = m.weight(f"{scope}.weight", m.sizes.hidden, mean=1.0), m.weight(f"{scope}.bias", m.sizes.hidden)
    return m.node("LayerNormalization", [x, scale, shift], output, scope, axis=-1, epsilon=1e-12, stash_type=1)


def _heads(m: Model, scope: str, x: str, perm: tuple[int, ...], output: str) -> str:
    shape = m.constant("head_shape", np.array([1, m.sizes.sequence, m.sizes.heads, m.sizes.hidden // m.sizes.heads]))
    view = m.node("Reshape", [x, shape], f"{output}_view", scope, allowzero=1)
    return m.node("Transpose", [view], output, scope, perm=perm)


def _layer(m: Model, scope: str, x: str, mask: str) -> str:
    at = scope.rpartition(".")[2]
    attended = _attention(m, f"{scope}.attention", x, mask, at)
    inner = _linear(m, f"{scope}.intermediate.dense", attended, m.sizes.hidden, m.sizes.inner, f"inner_{at}")
    active = _gelu(m, f"{scope}.intermediate.intermediate_act_fn", inner, at)
    outer = _linear(m, f"{scope}.output.dense", active, m.sizes.inner, m.sizes.hidden, f"outer_{at}")
    total = m.node("Add", [outer, attended], f"output_add_{at}", f"{scope}.output")
    return _normalised(m, f"{scope}.output.LayerNorm", total, f"output_norm_{at}")


def _attention(m: Model, scope: str, x: str, mask: str, at: str) -> str:
    inside = f"{scope}.self"
    hidden = m.sizes.hidden
    query, key, value = (
        _linear(m, f"{inside}.{name}", x, hidden, hidden, f"{name}_{at}") for name in ("query", "key", "value")
    )
    q = _heads(m, inside, query, (0, 2, 1, 3), f"q_{at}")
    v = _heads(m, inside, value, (0, 2, 1, 3), f"v_{at}")
    k = _heads(m, inside, key, (0, 2, 3, 1), f"k_{at}")
    scale = m.constant("scale", np.float32((m.sizes.hidden // m.sizes.heads) ** -0.5))
    scores = m.node("Mul", [m.node("MatMul", [q, k], f"scores_{at}", inside), scale], f"scaled_{at}", inside)
    masked = m.node("Add", [scores, mask], f"masked_{at}", inside)
    weights = m.node("Softmax", [masked], f"softmax_{at}", inside, axis=-1)
    context = m.node("MatMul", [weights, v], f"context_{at}", inside)
    turned = m.node("Transpose", [context], f"turned_{at}", inside, perm=(0, 2, 1, 3))
    shape = m.constant("hidden_shape", np.array([1, m.sizes.sequence, m.sizes.hidden]))
    flat = m.node("Reshape", [turned, shape], f"flat_{at}", inside, allowzero=1)
    dense = _linear(m, f"{scope}.output.dense", flat, m.sizes.hidden, m.sizes.hidden, f"attended_{at}")
    total = m.node("Add", [dense, x], f"attention_add_{at}", f"{scope}.output")
    return _normalised(m, f"{scope}.output.LayerNorm", total, f"attention_norm_{at}")


def _gelu(m: Model, scope: str, x: str, at: str) -> str:
    """x * 0.5 * (1 + erf(x / sqrt 2)), as the exporter spells it."""
    root, one, half = (m.constant(f"gelu_{n}", np.float32(v)) for n, v in (("root", 2**0.5), ("one", 1), ("half", 0.5)))
    erf = m.node("Erf", [m.node("Div", [x, root], f"gelu_div_{at}", scope)], f"gelu_erf_{at}", scope)
    factor = m.node("Mul", [half, m.node("Add", [erf, one], f"gelu_add_{at}", scope)], f"gelu_mul_{at}", scope)
    return m.node("Mul", [x, factor], f"gelu_{at}", scope)


def single_operators() -> list[Model]:
    """One kernel each, with the shapes that its name says."""
    softmax = Model("softmax_96x512")
    softmax.node("Softmax", [softmax.input("x", FLOAT, 96, 512)], "y", axis=-1)
    softmax.output("y", FLOAT, 96, 512)

    norm = Model("layernorm_64x768")
    operands = [norm.input("x", FLOAT, 64, 768), norm.weight("scale", 768, mean=1.0), norm.weight("shift", 768)]
    norm.node("LayerNormalization", operands, "y", axis=-1, epsilon=1e-5)
    norm.output("y", FLOAT, 64, 768)

    dense = Model("matmul_bias_gelu_128x256x512")
    product = dense.node("MatMul", [dense.input("x", FLOAT, 128, 256), dense.weight("weight", 256, 512)], "product")
    _gelu(dense, "", dense.node("Add", [product, dense.weight("bias", 512)], "shifted"), "0")
    dense.output("gelu_0", FLOAT, 128, 512)

    transpose = Model("transpose_2x12x64x64")
    transpose.node("Transpose", [transpose.input("x", FLOAT, 2, 12, 64, 64)], "y", perm=(0, 1, 3, 2))
    transpose.output("y", FLOAT, 2, 12, 64, 64)

    column = Model("column_sum_1000x384")
    axes = column.constant("axes", np.array([0]))
    column.node("ReduceSum", [column.input("x", FLOAT, 1000, 384), axes], "y", keepdims=0)
    column.output("y", FLOAT, 384)

    odd = Model("add_relu_odd_3x5x127")
    total = odd.node("Add", [odd.input("a", FLOAT, 3, 5, 127), odd.input("b", FLOAT, 5, 127)], "total")
    odd.node("Relu", [total], "y")
    odd.output("y", FLOAT, 3, 5, 127)

    half = Model("reduce_fp16")
    axes = half.constant("axes", np.array([-1]))
    half.node("ReduceMean", [half.input("x", FLOAT16, 60, 1000), axes], "y", keepdims=1)
    half.output("y", FLOAT16, 60, 1)
    return [softmax, norm, dense, transpose, column, odd, half]


def write(folder: Path) -> None:
    """Write every model into `folder`."""
    from tests.support.jacobi import jacobi_1d, jacobi_2d  # which is built on this module

    folder.mkdir(parents=True, exist_ok=True)
    for model in (bert_tiny(), *single_operators(), jacobi_1d(), jacobi_2d()):
        model.save(folder)


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
