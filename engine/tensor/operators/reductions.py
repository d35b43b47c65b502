"""Operators that reduce axes: sums, means, norms, extremes, and the places of extremes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from engine.graph.nodes import Operator
from engine.tensor.build import StatementBuilder, box, over
from engine.tensor.operators.attributes import axes_of, axis_of, integer, parameter, parameter_value
from engine.tensor.operators.registry import Meaning, operator
from engine.tensor.operators.standard import standard
from engine.tensor.terms import Term, absolute, compare, either, exp, log, position, select, sqrt, test, wide

Step = Callable[[Term], Term]


def _axes(op: Operator, axes: tuple[int, ...] | None, rank: int) -> tuple[int, ...]:
    """The axes counted from the front; all where none is named, unless `noop_with_empty_axes` says otherwise."""
    if axes:
        return axes_of(op, axes, rank)
    return () if integer(op, "noop_with_empty_axes", 0) else tuple(range(rank))


def _operand_axes(op: Operator, build: StatementBuilder) -> tuple[int, ...]:
    axes = parameter(op, build, "axis" if op.dialect == "akg" else "axes", 1)
    return _axes(op, axes, len(build.shape(op.inputs[0])))


def _akg_meaning(function: Callable[..., np.ndarray]) -> Meaning:
    """The NumPy reduction of an AKG operator; AKG declares a full reduction with shape [1]."""

    def means(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
        axes = _axes(op, parameter_value(op, x, "axis", 1), x[0].ndim)
        keep = bool(op.attributes.get("keep_dims", False))
        return [np.atleast_1d(function(x[0], axis=axes, keepdims=keep))]

    return means


def _reduction(
    names: str,
    operation: str,
    akg: Callable[..., np.ndarray] | None = None,
    before: Step | None = None,
    after: Step | None = None,
) -> None:
    """Enter a reduction: `after(operation(before(x)))`; with `after` there is a temporary in the accumulator's type.

    akg: what NumPy does for AKG's operator of the same kind.
    """

    def lower(op: Operator, build: StatementBuilder) -> None:
        source, target = op.inputs[0], op.outputs[0]
        space = over(build.shape(source), _operand_axes(op, build))
        value = build.read(source, space.point)
        value = value if before is None else before(value)
        if after is None:
            build.emit(target, space.writing_to(build.shape(target)), value, reduction=operation)
        else:
            total = build.define(target, operation, space, value, reduction=operation)
            space = box(space.shape)
            build.emit(target, space.writing_to(build.shape(target)), after(build.read(total, space.written)))

    for name in names.split():
        operator(name, meaning=_akg_meaning(akg) if akg and name.startswith("akg.") else standard)(lower)


_reduction("onnx.ReduceSum akg.ReduceSum", "sum", np.sum)
_reduction("onnx.ReduceMax akg.ReduceMax", "max", np.max)
_reduction("onnx.ReduceMin akg.ReduceMin", "min", np.min)
_reduction("onnx.ReduceProd akg.ReduceProd", "prod", np.prod)
_reduction("onnx.ReduceL1", "sum", before=absolute)
_reduction("onnx.ReduceSumSquare", "sum", before=lambda x: wide(x) * wide(x))
_reduction("onnx.ReduceL2", "sum", before=lambda x: wide(x) * wide(x), after=sqrt)
_reduction("onnx.ReduceLogSum", "sum", after=log)
_reduction(
    "akg.ElemAny",
    "any",
    lambda x, **k: np.any(x != 0, **k).astype(x.dtype),
    before=lambda x: x if x.dtype == "bool" else compare("not_equal", x, 0),
)


@operator("onnx.ReduceMean")
def reduce_mean(op: Operator, build: StatementBuilder) -> None:
    """A sum, then its quotient."""
    source, target = op.inputs[0], op.outputs[0]
    mean_over(build, source, _operand_axes(op, build), target)


def mean_over(build: StatementBuilder, source: str, axes: tuple[int, ...], target: str) -> None:
    """Append the mean of `source` over `axes`, which `target` has with extent 1 or not at all."""
    shape = build.shape(source)
    rows = over(shape, axes)
    because = "sum of the elements"
    total = build.define(target, "sum", rows, build.read(source, rows.point), reduction="sum", because=because)
    space = box(rows.shape)
    mean = build.read(total, space.written) / math.prod(shape[axis] for axis in axes)
    build.emit(target, space.writing_to(build.shape(target)), mean, because="mean")


@operator("onnx.GlobalAveragePool")
def global_average_pool(op: Operator, build: StatementBuilder) -> None:
    """ONNX GlobalAveragePool: the mean over all spatial axes."""
    mean_over(build, op.inputs[0], tuple(range(2, len(build.shape(op.inputs[0])))), op.outputs[0])


@operator("onnx.GlobalMaxPool")
def global_max_pool(op: Operator, build: StatementBuilder) -> None:
    """ONNX GlobalMaxPool: the maximum over all spatial axes."""
    source, target = op.inputs[0], op.outputs[0]
    space = over(build.shape(source), range(2, len(build.shape(source))))
    build.emit(target, space.writing_to(build.shape(target)), build.read(source, space.point), reduction="max")


@operator("onnx.ReduceLogSumExp")
def reduce_log_sum_exp(op: Operator, build: StatementBuilder) -> None:
    """Shifted by the maximum, so that no exponential overflows."""
    source, target = op.inputs[0], op.outputs[0]
    rows = over(build.shape(source), _operand_axes(op, build))
    value = build.read(source, rows.point)
    top = build.define(target, "max", rows, value, reduction="max", because="largest element")
    shifted = wide(value) - wide(build.read(top, rows.written))
    total = build.define(target, "sum", rows, exp(shifted), reduction="sum", because="sum of exponentials")
    space = box(rows.shape)
    value = log(build.read(total, space.written)) + wide(build.read(top, space.written))
    build.emit(target, space.writing_to(build.shape(target)), value)


def _arg_axis(op: Operator, rank: int) -> int:
    return axis_of(op, integer(op, "axis", -1 if op.dialect == "akg" else 0), rank)


def _akg_arg_extreme(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
    find = np.argmax if op.kind == "Argmax" else np.argmin
    return [np.atleast_1d(find(x[0], axis=_arg_axis(op, x[0].ndim)))]


@operator("akg.Argmax", "akg.Argmin", meaning=_akg_arg_extreme)
@operator("onnx.ArgMax", "onnx.ArgMin")
def arg_extreme(op: Operator, build: StatementBuilder) -> None:
    """The extreme, then the first (or last) place that holds it; NaN, where there is one, is the extreme.  AKG leaves
    the axis out."""
    source, target = op.inputs[0], op.outputs[0]
    shape = build.shape(source)
    axis = _arg_axis(op, len(shape))
    operation = "max" if op.kind.lower() == "argmax" else "min"
    space, last = over(shape, (axis,)), integer(op, "select_last_index", 0)
    value = build.read(source, space.point)
    best = build.define(target, "extreme", space, value, reduction=operation, because="extreme value")
    here = compare("equal", value, build.read(best, space.written))
    if "float" in value.dtype:  # NaN equals nothing: without this its row would have no place
        here = either(here, test("isnan", value))
    place = select(here, position(space.point[axis]), -1 if last else shape[axis])
    operation, space_of_places = "max" if last else "min", space.writing_to(build.shape(target))
    build.emit(target, space_of_places, place, reduction=operation, because="where it stands")
