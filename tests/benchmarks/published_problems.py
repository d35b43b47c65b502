"""What published rows time, as graphs of ours, and the least time that a data sheet allows for each.

A problem is an operator of the suites, or one of those below, with its type and sizes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from engine.graph.nodes import DTYPES, OperatorGraph
from engine.suite.operators import OPERATORS
from engine.suite.operators.single import SINGLE, Size, graph_of_operator
from engine.suite.operators.sketch import Draw, GraphSketch


@dataclass(frozen=True, slots=True)
class Problem:
    """One operator at one size."""

    operator: str
    """Key of `OPERATORS` or of `OWN`."""
    dtype: str
    sizes: tuple[tuple[str, Size], ...]
    tf32: bool = False
    """Whether float32 factors may be rounded to tf32."""

    @property
    def numerics(self) -> Mapping[str, str]:
        """As in a recipe."""
        return {"tensor_cores": "tf32"} if self.tf32 else {}

    @property
    def flops(self) -> float:
        """Multiplications and additions of contractions; 0 for other operators, whose bytes alone are a floor."""
        size = dict(self.sizes)
        count = {name: value for name, value in size.items() if isinstance(value, int)}
        match self.operator:
            case "matmul" | "batched-matmul":
                return 2.0 * count.get("b", 1) * count["m"] * count["n"] * count["k"]
            case "gemv":
                return 2.0 * count["m"] * count["k"]
            case "attention":
                return 4.0 * math.prod(count.values())
        return 0.0


def problem(operator: str, dtype: str, tf32: bool = False, **sizes: Size) -> Problem:
    """A problem by the names of its sizes."""
    return Problem(operator, dtype, tuple(sizes.items()), tf32)


def graph_of(one: Problem) -> OperatorGraph:
    """The operator graph of a problem."""
    draw = OWN.get(one.operator) or OPERATORS[one.operator]
    return graph_of_operator(one.operator, draw, one.dtype, dict(one.sizes))


def least_bytes(graph: OperatorGraph) -> int:
    """Of inputs, each read once, and outputs, each written once."""
    names = {*graph.inputs, *graph.outputs}
    return sum(math.prod(graph.tensors[name].shape) * DTYPES[graph.tensors[name].dtype] for name in names)


@dataclass(frozen=True, slots=True)
class Peaks:
    """A data sheet's rates, per second: no kernel is faster."""

    dram: float
    fp32: float
    tf32: float
    half: float
    published: float
    """Best 16-bit rate that anybody printed (ml-engineering, MAMF): above it a prediction promises too much."""


PEAKS = {
    "h200": Peaks(4.8e12, 67e12, 494.7e12, 989.4e12, 794.5e12),
    "h100": Peaks(3.35e12, 67e12, 494.7e12, 989.4e12, 794.5e12),
    "h100-pcie": Peaks(2.04e12, 51.2e12, 378e12, 756e12, 756e12),
    "a100": Peaks(2.039e12, 19.5e12, 156e12, 312e12, 271.2e12),
    "a100-pcie-80": Peaks(1.935e12, 19.5e12, 156e12, 312e12, 252.9e12),
    "a100-pcie-40": Peaks(1.555e12, 19.5e12, 156e12, 312e12, 252.9e12),
}
"""Target -> its sheet.  No best rate is published for the H100 on PCIe: its own peak stands there."""


def floor_microseconds(one: Problem, moved: int, device: str) -> float:
    """The least time that the data sheet allows: of DRAM for `moved` bytes, or of arithmetic."""
    peaks = PEAKS[device]
    rate = peaks.half if one.dtype != "float32" else peaks.tf32 if one.tf32 else peaks.fp32
    return max(moved / peaks.dram, one.flops / rate) * 1e6


def is_above_ceiling(one: Problem, device: str, microseconds: float) -> bool:
    """Whether a time means a 16-bit rate that nobody reached."""
    return one.dtype != "float32" and one.flops / PEAKS[device].published * 1e6 > microseconds


# Operators that no suite has


def relu_squared(s: GraphSketch, elements: int) -> str:
    """relu(x) squared."""
    x = s.node("Relu", s.input("x", elements))
    return s.node("Mul", x, x, to="y")


def rmsnorm(s: GraphSketch, m: int, n: int) -> str:
    """Rows of n by the root of the mean of their squares, with gain."""
    return _rms(s, s.input("x", m, n), n)


def add_rmsnorm(s: GraphSketch, m: int, n: int) -> tuple[str, str]:
    """A residual, then the normalisation; both are results."""
    total = s.node("Add", s.input("x", m, n), s.input("residual", m, n), to="sum")
    return total, _rms(s, total, n)


def _rms(s: GraphSketch, x: str, n: int) -> str:
    squares = s.node("ReduceMean", s.node("Mul", x, x), s.integers(1), keepdims=1)
    scale = s.node("Sqrt", s.node("Add", squares, s.number(1e-6)))
    return s.node("Mul", s.node("Div", x, scale), s.input("gain", n), to="y")


def depthwise(s: GraphSketch, batch: int, channels: int, space: tuple[int, ...], kernel: tuple[int, ...]) -> str:
    """A convolution of each channel alone, without padding."""
    return s.node(
        "Conv", s.input("x", batch, channels, *space), s.input("w", channels, 1, *kernel), to="y",
        kernel_shape=kernel, strides=(1,) * len(space), group=channels,
    )  # fmt: skip


OWN: Mapping[str, Draw] = {
    **SINGLE, "relu-squared": relu_squared, "rmsnorm": rmsnorm, "add-rmsnorm": add_rmsnorm, "depthwise": depthwise,
}  # fmt: skip
