"""Softmax and the normalisations: reductions over rows whose result every element of the row reads.

Temporaries of half-precision operators are kept in float32 and the result is rounded once.
"""

from __future__ import annotations

import math

import numpy as np

from engine.graph.nodes import Operator
from engine.tensor.build import StatementBuilder, box, over
from engine.tensor.operators.attributes import axis_of, integer, present, present_output, real
from engine.tensor.operators.reductions import keepdims, reduce_axes
from engine.tensor.operators.registry import operator
from engine.tensor.terms import NARROW, apply, exp, log, wide


def _wide_type(dtype: str) -> str:
    return "float32" if dtype in NARROW else dtype


def softmax_axes(op: Operator, rank: int) -> tuple[int, ...]:
    """One axis since opset 13; before, everything from the axis (default 1) on."""
    if op.opset >= 13:
        return (axis_of(op, integer(op, "axis", -1), rank),)
    return tuple(range(axis_of(op, integer(op, "axis", 1), rank), rank))


def _log_softmax(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
    """With NumPy: the standard's implementation knows the axes of opset 13 and later only."""
    axes = softmax_axes(op, x[0].ndim)
    shifted = x[0] - x[0].max(axis=axes, keepdims=True)
    return [shifted - np.log(np.exp(shifted).sum(axis=axes, keepdims=True))]


@operator("onnx.Softmax", meaning=lambda op, x: [np.exp(_log_softmax(op, x)[0])])
def softmax(op: Operator, build: StatementBuilder) -> None:
    """Row maximum, exponentials of the differences, row sum, quotient."""
    source, target = op.inputs[0], op.outputs[0]
    shape, kind = build.shape(source), _wide_type(build.dtype(source))
    axes = softmax_axes(op, len(shape))
    kept = keepdims(shape, axes)
    top = build.temporary(target, "max", kept, build.dtype(source))
    reduce_axes(build, "max", source, axes, top, because="row maximum")
    power = build.temporary(target, "exp", shape, kind)
    space = box(shape)
    difference = wide(build.read(source, space.written)) - wide(build.broadcast(top, space.written, shape))
    build.emit(power, space, exp(difference), because="exponentials, none above 1")
    total = build.temporary(target, "sum", kept, kind)
    reduce_axes(build, "sum", power, axes, total, because="row sum")
    quotient = build.read(power, space.written) / build.broadcast(total, space.written, shape)
    build.emit(target, space, quotient, because="quotient")


@operator("onnx.LogSoftmax", meaning=_log_softmax)
def log_softmax(op: Operator, build: StatementBuilder) -> None:
    """ONNX LogSoftmax: x - max - log(sum(exp(x - max)))."""
    source, target = op.inputs[0], op.outputs[0]
    shape, kind = build.shape(source), _wide_type(build.dtype(source))
    axes = softmax_axes(op, len(shape))
    kept = keepdims(shape, axes)
    top = build.temporary(target, "max", kept, build.dtype(source))
    reduce_axes(build, "max", source, axes, top, because="row maximum")
    total = build.temporary(target, "sum", kept, kind)
    rows = over(shape, axes)
    difference = wide(build.read(source, rows.point)) - wide(build.read(top, rows.written))
    build.emit(total, rows, exp(difference), reduction="sum", because="sum of exponentials")
    space = box(shape)
    shifted = wide(build.read(source, space.written)) - wide(build.broadcast(top, space.written, shape))
    build.emit(target, space, shifted - log(build.broadcast(total, space.written, shape)))


@operator("onnx.LayerNormalization")
def layer_normalization(op: Operator, build: StatementBuilder) -> None:
    """Two passes over the row: the mean, then the squared deviations, which cancel less than E[x^2] - E[x]^2."""
    source, target = op.inputs[0], op.outputs[0]
    shape = build.shape(source)
    axes = tuple(range(axis_of(op, integer(op, "axis", -1), len(shape)), len(shape)))
    mean, deviation = _moments(op, build, source, axes)
    space = box(shape)
    centred = wide(build.read(source, space.written)) - build.broadcast(mean, space.written, shape)
    value = centred * build.broadcast(deviation, space.written, shape)
    value = value * wide(build.broadcast(op.inputs[1], space.written, shape))
    if present(op, 2):
        value = value + wide(build.broadcast(op.inputs[2], space.written, shape))
    build.emit(target, space, value, because="normalised, scaled and shifted")


def _moments(op: Operator, build: StatementBuilder, source: str, axes: tuple[int, ...]) -> tuple[str, str]:
    """Append the mean and the reciprocal standard deviation of each row; named as the optional outputs if wanted."""
    target, shape = op.outputs[0], build.shape(source)
    kind, kept = _wide_type(build.dtype(source)), keepdims(shape, axes)
    count = int(np.prod([shape[axis] for axis in axes], dtype=np.int64))
    wanted = (*op.outputs[1:3], "", "")
    mean = wanted[0] or build.temporary(target, "mean", kept, kind)
    deviation = wanted[1] or build.temporary(target, "deviation", kept, kind)
    per_row = box(kept)
    total = build.temporary(target, "sum", kept, kind)
    rows = over(shape, axes)
    value = wide(build.read(source, rows.point))
    build.emit(total, rows, value, reduction="sum", because="row sum")
    build.emit(mean, per_row, build.read(total, per_row.written) / count, because="mean")
    # Around the mean: E[x^2] - E[x]^2 would cancel where the mean is large.
    squares = build.temporary(target, "squares", kept, kind)
    centred = value - wide(build.read(mean, rows.written))
    build.emit(squares, rows, centred * centred, reduction="sum", because="sum of squares around the mean")
    variance = build.read(squares, per_row.written) / count
    value = apply("rsqrt", variance + real(op, "epsilon", 1e-5))
    build.emit(deviation, per_row, value, because="reciprocal standard deviation")
    return mean, deviation


@operator("onnx.RMSNormalization")
def rms_normalization(op: Operator, build: StatementBuilder) -> None:
    """ONNX RMSNormalization: x / sqrt(mean(x^2) + epsilon) * scale."""
    source, target = op.inputs[0], op.outputs[0]
    shape = build.shape(source)
    axes = tuple(range(axis_of(op, integer(op, "axis", -1), len(shape)), len(shape)))
    kind, kept = _wide_type(build.dtype(source)), keepdims(shape, axes)
    count = int(np.prod([shape[axis] for axis in axes], dtype=np.int64))
    squares = build.temporary(target, "squares", kept, kind)
    rows = over(shape, axes)
    value = wide(build.read(source, rows.point))
    build.emit(squares, rows, value * value, reduction="sum", because="sum of squares")
    scale = build.temporary(target, "scale", kept, kind)
    per_row = box(kept)
    mean = build.read(squares, per_row.written) / count
    build.emit(scale, per_row, apply("rsqrt", mean + real(op, "epsilon", 1e-5)), because="reciprocal root mean square")
    space = box(shape)
    value = wide(build.read(source, space.written)) * build.broadcast(scale, space.written, shape)
    build.emit(target, space, value * wide(build.broadcast(op.inputs[1], space.written, shape)))


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
    shape, kind = build.shape(source), _wide_type(build.dtype(source))
    axes = tuple(axis for axis in range(len(shape)) if axis != 1)
    count, channels = math.prod(shape[axis] for axis in axes), (shape[1],)
    mean, variance = (build.temporary(target, name, channels, kind) for name in ("mean", "variance"))
    space = over(shape, axes)
    at = [space.written[1]]
    value = wide(build.read(source, space.point))
    rows = space.writing(at)
    build.emit(mean, rows, value / count, reduction="sum", because="mean of each channel")
    centred = value - build.read(mean, at)
    build.emit(variance, rows, centred * centred / count, reduction="sum", because="variance of each channel")
    momentum = real(op, "momentum", 0.9)
    for number, (new, old) in enumerate(zip((mean, variance), op.inputs[3:5], strict=True), start=1):
        if present_output(op, number):
            cells = box(channels)
            before = wide(build.read(old, cells.written)) * momentum
            value = before + build.read(new, cells.written) * (1 - momentum)
            build.emit(op.outputs[number], cells, value, because="running statistics")
    return mean, variance


@operator("onnx.InstanceNormalization")
def instance_normalization(op: Operator, build: StatementBuilder) -> None:
    """Each channel of each image is a row."""
    source, target = op.inputs[0], op.outputs[0]
    shape = build.shape(source)
    mean, deviation = _moments(op, build, source, tuple(range(2, len(shape))))
    space = box(shape)
    scale, bias = (wide(build.read(name, [space.written[1]])) for name in op.inputs[1:3])
    centred = wide(build.read(source, space.written)) - build.broadcast(mean, space.written, shape)
    build.emit(target, space, centred * build.broadcast(deviation, space.written, shape) * scale + bias)
