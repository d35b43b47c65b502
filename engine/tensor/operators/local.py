"""Normalisations by sums over a neighbourhood or a norm: LRN and LpNormalization."""

from __future__ import annotations

import numpy as np

from engine.graph.nodes import Operator
from engine.tensor.build import StatementBuilder, box, over
from engine.tensor.operators.attributes import axis_of, integer, real
from engine.tensor.operators.layout import read_padded
from engine.tensor.operators.registry import operator
from engine.tensor.terms import absolute, apply, compare, select, sqrt, wide


def _local_response(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
    size, channels = integer(op, "size", 1), x[0].shape[1]
    before = (size - 1) // 2
    squares = np.pad(x[0] ** 2, [(0, 0), (before, size - 1 - before)] + [(0, 0)] * (x[0].ndim - 2))
    around = sum(squares[:, at : at + channels] for at in range(size))
    scale = real(op, "bias", 1.0) + real(op, "alpha", 1e-4) / size * around
    return [np.asarray(x[0] / scale ** real(op, "beta", 0.75))]


@operator("onnx.LRN", meaning=_local_response)
def local_response(op: Operator, build: StatementBuilder) -> None:
    """x / (bias + alpha / size * sum of squares of `size` channels around it) ^ beta."""
    source, target, size = op.inputs[0], op.outputs[0], integer(op, "size", 1)
    shape = build.shape(source)
    space = box(shape, (size,))
    channel = space.written[1] + space.point[-1] - (size - 1) // 2
    near = wide(read_padded(build, source, (space.written[0], channel, *space.written[2:]), space, 0))
    because = "sum of squares of the channels around"
    squares = build.define(target, "squares", space, near * near, reduction="sum", because=because)
    cells = box(shape)
    scale = build.read(squares, cells.written) * (real(op, "alpha", 1e-4) / size) + real(op, "bias", 1.0)
    value = wide(build.read(source, cells.written))
    build.emit(target, cells, value / apply("pow", scale, real(op, "beta", 0.75)))


def _normalize(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
    length = np.linalg.norm(x[0], integer(op, "p", 2), integer(op, "axis", -1), keepdims=True)
    return [np.where(length == 0, 0, x[0] / np.where(length == 0, 1, length))]


@operator("onnx.LpNormalization", meaning=_normalize)
def norm(op: Operator, build: StatementBuilder) -> None:
    """Each row over its sum of magnitudes (p = 1) or its Euclidean length (p = 2); rows of zeros stay."""
    source, target = op.inputs[0], op.outputs[0]
    shape = build.shape(source)
    axis = axis_of(op, integer(op, "axis", -1), len(shape))
    rows = over(shape, (axis,))
    value = wide(build.read(source, rows.point))
    squared = integer(op, "p", 2) == 2
    size = value * value if squared else absolute(value)
    length = build.define(target, "norm", rows, size, reduction="sum", because="norm of the row")
    space = box(shape)
    size = build.broadcast(length, space)
    size = sqrt(size) if squared else size
    value = wide(build.read(source, space.written)) / size
    build.emit(target, space, select(compare("equal", size, 0), 0, value))
