"""Gathers: reads at positions given by an index tensor.

Index tables of the file that turn out affine (position ids, masks' row numbers) become plain index arithmetic; other
indices are indirect reads with known bounds.  Negative ones are wrapped where they are read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.graph.nodes import Operator
from engine.support.errors import BadInput
from engine.tensor.build import StatementBuilder, box
from engine.tensor.index import Element, Index, with_axis
from engine.tensor.operators.attributes import axis_of, integer
from engine.tensor.operators.registry import operator
from engine.tensor.terms import cast, compare, position, select, wrap


def looked_up(build: StatementBuilder, indices: str, at: Sequence[Index], size: int) -> Index:
    """The number found at `at` of an index tensor, for an axis of `size`; wrapped to 0 .. size-1."""
    known = build.value(indices)
    if known is not None:
        read = _of_fixed_places(known, at)
        if read.size and not -size <= read.min() <= read.max() < size:
            reason = f"reach from {read.min()} to {read.max()} on an axis of {size}"
            raise BadInput("tensor", f"indices {indices}", reason)
        affine = affine_table(np.where(known < 0, known + size, known).astype(np.int64), at)
        if affine is not None:
            return affine
    low, high = (int(known.min()), int(known.max())) if known is not None else (-size, size - 1)
    if low < 0:  # those of the user may be, as ONNX allows
        return Index.of(Element(indices, tuple(at), 0, size - 1, wraps=size))
    return Index.of(Element(indices, tuple(at), low, min(high, size - 1)))


def affine_table(table: np.ndarray, at: Sequence[Index]) -> Index | None:
    """`table[at]` as `base + sum(step * at)` where the table is such a sum, else None."""
    table = _of_fixed_places(table, at)
    base = int(table.flat[0])
    index, predicted = Index((), base), np.full(table.shape, base)
    for axis, size in enumerate(table.shape):
        if size > 1:
            one = tuple(1 if a == axis else 0 for a in range(table.ndim))
            step = int(table[one]) - base
            predicted = predicted + step * np.arange(size).reshape([-1 if a == axis else 1 for a in range(table.ndim)])
            index = index + at[axis] * step
    return index if np.array_equal(predicted, table) else None


def _of_fixed_places(table: np.ndarray, at: Sequence[Index]) -> np.ndarray:
    """The slice of a table that `at` can read: one position along axes with a constant index."""
    for axis, place in enumerate(at):
        if not place.terms:
            table = np.take(table, [place.constant], axis)
    return table


def _take(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
    return [np.take(x[0], x[1], axis=integer(op, "axis", 0))]


@operator("onnx.Gather", "akg.Gather", meaning=_take)
def gather(op: Operator, build: StatementBuilder) -> None:
    """result[a.., q.., b..] = data[a.., indices[q..], b..]"""
    data, indices = op.inputs[:2]
    shape, inner = build.shape(data), len(build.shape(indices))
    axis = axis_of(op, integer(op, "axis", 0), len(shape))
    space = box(build.shape(op.outputs[0]))
    w = space.written
    place = looked_up(build, indices, w[axis : axis + inner], shape[axis])
    build.emit(op.outputs[0], space, build.read(data, (*w[:axis], place, *w[axis + inner :])))


@operator("onnx.GatherND")
def gather_nd(op: Operator, build: StatementBuilder) -> None:
    """The last axis of `indices` holds a place in the axes of `data` after the batch axes."""
    data, indices = op.inputs[:2]
    batch = integer(op, "batch_dims", 0)
    shape, table = build.shape(data), build.shape(indices)
    space = box(build.shape(op.outputs[0]))
    outer = space.written[: len(table) - 1]
    places = []
    for part in range(table[-1]):
        places.append(looked_up(build, indices, (*outer, Index((), part)), shape[batch + part]))
    rest = space.written[len(table) - 1 :]
    build.emit(op.outputs[0], space, build.read(data, (*outer[:batch], *places, *rest)))


@operator("onnx.GatherElements")
def gather_elements(op: Operator, build: StatementBuilder) -> None:
    """result[p] = data[p with its `axis` replaced by indices[p]]"""
    data, indices = op.inputs[:2]
    shape = build.shape(data)
    axis = axis_of(op, integer(op, "axis", 0), len(shape))
    space = box(build.shape(op.outputs[0]))
    place = looked_up(build, indices, space.written, shape[axis])
    build.emit(op.outputs[0], space, build.read(data, with_axis(space.written, axis, place)))


def _one_hot(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
    """With NumPy for both: the standard's implementation takes the axis as a keyword that it does not know."""
    is_akg = op.dialect == "akg"
    depth = integer(op, "depth", 1) if is_akg else x[1].item()
    on, off = (x[1].reshape(()), x[2].reshape(())) if is_akg else x[2][::-1]
    places = np.arange(depth) == np.expand_dims(np.where(x[0] < 0, x[0] + depth, x[0]), -1)
    return [np.moveaxis(np.where(places, on, off), -1, integer(op, "axis", -1))]


@operator("onnx.OneHot", "akg.OneHot", meaning=_one_hot)
def one_hot(op: Operator, build: StatementBuilder) -> None:
    """ONNX gives [off, on] as one tensor, AKG two scalars; indices out of range give `off` everywhere."""
    shape = build.shape(op.outputs[0])
    axis = axis_of(op, integer(op, "axis", -1), len(shape))
    space = box(shape)
    outer = [index for at, index in enumerate(space.written) if at != axis]
    wanted = wrap(cast(build.read(op.inputs[0], outer), "int64"), shape[axis])
    if op.dialect == "akg":
        on, off = (build.broadcast(name, box(())) for name in op.inputs[1:3])
    else:
        off, on = (build.read(op.inputs[2], [Index((), at)]) for at in (0, 1))
    here = compare("equal", wanted, position(space.written[axis]))
    build.emit(op.outputs[0], space, select(here, on, off))
