"""The nodes that are written for one node of another operator set."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper

_SINCE_AXES = 18
"""Operator set from which on reductions take their axes as an operand."""
SINCE_CAST_LIKE = 15
SINCE_AXES_OPERAND = 13
"""Operator set from which on Unsqueeze takes its axes as an operand."""

Shape = tuple[int | str, ...]
"""A size or a symbol for each axis, "" for one without either."""


class Expansion:
    """The nodes that stand for one node, with names of their own."""

    def __init__(
        self, node: onnx.NodeProto, opset: int, shapes: Mapping[str, Shape] | None = None,
        types: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        """shapes, types: of tensors, where the file says them."""
        self.node, self.opset, self._shapes, self._types = node, opset, shapes or {}, types or {}
        self.nodes: list[onnx.NodeProto] = []
        # Names of nodes may repeat, those of tensors may not.
        self._label, self._scope = node.output[0], node.name or node.output[0]

    def operand(self, place: int) -> str:
        """The name of an operand, "" for an absent one."""
        return self.node.input[place] if place < len(self.node.input) else ""

    def result(self, place: int) -> str:
        """The name of a result, "" for one that nobody wants."""
        return self.node.output[place] if place < len(self.node.output) else ""

    def shape(self, name: str) -> Shape | None:
        """The shape of a tensor; None where the file does not say it."""
        return self._shapes.get(name)

    def element_type(self, name: str) -> int:
        """The element type of a tensor; that of none where the file does not say it."""
        return self._types.get(name, onnx.TensorProto.UNDEFINED)

    def rank(self, name: str) -> int | None:
        """How many axes a tensor has; None where the file does not say it."""
        shape = self.shape(name)
        return None if shape is None else len(shape)

    def has_results_only(self, places: tuple[int, ...]) -> bool:
        """Whether the node has no other results than these."""
        return all(not name or at in places for at, name in enumerate(self.node.output))

    def attribute(self, name: str, default: float) -> float:
        """A number among the attributes."""
        for one in self.node.attribute:
            if one.name == name:
                return float(helper.get_attribute_value(one))
        return default

    def integers(self, name: str) -> tuple[int, ...]:
        """A list among the attributes, () for an absent one."""
        return next((tuple(one.ints) for one in self.node.attribute if one.name == name), ())

    def add(self, kind: str, *operands: str, result: str = "", **attributes: object) -> str:
        """A node of the standard; the name of its result."""
        return self.add_all(kind, *operands, results=(result,), **attributes)[0]

    def add_all(self, kind: str, *operands: str, results: tuple[str, ...], **attributes: object) -> tuple[str, ...]:
        """A node with several results, named where a name is empty."""
        place = f"{kind}_{len(self.nodes)}"
        names = tuple(name or f"{self._label}/{place}:{at}" for at, name in enumerate(results))
        self.nodes.append(helper.make_node(kind, operands, names, name=f"{self._scope}/{place}", **attributes))
        return names

    def number(self, value: float, like: str) -> str:
        """A scalar of the type of a tensor."""
        return self.cast(self.constant(np.array(value, np.float32)), like)

    def cast(self, x: str, like: str) -> str:
        """A tensor of single precision in the type of another; of operator sets without CastLike all are of it."""
        return self.add("CastLike", x, like) if self.opset >= SINCE_CAST_LIKE else x

    def add_like(self, kind: str, *operands: str) -> str:
        """A node of the standard with the attributes of the node that it stands for."""
        name = self.add(kind, *operands)
        known = onnx.defs.get_schema(kind, self.opset).attributes
        self.nodes[-1].attribute.extend(one for one in self.node.attribute if one.name in known)
        return name

    def constant(self, value: np.ndarray) -> str:
        """A constant."""
        return self.add("Constant", value=numpy_helper.from_array(value))

    def unsqueeze(self, x: str, axis: int) -> str:
        """A tensor with a new axis of one element."""
        if self.opset >= SINCE_AXES_OPERAND:
            return self.add("Unsqueeze", x, self.constant(np.array([axis])))
        return self.add("Unsqueeze", x, axes=[axis])

    def mean_of_row(self, x: str) -> str:
        """The mean over the last axis, which stays as one element."""
        if self.opset >= _SINCE_AXES:
            return self.add("ReduceMean", x, self.constant(np.array([-1])), keepdims=1)
        return self.add("ReduceMean", x, axes=[-1], keepdims=1)
