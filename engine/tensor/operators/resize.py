"""Resize and Upsample: each axis by itself, at coordinates that are known as exact fractions.

Place and weight of every tap then are index arithmetic: nothing is rounded, and nearest neighbours by a whole factor
become plain index expressions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from operator import add

from engine.graph.nodes import Operator
from engine.support.errors import BadInput, Unsupported
from engine.tensor.build import Domain, StatementBuilder, box
from engine.tensor.index import Extents, Index, with_axis
from engine.tensor.operators.attributes import axis_of, integer, integers, parameter, real, text
from engine.tensor.operators.layout import read_padded, where_outside
from engine.tensor.operators.registry import operator
from engine.tensor.terms import Term, absolute, cast, compare, either, maximum, number, position, select, wide

FINEST = 4096
"""Largest denominator of a scale that a file gives as a float: positions then fit an int."""


@dataclass(frozen=True, slots=True)
class Coordinate:
    """Where the elements of an axis come from: (step * i + start) / unit, in elements of the source."""

    step: int
    start: int
    unit: int

    @staticmethod
    def of(slope: Fraction, first: Fraction) -> Coordinate:
        """The coordinate slope * i + first."""
        unit = math.lcm(slope.denominator, first.denominator)
        return Coordinate(int(slope * unit), int(first * unit), unit)

    def numerator(self, at: Index) -> Index:
        """The coordinate of element `at`, times `unit`."""
        return at * self.step + self.start

    def floor(self, at: Index, extents: Extents, shift: Fraction = Fraction(0)) -> Index:
        """The largest whole number not above coordinate + shift."""
        unit = self.unit * shift.denominator
        moved = self.numerator(at) * shift.denominator + int(shift * unit)
        return moved.floordiv(unit, extents)

    def fraction(self, at: Index, extents: Extents, dtype: str) -> Term:
        """How far the coordinate is past its floor."""
        rest = self.numerator(at).mod(self.unit, extents)
        return cast(position(rest), dtype) / self.unit


@dataclass(frozen=True, slots=True)
class ResizedAxis:
    """How one axis is resized."""

    number: int
    size: int
    result: int
    scale: Fraction
    region: tuple[Fraction, Fraction]
    """The part of the source that is taken, as fractions of it (tf_crop_and_resize)."""


@operator("onnx.Resize", "onnx.Upsample")
def resize(op: Operator, build: StatementBuilder) -> None:
    """One pass for each axis that changes, the outermost first."""
    source, target = op.inputs[0], op.outputs[0]
    axes = _axes(op, build)
    for axis in axes:
        shape = list(build.shape(source))
        shape[axis.number] = axis.result
        last = axis is axes[-1]
        dtype = build.dtype(source)
        to = target if last else build.temporary(target, f"axis{axis.number}", shape, dtype)
        _pass(op, build, source, to, axis)
        source = to
    if not axes:
        build.layout(source, target, lambda b: b.written)


def _axes(op: Operator, build: StatementBuilder) -> list[ResizedAxis]:
    """The axes that change, with their scales: from the file's factors, or from the sizes."""
    shape, result = build.shape(op.inputs[0]), build.shape(op.outputs[0])
    listed = [axis_of(op, axis, len(shape)) for axis in integers(op, "axes") or range(len(shape))]
    factors = _numbers(op, build, "scales", 2 if op.kind == "Resize" and op.opset >= 11 else 1)
    sizes = parameter(op, build, "sizes", 3) if op.kind == "Resize" else None
    regions = _numbers(op, build, "roi", 1) if op.kind == "Resize" and op.opset >= 11 else ()
    if len(regions) not in (0, 2 * len(listed)):
        reason = f"roi has {len(regions)} numbers for {len(listed)} axes"
        raise BadInput("tensor", f"operator {op.name}", reason, "two for each axis are needed")
    ratios = [Fraction(factor).limit_denominator(FINEST) for factor in factors]
    if sizes:
        ratios = [Fraction(size, shape[axis]) for size, axis in zip(sizes, listed, strict=True)]
        policy = text(op, "keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            ratios = [min(ratios) if policy == "not_larger" else max(ratios)] * len(ratios)
    found = []
    for at, (axis, ratio) in enumerate(zip(listed, ratios, strict=True)):
        ends = (regions[at], regions[at + len(listed)]) if regions else (0.0, 1.0)
        start, end = (Fraction(edge).limit_denominator(FINEST) for edge in ends)
        if shape[axis] != result[axis] or (regions and (start != 0 or end != 1)):
            found.append(ResizedAxis(axis, shape[axis], result[axis], ratio, (start, end)))
    return sorted(found, key=lambda axis: axis.number)


def _numbers(op: Operator, build: StatementBuilder, name: str, at: int) -> Sequence[float]:
    """Numbers that are an attribute in the oldest opset and a constant input since; () where absent."""
    value = op.attributes.get(name)
    if isinstance(value, tuple):
        return [float(item) for item in value]
    if len(op.inputs) <= at or not op.inputs[at]:
        return ()
    known = build.value(op.inputs[at])
    if known is None:
        raise Unsupported("tensor", f"operator {op.name}", f"{name} depend on the data", "constant ones are compiled")
    return [float(item) for item in known.reshape(-1)]


def _coordinate(op: Operator, axis: ResizedAxis) -> Coordinate:
    """The standard's formulas for `coordinate_transformation_mode`; older operators scale from the first corner."""
    old = op.kind == "Upsample" or op.opset < 11
    mode = "asymmetric" if old else text(op, "coordinate_transformation_mode", "half_pixel")
    inverse, half, whole = 1 / axis.scale, Fraction(1, 2), axis.scale * axis.size
    centred = half * inverse - half
    match mode:
        case "half_pixel":
            return Coordinate.of(inverse, centred)
        case "pytorch_half_pixel":
            # For one result the standard's text says 0, its reference implementation (which makes the tests) -1/2.
            return Coordinate.of(inverse, centred) if whole != 1 else Coordinate.of(Fraction(0), -half)
        case "half_pixel_symmetric":
            return Coordinate.of(inverse, centred + Fraction(axis.size, 2) * (1 - axis.result / whole))
        case "asymmetric":
            return Coordinate.of(inverse, Fraction(0))
        case "tf_half_pixel_for_nn":
            return Coordinate.of(inverse, half * inverse)
        case "align_corners":
            slope = Fraction(axis.size - 1) / (whole - 1) if whole != 1 else Fraction(0)
            return Coordinate.of(slope, Fraction(0))
        case "tf_crop_and_resize":
            start, end = (edge * (axis.size - 1) for edge in axis.region)
            if whole == 1:
                return Coordinate.of(Fraction(0), (start + end) / 2)
            return Coordinate.of((end - start) / (whole - 1), start)
        case _:
            raise Unsupported("tensor", f"operator {op.name}", f"knows no coordinates {mode}")


def _pass(op: Operator, build: StatementBuilder, source: str, target: str, axis: ResizedAxis) -> None:
    """Append the resizing of one axis."""
    space, where = box(build.shape(target)), _coordinate(op, axis)
    at = space.written[axis.number]
    mode = text(op, "mode", "nearest")
    if mode == "nearest":
        place = _nearest(op, where, at, space.extents)
        value = _edge(build, source, space, axis, place)
    else:
        value = _interpolate(op, build, source, space, axis, where)
    if text(op, "coordinate_transformation_mode", "") == "tf_crop_and_resize":
        here = position(where.numerator(at))
        outside = either(compare("less", here, 0), compare("greater", here, (axis.size - 1) * where.unit))
        value = select(outside, number(real(op, "extrapolation_value", 0.0), value.dtype), value)
    build.emit(target, space, value, because=f"axis {axis.number}")


def _nearest(op: Operator, where: Coordinate, at: Index, extents: Extents) -> Index:
    """The whole number nearest to a coordinate; older operators round down."""
    old = op.kind == "Upsample" or op.opset < 11
    match "floor" if old else text(op, "nearest_mode", "round_prefer_floor"):
        case "floor":
            return where.floor(at, extents)
        case "ceil":
            return where.floor(at, extents, Fraction(where.unit - 1, where.unit))
        case "round_prefer_ceil":
            return where.floor(at, extents, Fraction(1, 2))
        case _:
            return where.floor(at, extents, Fraction(1, 2) - Fraction(1, 2 * where.unit))


def _edge(build: StatementBuilder, source: str, space: Domain, axis: ResizedAxis, place: Index) -> Term:
    """The element at `place` of an axis, or the nearest one that there is."""
    places = (place, Index(), Index((), axis.size - 1))
    at = (with_axis(space.written, axis.number, index) for index in places)
    return where_outside(place, axis.size, space, *(read_padded(build, source, indices, space, 0) for indices in at))


def _interpolate(
    op: Operator, build: StatementBuilder, source: str, space: Domain, axis: ResizedAxis, where: Coordinate
) -> Term:
    """The weighted sum of the taps around a coordinate."""
    at = space.written[axis.number]
    shrinking = bool(integer(op, "antialias", 0)) and axis.scale < 1
    stretch = axis.scale if shrinking else Fraction(1)
    cubic = text(op, "mode", "linear") == "cubic"
    reach = 2 if cubic else 1
    kernel = cubic_kernel(real(op, "cubic_coeff_a", -0.75)) if cubic else _triangle
    first = math.floor(-reach / stretch) + 1
    floor, taps = where.floor(at, space.extents), range(first, 2 - first)
    values = [wide(_edge(build, source, space, axis, floor + tap)) for tap in taps]
    kind = values[0].dtype
    part = where.fraction(at, space.extents, kind)
    weights = [kernel((tap - part) * float(stretch)) for tap in taps]
    outside = integer(op, "exclude_outside", 0)
    if outside:
        taken = zip(weights, taps, strict=True)
        weights = [where_outside(floor + tap, axis.size, space, weight, 0, 0) for weight, tap in taken]
    total = reduce(add, (weight * value for weight, value in zip(weights, values, strict=True)))
    return total / reduce(add, weights) if outside or shrinking else total


def _triangle(away: Term) -> Term:
    """Weights of linear interpolation by distance."""
    return maximum(1 - absolute(away), 0)


def cubic_kernel(a: float) -> Callable[[Term], Term]:
    """Weights of cubic convolution by distance (R. Keys, 1981); a is its slope at distance 1."""

    def weight(away: Term) -> Term:
        x = absolute(away)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return select(compare("less_equal", x, 1), near, select(compare("less", x, 2), far, 0))

    return weight
