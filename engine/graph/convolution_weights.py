"""Weights of convolutions as constants in the order in which images that have their channels last are multiplied.

    convolution     w[m, c, y, x]     ->     w[m, y, x, c]       neighbouring terms of a sum
    transposed      w[c, m, y, x]     ->     w[y, x, c, m]       neighbouring results
    depthwise       w[m, 1, y, x]     ->     w[y, x, 1, m]
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from engine.graph.nodes import Constant, Operator, OperatorGraph, Tensor

CONVOLUTIONS = {"Conv": 1, "ConvTranspose": 1, "ConvInteger": 1, "QLinearConv": 3}
"""Operator -> place of its weight among its operands."""


def with_ordered_weights(graph: OperatorGraph) -> OperatorGraph:
    """The graph with every constant weight of a convolution whose window has several points in that order, too.

    Nothing is computed: values are views, and one that a file leaves out is drawn as the weight is.
    """
    tensors, constants = dict(graph.tensors), dict(graph.constants)
    found: dict[str, str] = {}
    for op in graph.operators:
        weight = _weight(op, graph)
        if weight in found or weight not in graph.constants:
            continue
        tensor, known = graph.tensors[weight], graph.constants[weight].value
        order = _order(op, tensor.shape)
        if not order:
            continue
        name = f"{weight}.channels_last"
        while name in tensors:
            name += "_"
        value = None if known is None else np.transpose(known, order)
        tensors[name] = Tensor(name, tuple(tensor.shape[axis] for axis in order), tensor.dtype)
        constants[name] = Constant(name, value=value, of=weight, order=order)
        found[weight] = name
    return replace(graph, tensors=tensors, constants=constants, channels_last=found) if found else graph


def _weight(op: Operator, graph: OperatorGraph) -> str:
    """The weight of a convolution, or the codes that it is dequantised from; "" for other operators."""
    place = CONVOLUTIONS.get(op.kind, -1) if op.dialect == "onnx" else -1
    if not 0 <= place < len(op.inputs):
        return ""
    source = graph.producer().get(op.inputs[place])
    return source.inputs[0] if source is not None and source.kind == "DequantizeLinear" else op.inputs[place]


def _order(op: Operator, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The order of a weight's axes; none for one that is in it already."""
    window = tuple(range(2, len(shape)))
    if len(shape) < 3 or math.prod(shape[2:]) == 1:
        return ()
    if op.kind == "ConvTranspose":
        return (*window, 0, 1)
    return (*window, 1, 0) if shape[1] == 1 else (0, *window, 1)
