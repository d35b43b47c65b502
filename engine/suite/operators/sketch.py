"""An ONNX graph builder, and the table of operators that rows may name."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

from engine.suite.nodes import SuiteRow
from engine.support.errors import BadInput

OPSET, IR_VERSION = 20, 10

Draw = Callable[..., str | Sequence[str]]
"""Builds one operator into a `GraphSketch` and names its outputs; the keyword arguments are the row's sizes."""

OPERATORS: dict[str, Draw] = {}


def operator(name: str) -> Callable[[Draw], Draw]:
    """Enter a builder into the table."""

    def enter(draw: Draw) -> Draw:
        assert name not in OPERATORS, f"{name} has two builders"
        OPERATORS[name] = draw
        return draw

    return enter


class GraphSketch:
    """Nodes and inputs so far.  Names of tensors are given where a person may look for them."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        """Element type of inputs that ask for no other."""
        self._nodes: list[onnx.NodeProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}
        self._ranges: dict[str, tuple[float, float]] = {}

    def input(self, name: str, *shape: int, dtype: str = "", between: tuple[float, float] | None = None) -> str:
        """An input of the graph.  between: the range that its values are drawn from, by default standard normal."""
        self._inputs.append(helper.make_tensor_value_info(name, _element(dtype or self.dtype), shape))
        if between is not None:
            self._ranges[name] = between
        return name

    def number(self, value: float) -> str:
        """A scalar constant."""
        return self._constant(f"c_{value:g}_{self.dtype}", np.array(value, self.dtype))

    def integers(self, *values: int) -> str:
        """A constant list of int64: axes, shapes, splits."""
        return self._constant("i_" + "_".join(map(str, values)), np.array(values, np.int64))

    def _constant(self, name: str, value: np.ndarray) -> str:
        self._constants[name] = numpy_helper.from_array(value, name)
        return name

    def node(self, kind: str, *inputs: str, to: str = "", **attributes: object) -> str:
        """An operator with one result, called `to`."""
        return self.nodes(kind, *inputs, to=(to or f"{kind.lower()}_{len(self._nodes)}",), **attributes)[0]

    def nodes(self, kind: str, *inputs: str, to: tuple[str, ...], **attributes: object) -> tuple[str, ...]:
        """An operator with several results."""
        self._nodes.append(helper.make_node(kind, inputs, to, name=f"{kind}_{to[0]}", **attributes))
        return to

    def cast(self, source: str, dtype: str, to: str = "") -> str:
        """The tensor in another element type."""
        name = to or f"cast_{len(self._nodes)}"
        self._nodes.append(helper.make_node("Cast", [source], [name], name=f"Cast_{name}", to=_element(dtype)))
        return name

    def model(self, name: str, outputs: Sequence[str]) -> onnx.ModelProto:
        """The finished model.  The types of its outputs are those that ONNX infers."""
        untyped = [onnx.ValueInfoProto(name=output) for output in outputs]
        graph = helper.make_graph(self._nodes, name, self._inputs, untyped, list(self._constants.values()))
        opset = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opset, producer_name="loomscope", ir_version=IR_VERSION)
        # Strict, so that an operator that does not fit its operands is noticed here and not when the model is loaded.
        # Without data propagation, which takes gigabytes for long vectors.
        inferred = shape_inference.infer_shapes(model, strict_mode=True).graph.output
        del model.graph.output[:]
        model.graph.output.extend(inferred)
        if self._ranges:
            model.metadata_props.add(key="light.inputs", value=json.dumps(self._ranges, sort_keys=True))
        return model


def model_of(row: SuiteRow) -> onnx.ModelProto:
    """The ONNX model of a row.  BadInput for an operator or a size that nothing is known of."""
    draw = OPERATORS.get(row.operator)
    if draw is None:
        raise BadInput("suite", f"row {row.name}", f"operator {row.operator} is not known", _known_names(OPERATORS))
    sketch = GraphSketch(row.dtype)
    try:
        inspect.signature(draw).bind(sketch, **row.sizes)
    except TypeError as error:
        sizes = tuple(inspect.signature(draw).parameters)[1:]
        raise BadInput("suite", f"row {row.name}", f"{row.operator}: {error}", _known_names(sizes)) from None
    outputs = draw(sketch, **row.sizes)
    return sketch.model(row.name, (outputs,) if isinstance(outputs, str) else outputs)


def _known_names(names: Any) -> str:
    return f"known: {', '.join(names)}"


def _element(dtype: str) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
