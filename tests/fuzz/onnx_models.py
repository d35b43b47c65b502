"""Sound ONNX models to be broken: random networks, and the operator tests of the onnx package."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from math import prod
from random import Random

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT
MOST_NODES = 10
SMALL = 64
"""Elements of an integer operand of an operator test that becomes a constant: shapes, axes, places."""

UNARY = "Relu Sigmoid Tanh Exp Erf Neg Abs Sqrt Softplus LeakyRelu Elu Gelu HardSwish Identity Ceil Not Sign Round"
BINARY = "Add Sub Mul Div Pow Max Min PRelu Mod Greater Equal And Where"
REDUCE = "ReduceSum ReduceMean ReduceMax ReduceProd ReduceL2 ReduceLogSumExp ArgMax"


class Network:
    """A random network under construction.  Types are those that its operators should have, not checked ones."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.shapes: dict[str, list[int]] = {}
        self.inputs: list[str] = []
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}

    def input(self, shape: list[int]) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs.append(name)
        self.shapes[name] = shape
        return name

    def constant(self, value: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def weight(self, *shape: int) -> str:
        return self.constant(np.random.RandomState(len(self.constants)).standard_normal(shape).astype(np.float32))

    def add(self, kind: str, inputs: list[str], shape: list[int], outputs: int = 1, **attributes: object) -> str:
        names = [f"t{len(self.nodes)}" + f"_{at}" * bool(at) for at in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, name=f"n{len(self.nodes)}", **attributes))
        self.shapes[names[0]] = shape
        return names[0]

    def model(self) -> onnx.ModelProto:
        read = {name for node in self.nodes for name in node.input}
        outputs = [node.output[0] for node in self.nodes if node.output[0] not in read]
        graph = helper.make_graph(
            self.nodes,
            "fuzz",
            [helper.make_tensor_value_info(name, FLOAT, self.shapes[name]) for name in self.inputs],
            [onnx.ValueInfoProto(name=name) for name in outputs],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        opsets = [helper.make_opsetid("", self.random.choice((18, 18, 20, 22)))]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def random_network(random: Random) -> onnx.ModelProto:
    """A network of a few operators on small tensors."""
    network = Network(random)
    network.input(random.choice(([2, 3, 8, 8], [4, 6], [2, 5, 12], [12], [1, 4, 6, 6])))
    for _ in range(random.randint(1, MOST_NODES)):
        x = random.choice(list(network.shapes)[-3:])
        random.choice(LAYERS)(network, x, list(network.shapes[x]))
    return network.model()


def _unary(net: Network, x: str, shape: list[int]) -> None:
    net.add(net.random.choice(UNARY.split()), [x], shape)


def _binary(net: Network, x: str, shape: list[int]) -> None:
    same = [name for name, other in net.shapes.items() if other == shape]
    other = net.random.choice((net.random.choice(same), net.weight(*shape[-1:]), net.weight(1)))
    kind = net.random.choice(BINARY.split())
    if kind == "Where":
        other_of_two = net.add("Greater", [x, other], shape)
        net.add(kind, [other_of_two, x, other], shape)
    else:
        net.add(kind, [x, other], shape)


def _reduce(net: Network, x: str, shape: list[int]) -> None:
    kind, axis = net.random.choice(REDUCE.split()), net.random.randrange(len(shape)) if shape else 0
    kept = [1 if at == axis else size for at, size in enumerate(shape)]
    if kind == "ArgMax":
        net.add(kind, [x], kept, axis=axis)
    else:
        net.add(kind, [x, net.integers(axis)], kept)


def _normalize(net: Network, x: str, shape: list[int]) -> None:
    kind = net.random.choice(("Softmax", "LogSoftmax", "LayerNormalization", "RMSNormalization", "LpNormalization"))
    scale = [net.weight(*shape[-1:])] if "LayerN" in kind or "RMS" in kind else []
    net.add(kind, [x, *scale], shape, axis=-1)


def _product(net: Network, x: str, shape: list[int]) -> None:
    if not shape:
        return
    width = net.random.choice((1, 4, 16))
    weight = net.weight(shape[-1], width)
    if len(shape) == 2 and net.random.random() < 0.4:
        net.add("Gemm", [x, weight, net.weight(width)], [shape[0], width], alpha=0.5)
    elif net.random.random() < 0.3:
        letters = "abcdef"[: len(shape)]
        net.add("Einsum", [x, weight], [*shape[:-1], width], equation=f"{letters},{letters[-1]}z->{letters[:-1]}z")
    else:
        net.add("MatMul", [x, weight], [*shape[:-1], width])


def _window(net: Network, x: str, shape: list[int]) -> None:
    if len(shape) != 4 or min(shape[2:]) < 3:
        return
    n, c, h, w = shape
    match net.random.randrange(4):
        case 0:
            net.add("Conv", [x, net.weight(4, c, 3, 3), net.weight(4)], [n, 4, h, w], pads=[1] * 4)
        case 1:
            net.add("ConvTranspose", [x, net.weight(c, 2, 2, 2)], [n, 2, 2 * h, 2 * w], strides=[2, 2])
        case 2:
            kind = net.random.choice(("MaxPool", "AveragePool", "LpPool"))
            net.add(kind, [x], [n, c, h - 2, w - 2], kernel_shape=[3, 3])
        case _:
            net.add("BatchNormalization", [x, *(net.constant(np.ones(c, np.float32)) for _ in range(4))], shape)


def _layout(net: Network, x: str, shape: list[int]) -> None:
    if not shape:
        return
    random, axis = net.random, net.random.randrange(len(shape))
    size = shape[axis]
    match random.randrange(8):
        case 0:
            order = random.sample(range(len(shape)), len(shape))
            net.add("Transpose", [x], [shape[at] for at in order], perm=order)
        case 1:
            net.add("Reshape", [x, net.integers(-1, shape[-1])], [prod(shape[:-1]), shape[-1]])
        case 2:
            net.add("Slice", [x, net.integers(0), net.integers(max(1, size // 2)), net.integers(axis)],
                    [*shape[:axis], max(1, size // 2), *shape[axis + 1 :]])  # fmt: skip
        case 3:
            net.add("Pad", [x, net.integers(*[1] * (2 * len(shape)))], [n + 2 for n in shape],
                    mode=random.choice(("constant", "edge", "wrap")))  # fmt: skip
        case 4:
            net.add("Concat", [x, x], [*shape[:axis], 2 * size, *shape[axis + 1 :]], axis=axis)
        case 5:
            net.add("Gather", [x, net.integers(0, size - 1)], [*shape[:axis], 2, *shape[axis + 1 :]], axis=axis)
        case 6:
            net.add("Expand", [x, net.integers(2, *[1] * len(shape))], [2, *shape])
        case _:
            net.add("Resize", [x, "", net.constant(np.full(len(shape), 2, np.float32))], [2 * n for n in shape],
                    mode="nearest")  # fmt: skip


def _sequence(net: Network, x: str, shape: list[int]) -> None:
    if len(shape) != 3:
        return
    kind, gates = net.random.choice((("LSTM", 4), ("GRU", 3), ("RNN", 1)))
    weights = [net.weight(1, gates * 3, shape[-1]), net.weight(1, gates * 3, 3)]
    net.add(kind, [x, *weights], [shape[0], 1, shape[1], 3], hidden_size=3)


def _order(net: Network, x: str, shape: list[int]) -> None:
    if not shape:
        return
    match net.random.randrange(3):
        case 0:
            net.add("TopK", [x, net.integers(1)], [*shape[:-1], 1], 2)
        case 1:
            net.add("CumSum", [x, net.integers(0)], shape)
        case _:
            net.add("Split", [x], shape, 1, axis=0, num_outputs=1)


LAYERS: tuple[Callable[[Network, str, list[int]], None], ...] = (
    _unary, _unary, _binary, _binary, _reduce, _normalize, _product, _window, _window, _layout, _layout, _sequence,
    _order,
)  # fmt: skip


@cache
def operator_tests() -> tuple[onnx.ModelProto, ...]:
    """The models of the onnx package's operator tests, with small integer inputs as constants: making them takes five
    seconds."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    return tuple(_with_constants(case.model, case.data_sets[0][0]) for case in cases if case.data_sets)


def _with_constants(model: onnx.ModelProto, values: list[object]) -> onnx.ModelProto:
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    for value, given in zip(model.graph.input, values, strict=False):
        is_small = isinstance(given, np.ndarray) and given.dtype.kind == "i" and given.size <= SMALL
        if is_small and len(copy.graph.input) > 1:
            copy.graph.initializer.append(numpy_helper.from_array(np.asarray(given), value.name))
            for at, declared in enumerate(copy.graph.input):
                if declared.name == value.name:
                    del copy.graph.input[at]
                    break
    return copy
