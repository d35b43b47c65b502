"""Operators that reduce axes: sums, means, norms, extremes, and the places of extremes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from engine.graph.nodes import Operator
from engine.tensor.build import StatementBuilder, accumulator, box, over
from engine.tensor.operators.attributes import axes_of, axis_of, integer, parameter, parameter_value
from engine.tensor.operators.registry import operator
from engine.tensor.terms import Term, absolute, compare, exp, log, position, select, sqrt, wide

Step = Callable[[Term], Term]


def keepdims(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with reduced axes of extent 1."""
    return tuple(1 if axis in axes else size for axis, size in enumerate(shape))


def reduce_axes(
    build: StatementBuilder, operation: str, source: str, axes: tuple[int, ...], target: str, because: str = ""
) -> None:
    """Append `target = operation(source)` over `axes`; `target` has them with extent 1, or not at all."""
    space = over(build.shape(source), axes)
    value = build.read(source, space.point)
    build.emit(target, space.writing_to(build.shape(target)), value, reduction=operation, because=because)


def _axes(op: Operator, axes: tuple[int, ...] | None, rank: int, empty_is_all: bool) -> tuple[int, ...]:
    if axes is None or not axes:
        return tuple(range(rank)) if empty_is_all else ()
    return axes_of(op, axes, rank)


def _empty_is_all(op: Operator) -> bool:
    return not integer(op, "noop_with_empty_axes", 0)


def _parameter_name(op: Operator) -> str:
    return "axis" if op.dialect == "akg" else "axes"


def _operand_axes(op: Operator, build: StatementBuilder) -> tuple[int, ...]:
    axes = parameter(op, build, _parameter_name(op), 1)
    return _axes(op, axes, len(build.shape(op.inputs[0])), _empty_is_all(op))


def _meaning(function: Callable[..., np.ndarray]) -> Callable[[Operator, list[np.ndarray]], list[np.ndarray]]:
    """The NumPy reduction with ONNX's and AKG's axes; AKG declares a full reduction with shape [1]."""

    def means(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
        axes = _axes(op, parameter_value(op, x, _parameter_name(op), 1), x[0].ndim, _empty_is_all(op))
        keep = bool(op.attributes.get("keep_dims" if op.dialect == "akg" else "keepdims", op.dialect == "onnx"))
        result = np.asarray(function(x[0], axis=axes, keepdims=keep))
        return [result.reshape(1) if op.dialect == "akg" and result.ndim == 0 else result]

    return means


def _reduction(
    names: str, operation: str, meaning: Callable[..., np.ndarray], before: Step, after: Step | None
) -> None:
    """Enter a reduction: `after(operation(before(x)))`; with `after` there is a temporary in the accumulator's type."""

    def lower(op: Operator, build: StatementBuilder) -> None:
        source, target = op.inputs[0], op.outputs[0]
        axes, shape = _operand_axes(op, build), build.shape(source)
        kept, total = keepdims(shape, axes), target
        if after is not None:
            total = build.temporary(target, operation, kept, accumulator(operation, build.dtype(source)))
        space = over(shape, axes)
        value = before(build.read(source, space.point))
        build.emit(total, space.writing_to(build.shape(total)), value, reduction=operation)
        if after is not None:
            space = box(kept)
            build.emit(target, space.writing_to(build.shape(target)), after(build.read(total, space.written)))

    operator(*names.split(), meaning=_meaning(meaning))(lower)


def _same(x: Term) -> Term:
    return x


_reduction("onnx.ReduceSum akg.ReduceSum", "sum", np.sum, _same, None)
_reduction("onnx.ReduceMax akg.ReduceMax", "max", np.max, _same, None)
_reduction("onnx.ReduceMin akg.ReduceMin", "min", np.min, _same, None)
_reduction("onnx.ReduceProd akg.ReduceProd", "prod", np.prod, _same, None)
_reduction("onnx.ReduceL1", "sum", lambda x, **k: np.sum(np.abs(x), **k), absolute, None)
_reduction("onnx.ReduceSumSquare", "sum", lambda x, **k: np.sum(x * x, **k), lambda x: wide(x) * wide(x), None)
_reduction("onnx.ReduceL2", "sum", lambda x, **k: np.sqrt(np.sum(x * x, **k)), lambda x: wide(x) * wide(x), sqrt)
_reduction("onnx.ReduceLogSum", "sum", lambda x, **k: np.log(np.sum(x, **k)), _same, log)
_reduction(
    "akg.ElemAny",
    "any",
    lambda x, **k: np.any(x != 0, **k).astype(x.dtype),
    lambda x: x if x.dtype == "bool" else compare("not_equal", x, 0),
    None,
)


def _mean(x: np.ndarray, axis: tuple[int, ...], keepdims: bool) -> np.ndarray:
    """Means of integers are rounded toward zero."""
    mean = np.mean(x, axis=axis, keepdims=keepdims)
    return np.asarray(np.trunc(mean).astype(x.dtype) if x.dtype.kind in "iu" else mean)


@operator("onnx.ReduceMean", meaning=_meaning(_mean))
def reduce_mean(op: Operator, build: StatementBuilder) -> None:
    """A sum, then its quotient."""
    source, target = op.inputs[0], op.outputs[0]
    mean_over(build, source, _operand_axes(op, build), target)


def mean_over(build: StatementBuilder, source: str, axes: tuple[int, ...], target: str) -> None:
    """Append the mean of `source` over `axes`, which `target` has with extent 1 or not at all."""
    shape = build.shape(source)
    kept = keepdims(shape, axes)
    count = int(np.prod([shape[axis] for axis in axes], dtype=np.int64))
    total = build.temporary(target, "sum", kept, accumulator("sum", build.dtype(source)))
    reduce_axes(build, "sum", source, axes, total, because="sum of the elements")
    space = box(kept)
    mean = build.read(total, space.written) / count
    build.emit(target, space.writing_to(build.shape(target)), mean, because="mean")


@operator("onnx.GlobalAveragePool", meaning=lambda op, x: [_mean(x[0], tuple(range(2, x[0].ndim)), True)])
def global_average_pool(op: Operator, build: StatementBuilder) -> None:
    """ONNX GlobalAveragePool: the mean over all spatial axes."""
    mean_over(build, op.inputs[0], tuple(range(2, len(build.shape(op.inputs[0])))), op.outputs[0])


def _max_pool(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
    return [np.max(x[0], axis=tuple(range(2, x[0].ndim)), keepdims=True)]


@operator("onnx.GlobalMaxPool", meaning=_max_pool)
def global_max_pool(op: Operator, build: StatementBuilder) -> None:
    """ONNX GlobalMaxPool: the maximum over all spatial axes."""
    reduce_axes(build, "max", op.inputs[0], tuple(range(2, len(build.shape(op.inputs[0])))), op.outputs[0])


def _log_sum_exp(x: np.ndarray, axis: tuple[int, ...], keepdims: bool) -> np.ndarray:
    top = np.max(x, axis=axis, keepdims=True)
    total = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return np.asarray(total if keepdims else np.squeeze(total, axis))


@operator("onnx.ReduceLogSumExp", meaning=_meaning(_log_sum_exp))
def reduce_log_sum_exp(op: Operator, build: StatementBuilder) -> None:
    """Shifted by the maximum, so that no exponential overflows."""
    source, target = op.inputs[0], op.outputs[0]
    axes, shape = _operand_axes(op, build), build.shape(source)
    kept = keepdims(shape, axes)
    top = build.temporary(target, "max", kept, build.dtype(source))
    reduce_axes(build, "max", source, axes, top, because="largest element")
    total = build.temporary(target, "sum", kept, accumulator("sum", build.dtype(source)))
    space = over(shape, axes)
    shifted = wide(build.read(source, space.point)) - wide(build.read(top, space.written))
    build.emit(total, space, exp(shifted), reduction="sum", because="sum of exponentials")
    space = box(kept)
    value = log(build.read(total, space.written)) + wide(build.read(top, space.written))
    build.emit(target, space.writing_to(build.shape(target)), value)


def _arg_axis(op: Operator, rank: int) -> int:
    return axis_of(op, integer(op, "axis", -1 if op.dialect == "akg" else 0), rank)


def _arg_meaning(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
    axis, find = _arg_axis(op, x[0].ndim), np.argmax if op.kind.lower() == "argmax" else np.argmin
    if integer(op, "select_last_index", 0):
        found = x[0].shape[axis] - 1 - find(np.flip(x[0], axis), axis=axis)
    else:
        found = find(x[0], axis=axis)
    if op.dialect == "akg":
        return [np.atleast_1d(found)]
    return [np.expand_dims(found, axis) if integer(op, "keepdims", 1) else np.asarray(found)]


@operator("onnx.ArgMax", "onnx.ArgMin", "akg.Argmax", "akg.Argmin", meaning=_arg_meaning)
def arg_extreme(op: Operator, build: StatementBuilder) -> None:
    """The extreme, then the first (or last) place that holds it.  AKG leaves the axis out."""
    source, target = op.inputs[0], op.outputs[0]
    shape = build.shape(source)
    axis = _arg_axis(op, len(shape))
    operation = "max" if op.kind.lower() == "argmax" else "min"
    best = build.temporary(target, "extreme", keepdims(shape, (axis,)), build.dtype(source))
    reduce_axes(build, operation, source, (axis,), best, because="extreme value")
    space = over(shape, (axis,))
    last = integer(op, "select_last_index", 0)
    here = compare("equal", build.read(source, space.point), build.read(best, space.written))
    place = select(here, position(space.point[axis]), -1 if last else shape[axis])
    operation, space_of_places = "max" if last else "min", space.writing_to(build.shape(target))
    build.emit(target, space_of_places, place, reduction=operation, because="where it stands")
