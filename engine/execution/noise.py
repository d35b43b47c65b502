"""Noise on the results of a reference's operators: how far the outputs move says how well they are conditioned.

    y = MatMul(x, w)   ->   x' = x * (1 + a), u = MatMul(x', w), y = u * (1 + b)

with normal a and b of a deviation given for each operator, as ONNX nodes between those of the file: nothing of ours
takes part.  Operators inside the bodies of If and Loop have none of their own.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from engine.graph.nodes import FLOAT8, Operator, OperatorGraph, is_float
from engine.graph.weights import element_of

LARGEST = {"float32": 1e30, "float64": 1e30, "bfloat16": 1e30, "float16": 2.0**14, **dict.fromkeys(FLOAT8, 2.0**6)}
"""Sizes from which on values have no more noise: masks stay finite, and infinities what they are."""

NUMBERS = "noise.numbers"
"""The input of normal numbers, from which each place takes its own part: ONNX Runtime lacks newer random operators."""
OFFSETS = 2**16
"""Parts start at one of so many places."""


@dataclass(frozen=True, slots=True)
class OperatorNoise:
    """Standard deviations of an operator's noise, as parts of the values that it is put on."""

    result: float
    operands: float = 0.0
    """Of operands that are no constants; 0 where noise on the result says it all."""


@dataclass(frozen=True, slots=True)
class Noise:
    """One draw of noise for a graph."""

    graph: OperatorGraph
    operators: Mapping[str, OperatorNoise]
    """Tensor -> the noise of the operator that makes it; none for those that only move values."""
    draw: int
    """Another number is another draw."""

    def add_to(self, model: onnx.ModelProto) -> dict[str, np.ndarray]:
        """Put the noise into a model; the values of the input that it needs for that."""
        opset = max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=1)
        nodes = [made for node in model.graph.node for made in self._around(node, opset)]
        del model.graph.node[:]
        model.graph.node.extend(nodes)
        largest = max((self.graph.tensors[name].elements for name in self._sites()), default=1)
        numbers = np.random.RandomState(self.draw).standard_normal(largest + OFFSETS).astype(np.float32)
        model.graph.input.append(helper.make_tensor_value_info(NUMBERS, TensorProto.FLOAT, numbers.shape))
        return {NUMBERS: numbers}

    def _sites(self) -> set[str]:
        """Tensors that noise is put on."""
        read = {name for op in self.graph.operators for name in op.inputs}
        return {name for name in (*self.operators, *read) if self._is_computed(name)}

    def _around(self, node: onnx.NodeProto, opset: int) -> Iterator[onnx.NodeProto]:
        found = [self.operators[name] for name in node.output if name in self.operators]
        if not found:
            yield node
            return
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        after: list[onnx.NodeProto] = []
        if operands := max(noise.operands for noise in found):
            for at, name in enumerate(node.input):
                if self._is_computed(name):
                    copy.input[at] = f"{name}.noisy.{at}.{'-'.join(node.output)}"
                    yield from self._onto(name, copy.input[at], name, operands, opset)
        for at, name in enumerate(node.output):
            if name in self.operators and self._is_computed(name):
                copy.output[at] = f"{name}.silent"
                after += self._onto(copy.output[at], name, name, self.operators[name].result, opset)
        yield copy
        yield from after

    def _is_computed(self, name: str) -> bool:
        """Whether it is a tensor of real numbers that is no constant."""
        tensor = self.graph.tensors.get(name)
        return tensor is not None and tensor.dtype in LARGEST and name not in self.graph.constants

    def _onto(self, source: str, result: str, tensor: str, deviation: float, opset: int) -> Iterator[onnx.NodeProto]:
        """Nodes that write `source`, which is like `tensor`, with noise on it to `result`."""
        own = self.graph.tensors[tensor]
        first = self._seed(result) % OFFSETS
        last = first + own.elements
        ends = {"low": -LARGEST[own.dtype], "high": LARGEST[own.dtype], "deviation": deviation}
        numbers: dict[str, np.ndarray] = {name: np.array(value, np.float32) for name, value in ends.items()}
        numbers |= {"first": np.array([first]), "last": np.array([last]), "shape": np.array(own.shape, np.int64)}
        for name, value in numbers.items():
            yield helper.make_node("Constant", [], [f"{result}.{name}"], value=numpy_helper.from_array(value))
        bounds = {"starts": [first], "ends": [last]} if opset < 10 else {}
        places = [] if opset < 10 else [f"{result}.first", f"{result}.last"]
        yield helper.make_node("Slice", [NUMBERS, *places], [f"{result}.slice"], **bounds)
        steps = (
            ("Reshape", "slice shape", "drawn"), ("Mul", "drawn deviation", "part"), ("Max", "wide low", "above"),
            ("Min", "above high", "size"), ("Mul", "size part", "noise"), ("Add", "wide noise", "sum"),
        )  # fmt: skip
        yield helper.make_node("Cast", [source], [f"{result}.wide"], to=TensorProto.FLOAT)
        for kind, operands, made in steps:
            yield helper.make_node(kind, [f"{result}.{name}" for name in operands.split()], [f"{result}.{made}"])
        yield helper.make_node("Cast", [f"{result}.sum"], [result], to=element_of(own.dtype))

    def _seed(self, name: str) -> int:
        return zlib.crc32(f"{self.draw}:{name}".encode()) & 0xFFFFFF

    def on_result(self, name: str, value: np.ndarray) -> np.ndarray:
        """A result with its noise, of operators that NumPy evaluates."""
        found = self.operators.get(name)
        return self._disturb(name, value, found.result) if found and is_float(np.asarray(value).dtype) else value

    def on_operands(self, op: Operator, values: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Operands with their noise, of operators that NumPy evaluates."""
        part = max((self.operators[name].operands for name in op.outputs if name in self.operators), default=0.0)
        return [
            self._disturb(f"{name}:{op.name}", value, part) if part and self._is_computed(name) else value
            for name, value in zip(op.inputs, values, strict=True)
        ]

    def _disturb(self, name: str, value: np.ndarray, deviation: float) -> np.ndarray:
        stream = np.random.RandomState(self._seed(name))
        return np.asarray(value + np.clip(value, -1e30, 1e30) * deviation * stream.standard_normal(np.shape(value)))
