"""Operators that compute each element from the elements at the same place, with broadcasting.

One line an operator: its scalar expression and its NumPy meaning.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

import numpy as np

from engine.graph.nodes import Operator
from engine.support.errors import BadInput, Unsupported
from engine.tensor.build import StatementBuilder, box
from engine.tensor.operators.attributes import integer, present, real, text
from engine.tensor.operators.registry import operator
from engine.tensor.operators.special import erf
from engine.tensor.terms import (
    Term,
    absolute,
    apply,
    cast,
    compare,
    number,
    select,
    test,
    wide,
)

MOST_OPERANDS = 192
"""Operands of one expression: they nest, and every walk over an expression goes down as deep."""

Expression = Callable[..., Term]
"""(op, *operands) -> the value of one element."""


def elementwise(names: str, expression: Expression, meaning: Callable[..., np.ndarray], compound: bool = False) -> None:
    """Enter operators into the table.

    names: separated by blanks.  compound: several scalar steps, which half precision takes in float32.
    """

    def lower(op: Operator, build: StatementBuilder) -> None:
        target = op.outputs[0]
        shape = build.shape(target)
        space = box(shape)
        operands = [build.broadcast(name, space.written, shape) for name in op.inputs if name]
        if compound:
            operands = [wide(x) for x in operands]
        build.emit(target, space, expression(op, *operands))

    def means(op: Operator, operands: list[np.ndarray]) -> list[np.ndarray]:
        return [np.asarray(meaning(op, *(x for x, name in zip(operands, op.inputs, strict=True) if name)))]

    operator(*names.split(), meaning=means)(lower)


def formula(
    names: str,
    expression: Callable[..., Term],
    meaning: Callable[..., np.ndarray],
    compound: bool = False,
    **defaults: float,
) -> None:
    """`elementwise` for functions of the operands and of real attributes, which are given with their defaults."""

    def attributes(op: Operator) -> dict[str, float]:
        return {name: real(op, name, default) for name, default in defaults.items()}

    elementwise(
        names,
        lambda op, *x: expression(*x, **attributes(op)),
        lambda op, *x: meaning(*x, **attributes(op)),
        compound,
    )


def _function(names: str, function: str, meaning: Callable[..., np.ndarray]) -> None:
    formula(names, lambda *x: apply(function, *x), meaning)


def _comparison(names: str, function: str, meaning: Callable[..., np.ndarray]) -> None:
    formula(names, lambda a, b: compare(function, a, b), meaning)


def _variadic(
    names: str,
    function: str,
    meaning: Callable[[np.ndarray, np.ndarray], np.ndarray],
    is_mean: bool = False,
) -> None:
    """Any number of operands, one after the other: past `MOST_OPERANDS` in statements of so many each.

    is_mean: whether the result is divided by how many there are; half precision takes that in float32.
    """

    def lower(op: Operator, build: StatementBuilder) -> None:
        target, operands = op.outputs[0], [name for name in op.inputs if name]
        shape = build.shape(target)
        space = box(shape)
        value: Term | None = None
        for first in range(0, len(operands), MOST_OPERANDS):
            if value is not None:
                part = build.temporary(target, "part", shape, value.dtype)
                build.emit(part, space, value, because=f"operands up to {first}")
                value = build.read(part, space.written)
            for name in operands[first : first + MOST_OPERANDS]:
                operand = build.broadcast(name, space.written, shape)
                operand = wide(operand) if is_mean else operand
                value = operand if value is None else apply(function, value, operand)
        if value is None:
            raise BadInput("tensor", f"operator {op.name}", f"{op.kind} has no operands", "it needs one or more")
        build.emit(target, space, value / len(operands) if is_mean else value)

    def means(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
        operands = [operand for operand, name in zip(x, op.inputs, strict=True) if name]
        total = reduce(meaning, operands)
        return [np.asarray(total / len(operands) if is_mean else total)]

    operator(*names.split(), meaning=means)(lower)


def logistic(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)) that overflows for no x."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))


# -- one function of one operand
_function("onnx.Abs akg.Abs", "abs", np.abs)
_function("onnx.Neg akg.Neg", "neg", np.negative)
_function("onnx.Exp akg.Exp", "exp", np.exp)
_function("onnx.Log akg.Log", "log", np.log)
_function("onnx.Sqrt akg.Sqrt", "sqrt", np.sqrt)
_function("akg.Rsqrt", "rsqrt", lambda x: 1 / np.sqrt(x))
_function("onnx.Reciprocal akg.Reciprocal", "reciprocal", lambda x: 1 / x)
_function("onnx.Tanh akg.Tanh", "tanh", np.tanh)
_function("onnx.Erf akg.Erf", "erf", erf)
_function("onnx.Sigmoid", "sigmoid", logistic)
_function("onnx.Floor akg.Floor", "floor", np.floor)
_function("onnx.Ceil akg.Ceil", "ceil", np.ceil)
_function("onnx.Round akg.Round", "round", np.round)
_function("onnx.Sign akg.Sign", "sign", np.sign)
_function("onnx.Sin akg.Sin", "sin", np.sin)
_function("onnx.Cos akg.Cos", "cos", np.cos)
_function("onnx.Not akg.LogicalNot", "not", np.logical_not)
formula("onnx.IsNaN akg.IsNan", lambda x: test("isnan", x), np.isnan)
formula("akg.IsInf", lambda x: test("isinf", x), np.isinf)
formula("akg.IsFinite", lambda x: compare("less", absolute(x), math.inf), np.isfinite)
formula("akg.Square", lambda x: x * x, lambda x: x * x)

# -- two operands, or any number of them
_function("onnx.Add akg.Add akg.TensorAdd", "add", np.add)
_function("onnx.Sub akg.Sub", "sub", np.subtract)
_function("onnx.Mul akg.Mul", "mul", np.multiply)
_function("akg.RealDiv", "div", np.true_divide)
_function("akg.Maximum", "max", np.maximum)
_function("akg.Minimum", "min", np.minimum)
_function("akg.Pow", "pow", np.power)
_function("onnx.And akg.LogicalAnd", "and", np.logical_and)
_function("onnx.Or akg.LogicalOr", "or", np.logical_or)
_function("onnx.Xor", "xor", np.logical_xor)
_variadic("onnx.Max", "max", np.maximum)
_variadic("onnx.Min", "min", np.minimum)
_variadic("onnx.Sum akg.AddN", "add", np.add)
_variadic("onnx.Mean", "add", np.add, is_mean=True)
_comparison("onnx.Equal akg.Equal", "equal", np.equal)
_comparison("akg.NotEqual", "not_equal", np.not_equal)
_comparison("onnx.Less akg.Less", "less", np.less)
_comparison("onnx.LessOrEqual akg.LessEqual", "less_equal", np.less_equal)
_comparison("onnx.Greater akg.Greater", "greater", np.greater)
_comparison("onnx.GreaterOrEqual akg.GreaterEqual", "greater_equal", np.greater_equal)
formula("onnx.Where akg.Select", select, lambda c, a, b: np.asarray(np.where(c, a, b)))


# -- operators whose meaning depends on element types and attributes
def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Integers are divided toward zero."""
    return np.asarray(np.trunc(a / b).astype(a.dtype) if a.dtype.kind in "iu" else a / b)


formula("onnx.Div akg.Div", lambda a, b: a / b, _divide)


def _floor_divide(a: Term, b: Term) -> Term:
    """Down to the next integer, also of integers, whose own division is toward zero."""
    return apply("floor", a / b) if "float" in a.dtype else (a - apply("mod", a, b)) / b


formula("akg.FloorDiv", _floor_divide, np.floor_divide)
_function("akg.FloorMod", "mod", np.mod)


def _power(base: Term, exponent: Term) -> Term:
    """The result has the base's type; an integer to a real power is computed in reals."""
    kind = exponent.dtype if "float" in exponent.dtype and "float" not in base.dtype else base.dtype
    if (exponent.scalar == number(2, exponent.dtype).scalar) and kind == base.dtype:
        return base * base
    return cast(apply("pow", cast(base, kind), cast(exponent, kind)), base.dtype)


formula("onnx.Pow", _power, lambda a, b: np.power(a, b.astype(np.result_type(a, b))).astype(a.dtype))


def _modulo(op: Operator, a: Term, b: Term) -> Term:
    """`mod` has the divisor's sign, as Python's %; with `fmod` the result has the dividend's."""
    return _remainder(a, b) if integer(op, "fmod", 0) else apply("mod", a, b)


def _remainder(a: Term, b: Term) -> Term:
    """What division toward zero leaves: it has the dividend's sign."""
    return apply("sign", a) * apply("mod", absolute(a), absolute(b))


elementwise("onnx.Mod", _modulo, lambda op, a, b: np.fmod(a, b) if integer(op, "fmod", 0) else np.mod(a, b))
formula("akg.Mod", _remainder, np.fmod)


def _isinf(op: Operator, x: Term) -> Term:
    positive, negative = integer(op, "detect_positive", 1), integer(op, "detect_negative", 1)
    if positive and negative:
        return test("isinf", x)
    if not positive and not negative:
        return number(False, "bool")
    return compare("equal", x, math.inf if positive else -math.inf)


def _isinf_meaning(op: Operator, x: np.ndarray) -> np.ndarray:
    positive, negative = integer(op, "detect_positive", 1), integer(op, "detect_negative", 1)
    return np.asarray((np.isposinf(x) & bool(positive)) | (np.isneginf(x) & bool(negative)))


elementwise("onnx.IsInf", _isinf, _isinf_meaning)


def _numpy_type(dtype: str, like: np.ndarray) -> np.dtype:
    """The type a cast produces; a reference in float64 keeps its floats in float64."""
    exact = like.dtype == np.float64 or like.dtype.kind != "f"
    return np.dtype("float64" if "float" in dtype and exact else dtype)


def _cast_target(op: Operator) -> str:
    import onnx

    if op.dialect == "akg":
        return text(op, "dst_type", "")
    name: str = onnx.TensorProto.DataType.Name(integer(op, "to", 1)).lower()
    return {"float": "float32", "double": "float64"}.get(name, name)


def _cast_lower(op: Operator, build: StatementBuilder) -> None:
    """The output's declared type says what to convert to, in both dialects."""
    space = box(build.shape(op.outputs[0]))
    value = build.read(op.inputs[0], space.written)
    build.emit(op.outputs[0], space, cast(value, build.dtype(op.outputs[0])))


@operator("onnx.Cast", "akg.Cast", meaning=lambda op, x: [x[0].astype(_numpy_type(_cast_target(op), x[0]))])
def cast_type(op: Operator, build: StatementBuilder) -> None:
    """ONNX Cast and AKG Cast: to the type of the attribute."""
    _cast_lower(op, build)


@operator("onnx.CastLike", meaning=lambda op, x: [x[0].astype(x[1].dtype)])
def cast_like(op: Operator, build: StatementBuilder) -> None:
    """ONNX CastLike: to the second operand's type."""
    _cast_lower(op, build)


def _clip_meaning(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
    low = x[1] if present(op, 1) else op.attributes.get("min", -np.inf)
    high = x[2] if present(op, 2) else op.attributes.get("max", np.inf)
    return [np.minimum(np.maximum(x[0], low), high).astype(x[0].dtype)]


@operator("onnx.Clip", meaning=_clip_meaning)
def clip(op: Operator, build: StatementBuilder) -> None:
    """Bounds are attributes before opset 11, inputs since; either may be absent."""
    shape = build.shape(op.outputs[0])
    space = box(shape)
    value = build.read(op.inputs[0], space.written)
    for at, (name, function) in enumerate((("min", "max"), ("max", "min")), start=1):
        if present(op, at):
            value = apply(function, value, build.broadcast(op.inputs[at], space.written, shape))
        elif name in op.attributes:
            value = apply(function, value, real(op, name, 0.0))
    build.emit(op.outputs[0], space, value)


@operator("onnx.Dropout", meaning=lambda op, x: [x[0], np.ones(x[0].shape, bool)])
def dropout(op: Operator, build: StatementBuilder) -> None:
    """The identity outside training, or where nothing is dropped; the mask is all true."""
    training = build.value(op.inputs[2]) if present(op, 2) else np.array(False)
    ratio = build.value(op.inputs[1]) if present(op, 1) else np.array(0.5)
    if (training is None or training.any()) and (ratio is None or ratio.any()):
        raise Unsupported("tensor", f"operator {op.name}", "drops at random", "export the model for inference")
    space = box(build.shape(op.outputs[0]))
    build.emit(op.outputs[0], space, build.read(op.inputs[0], space.written))
    if len(op.outputs) > 1 and op.outputs[1]:
        build.emit(op.outputs[1], space, number(True, "bool"))
