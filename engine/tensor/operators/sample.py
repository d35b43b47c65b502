"""Reads at coordinates that are computed when the kernel runs: GridSample, AffineGrid, RoiAlign, DeformConv.

A coordinate becomes an array of the places of its neighbours and one of how far it is past the first of them; results
are weighted sums of elements read through these arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import product
from operator import add, mul

from engine.graph.nodes import Operator
from engine.support.errors import Unsupported
from engine.tensor.build import Domain, StatementBuilder, accumulator, box
from engine.tensor.index import Element, Index, linear
from engine.tensor.operators.attributes import integer, present, real, text
from engine.tensor.operators.convolution import convolve, window
from engine.tensor.operators.layout import read_padded
from engine.tensor.operators.products import ProductFactor
from engine.tensor.operators.registry import operator
from engine.tensor.operators.resize import cubic_kernel
from engine.tensor.terms import Term, apply, both, cast, compare, maximum, minimum, position, select, wide

FAR = 1024
"""Sizes of an axis past which a coordinate outside is cut off, so that it fits an integer."""


@dataclass(frozen=True, slots=True)
class SampledAxis:
    """An axis of an image that is read at computed coordinates."""

    size: int
    offsets: tuple[int, ...]
    """Of the taps from the coordinate's floor; one offset means the nearest element."""
    map_place: Callable[[Term, int], Term]
    """(place, size) -> the place that is read instead, -1 or size for none."""


@dataclass(frozen=True, slots=True)
class Taps:
    """The neighbours of coordinates on one axis."""

    places: str
    """Array [..., tap] of int64 places counted from 1, so that 0 and size + 1 are outside."""
    part: str
    """Array [...] of how far the coordinate is past its floor; "" where only the nearest element counts."""
    axis: SampledAxis

    def place(self, at: Sequence[Index], tap: int) -> Index:
        """Where a tap stands, for the coordinate at `at`."""
        return Index.of(Element(self.places, (*at, Index((), tap)), 0, self.axis.size + 1)) - 1

    def weight(self, build: StatementBuilder, at: Sequence[Index], tap: int) -> Term | None:
        """The weight of a tap; None for 1."""
        if not self.part:
            return None
        part = build.read(self.part, at)
        if len(self.axis.offsets) == 2:
            return part if tap else 1 - part
        return cubic_kernel(-0.75)(self.axis.offsets[tap] - part)


def neighbours(build: StatementBuilder, owner: str, shape: Sequence[int], value: Term, axis: SampledAxis) -> Taps:
    """Append the arrays of `Taps`.  value: the coordinates, over the iterators of `box(shape)`."""
    space, offsets, size = box(shape), axis.offsets, axis.size
    place = build.define(owner, "coordinate", space, value, because="coordinates")
    here = build.read(place, space.written)
    part = ""
    if len(offsets) > 1:
        rest = here - apply("floor", here)
        part = build.define(owner, "part", space, rest, because="how far past the first neighbour")
    space = box((*shape, len(offsets)))
    here = build.read(place, space.written[:-1])
    whole = apply("round" if len(offsets) == 1 else "floor", here)
    # Converting a float outside the integer range is undefined in C++.
    near = cast(minimum(maximum(whole, -FAR * size), FAR * size), "int64")
    tap = position(space.written[-1] + offsets[0])
    counted = axis.map_place(near + tap, size) + 1
    return Taps(build.define(owner, "places", space, counted, because="places of the neighbours"), part, axis)


def weighted_sum(
    build: StatementBuilder,
    source: str,
    space: Domain,
    head: Sequence[Index],
    taps: Sequence[Taps],
    at: Sequence[Index],
) -> Term:
    """The sum over all combinations of taps, one `Taps` for each sampled axis.

    head: indices of the source before its sampled axes.  at: the coordinate's place in the arrays of every axis.
    """
    terms = []
    for numbers in product(*(range(len(each.axis.offsets)) for each in taps)):
        chosen = list(zip(taps, numbers, strict=True))
        places = [axis.place(at, tap) for axis, tap in chosen]
        value = wide(read_padded(build, source, (*head, *places), space, 0))
        weights = [w for axis, tap in chosen if (w := axis.weight(build, at, tap)) is not None]
        terms.append(reduce(mul, weights, value))
    return reduce(add, terms)


def _or_outside(place: Term, size: int) -> Term:
    return minimum(maximum(place, -1), size)


_OFFSETS = {"nearest": (0,), "linear": (0, 1), "bilinear": (0, 1), "cubic": (-1, 0, 1, 2), "bicubic": (-1, 0, 1, 2)}


@operator("onnx.GridSample")
def grid_sample(op: Operator, build: StatementBuilder) -> None:
    """The image at coordinates between -1 and 1, given last axis first."""
    source, grid, target = op.inputs[0], op.inputs[1], op.outputs[0]
    sizes, shape = build.shape(source)[2:], build.shape(grid)[:-1]
    corners, how = bool(integer(op, "align_corners", 0)), text(op, "padding_mode", "zeros")
    offsets = _OFFSETS[text(op, "mode", "linear")]
    axes, map_place, points = [], partial(_map_outside, corners=corners, how=how), box(shape).written
    for axis, size in enumerate(sizes):
        given = wide(build.read(grid, (*points, Index((), len(sizes) - 1 - axis))))
        value = (given + 1) * (0.5 * (size - 1)) if corners else ((given + 1) * size - 1) * 0.5
        value = apply("round", value) if len(offsets) == 1 else value
        # Cubic taps are mapped one by one, as they are in PyTorch and ONNX Runtime.
        value = value if len(offsets) == 4 else _within(value, size, corners, how)
        axes.append(neighbours(build, target, shape, value, SampledAxis(size, offsets, map_place)))
    space = box(build.shape(target))
    n, c, *at = space.written
    value = weighted_sum(build, source, space, (n, c), axes, (n, *at))
    build.emit(target, space, value, because="weighted sum of the neighbours")


def _within(value: Term, size: int, corners: bool, how: str) -> Term:
    """A coordinate moved into the image: to its border, or mirrored there as often as needed."""
    if how == "border":
        return minimum(maximum(value, 0), size - 1)
    low, span = (0.0, size - 1.0) if corners else (-0.5, float(size))
    if how == "reflection" and span > 0:
        turned = apply("mod", value - low, 2 * span)
        return minimum(turned, 2 * span - turned) + low
    return value


def _map_outside(place: Term, size: int, corners: bool, how: str) -> Term:
    """The place read for a tap, which may stand a few steps outside even where the coordinate does not."""
    if how == "border":
        return minimum(maximum(place, 0), size - 1)
    if how == "reflection" and size > 1:
        period = 2 * size - 2 if corners else 2 * size
        turned = apply("mod", place, period)
        return minimum(turned, (period if corners else period - 1) - turned)
    return _or_outside(place, size) if how == "zeros" else place * 0


@operator("onnx.AffineGrid")
def affine_grid(op: Operator, build: StatementBuilder) -> None:
    """theta times every point of a regular grid; points and results have their last axis first."""
    theta, target = op.inputs[0], op.outputs[0]
    shape = build.shape(target)
    space, rank = box(shape), shape[-1]
    n, *at, row = space.written
    terms = []
    for column in range(rank):
        axis = rank - 1 - column
        size, place = shape[1 + axis], cast(position(at[axis]), build.dtype(theta))
        if integer(op, "align_corners", 0):
            point = place * (2 / max(size - 1, 1)) - 1
        else:
            point = (place * 2 + 1) / size - 1
        terms.append(build.read(theta, (n, row, Index((), column))) * point)
    build.emit(target, space, reduce(add, terms) + build.read(theta, (n, row, Index((), rank))))


@operator("onnx.RoiAlign")
def roi_align(op: Operator, build: StatementBuilder) -> None:
    """Each cell of a region is the mean (or the largest) of bilinear samples inside it."""
    source, batches, target = op.inputs[0], op.inputs[2], op.outputs[0]
    samples = integer(op, "sampling_ratio", 0)
    if samples < 1:
        reason = "takes as many samples as its regions are large"
        raise Unsupported("tensor", f"operator {op.name}", reason, "a sampling_ratio is compiled")
    count, channels, *cells = build.shape(target)
    axes = [_region_axis(op, build, axis, (count, cells[axis], samples)) for axis in (0, 1)]
    images = build.shape(source)[0]
    largest = text(op, "mode", "avg") == "max"
    space = box((count, channels, *cells), (samples, samples, 2, 2))
    roi, channel, y, x, sy, sx, ty, tx = space.point
    image = Index.of(Element(batches, (roi,), 0, images - 1))
    places, weights = [], []
    for axis, cell, sample, tap in ((0, y, sy, ty), (1, x, sx, tx)):
        place, weight = axes[axis]
        at = (roi, cell, sample, tap)
        places.append(Index.of(Element(place, at, 0, build.shape(source)[2 + axis] - 1)))
        weights.append(build.read(weight, at))
    value = wide(build.read(source, (image, channel, *places))) * weights[0] * weights[1]
    if not largest:
        value = value / samples**2
    build.emit(target, space, value, reduction="max" if largest else "sum", because="samples of each cell")


def _region_axis(op: Operator, build: StatementBuilder, axis: int, shape: tuple[int, int, int]) -> tuple[str, str]:
    """Arrays [region, cell, sample, tap] of the places and weights along one axis; samples outside weigh nothing."""
    rois, target, size = op.inputs[1], op.outputs[0], build.shape(op.inputs[0])[2 + axis]
    kind = accumulator("sum", build.dtype(rois))
    half = text(op, "coordinate_transformation_mode", "half_pixel") == "half_pixel" and op.opset >= 16
    scale, shift = real(op, "spatial_scale", 1.0), 0.5 if half else 0.0
    space = box((*shape, 2))
    roi, cell, sample, tap = space.written
    start, end = (wide(build.read(rois, (roi, Index((), at)))) * scale - shift for at in (1 - axis, 3 - axis))
    length = end - start if half else maximum(end - start, 1)
    step = length / shape[1]
    # Samples lie in the middle of equal parts of a cell.
    inside = (cast(position(sample), kind) + 0.5) / shape[2]
    value = start + (cast(position(cell), kind) + inside) * step
    within = both(compare("greater_equal", value, -1), compare("less_equal", value, size))
    value = minimum(maximum(value, 0), size - 1)
    floor = minimum(apply("floor", value), max(size - 2, 0))
    part, second = value - floor, compare("equal", position(tap), 1)
    weight = select(within, select(second, part, 1 - part), 0)
    place = minimum(cast(floor, "int64") + position(tap), size - 1)
    places = build.define(target, "places", space, place, because="places of the taps")
    return places, build.define(target, "part", space, weight, because="weights of the taps")


@operator("onnx.DeformConv")
def deformable_convolution(op: Operator, build: StatementBuilder) -> None:
    """The image sampled where each element of the window is moved to, then an ordinary sum of products."""
    source, weight, moves, target = (*op.inputs[:3], op.outputs[0])
    sizes, shape, filters = build.shape(source), build.shape(target), build.shape(weight)
    rank, kernel, groups = len(shape) - 2, filters[2:], integer(op, "offset_group", 1)
    over = window(op, sizes[2:], kernel, shape[2:])
    points = (sizes[0], groups, *kernel, *shape[2:])
    axes = []
    n, group, *rest = box(points).written
    inside, at = rest[:rank], rest[rank:]
    for axis in range(rank):
        channel = linear((group, *inside, Index((), axis)), (groups, *kernel, rank))
        move = wide(build.read(moves, (n, channel, *at)))
        value = cast(position(over.places(at, inside)[axis]), move.dtype) + move
        axes.append(neighbours(build, target, points, value, SampledAxis(sizes[2 + axis], (0, 1), _or_outside)))
    space = box((*sizes[:2], *kernel, *shape[2:]))
    n, c, *rest = space.written
    group = c.floordiv(sizes[1] // groups, space.extents)
    value = weighted_sum(build, source, space, (n, c), axes, (n, group, *rest))
    if present(op, 4):
        channel = linear((group, *rest[:rank]), (groups, *kernel))
        value = value * wide(build.read(op.inputs[4], (n, channel, *rest[rank:])))
    sampled = build.define(target, "sampled", space, value, because="the image where the window looks")
    space = box(shape, filters[1:])
    n, m, *rest = space.point
    at, channel, inside = rest[:rank], rest[rank], rest[rank + 1 :]
    channel = m.floordiv(shape[1] // integer(op, "group", 1), space.extents) * filters[1] + channel
    factors = ProductFactor(sampled, (n, channel, *inside, *at)), ProductFactor(weight, (m, rest[rank], *inside))
    convolve(op, build, space, factors, bias=3)
