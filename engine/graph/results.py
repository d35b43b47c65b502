"""Types of nodes' results by ONNX's own inference, asked once for nodes that differ in names alone.

Inference goes by a node's attributes, the types of its operands and what is known of their values: of integers, which
are shapes and axes; of other numbers only where a shape stays open without them, as one that is scaled does.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import defs, helper, shape_inference

from engine.graph.functions import absent_attributes, body_of
from engine.graph.nodes import Tensor
from engine.graph.subgraphs import has_subgraphs
from engine.graph.weights import element_of
from engine.support.budgets import MAX_READ
from engine.support.errors import BadInput

Result = tuple[int, tuple[int, ...]] | None
"""Element type and shape of a result; None where the shape is open."""

_READS_DEFAULTS = ("STFT",)
"""Operators whose inference takes another default for an absent attribute than their definition says."""


@dataclass(frozen=True, slots=True)
class Inference:
    """The results of one model's nodes."""

    model: onnx.ModelProto
    values: Mapping[str, np.ndarray]
    """Constants known so far; grows while nodes are walked."""
    _known: dict[Hashable, tuple[Result, ...]] = field(default_factory=dict)
    """Key of `_likeness` -> results."""
    _types: dict[tuple[str, tuple[int, ...]], onnx.TypeProto] = field(default_factory=dict)
    """Tensor types as ONNX has them."""
    _stored: dict[str, onnx.TensorProto] = field(default_factory=dict)

    def of(self, node: onnx.NodeProto, schema: defs.OpSchema, tensors: Mapping[str, Tensor]) -> tuple[Result, ...]:
        """The results of a node, in order.

        tensors: every operand, by name.  Raises what ONNX raises where operands do not suit.
        """
        if node.op_type in _READS_DEFAULTS:
            node.attribute.extend(absent_attributes(schema, node))
        operands = [tensors[name] if name else None for name in node.input]
        small = {name for name in node.input if name in self.values and self.values[name].size <= MAX_READ}
        whole = {name for name in small if self.values[name].dtype.kind in "iub"}
        alike = None if has_subgraphs(node) else self._likeness(node, operands, whole)
        if alike is None or alike not in self._known:
            results = self._infer(node, schema, operands, whole)
            if None in results and whole != small:
                return self._infer(node, schema, operands, small)
            if alike is None:
                return results
            self._known[alike] = results
        return self._known[alike]

    def _likeness(self, node: onnx.NodeProto, operands: list[Tensor | None], told: set[str]) -> Hashable:
        """A key that is equal for nodes that differ in names alone."""
        attributes = tuple([attribute.SerializeToString(deterministic=True) for attribute in node.attribute])
        types = tuple([(each.shape, each.dtype) if each else None for each in operands])
        values = tuple([(at, self.values[name].tobytes()) for at, name in enumerate(node.input) if name in told])
        return node.domain, node.op_type, attributes, types, values, tuple(map(bool, node.output))

    def _infer(
        self, node: onnx.NodeProto, schema: defs.OpSchema, operands: list[Tensor | None], told: set[str]
    ) -> tuple[Result, ...]:
        types = {each.name: self.type_of(each) for each in operands if each}
        values = {name: self._proto(name) for name in told}
        opsets = list(self.model.opset_import)
        try:
            found: Mapping[str, onnx.TypeProto] = shape_inference.infer_node_outputs(
                schema, node, types, values, None, opsets, self.model.ir_version
            )
        except MemoryError:
            name = node.name or next(iter(node.output), "")
            reason = f"{node.op_type} asks for a shape that no memory holds"
            raise BadInput("graph", f"operator {name}", reason, "export the model again") from None
        results = tuple([static_result(found.get(name)) for name in node.output])
        return self._of_body(node, schema, operands) if None in results and _has_body(schema) else results

    def _of_body(
        self, node: onnx.NodeProto, schema: defs.OpSchema, operands: list[Tensor | None]
    ) -> tuple[Result, ...]:
        """The results of an operator that has a body by simpler ones and no inference of its own."""
        opset = next((o.version for o in self.model.opset_import if o.domain == node.domain), schema.since_version)
        types = [self.type_of(each) if each else onnx.TypeProto() for each in operands]
        body = body_of(schema, opset, node, types)
        attributes = [*node.attribute, *absent_attributes(schema, node)]
        found = shape_inference.infer_function_output_types(body, types, attributes) if body is not None else []
        known = [*map(static_result, found), *[None] * len(node.output)]
        return tuple([result if name else None for name, result in zip(node.output, known, strict=False)])

    def type_of(self, tensor: Tensor) -> onnx.TypeProto:
        """The tensor's type as ONNX has it."""
        key = tensor.dtype, tensor.shape
        if key not in self._types:
            self._types[key] = helper.make_tensor_type_proto(element_of(tensor.dtype), tensor.shape)
        return self._types[key]

    def _proto(self, name: str) -> onnx.TensorProto:
        if name not in self._stored:
            self._stored[name] = onnx.numpy_helper.from_array(np.asarray(self.values[name], order="C"), name)
        return self._stored[name]


def static_result(value: onnx.TypeProto | None) -> Result:
    """Element type and shape of a tensor type when every dimension has a number."""
    if value is None or not value.HasField("tensor_type") or not value.tensor_type.HasField("shape"):
        return None
    dims = value.tensor_type.shape.dim
    shape = tuple([d.dim_value for d in dims]) if all(d.HasField("dim_value") for d in dims) else None
    return None if shape is None else (value.tensor_type.elem_type, shape)


def _has_body(schema: defs.OpSchema) -> bool:
    return bool(schema.has_function or schema.has_context_dependent_function)
