"""Seeded random graphs over every operator that has a rule: cases of `tests.tensor.test_operators`, one behind another.

What an operator reads is made of what those before it gave: flattened, repeated or cut to the operand's size, and moved
into the range of the case's own values, so that roots and logarithms stay defined.  Operands that are no floats are
constants.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

from tests.tensor.test_operators import CASES, Case

JUMPS = frozenset(
    "ArgMax ArgMin BitShift Cast Ceil Equal Floor Greater GreaterOrEqual Hardmax IsInf IsNaN Less LessOrEqual MaxPool "
    "MaxUnpool MaxRoiPool Mod QuantizeLinear DynamicQuantizeLinear GridSample Resize RoiAlign Round Sign Shrink "
    "ThresholdedRelu TopK Upsample DeformConv AffineGrid".split()
)
"""Operators whose results jump where an operand moves a little: they read values that are exact."""
LARGEST = 20_000
"""Elements of an operand that is drawn."""
NEAR_ONE = (0.8, 1.25)
"""What ReduceProd multiplies: of larger numbers, some hundred leave the range of float32."""


class OperatorChain:
    """A graph of two to four cases of one operator set; each operator is as likely as another."""

    def __init__(self, seed: int, most: int = 4) -> None:
        """most: cases."""
        self.random = random.Random(seed)
        usable = [case for case in CASES if is_chained(case)]
        first = self._draw(usable)
        alike = [case for case in usable if case.opset == first.opset]
        self.cases = [first]
        self.cases += [self._draw(alike) for _ in range(self.random.randint(1, most - 1))]
        self.opset = first.opset
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.shape = self.random.choice([(7, 33), (64, 64), (3, 5, 17), (1000,)])
        self.floats: list[tuple[str, bool]] = [("x", True)]
        """Tensors that may be read, and whether they are exact."""
        self.outputs: list[str] = []
        for number, case in enumerate(self.cases):
            self.outputs += self._add(number, case)

    def _draw(self, cases: Sequence[Case]) -> Case:
        kind = self.random.choice(sorted({case.kind for case in cases}))
        return self.random.choice([case for case in cases if case.kind == kind])

    def write(self, path: Path) -> Path:
        """Write the graph as a model."""
        path.write_bytes(self._model().SerializeToString())
        return path

    def _model(self) -> onnx.ModelProto:
        given = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, self.shape)]
        made = [onnx.ValueInfoProto(name=name) for name in self.outputs]
        stored = [numpy_helper.from_array(value, name) for name, value in self.constants.items()]
        graph = helper.make_graph(self.nodes, "chain", given, made, stored)
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def __str__(self) -> str:
        return " -> ".join(map(str, self.cases))

    def _add(self, number: int, case: Case) -> list[str]:
        names = []
        for at, operand in enumerate(case.operands):
            name = f"n{number}_{at}" if operand is not None else ""
            if operand is not None and is_drawn(case, at):
                low, high = NEAR_ONE if case.kind == "ReduceProd" else (float(operand.min()), float(operand.max()))
                self._connect(name, operand, (low, high), case.kind in JUMPS)
            elif operand is not None:
                self.constants[name] = operand
            names.append(name)
        results = [f"y{number}_{at}" for at in range(case.outputs)]
        self.nodes.append(helper.make_node(case.kind, names, results, name=f"op{number}", **case.attributes))
        self.floats.append((results[0], False))
        return results

    def _connect(self, name: str, like: np.ndarray, within: tuple[float, float], is_exact: bool) -> None:
        """A tensor like an operand, of one that is there, moved into a range unless it is exact."""
        exact = [one for one in self.floats if one[1]]
        source, _ = self.random.choice(exact) if is_exact else self.floats[-1]
        length = self._size(source)
        if not length:
            source, length = "x", math.prod(self.shape)
        size, (low, high) = like.size, within
        flat = self._node("Reshape", f"{name}_flat", self._node("Cast", f"{name}_float", source, to=1), self._ints(-1))
        copies = self._node("Tile", f"{name}_copies", flat, self._ints(-(-size // length)))
        whole = self._node("Slice", f"{name}_cut", copies, self._ints(0), self._ints(size), self._ints(0))
        if not is_exact:
            share = self._node("Sigmoid", f"{name}_share", whole)
            span = self._number(f"{name}_span", high - low)
            whole = self._node("Add", f"{name}_moved", self._node("Mul", f"{name}_spread", share, span),
                               self._number(f"{name}_low", low))  # fmt: skip
        dtype = helper.np_dtype_to_tensor_dtype(like.dtype)
        typed = self._node("Cast", f"{name}_typed", whole, to=dtype)
        self.nodes.append(helper.make_node("Reshape", [typed, self._ints(*like.shape)], [name], name=name))

    def _size(self, name: str) -> int:
        """Elements of a tensor; 0 where ONNX's inference does not know them."""
        if name == "x":
            return math.prod(self.shape)
        made = shape_inference.infer_shapes(self._model(), data_prop=True).graph.output
        types = {value.name: value.type for value in made}
        dims = types[name].tensor_type.shape.dim if name in types else ()
        return math.prod(dim.dim_value for dim in dims)

    def _node(self, kind: str, name: str, *inputs: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def _ints(self, *values: int) -> str:
        name = "i" + "_".join(str(v).replace("-", "m") for v in values)
        self.constants[name] = np.array(values, np.int64)
        return name

    def _number(self, name: str, value: float) -> str:
        self.constants[name] = np.array(value, np.float32)
        return name


def is_drawn(case: Case, at: int) -> bool:
    """Whether an operand may be another array of floats in its range."""
    operand = case.operands[at]
    is_float = operand is not None and operand.dtype in (np.float32, np.float16)
    return is_float and at not in case.constants and 0 < operand.size <= LARGEST and bool(np.isfinite(operand).all())


def is_chained(case: Case) -> bool:
    """Whether a case reads what others gave, and is defined wherever its operands are in their ranges."""
    return case.opset >= 13 and any(is_drawn(case, at) for at in range(len(case.operands)))


def kinds(chains: Sequence[OperatorChain]) -> set[str]:
    """Operators of some chains."""
    return {case.kind for chain in chains for case in chain.cases}
