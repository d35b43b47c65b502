"""The operator graph as a value: what a file says, before any decision of ours.

Names are the file's own, never identifiers.  Operators stand in topological order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np

from engine.support.errors import BadInput
from engine.support.text_table import TitledTable
from engine.support.values import value

INPUT_DTYPES: dict[str, int] = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1,
    "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1, "bool": 1,
    "float8_e4m3fn": 1, "float8_e4m3fnuz": 1, "float8_e5m2": 1, "float8_e5m2fnuz": 1,
}  # fmt: skip
"""Element types that a graph's inputs may have, with their size in bytes."""

DTYPES: dict[str, int] = {
    **INPUT_DTYPES, "int4": 1, "uint4": 1, "int2": 1, "uint2": 1, "float4_e2m1fn": 1, "float6_e2m3fn": 1,
    "float6_e3m2fn": 1, "float8_e8m0fnu": 1, "complex64": 8, "complex128": 16, "string": 8,
}  # fmt: skip
"""Element types that a graph may hold, with their NumPy size in bytes; types below 8 bits take a whole byte."""

NARROW_INTEGERS = ("int8", "uint8", "int16", "uint16")
"""Integer types that are computed in 32 bits, of which results keep the lowest."""

FLOAT8: dict[str, float] = {
    "float8_e4m3fn": 448, "float8_e4m3fnuz": 240, "float8_e5m2": 57344, "float8_e5m2fnuz": 57344,
}  # fmt: skip
"""Floats of 8 bits, which are stored, converted and scaled, and computed in float32, with their largest number."""

UNSIGNED = ("uint32", "uint64")
"""Integer types without a sign that are computed as they are."""

COMPILED_DTYPES = ("float32", "float16", "bfloat16", "int32", "int64", *UNSIGNED, "bool", *NARROW_INTEGERS, *FLOAT8)
"""Element types that kernels are generated for."""

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
"""The bfloat16 type of ml_dtypes; NumPy reports its kind as "V", not as a float."""

AttributeValue = int | float | str | bool | tuple[int, ...] | tuple[float, ...] | tuple[str, ...] | np.ndarray


@cache
def dtype_text(dtype: np.dtype) -> str:
    """The engine's name of a NumPy type; NumPy takes its time to find its own."""
    return "string" if dtype.kind in "OUS" else dtype.name


def is_float(dtype: np.dtype) -> bool:
    """Whether elements are rounded numbers."""
    return dtype.kind == "f" or dtype == BFLOAT16 or dtype.name in FLOAT8


@value(frozen=True, slots=True)
class Tensor:
    """A named array of the graph.  `shape` is row-major and fully known; () is a scalar."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * DTYPES[self.dtype]

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Fill:
    """A weight whose values are not in the file; a seeded distribution replaces them."""

    distribution: str
    """"normal" (a = mean, b = standard deviation) or "uniform" (a = low, b = high)."""
    a: float
    b: float


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A tensor whose value the graph fixes: `value`, an opaque `fill` for weights left out of the file, or what another
    constant is."""

    tensor: str
    value: np.ndarray | None = None
    fill: Fill | None = None
    of: str = ""
    """The constant that it is in another order, where it is that."""
    order: tuple[int, ...] = ()
    """Axes of `of` in its own order."""


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """One operator of the file.  An absent optional input is the empty string."""

    name: str
    """Unique; made from the first output where the file gives none."""
    kind: str
    """The operator's type in its own vocabulary: "MatMul", "LayerNormalization", "RealDiv"."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    dialect: str = "onnx"
    """"onnx" or "akg": whose operator this is."""
    opset: int = 0
    scope: str = ""
    """Path of the module that the exporter took it from ("encoder.layer.0.attention"), or empty."""


@dataclass(frozen=True, slots=True)
class HostDecision:
    """A number that the data decide, as a dimension: how many results there are, or which branch is taken."""

    name: str
    """"OPERATOR.count", or "OPERATOR.branch", which is 1 where the condition holds."""
    assumed: int
    """What the shapes of the graph are for: what the caller gave, or the largest."""
    largest: int | None
    """None where nothing bounds it."""
    tensor: str
    """Which tensor of a run tells it."""
    axis: int | None
    """The axis whose size it is; None where it is the tensor's value."""
    is_limit: bool = False
    """Whether it is a largest number that data may stay below, and the tensor says that they do not."""


@dataclass(frozen=True, slots=True)
class HostStep:
    """What a host program does for an operator that no kernel can be: it looks at data, and decides."""

    because: str
    decisions: tuple[HostDecision, ...] = ()
    """What shapes behind it depend on; none where it only chooses between tensors of one shape."""

    def __str__(self) -> str:
        sizes = (f"; kernels behind it are for {d.name} = {d.assumed}" for d in self.decisions)
        limits = ("" if d.largest is None else f" of at most {d.largest}" for d in self.decisions)
        return self.because + "".join(size + limit for size, limit in zip(sizes, limits, strict=True))


@dataclass(frozen=True, slots=True)
class Update:
    """An in-place write: after the graph ran, the buffer of `target` holds what `value` held."""

    target: str
    value: str


@dataclass(frozen=True, slots=True, eq=False)
class OperatorGraph:
    """A whole file: operators in topological order, tensors by name, inputs, outputs, constants, in-place updates."""

    name: str
    operators: tuple[Operator, ...]
    tensors: Mapping[str, Tensor]
    inputs: tuple[str, ...]
    """Tensors the caller feeds (constants are not among them)."""
    outputs: tuple[str, ...]
    """Tensors the caller reads (AKG's `fake_output` placeholders are not among them)."""
    constants: Mapping[str, Constant]
    updates: tuple[Update, ...] = ()
    unsupported: Mapping[str, str] = field(default_factory=dict)
    """Operator name -> why no kernel can be generated for it."""
    host: Mapping[str, HostStep] = field(default_factory=dict)
    """Operator name -> what a host program does for it between kernels."""
    source: Path | None = None
    """The file it was read from; None for graphs built in memory."""
    dialect: str = "onnx"
    dimensions: Mapping[str, int] = field(default_factory=dict)
    """Sizes that symbolic dimensions of the file, and numbers that its data decide, were given."""
    transposed: Mapping[str, str] = field(default_factory=dict)
    """Weight of a product of codes -> the constant that holds it with its two axes swapped."""
    sums: Mapping[str, str] = field(default_factory=dict)
    """Weight of a product of codes -> the constant that holds the sums along what is multiplied."""
    pairs: Mapping[str, str] = field(default_factory=dict)
    """Constant of 4-bit codes -> the one that holds two to a byte, the first in the low half; the last axis is half
    as long, or all stand in a row where it is odd."""
    channels_last: Mapping[str, str] = field(default_factory=dict)
    """Weight of a convolution -> the constant that holds it in the order for images whose channels are last."""

    def producer(self) -> dict[str, Operator]:
        """Tensor name -> the operator that writes it."""
        return {output: op for op in self.operators for output in op.outputs if output}

    def __str__(self) -> str:
        return str(self._table())

    def _repr_html_(self) -> str:
        return self._table().html()

    def _table(self) -> TitledTable:
        def shape(name: str) -> str:
            known = self.tensors.get(name)
            return str(known) if known else name

        rows = ((op.name, op.kind, "; ".join(map(shape, filter(None, op.outputs)))) for op in self.operators)
        title = f"{self.name}: {len(self.operators):,} operators, {len(self.unsupported):,} unsupported"
        return TitledTable(title, ("operator", "kind", "makes"), rows, len(self.operators))


@dataclass(frozen=True, slots=True)
class SizeRange:
    """The sizes of a dimension, from `low` to `high`."""

    name: str
    low: int
    high: int

    def __post_init__(self) -> None:
        """BadInput for one that is empty or has no smaller size."""
        if not 1 <= self.low < self.high:
            told = f"is {self.low}..{self.high}; the first size is at least 1, the last one larger"
            raise BadInput("graph", f"dimension {self.name}", told, f"--dim {self.name}=1..8")

    def check(self, size: int) -> None:
        """BadInput for a size that is not one of them."""
        if not self.low <= size <= self.high:
            hint = f"kernels serve {self.low} to {self.high}"
            raise BadInput("range", f"dimension {self.name}", f"is {size}", hint)

    def __str__(self) -> str:
        return f"{self.name} = {self.low}..{self.high}"
