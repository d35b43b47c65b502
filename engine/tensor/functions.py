"""The scalar functions and reductions of statements, as NumPy computes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from engine.tensor.operators.special import erf


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Division; of integers truncated toward zero, as in C."""
    if np.result_type(a, b).kind not in "iu":
        return np.asarray(a / b)
    quotient = a // b
    return np.asarray(quotient + ((quotient < 0) & (quotient * b != a)))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


def _shift_left(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    width = 8 * a.dtype.itemsize
    return np.where((b < 0) | (b >= width), 0, np.left_shift(a, np.clip(b, 0, width - 1))).astype(a.dtype)


def _shift_right(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    width = 8 * a.dtype.itemsize
    is_out = (b < 0) | (b >= width)
    shifted = np.right_shift(a, np.where(is_out, width - 1, b).astype(a.dtype))
    return np.asarray(np.where(is_out, 0, shifted).astype(a.dtype) if a.dtype.kind == "u" else shifted)


_OTHER = {"f": "i", "i": "f"}


def _reinterpret(x: np.ndarray) -> np.ndarray:
    """Bits of a float as an integer of its size, and the other way round."""
    return x.copy().view(f"{_OTHER[x.dtype.kind]}{x.dtype.itemsize}")


FUNCTION_OF: Mapping[str, Callable[..., np.ndarray]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": _divide, "pow": np.power,
    "max": np.maximum, "min": np.minimum, "mod": np.mod,
    "neg": np.negative, "abs": np.abs, "exp": np.exp, "log": np.log, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": lambda x: 1 / x, "tanh": np.tanh, "erf": erf, "sigmoid": _sigmoid,
    "floor": np.floor, "ceil": np.ceil, "round": np.round, "sign": np.sign, "sin": np.sin, "cos": np.cos,
    "cast": lambda x: x, "copy": lambda x: x,
    "equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
    "greater": np.greater, "greater_equal": np.greater_equal,
    "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor, "not": np.logical_not,
    "select": np.where, "isnan": np.isnan, "isinf": np.isinf, "atan": np.arctan,
    "bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor, "bit_not": np.bitwise_not,
    "shift_left": _shift_left, "shift_right": _shift_right, "bits": _reinterpret,
}  # fmt: skip
"""Scalar functions by their names in `nodes.Apply`; operands are at least float32, the caller rounds the result.

`select(c, a, b)` is `a if c else b`; `cast` converts to its dtype; `round` is half to even; integer `div` truncates
toward zero; shifts by the width or more leave no bit but the sign's; `bits` reads the bits of its operand as a number
of its own dtype."""

_REDUCE: Mapping[str, np.ufunc] = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "any": np.logical_or,
    "all": np.logical_and,
}  # fmt: skip


def reduce_axes(operation: str, values: np.ndarray, axes: tuple[int, ...], accumulate: np.dtype) -> np.ndarray:
    """Reduce `axes`; sums and products are accumulated in `accumulate`."""
    dtype = accumulate if operation in ("sum", "prod") else None
    return np.asarray(_REDUCE[operation].reduce(values, axis=axes, dtype=dtype))
