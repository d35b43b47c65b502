"""Operators that compute each element from the elements at the same place, with broadcasting.

One line an operator: its scalar expression, and its NumPy meaning where AKG has it too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

import numpy as np

from engine.graph.nodes import FLOAT8, Operator
from engine.support.errors import BadInput, Unsupported
from engine.tensor.build import StatementBuilder, box
from engine.tensor.operators.attributes import integer, present, real, text
from engine.tensor.operators.registry import Meaning, operator
from engine.tensor.operators.special import erf
from engine.tensor.operators.standard import standard
from engine.tensor.terms import Term, absolute, apply, cast, compare, number, select, test, to_float8, wide

MOST_OPERANDS = 192
"""Operands of one expression: they nest, and every walk over an expression goes down as deep."""

Expression = Callable[..., Term]
"""(op, *operands) -> the value of one element."""


NumpyFunction = Callable[..., np.ndarray]


def elementwise(
    names: str, expression: Expression, meaning: NumpyFunction | None = None, compound: bool = False
) -> None:
    """Enter operators into the table.

    names: separated by blanks.  meaning: None for the standard's own.  compound: several scalar steps, which half
    precision takes in float32.
    """

    def lower(op: Operator, build: StatementBuilder) -> None:
        target = op.outputs[0]
        space = box(build.shape(target))
        operands = [build.broadcast(name, space) for name in op.inputs if name]
        if compound:
            operands = [wide(x) for x in operands]
        build.emit(target, space, expression(op, *operands))

    def means(op: Operator, operands: list[np.ndarray]) -> list[np.ndarray]:
        assert meaning is not None
        return [np.asarray(meaning(op, *(x for x, name in zip(operands, op.inputs, strict=True) if name)))]

    operator(*names.split(), meaning=standard if meaning is None else means)(lower)


def formula(
    names: str,
    expression: Callable[..., Term],
    meaning: NumpyFunction | None = None,
    compound: bool = False,
    **defaults: float,
) -> None:
    """`elementwise` for functions of the operands and of real attributes, which are given with their defaults."""

    def attributes(op: Operator) -> dict[str, float]:
        return {name: real(op, name, default) for name, default in defaults.items()}

    means = None if meaning is None else lambda op, *x: meaning(*x)
    elementwise(names, lambda op, *x: expression(*x, **attributes(op)), means, compound)


def _function(names: str, function: str, meaning: NumpyFunction | None = None) -> None:
    formula(names, lambda *x: apply(function, *x), meaning)


def _comparison(names: str, function: str, meaning: NumpyFunction | None = None) -> None:
    formula(names, lambda a, b: compare(function, a, b), meaning)


def _variadic(names: str, function: str, meaning: Meaning = standard, is_mean: bool = False) -> None:
    """Any number of operands, one after the other: past `MOST_OPERANDS` in statements of so many each.

    is_mean: whether the result is divided by how many there are; half precision takes that in float32.
    """

    def lower(op: Operator, build: StatementBuilder) -> None:
        target, operands = op.outputs[0], [name for name in op.inputs if name]
        space = box(build.shape(target))
        value: Term | None = None
        for first in range(0, len(operands), MOST_OPERANDS):
            if value is not None:
                part = build.define(target, "part", space, value, because=f"operands up to {first}")
                value = build.read(part, space.written)
            for name in operands[first : first + MOST_OPERANDS]:
                operand = build.broadcast(name, space)
                operand = wide(operand) if is_mean else operand
                value = operand if value is None else apply(function, value, operand)
        if value is None:
            raise BadInput("tensor", f"operator {op.name}", f"{op.kind} has no operands", "it needs one or more")
        build.emit(target, space, value / len(operands) if is_mean else value)

    operator(*names.split(), meaning=meaning)(lower)


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
_function("onnx.Sigmoid", "sigmoid")
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
_function("onnx.Xor", "xor")
_variadic("onnx.Max", "max")
_variadic("onnx.Min", "min")
_variadic("onnx.Sum akg.AddN", "add", lambda op, x: [reduce(np.add, x)])
_variadic("onnx.Mean", "add", is_mean=True)
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


formula("onnx.Pow", _power)


def _modulo(op: Operator, a: Term, b: Term) -> Term:
    """`mod` has the divisor's sign, as Python's %; with `fmod` the result has the dividend's."""
    return _remainder(a, b) if integer(op, "fmod", 0) else apply("mod", a, b)


def _remainder(a: Term, b: Term) -> Term:
    """What division toward zero leaves: it has the dividend's sign."""
    return apply("sign", a) * apply("mod", absolute(a), absolute(b))


elementwise("onnx.Mod", _modulo)
formula("akg.Mod", _remainder, np.fmod)


def _isinf(op: Operator, x: Term) -> Term:
    positive, negative = integer(op, "detect_positive", 1), integer(op, "detect_negative", 1)
    if positive and negative:
        return test("isinf", x)
    if not positive and not negative:
        return number(False, "bool")
    return compare("equal", x, math.inf if positive else -math.inf)


elementwise("onnx.IsInf", _isinf)


def _akg_cast(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
    """The operand in its type `dst_type`; a reference in float64 keeps its floats in float64."""
    dtype = text(op, "dst_type", "")
    exact = x[0].dtype == np.float64 or x[0].dtype.kind != "f"
    return [x[0].astype("float64" if "float" in dtype and exact else dtype)]


@operator("akg.Cast", meaning=_akg_cast)
@operator("onnx.Cast", "onnx.CastLike")
def cast_type(op: Operator, build: StatementBuilder) -> None:
    """The output's declared type says what to convert to, in both dialects."""
    space = box(build.shape(op.outputs[0]))
    value, kind = build.read(op.inputs[0], space.written), build.dtype(op.outputs[0])
    if kind in FLOAT8:
        build.emit(op.outputs[0], space, to_float8(value, kind, bool(integer(op, "saturate", 1))))
        return
    build.emit(op.outputs[0], space, cast(value, kind))


def _clip_meaning(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
    low = x[1] if present(op, 1) else op.attributes.get("min", -np.inf)
    high = x[2] if present(op, 2) else op.attributes.get("max", np.inf)
    return [np.minimum(np.maximum(x[0], low), high).astype(x[0].dtype)]


@operator("onnx.Clip", meaning=_clip_meaning)
def clip(op: Operator, build: StatementBuilder) -> None:
    """Bounds are attributes before opset 11, inputs since; either may be absent."""
    space = box(build.shape(op.outputs[0]))
    value = build.read(op.inputs[0], space.written)
    for at, (name, function) in enumerate((("min", "max"), ("max", "min")), start=1):
        if present(op, at):
            value = apply(function, value, build.broadcast(op.inputs[at], space))
        elif name in op.attributes:
            value = apply(function, value, real(op, name, 0.0))
    build.emit(op.outputs[0], space, value)


@operator("onnx.Dropout")
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
