"""Fourier transforms as sums over a table of angles: n^2 products for n samples."""

from __future__ import annotations

import math

from engine.graph.nodes import Operator
from engine.support.errors import Unsupported
from engine.tensor.build import StatementBuilder, accumulator, box
from engine.tensor.index import Index
from engine.tensor.operators.attributes import axis_of, integer, parameter, present
from engine.tensor.operators.layout import read_padded
from engine.tensor.operators.registry import operator
from engine.tensor.terms import Term, apply, cast, compare, position, select

_PARTS = (Index((), 0), Index((), 1))
"""Places of the real and the imaginary part on the last axis."""


def _table(build: StatementBuilder, target: str, outputs: int, length: int, sign: int, kind: str) -> str:
    """An array [k, n, 2] of the cosine and sine of sign * 2 pi k n / length, for n < length."""
    space = box((outputs, length, 2))
    k, n, part = space.written
    # k n is reduced modulo the length while it is an integer: as a float it would lose the digits that the angle needs.
    turn = cast(apply("mod", position(k) * position(n), length), kind) * (sign * 2 * math.pi / length)
    value = select(compare("equal", position(part), 0), apply("cos", turn), apply("sin", turn))
    return build.define(target, "angles", space, value, because="cosine and sine of every angle")


@operator("onnx.DFT")
def fourier(op: Operator, build: StatementBuilder) -> None:
    """Along one axis; the last axis holds real and imaginary part, or the real part alone.

    A one-sided inverse takes the half of the spectrum that is missing from the symmetry of real signals.
    """
    source, target = op.inputs[0], op.outputs[0]
    shape, result = build.shape(source), build.shape(target)
    rank = len(shape)
    given = parameter(op, build, "axis", 2)
    axis = axis_of(op, given[0] if given else -2 if op.opset >= 20 else 1, rank)
    inverse, one_sided = integer(op, "inverse", 0), integer(op, "onesided", 0)
    wanted = parameter(op, build, "dft_length", 1)
    length = wanted[0] if wanted else result[axis] if inverse and one_sided else shape[axis]
    kind = accumulator("sum", build.dtype(source))
    angles = _table(build, target, result[axis], length, 1 if inverse else -1, kind)
    space = box((*result[:-1], 1), (length,))
    k, n = space.written[axis], space.point[-1]

    def sample(part: int) -> Term | None:
        if part >= shape[-1]:
            return None
        at = [*(n if a == axis else index for a, index in enumerate(space.written[:-1])), _PARTS[part]]
        value = read_padded(build, source, at, space, 0)
        if inverse and one_sided:
            at[axis] = n * -1 + length
            mirrored = read_padded(build, source, at, space, 0)
            beyond = compare("greater", position(n), length // 2)
            value = select(beyond, -mirrored if part else mirrored, value)
        return cast(value, kind)

    real, imaginary = sample(0), sample(1)
    assert real is not None
    cosine, sine = (build.read(angles, (k, n, part)) for part in _PARTS)
    values = [real * cosine, real * sine]
    if imaginary is not None:
        values = [values[0] - imaginary * sine, values[1] + imaginary * cosine]
    for part, value in enumerate(values[: result[-1]]):
        scaled = value / length if inverse else value
        cells = space.writing((*space.written[:-1], _PARTS[part]))
        build.emit(target, cells, scaled, reduction="sum", covers=result[-1] == 1, because="sum of the waves")


@operator("onnx.STFT")
def short_time_fourier(op: Operator, build: StatementBuilder) -> None:
    """The transform of each frame of the signal, under a window."""
    signal, target = op.inputs[0], op.outputs[0]
    (step,) = parameter(op, build, "frame_step", 1) or (1,)
    if build.shape(signal)[-1] != 1:
        raise Unsupported("tensor", f"operator {op.name}", "its signal is complex", "real signals are compiled")
    length = _frame_length(op, build)
    frames, bins = build.shape(target)[1:3]
    kind = accumulator("sum", build.dtype(signal))
    angles = _table(build, target, bins, length, -1, kind)
    space = box((build.shape(signal)[0], frames, bins, 2), (length,))
    batch, frame, k, part, n = space.point
    value = cast(build.read(signal, (batch, frame * step + n, Index())), kind)
    if present(op, 2):
        value = value * cast(build.read(op.inputs[2], (n,)), kind)
    value = value * build.read(angles, (k, n, part))
    build.emit(target, space, value, reduction="sum", because="sum of the waves of each frame")


def _frame_length(op: Operator, build: StatementBuilder) -> int:
    given = parameter(op, build, "frame_length", 3)
    if given:
        return given[0]
    return build.shape(op.inputs[2])[0] if present(op, 2) else build.shape(op.inputs[0])[1]
