"""Pooling: one number for each window, and its inverse."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import mul

import numpy as np

from engine.graph.nodes import Operator
from engine.tensor.build import Domain, StatementBuilder, box, lowest, over
from engine.tensor.index import Extents, Index, linear
from engine.tensor.operators.attributes import integer, integers, present_output, real, text
from engine.tensor.operators.convolution import SlidingWindow, window
from engine.tensor.operators.layout import read_padded
from engine.tensor.operators.registry import operator
from engine.tensor.terms import (
    Term,
    absolute,
    apply,
    both,
    cast,
    compare,
    maximum,
    minimum,
    number,
    position,
    select,
    wide,
)


def _windows(op: Operator, build: StatementBuilder) -> tuple[SlidingWindow, Domain, tuple[Index, ...]]:
    """How the window of a pooling slides, its points for each element of the result, and where they read the image."""
    shape, kernel = build.shape(op.outputs[0]), integers(op, "kernel_shape") or ()
    sliding, space = window(op, build.shape(op.inputs[0])[2:], kernel, shape[2:]), box(shape, kernel)
    n, c, *rest = space.point
    return sliding, space, (n, c, *sliding.places(rest[: len(kernel)], rest[len(kernel) :]))


@operator("onnx.MaxPool")
def max_pool(op: Operator, build: StatementBuilder) -> None:
    """The largest element of each window, and where it stands; positions in the frame never win."""
    source, target = op.inputs[0], op.outputs[0]
    _, space, at = _windows(op, build)
    value = read_padded(build, source, at, space, lowest(build.dtype(source)))
    build.emit(target, space, value, reduction="max", because="maximum")
    if present_output(op, 1):
        n, c, *places = at
        axes = list(zip(places, build.shape(source)[2:], strict=True))
        inner, sizes = zip(*(axes[::-1] if integer(op, "storage_order", 0) else axes), strict=True)
        place = linear((n, c, *inner), (*build.shape(source)[:2], *sizes))
        here = compare("equal", value, build.read(target, space.written))
        first = select(here, position(place), number(np.iinfo(np.int64).max, "int64"))
        build.emit(op.outputs[1], space, first, reduction="min", because="the first place that holds it")


@operator("onnx.MaxUnpool")
def max_unpool(op: Operator, build: StatementBuilder) -> None:
    """Every element goes to the place noted for it in the image that was pooled; the rest is 0."""
    source, places, target = op.inputs[0], op.inputs[1], op.outputs[0]
    sizes, shape, kernel = build.shape(source), build.shape(target), integers(op, "kernel_shape") or ()
    stride = integers(op, "strides") or (1,) * len(kernel)
    pads = integers(op, "pads") or (0,) * (2 * len(kernel))
    steps = zip(sizes[2:], stride, kernel, pads[: len(kernel)], pads[len(kernel) :], strict=True)
    image = (*sizes[:2], *((n - 1) * s + k - a - b for n, s, k, a, b in steps))
    space = box(shape, sizes[2:])
    point, inside = space.point[: len(shape)], space.point[len(shape) :]
    at = (*point[:2], *inside)
    here = compare("equal", cast(build.read(places, at), "int64"), position(linear(point, image)))
    axes = zip(point, image, shape, strict=True)
    inner = [compare("less", position(p), size) for p, size, most in axes if size < most]
    value = build.read(source, at)
    chosen = select(both(here, *inner), value, number(0, value.dtype))
    build.emit(target, space, chosen, reduction="sum", because="the element that belongs here")


def _power(x: Term, exponent: float) -> Term:
    """|x| to a power; small whole ones by multiplication."""
    size = absolute(x)
    if exponent in (1.0, 2.0, 3.0, 4.0):
        return reduce(mul, [size] * int(exponent))
    return apply("pow", size, exponent)


@operator("onnx.LpPool")
def lp_pool(op: Operator, build: StatementBuilder) -> None:
    """The p-norm of each window; padding counts as 0."""
    _, space, at = _windows(op, build)
    _norm(op, build, space, read_padded(build, op.inputs[0], at, space, 0))


@operator("onnx.GlobalLpPool")
def global_lp_pool(op: Operator, build: StatementBuilder) -> None:
    """The p-norm over all spatial axes."""
    shape = build.shape(op.inputs[0])
    space = over(shape, range(2, len(shape)))
    _norm(op, build, space, build.read(op.inputs[0], space.point))


def _norm(op: Operator, build: StatementBuilder, space: Domain, value: Term) -> None:
    """Append the p-norm of the values that are reduced."""
    target, p = op.outputs[0], real(op, "p", 2.0)
    powers = _power(wide(value), p)
    total = build.define(target, "sum", space, powers, reduction="sum", because="sum of powers")
    cells = box(build.shape(target))
    build.emit(target, cells, apply("pow", build.read(total, cells.written), 1 / p), because="root")


@operator("onnx.AveragePool")
def average_pool(op: Operator, build: StatementBuilder) -> None:
    """The sum of each window over the number of its points inside the image (or, on request, of all its points)."""
    target = op.outputs[0]
    sliding, space, at = _windows(op, build)
    value = read_padded(build, op.inputs[0], at, space, 0)
    total = build.define(target, "sum", space, value, reduction="sum", because="window sum")
    cells, count = box(space.shape), _count(op, build, sliding, at[2:], space)
    value = build.read(total, cells.written)
    build.emit(target, cells, value / (cast(count, value.dtype) if isinstance(count, Term) else count), because="mean")


def _count(
    op: Operator, build: StatementBuilder, over: SlidingWindow, places: Sequence[Index], space: Domain
) -> Term | float:
    """The points of a window that count: those inside the image, or inside the padded image.

    places: where the points of `space` read the image.  The result is over the iterators of the written array.
    """
    image, cells = build.shape(op.inputs[0])[2:], box(build.shape(op.outputs[0]))
    frame = (0,) * (2 * len(image))
    if integer(op, "count_include_pad", 0):
        frame = integers(op, "pads") or _same_frame(op, over, image, build.shape(op.outputs[0])[2:])
    front, behind = frame[: len(image)], frame[len(image) :]
    sizes = [size + a + b for size, a, b in zip(image, front, behind, strict=True)]
    moved = [place + a for place, a in zip(places, front, strict=True)]
    bounds = [place.bounds(space.extents) for place in moved]
    if all(low >= 0 and high < size for (low, high), size in zip(bounds, sizes, strict=True)):
        return float(np.prod(over.kernel))
    corner = over.places(cells.written[2:], [Index()] * len(image))
    first = [place + a for place, a in zip(corner, front, strict=True)]
    axes = zip(first, over.kernel, over.dilation, sizes, strict=True)
    return reduce(mul, (_count_inside(*axis, cells.extents) for axis in axes))


def _same_frame(op: Operator, over: SlidingWindow, image: Sequence[int], result: Sequence[int]) -> tuple[int, ...]:
    """The padding that `auto_pad` SAME makes on both sides."""
    if not text(op, "auto_pad", "NOTSET").startswith("SAME"):
        return (0,) * (2 * len(image))
    reach = zip(result, over.stride, over.kernel, over.dilation, image, over.before, strict=True)
    behind = (max(0, (r - 1) * s + (k - 1) * d + 1 - size - before) for r, s, k, d, size, before in reach)
    return (*over.before, *behind)


def _count_inside(first: Index, kernel: int, dilation: int, size: int, extents: Extents) -> Term:
    """How many of `kernel` points `first`, `first + dilation`, ... lie inside an axis: those from 0 on, before size."""
    skipped = (first * -1 + (dilation - 1)).floordiv(dilation, extents)
    reached = (first * -1 + (size + dilation - 1)).floordiv(dilation, extents)
    return minimum(position(reached, "int32"), kernel) - maximum(position(skipped, "int32"), 0)
