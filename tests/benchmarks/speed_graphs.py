"""Graphs of one operator or a few, at sizes that the goals of `tests.benchmarks.speed` name.

Every operand is an input, where its values may be written nowhere; weights that a plan lays out itself are constants.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import engine

HALF, SINGLE, INDEX = TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.INT64
OPSET = 20
LEAST_CHANNELS = 8
"""Of a graph's image: one vector of halves."""
Shape = tuple[int, ...]


def plan_of(
    nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, Shape], target: str, element: int = SINGLE,
    indices: Sequence[str] = (), constants: Sequence[onnx.TensorProto] = (),
) -> engine.FusionPlan:  # fmt: skip
    """The default plan of a graph, whose outputs are what no node reads.  element: of inputs that are no `indices`."""
    read = {name for node in nodes for name in node.input}
    results = [name for node in nodes for name in node.output if name and name not in read]
    graph = helper.make_graph(
        list(nodes), "speed",
        [helper.make_tensor_value_info(n, INDEX if n in indices else element, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(name, element, None) for name in results],
        list(constants),
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "speed.onnx"
        onnx.save(model, path)
        return engine.fuse(engine.load(path), target=target)


def node(kind: str, operands: str, results: str, **attributes: object) -> onnx.NodeProto:
    """A node whose operands and results are words."""
    return helper.make_node(kind, operands.split(), results.split(), **attributes)


def constant(name: str, *values: int) -> onnx.NodeProto:
    """A list of integers."""
    return helper.make_node("Constant", [], [name], value_ints=values)


def total(shape: Shape, axes: tuple[int, ...], target: str) -> engine.FusionPlan:
    """A float32 sum over some axes."""
    return plan_of([constant("axes", *axes), node("ReduceSum", "x axes", "y", keepdims=0)], {"x": shape}, target)


def subtracted(shape: Shape, axes: tuple[int, ...], target: str) -> engine.FusionPlan:
    """A float32 array, and its sums over some axes taken from each element."""
    nodes = [constant("axes", *axes), node("ReduceSum", "x axes", "s"), node("Sub", "x s", "y")]
    return plan_of(nodes, {"x": shape}, target)


def normalized(kind: str, rows: int, columns: int, target: str, adds: bool = False) -> engine.FusionPlan:
    """float16 rows: "Softmax", or "LayerNormalization" with scale and shift, of a sum where it `adds`."""
    inputs: dict[str, Shape] = {"x": (rows, columns)}
    first = [node("Add", "x r", "s")] if adds else []
    inputs |= {"r": (rows, columns)} if adds else {}
    operands = "s" if adds else "x"
    if kind == "LayerNormalization":
        operands += " g b"
        inputs |= {"g": (columns,), "b": (columns,)}
    return plan_of([*first, node(kind, operands, "y", axis=-1)], inputs, target, HALF)


def biased_gelu(rows: int, columns: int, target: str, approximate: str) -> engine.FusionPlan:
    """GELU of float16 rows and a bias.  approximate: "none" or "tanh"."""
    nodes = [node("Add", "x b", "s"), node("Gelu", "s", "y", approximate=approximate)]
    return plan_of(nodes, {"x": (rows, columns), "b": (columns,)}, target, HALF)


def product(size: int, target: str, with_gelu: bool = False) -> engine.FusionPlan:
    """A float16 product of square matrices, with a bias and the exact GELU behind it or without."""
    behind = [node("Add", "p b", "s"), node("Gelu", "s", "y")] if with_gelu else []
    inputs = {"a": (size, size), "w": (size, size)} | ({"b": (size,)} if with_gelu else {})
    return plan_of([node("MatMul", "a w", "p"), *behind], inputs, target, HALF)


def scattered(nodes: int, edges: int, width: int, target: str) -> engine.FusionPlan:
    """float32 rows of edges added to those of the nodes that an index names."""
    add = node("ScatterND", "x at rows", "y", reduction="add")
    return plan_of([add], {"x": (nodes, width), "at": (edges, 1), "rows": (edges, width)}, target, indices=("at",))


def convolution(image: Shape, weight: Shape, target: str, group: int = 1, element: int = HALF) -> engine.FusionPlan:
    """A convolution that keeps the size of its image."""
    side = weight[2] // 2
    conv = node("Conv", "x w", "y", group=group, pads=[side] * 4, kernel_shape=list(weight[2:]))
    return plan_of([conv], {"x": image, "w": weight}, target, element)


def inner_convolution(image: Shape, weight: Shape, target: str) -> engine.FusionPlan:
    """The same of float16 behind another convolution, which makes its image; weights are constants."""
    side, (batch, channels, *plane) = weight[2] // 2, image
    shapes = {"v": (channels, LEAST_CHANNELS, 1, 1), "w": weight}
    values = np.random.default_rng(0)
    constants = [numpy_helper.from_array(values.standard_normal(s).astype(np.float16), n) for n, s in shapes.items()]
    nodes = [node("Conv", "x v", "image"), node("Conv", "image w", "y", pads=[side] * 4)]
    return plan_of(nodes, {"x": (batch, LEAST_CHANNELS, *plane)}, target, HALF, constants=constants)


def attention(batch: int, heads: int, length: int, size: int, target: str) -> engine.FusionPlan:
    """softmax(q k') v of float16, scaled beforehand."""
    nodes = [node("Transpose", "k", "t", perm=[0, 1, 3, 2]), node("MatMul", "q t", "s"),
             node("Softmax", "s", "p", axis=-1), node("MatMul", "p v", "y")]  # fmt: skip
    return plan_of(nodes, dict.fromkeys("qkv", (batch, heads, length, size)), target, HALF)


def decoded(heads: int, shared_by: int, keys: int, size: int, target: str) -> engine.FusionPlan:
    """Attention of one float16 query in each head; several heads share a head of keys and values."""
    kept, nodes = heads // shared_by, [constant("axes", 1)]
    for one in "kv":
        nodes += [constant(f"{one}_wide", kept, shared_by, keys, size), constant(f"{one}_flat", heads, keys, size),
                  node("Unsqueeze", f"{one} axes", f"{one}5"), node("Expand", f"{one}5 {one}_wide", f"{one}w"),
                  node("Reshape", f"{one}w {one}_flat", f"{one}f")]  # fmt: skip
    nodes += [node("Transpose", "kf", "t", perm=[0, 2, 1]), node("MatMul", "q t", "s"),
              node("Softmax", "s", "p", axis=-1), node("MatMul", "p vf", "y")]  # fmt: skip
    return plan_of(nodes, {"q": (heads, 1, size), **dict.fromkeys("kv", (kept, keys, size))}, target, HALF)


def shared_operand(rows: int, width: int, target: str) -> engine.FusionPlan:
    """Queries, keys and values of one float16 input."""
    nodes = [node("MatMul", f"x w{one}", one) for one in "qkv"]
    return plan_of(nodes, {"x": (rows, width), **{f"w{one}": (width, width) for one in "qkv"}}, target, HALF)


def gated(rows: int, width: int, inner: int, target: str) -> engine.FusionPlan:
    """A float16 product times the sigmoid linear unit of another one of the same rows: SwiGLU."""
    nodes = [node("MatMul", "x w", "g"), node("MatMul", "x v", "u"), node("Sigmoid", "g", "s"),
             node("Mul", "g s", "a"), node("Mul", "a u", "y")]  # fmt: skip
    return plan_of(nodes, {"x": (rows, width), **dict.fromkeys("wv", (width, inner))}, target, HALF)


def transposed(size: int, target: str) -> engine.FusionPlan:
    """A float16 matrix turned."""
    return plan_of([node("Transpose", "x", "y", perm=[1, 0])], {"x": (size, size)}, target, HALF)


def recurrent(steps: int, batch: int, width: int, target: str) -> engine.FusionPlan:
    """A float32 LSTM."""
    shapes = {"x": (steps, batch, width), "w": (1, 4 * width, width), "r": (1, 4 * width, width)}
    return plan_of([node("LSTM", "x w r", "y", hidden_size=width)], shapes, target)
