"""Scatters as gathers: every element of the result searches for its updates.

Work grows with elements times updates along the indexed axes; in return all elements are parallel and the last of
several updates of one element wins, as it does when they are written in turn.
"""

from __future__ import annotations

import math

from engine.graph.nodes import Operator
from engine.tensor.build import Domain, StatementBuilder, box, highest, lowest
from engine.tensor.index import Element, Index, delinearize, linear, with_axis
from engine.tensor.operators.attributes import axis_of, integer, present, text
from engine.tensor.operators.layout import read_padded
from engine.tensor.operators.registry import operator
from engine.tensor.terms import Term, apply, both, cast, compare, maximum, number, position, select, wrap

_JOINED = {"add": ("add", "sum"), "mul": ("mul", "prod"), "max": ("max", "max"), "min": ("min", "min")}
"""Attribute `reduction` -> (scalar function, reduction)."""


def _neutral(operation: str, dtype: str) -> Term:
    value = {"sum": 0, "prod": 1, "max": lowest(dtype), "min": highest(dtype)}[operation]
    return number(value, dtype)


def _latest(build: StatementBuilder, target: str, space: Domain, hit: Term, update: Index) -> tuple[str, str]:
    """Append the number of the last update that hits each element, -1 if none does, and an index of it: 0 for none."""
    because = "last update of each element"
    last = build.define(target, "last", space, select(hit, position(update), -1), reduction="max", because=because)
    cells = box(build.shape(last))
    number_ = maximum(build.read(last, cells.written), 0)
    return last, build.define(last, "index", cells, number_, because="a place that can be read")


@operator("onnx.ScatterElements", "onnx.Scatter")
def scatter_elements(op: Operator, build: StatementBuilder) -> None:
    """result[p with its axis at indices[u]] = updates[u] for every u that agrees with p on the other axes."""
    data, indices, updates, target = (*op.inputs[:3], op.outputs[0])
    shape, count = build.shape(data), build.shape(indices)
    axis = axis_of(op, integer(op, "axis", 0), len(shape))
    space = box(shape, (count[axis],))
    at = with_axis(space.written, axis, space.point[-1])
    wanted = wrap(cast(read_padded(build, indices, at, space, shape[axis]), "int64"), shape[axis])
    # Every element of the result compares its place with every update along the axis.
    hit = compare("equal", wanted, position(space.written[axis]))
    how = text(op, "reduction", "none")
    if how in _JOINED:
        _join(build, op, space, hit, read_padded(build, updates, at, space, 0))
        return
    last, index = _latest(build, target, space, hit, space.point[-1])
    cells = box(shape)
    found = Index.of(Element(index, cells.written, 0, count[axis] - 1))
    chosen = read_padded(build, updates, with_axis(cells.written, axis, found), cells, 0)
    old, hit = build.read(data, cells.written), compare("greater_equal", build.read(last, cells.written), 0)
    build.emit(target, cells, select(hit, chosen, old))


def _join(build: StatementBuilder, op: Operator, space: Domain, hit: Term, update: Term) -> None:
    """Append the result of updates that are added, multiplied or compared with what stands there."""
    data, target = op.inputs[0], op.outputs[0]
    function, operation = _JOINED[text(op, "reduction", "none")]
    total = build.temporary(target, operation, build.shape(data), update.dtype)
    value = select(hit, update, _neutral(operation, update.dtype))
    build.emit(total, space, value, reduction=operation, because="the updates of each element")
    cells = box(build.shape(data))
    build.emit(target, cells, apply(function, build.read(data, cells.written), build.read(total, cells.written)))


@operator("onnx.ScatterND")
def scatter_nd(op: Operator, build: StatementBuilder) -> None:
    """The last axis of `indices` holds a place in the first axes of the data, at which a slice of updates goes."""
    data, indices, updates, target = (*op.inputs[:3], op.outputs[0])
    shape, table = build.shape(data), build.shape(indices)
    depth, outer = table[-1], table[:-1]
    how = text(op, "reduction", "none")
    slots = shape[:depth] if how not in _JOINED else shape
    space = box(slots, outer)
    where, update = space.point[:depth], space.point[len(slots) :]
    hits = []
    for part, size in enumerate(shape[:depth]):
        wanted = wrap(cast(build.read(indices, (*update, Index((), part))), "int64"), size)
        hits.append(compare("equal", wanted, position(where[part])))
    if how in _JOINED:
        value = build.read(updates, (*update, *space.written[depth:]))
        _join(build, op, space, both(*hits), value)
        return
    last, index = _latest(build, target, space, both(*hits), linear(update, outer))
    cells = box(shape)
    slot = cells.written[:depth]
    found = delinearize(Index.of(Element(index, slot, 0, math.prod(outer) - 1)), outer, cells.extents)
    chosen = build.read(updates, (*found, *cells.written[depth:]))
    hit = compare("greater_equal", build.read(last, slot), 0)
    build.emit(target, cells, select(hit, chosen, build.read(data, cells.written)))


@operator("onnx.TensorScatter")
def tensor_scatter(op: Operator, build: StatementBuilder) -> None:
    """A cache with new rows from `write_indices[batch]` on; `circular` goes on at its start."""
    past, update, target = op.inputs[0], op.inputs[1], op.outputs[0]
    shape = build.shape(past)
    axis = axis_of(op, integer(op, "axis", -2), len(shape))
    size, rows = shape[axis], build.shape(update)[axis]
    space = box(shape)
    start = Index()
    if present(op, 2):
        start = Index.of(Element(op.inputs[2], (space.written[0],), 0, size - 1))
    row = space.written[axis] - start
    if text(op, "mode", "linear") == "circular":
        row = row.mod(size, space.extents)
    inside = both(compare("greater_equal", position(row), 0), compare("less", position(row), rows))
    new = read_padded(build, update, with_axis(space.written, axis, row), space, 0)
    build.emit(target, space, select(inside, new, build.read(past, space.written)))


@operator("onnx.Compress")
def compress(op: Operator, build: StatementBuilder) -> None:
    """The slices at which a condition holds; the declared result says how many there are."""
    source, condition, target = op.inputs[0], op.inputs[1], op.outputs[0]
    shape, count = build.shape(source), build.shape(condition)[0]
    space = box((count,), (count,))
    mine, other = space.point
    earlier = both(build.read(condition, [other]), compare("less", position(other), position(mine)))
    because = "how many hold before each"
    before = build.define(target, "before", space, cast(earlier, "int64"), reduction="sum", because=because)
    result = build.shape(target)
    axis = axis_of(op, integer(op, "axis", 0), len(shape)) if "axis" in op.attributes else 0
    space = box((result[axis],), (count,))
    mine, other = space.point
    chosen = both(build.read(condition, [other]), compare("equal", build.read(before, [other]), position(mine)))
    number_ = select(chosen, position(other), 0)
    place = build.define(target, "place", space, number_, reduction="max", because="where each comes from")
    cells = box(result)
    found = Index.of(Element(place, (cells.written[axis],), 0, count - 1))
    whole = "axis" not in op.attributes
    at = delinearize(found, shape, cells.extents) if whole else with_axis(cells.written, axis, found)
    build.emit(target, cells, build.read(source, at))
