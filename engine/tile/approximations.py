"""Approximations of functions by the instructions of special-function units (`include/scalar.cuh` says how close).

    a / b                       a * (1 / b)                     the compiler inverts once what many elements divide by
    a / 4                       a * 0.25
    1 + tanh(u)          ->     2 * sigmoid(2 * u)              without the difference of near numbers for u below 0
    1 + erf(u)                  2 * erf_step(u)
    (0.5 * a) * (2 * b)         a * b
"""

from __future__ import annotations

from collections.abc import Callable

from engine.tensor.nodes import Apply, Literal, Scalar

APPROXIMATED = frozenset(("exp", "sqrt", "rsqrt", "reciprocal", "div", "sigmoid", "tanh", "erf"))
"""Functions of float32 that have an approximation of the same name and `_approx`."""


def approximation(value: Apply, value_of: Callable[[Scalar], Scalar]) -> Scalar:
    """What takes the place of a function of float32 whose operands are approximated already.

    value_of: the expression behind an operand that is a variable, or the operand itself.
    """
    match value.function, value.operands:
        case "div", (dividend, Literal(float() as divisor, _)) if divisor and _is_normal(1 / divisor):
            return _product(dividend, _number(1 / divisor))
        case "mul", (first, second):
            return _product(first, second)
        case "add", (first, second):
            for one, other in ((first, second), (second, first)):
                step = _step(value_of(other)) if isinstance(one, Literal) and one.value == 1 else None
                if step is not None:
                    return _product(_number(2.0), step)
    if value.function in APPROXIMATED:
        return Apply(f"{value.function}_approx", value.operands, value.dtype)
    return value


def _step(value: Scalar) -> Scalar | None:
    """(1 + f) / 2 of an odd function f that goes from -1 to 1; None of another value."""
    match value:
        case Apply("tanh_approx", (operand,)):
            return Apply("sigmoid_approx", (_product(_number(2.0), operand),), "float32")
        case Apply("erf_approx", operands):
            return Apply("erf_step_approx", operands, "float32")
    return None


def _product(first: Scalar, second: Scalar) -> Scalar:
    """A product whose constant factors are multiplied beforehand."""
    (one, left), (other, right) = _factors(first), _factors(second)
    constant, factors = one * other, tuple(factor for factor in (left, right) if factor is not None)
    if not factors or not _is_normal(constant):
        return Apply("mul", (first, second), "float32")
    rest = factors[0] if len(factors) == 1 else Apply("mul", factors, "float32")
    return rest if constant == 1 else Apply("mul", (_number(constant), rest), "float32")


def _factors(value: Scalar) -> tuple[float, Scalar | None]:
    """(constant factor, the other one; None for a constant)."""
    match value:
        case Literal(number, _):
            return float(number), None
        case Apply("mul", (Literal(number, _), other)) | Apply("mul", (other, Literal(number, _))):
            return float(number), other
    return 1.0, value


def _is_normal(value: float) -> bool:
    """Whether float32 holds a number to all of its digits."""
    return 2.0**-126 <= abs(value) < 2.0**128


def _number(value: float) -> Literal:
    return Literal(value, "float32")
