"""Constant folding: exporters compute shapes, axes and scale factors in the graph; here they become constants.

The arithmetic is ONNX's own reference implementation, so that folding adds no second opinion on what operators mean.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx

from engine.graph.limits import checked_shape
from engine.graph.nodes import Tensor
from engine.graph.subgraphs import has_subgraphs

MAX_INPUT = 4096
"""Elements of an operand up to which it counts as shape arithmetic rather than as data."""
MAX_OUTPUT = 1 << 20

_NEVER = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial")


class Folder:
    """Evaluates operators whose operands are known; equal operators share one evaluator."""

    def __init__(self, opset: int) -> None:
        self._opset = opset
        self._evaluators: dict[bytes, onnx.reference.ReferenceEvaluator] = {}

    def fold(
        self, node: onnx.NodeProto, values: Mapping[str, np.ndarray], tensors: Mapping[str, Tensor]
    ) -> list[np.ndarray] | None:
        """The node's results, or None where it has to run: an operand is unknown or large, or the node is random.

        values: the constants known so far; tensors: all that are known so far.
        """
        kind = node.op_type
        if kind in ("Shape", "Size") and node.input[0] in tensors:
            return [_shape(node, tensors[node.input[0]].shape)]
        if any(name and name not in values for name in node.input) or kind in _NEVER or has_subgraphs(node):
            return None
        operands = [values.get(name) if name else None for name in node.input]
        if kind == "ConstantOfShape":
            return [_filled(node, operands[0])]
        if any(value is not None and value.size > MAX_INPUT for value in operands):
            return None
        results = self._run(node, operands)
        return results if results is not None and all(r.size <= MAX_OUTPUT for r in results) else None

    def _run(self, node: onnx.NodeProto, operands: list[np.ndarray | None]) -> list[np.ndarray] | None:
        """Evaluate; None where the reference has no implementation or refuses the operands."""
        from onnx.reference import ReferenceEvaluator  # a slow import that most files never need

        nameless = onnx.NodeProto()
        nameless.op_type, nameless.domain = node.op_type, node.domain
        nameless.input.extend(f"x{at}" if name else "" for at, name in enumerate(node.input))
        nameless.output.extend(f"y{at}" if name else "" for at, name in enumerate(node.output))
        nameless.attribute.extend(node.attribute)
        key = nameless.SerializeToString(deterministic=True)
        try:
            if key not in self._evaluators:
                self._evaluators[key] = ReferenceEvaluator(nameless, opsets={node.domain: self._opset})
            feeds = {f"x{at}": value for at, value in enumerate(operands) if value is not None}
            return [np.asarray(result) for result in self._evaluators[key].run(None, feeds)]
        except (NotImplementedError, RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError):
            # The operator stays in the graph; whether it can run there is decided, and said, by later stages.
            return None


def _shape(node: onnx.NodeProto, shape: tuple[int, ...]) -> np.ndarray:
    if node.op_type == "Size":
        return np.array(int(np.prod(shape, dtype=np.int64)), np.int64)
    limits = {a.name: a.i for a in node.attribute}
    return np.array(shape[limits.get("start", 0) : limits.get("end", len(shape))], np.int64)


def _filled(node: onnx.NodeProto, shape: np.ndarray | None) -> np.ndarray:
    """One value in every element, without memory for each: a large constant of one value stays a view."""
    value = np.zeros(1, np.float32)
    for attribute in node.attribute:
        if attribute.name == "value":
            value = onnx.numpy_helper.to_array(attribute.t)
    sizes = [] if shape is None else [int(size) for size in shape.reshape(-1)]
    dims = checked_shape(f"operator {node.name}", sizes) if 0 not in sizes else tuple(sizes)
    return np.broadcast_to(value.reshape(()), dims)
