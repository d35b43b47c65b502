"""Softmax and the normalisations: reductions over rows whose result every element of the row reads.

Temporaries of half-precision operators are kept in float32 and the result is rounded once.
"""

from __future__ import annotations

import math

import numpy as np

from engine.graph.nodes import Operator
from engine.tensor.build import Domain, StatementBuilder, box, over
from engine.tensor.operators.attributes import axis_of, integer, present, present_output, real
from engine.tensor.operators.registry import operator
from engine.tensor.terms import Term, apply, exp, log, wide


def _axes_from(op: Operator, default: int, rank: int) -> tuple[int, ...]:
    """All axes from the attribute `axis` on."""
    return tuple(range(axis_of(op, integer(op, "axis", default), rank), rank))


def softmax_axes(op: Operator, rank: int) -> tuple[int, ...]:
    """One axis since opset 13; before, everything from the axis (default 1) on."""
    if op.opset >= 13:
        return (axis_of(op, integer(op, "axis", -1), rank),)
    return _axes_from(op, 1, rank)


def _log_softmax(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
    """With NumPy: the standard's implementation knows the axes of opset 13 and later only."""
    axes = softmax_axes(op, x[0].ndim)
    shifted = x[0] - x[0].max(axis=axes, keepdims=True)
    return [shifted - np.log(np.exp(shifted).sum(axis=axes, keepdims=True))]


@operator("onnx.Softmax", meaning=lambda op, x: [np.exp(_log_softmax(op, x)[0])])
def softmax(op: Operator, build: StatementBuilder) -> None:
    """Row maximum, exponentials of the differences, row sum, quotient."""
    target = op.outputs[0]
    rows, space, top = _row_maximum(op, build)
    shifted = wide(build.read(op.inputs[0], space.written)) - wide(build.broadcast(top, space))
    power = build.define(target, "exp", space, exp(shifted), because="exponentials, none above 1")
    total = build.define(target, "sum", rows, build.read(power, rows.point), reduction="sum", because="row sum")
    quotient = build.read(power, space.written) / build.broadcast(total, space)
    build.emit(target, space, quotient, because="quotient")


def _row_maximum(op: Operator, build: StatementBuilder) -> tuple[Domain, Domain, str]:
    """Append the maximum of each row of a softmax: the rows, the elements, and the array of the maxima."""
    source, shape = op.inputs[0], build.shape(op.inputs[0])
    rows = over(shape, softmax_axes(op, len(shape)))
    value = build.read(source, rows.point)
    return rows, box(shape), build.define(op.outputs[0], "max", rows, value, reduction="max", because="row maximum")


@operator("onnx.LogSoftmax", meaning=_log_softmax)
def log_softmax(op: Operator, build: StatementBuilder) -> None:
    """ONNX LogSoftmax: x - max - log(sum(exp(x - max)))."""
    source, target = op.inputs[0], op.outputs[0]
    rows, space, top = _row_maximum(op, build)
    difference = wide(build.read(source, rows.point)) - wide(build.read(top, rows.written))
    total = build.define(target, "sum", rows, exp(difference), reduction="sum", because="sum of exponentials")
    shifted = wide(build.read(source, space.written)) - wide(build.broadcast(top, space))
    build.emit(target, space, shifted - log(build.broadcast(total, space)))


@operator("onnx.LayerNormalization")
def layer_normalization(op: Operator, build: StatementBuilder) -> None:
    """Two passes over the row: the mean, then the squared deviations, which cancel less than E[x^2] - E[x]^2."""
    shape = build.shape(op.inputs[0])
    space, value = box(shape), _standardize(op, build, _axes_from(op, -1, len(shape)))
    value = value * wide(build.broadcast(op.inputs[1], space))
    if present(op, 2):
        value = value + wide(build.broadcast(op.inputs[2], space))
    build.emit(op.outputs[0], space, value, because="normalised, scaled and shifted")


def _standardize(op: Operator, build: StatementBuilder, axes: tuple[int, ...]) -> Term:
    """Each element less the mean of its row, over the row's standard deviation.

    Both are appended, under the names of the optional outputs where somebody asks for these.
    """
    source, target = op.inputs[0], op.outputs[0]
    shape = build.shape(source)
    rows, count = over(shape, axes), math.prod(shape[axis] for axis in axes)
    per_row, space = box(rows.shape), box(shape)
    value = wide(build.read(source, rows.point))
    wanted = zip((*op.outputs[1:3], "", ""), ("mean", "deviation"), strict=False)
    mean, deviation = (name or build.temporary(target, what, rows.shape, value.dtype) for name, what in wanted)
    total = build.define(target, "sum", rows, value, reduction="sum", because="row sum")
    build.emit(mean, per_row, build.read(total, per_row.written) / count, because="mean")
    # Around the mean: E[x^2] - E[x]^2 would cancel where the mean is large.
    centred, because = value - wide(build.read(mean, rows.written)), "sum of squares around the mean"
    squares = build.define(target, "squares", rows, centred * centred, reduction="sum", because=because)
    scale = apply("rsqrt", build.read(squares, per_row.written) / count + real(op, "epsilon", 1e-5))
    build.emit(deviation, per_row, scale, because="reciprocal standard deviation")
    centred = wide(build.read(source, space.written)) - build.broadcast(mean, space)
    return centred * build.broadcast(deviation, space)


@operator("onnx.RMSNormalization")
def rms_normalization(op: Operator, build: StatementBuilder) -> None:
    """ONNX RMSNormalization: x / sqrt(mean(x^2) + epsilon) * scale."""
    source, target = op.inputs[0], op.outputs[0]
    shape = build.shape(source)
    axes = _axes_from(op, -1, len(shape))
    rows, space = over(shape, axes), box(shape)
    per_row = box(rows.shape)
    value = wide(build.read(source, rows.point))
    squares = build.define(target, "squares", rows, value * value, reduction="sum", because="sum of squares")
    mean = build.read(squares, per_row.written) / math.prod(shape[axis] for axis in axes)
    value = apply("rsqrt", mean + real(op, "epsilon", 1e-5))
    scale = build.define(target, "scale", per_row, value, because="reciprocal root mean square")
    value = wide(build.read(source, space.written)) * build.broadcast(scale, space)
    build.emit(target, space, value * wide(build.broadcast(op.inputs[1], space)))


@operator("onnx.BatchNormalization")
def batch_normalization(op: Operator, build: StatementBuilder) -> None:
    """Statistics are operands, one for each channel; in training those of the batch, which the running ones follow."""
    source, target = op.inputs[0], op.outputs[0]
    shape = build.shape(target)
    statistics = op.inputs[3:5]
    if integer(op, "training_mode", 0):
        statistics = _batch_statistics(op, build)
    space = box(shape)
    channel = [space.written[1]]
    scale, bias = (wide(build.read(name, channel)) for name in op.inputs[1:3])
    mean, variance = (wide(build.read(name, channel)) for name in statistics)
    factor = apply("rsqrt", variance + real(op, "epsilon", 1e-5)) * scale
    build.emit(target, space, (wide(build.read(source, space.written)) - mean) * factor + bias)


def _batch_statistics(op: Operator, build: StatementBuilder) -> tuple[str, str]:
    """Append mean and variance of each channel over the batch, and the running statistics that are asked for."""
    source, target = op.inputs[0], op.outputs[0]
    shape = build.shape(source)
    space = over(shape, [axis for axis in range(len(shape)) if axis != 1])
    count, at = math.prod(shape) // shape[1], [space.written[1]]
    value, rows = wide(build.read(source, space.point)), space.writing(at)
    mean = build.define(target, "mean", rows, value / count, reduction="sum", because="mean of each channel")
    centred, because = value - build.read(mean, at), "variance of each channel"
    variance = build.define(target, "variance", rows, centred * centred / count, reduction="sum", because=because)
    momentum = real(op, "momentum", 0.9)
    for number, (new, old) in enumerate(zip((mean, variance), op.inputs[3:5], strict=True), start=1):
        if present_output(op, number):
            cells = box(rows.shape)
            before = wide(build.read(old, cells.written)) * momentum
            value = before + build.read(new, cells.written) * (1 - momentum)
            build.emit(op.outputs[number], cells, value, because="running statistics")
    return mean, variance


@operator("onnx.InstanceNormalization")
def instance_normalization(op: Operator, build: StatementBuilder) -> None:
    """Each channel of each image is a row."""
    shape = build.shape(op.inputs[0])
    space, value = box(shape), _standardize(op, build, tuple(range(2, len(shape))))
    scale, bias = (wide(build.read(name, [space.written[1]])) for name in op.inputs[1:3])
    build.emit(op.outputs[0], space, value * scale + bias)
