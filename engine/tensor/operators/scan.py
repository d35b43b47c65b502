"""Operators whose elements depend on others of the same axis: running sums, ranks, triangles, reversed sequences.

Each is a reduction over the whole axis for every element: n^2 steps for n elements, all of them parallel.
"""

from __future__ import annotations

import math
from functools import reduce
from operator import add

import numpy as np

from engine.graph.nodes import Operator
from engine.support.errors import Unsupported
from engine.tensor.build import StatementBuilder, box, lowest, over
from engine.tensor.index import Element, Index, linear, with_axis
from engine.tensor.operators.attributes import axis_of, integer, parameter, parameter_value, present_output
from engine.tensor.operators.layout import read_padded
from engine.tensor.operators.normalization import softmax_axes
from engine.tensor.operators.registry import operator
from engine.tensor.terms import Term, both, cast, compare, either, number, position, select


def _akg_running(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
    (axis,) = parameter_value(op, x, "axis", 1) or (0,)
    function, neutral = (np.cumsum, 0) if op.kind == "CumSum" else (np.cumprod, 1)
    turned = np.flip(x[0], axis) if integer(op, "reverse", 0) else x[0]
    found = function(turned, axis=axis)
    if integer(op, "exclusive", 0):
        first = np.full_like(np.take(found, [0], axis), neutral)
        found = np.concatenate([first, np.delete(found, -1, axis)], axis)
    return [np.flip(found, axis) if integer(op, "reverse", 0) else found]


@operator("akg.CumSum", "akg.CumProd", meaning=_akg_running)
@operator("onnx.CumSum", "onnx.CumProd")
def running(op: Operator, build: StatementBuilder) -> None:
    """y[i] = x[0] + ... + x[i]; `reverse` counts from the end, `exclusive` leaves x[i] out."""
    source, target = op.inputs[0], op.outputs[0]
    shape = build.shape(source)
    axis = axis_of(op, _only(op, build, "axis", 1, 0), len(shape))
    operation, neutral = ("sum", 0) if op.kind == "CumSum" else ("prod", 1)
    space = box(shape, (shape[axis],))
    away = space.point[-1] + integer(op, "exclusive", 0)
    place = space.written[axis] + away * (1 if integer(op, "reverse", 0) else -1)
    value = read_padded(build, source, with_axis(space.written, axis, place), space, neutral)
    build.emit(target, space, value, reduction=operation)


def _only(op: Operator, build: StatementBuilder, name: str, at: int, default: int) -> int:
    """A single integer that is an attribute or a constant input; `default` where absent."""
    values = parameter(op, build, name, at)
    return values[0] if values else default


@operator("onnx.TopK")
def top_k(op: Operator, build: StatementBuilder) -> None:
    """The rank of each element is the number of those that stand before it; equal ones keep their order."""
    source = op.inputs[0]
    shape, kind = build.shape(source), build.dtype(source)
    axis = axis_of(op, integer(op, "axis", -1), len(shape))
    largest = integer(op, "largest", 1)
    space = box(shape, (shape[axis],))
    other = space.point[-1]
    mine = build.read(source, space.written)
    theirs = build.read(source, with_axis(space.written, axis, other))
    earlier = compare("less", position(other), position(space.written[axis]))
    ahead = either(
        compare("greater" if largest else "less", theirs, mine), both(compare("equal", theirs, mine), earlier)
    )
    owner, because = op.outputs[0] or op.outputs[1], "elements that stand before it"
    rank = build.define(owner, "rank", space, cast(ahead, "int64"), reduction="sum", because=because)
    found = next(build.shape(name) for name in op.outputs if name)
    space = box(found, (shape[axis],))
    at = with_axis(space.written, axis, space.point[-1])
    here = compare("equal", build.read(rank, at), position(space.written[axis]))
    if op.outputs[0]:
        chosen = select(here, build.read(source, at), number(lowest(kind), kind))
        build.emit(op.outputs[0], space, chosen, reduction="max", because="the element of that rank")
    if present_output(op, 1):
        build.emit(op.outputs[1], space, select(here, position(at[axis]), -1), reduction="max", because="its place")


@operator("onnx.Hardmax")
def hardmax(op: Operator, build: StatementBuilder) -> None:
    """1 at the first of the largest elements, 0 elsewhere."""
    source, target = op.inputs[0], op.outputs[0]
    shape = build.shape(source)
    axes = softmax_axes(op, len(shape))
    rows, size = over(shape, axes), math.prod(shape[axis] for axis in axes)
    value = build.read(source, rows.point)
    top = build.define(target, "max", rows, value, reduction="max", because="largest element")
    place = linear([rows.point[axis] for axis in axes], [shape[axis] for axis in axes])
    found = select(compare("equal", value, build.read(top, rows.written)), position(place), size)
    first = build.define(target, "first", rows, found, reduction="min", because="the first place that has it")
    space = box(shape)
    place = linear([space.written[axis] for axis in axes], [shape[axis] for axis in axes])
    chosen = compare("equal", build.broadcast(first, space), position(place))
    build.emit(target, space, cast(chosen, build.dtype(target)))


@operator("onnx.Trilu")
def triangle(op: Operator, build: StatementBuilder) -> None:
    """The upper or lower triangle of each matrix, zeros in the other; k moves the diagonal."""
    source, target = op.inputs[0], op.outputs[0]
    shape, offset = build.shape(target), _only(op, build, "k", 1, 0)
    space = box(shape)
    ahead = space.written[-1] - space.written[-2] - offset
    kept = compare("greater_equal" if integer(op, "upper", 1) else "less_equal", position(ahead), 0)
    value = build.read(source, space.written)
    build.emit(target, space, select(kept, value, number(0, value.dtype)))


@operator("onnx.EyeLike")
def eye_like(op: Operator, build: StatementBuilder) -> None:
    """Ones on the diagonal k of a matrix of the operand's shape."""
    target = op.outputs[0]
    space = box(build.shape(target))
    ahead = space.written[1] - space.written[0] - integer(op, "k", 0)
    build.emit(target, space, cast(compare("equal", position(ahead), 0), build.dtype(target)))


@operator("onnx.ReverseSequence")
def reverse_sequence(op: Operator, build: StatementBuilder) -> None:
    """The first `lengths[b]` elements of each sequence in reverse, the rest as they are."""
    source, lengths, target = op.inputs[0], op.inputs[1], op.outputs[0]
    time, batch = integer(op, "time_axis", 0), integer(op, "batch_axis", 1)
    shape = build.shape(source)
    space = box(shape)
    now, row = space.written[time], [space.written[batch]]
    mirrored = Index.of(Element(lengths, tuple(row), 0, shape[time])) - 1 - now
    inside = compare("less", position(now), cast(build.read(lengths, row), "int64"))
    reverse = read_padded(build, source, with_axis(space.written, time, mirrored), space, 0)
    build.emit(target, space, select(inside, reverse, build.read(source, space.written)))


MOST_ROWS = 4
"""Rows of the largest matrix whose determinant is one expression: Leibniz's sum has n! terms."""


@operator("onnx.Det")
def determinant(op: Operator, build: StatementBuilder) -> None:
    """Expanded along its rows."""
    source, target = op.inputs[0], op.outputs[0]
    size = build.shape(source)[-1]
    if size > MOST_ROWS:
        reason = f"eliminates {size} rows in turn"
        raise Unsupported("tensor", f"operator {op.name}", reason, f"up to {MOST_ROWS} rows are compiled")
    space = box(build.shape(target))

    def minor(row: int, columns: tuple[int, ...]) -> Term:
        terms = []
        for at, column in enumerate(columns):
            entry = build.read(source, (*space.written, Index((), row), Index((), column)))
            rest = columns[:at] + columns[at + 1 :]
            product = entry * minor(row + 1, rest) if rest else entry
            terms.append(-product if at % 2 else product)
        return reduce(add, terms)

    build.emit(target, space, minor(0, tuple(range(size))))
