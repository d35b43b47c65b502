"""Activations and trigonometry: scalar formulas over the functions that kernels have.

One line an operator: its scalar expression and its NumPy meaning.
"""

from __future__ import annotations

import math

import numpy as np

from engine.graph.nodes import Operator
from engine.tensor.operators.attributes import real, text
from engine.tensor.operators.elementwise import elementwise, logistic
from engine.tensor.operators.special import erf
from engine.tensor.terms import (
    Term,
    absolute,
    apply,
    both,
    compare,
    either,
    exp,
    log,
    maximum,
    minimum,
    select,
    sigmoid,
    sqrt,
    tanh,
    test,
)


def _softplus(x: Term) -> Term:
    """log(1 + exp(x)) that overflows for no x."""
    return maximum(x, 0) + log(1 + exp(-absolute(x)))


_SELU = (1.67326319217681884765625, 1.05070102214813232421875)
"""Alpha and gamma of the ONNX standard."""


def _angle(op: Operator, y: Term, x: Term) -> Term:
    """atan2: the angle of the point (x, y), with the signs of zeros respected."""
    ends = both(test("isinf", x), test("isinf", y))
    slope = select(ends, apply("sign", x) * apply("sign", y), y / x)
    angle = select(compare("equal", y, 0), y, apply("atan", slope))
    half = select(_is_negative(y), -math.pi, math.pi)
    return select(_is_negative(x), angle * select(compare("equal", y, 0), 0, 1) + half, angle)


def _is_negative(x: Term) -> Term:
    """Whether x is negative or -0."""
    return either(compare("less", x, 0), both(compare("equal", x, 0), compare("less", 1 / x, 0)))


def _gelu(op: Operator, x: Term) -> Term:
    if text(op, "approximate", "none") == "tanh":
        return 0.5 * x * (1 + tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1 + apply("erf", x * math.sqrt(0.5)))


def _gelu_meaning(op: Operator, x: np.ndarray) -> np.ndarray:
    if text(op, "approximate", "none") == "tanh":
        return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))
    return np.asarray(0.5 * x * (1 + erf(x / math.sqrt(2))))


elementwise("onnx.Relu", lambda op, x: maximum(x, 0), lambda op, x: np.maximum(x, 0))
elementwise("onnx.Gelu", _gelu, _gelu_meaning, compound=True)
elementwise(
    "onnx.LeakyRelu",
    lambda op, x: select(compare("less", x, 0), x * real(op, "alpha", 0.01), x),
    lambda op, x: np.where(x < 0, x * real(op, "alpha", 0.01), x),
    compound=True,
)
elementwise(
    "onnx.PRelu", lambda op, x, s: select(compare("less", x, 0), x * s, x), lambda op, x, s: np.where(x < 0, x * s, x)
)
elementwise(
    "onnx.Elu",
    lambda op, x: select(compare("less", x, 0), (exp(x) - 1) * real(op, "alpha", 1.0), x),
    lambda op, x: np.where(x < 0, np.expm1(np.minimum(x, 0)) * real(op, "alpha", 1.0), x),
    compound=True,
)
elementwise(
    "onnx.Celu",
    lambda op, x: maximum(x, 0) + minimum((exp(x / real(op, "alpha", 1.0)) - 1) * real(op, "alpha", 1.0), 0),
    lambda op, x: np.maximum(x, 0) + np.minimum(real(op, "alpha", 1.0) * np.expm1(x / real(op, "alpha", 1.0)), 0),
    compound=True,
)


def _selu(op: Operator, x: Term) -> Term:
    alpha, gamma = real(op, "alpha", _SELU[0]), real(op, "gamma", _SELU[1])
    return select(compare("greater", x, 0), x, (exp(x) - 1) * alpha) * gamma


def _selu_meaning(op: Operator, x: np.ndarray) -> np.ndarray:
    alpha, gamma = real(op, "alpha", _SELU[0]), real(op, "gamma", _SELU[1])
    return np.asarray(gamma * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))))


elementwise("onnx.Selu", _selu, _selu_meaning, compound=True)
elementwise(
    "onnx.ThresholdedRelu",
    lambda op, x: select(compare("greater", x, real(op, "alpha", 1.0)), x, 0),
    lambda op, x: np.where(x > real(op, "alpha", 1.0), x, 0),
)
elementwise(
    "onnx.HardSigmoid",
    lambda op, x: maximum(minimum(x * real(op, "alpha", 0.2) + real(op, "beta", 0.5), 1), 0),
    lambda op, x: np.clip(x * real(op, "alpha", 0.2) + real(op, "beta", 0.5), 0, 1),
    compound=True,
)
elementwise(
    "onnx.HardSwish",
    lambda op, x: x * maximum(minimum(x / 6 + 0.5, 1), 0),
    lambda op, x: x * np.clip(x / 6 + 0.5, 0, 1),
    compound=True,
)
elementwise("onnx.Softplus", lambda op, x: _softplus(x), lambda op, x: np.logaddexp(0, x), compound=True)
elementwise("onnx.Softsign", lambda op, x: x / (absolute(x) + 1), lambda op, x: x / (1 + np.abs(x)), compound=True)
elementwise(
    "onnx.Mish",
    lambda op, x: x * tanh(_softplus(x)),
    lambda op, x: x * np.tanh(np.logaddexp(0, x)),
    compound=True,
)
elementwise(
    "onnx.Swish",
    lambda op, x: x * sigmoid(x * real(op, "alpha", 1.0)),
    lambda op, x: x * logistic(x * real(op, "alpha", 1.0)),
    compound=True,
)


def _shrink(op: Operator, x: Term) -> Term:
    edge, bias = real(op, "lambd", 0.5), real(op, "bias", 0.0)
    return select(compare("less", x, -edge), x + bias, select(compare("greater", x, edge), x - bias, 0))


def _shrink_meaning(op: Operator, x: np.ndarray) -> np.ndarray:
    edge, bias = real(op, "lambd", 0.5), real(op, "bias", 0.0)
    return np.where(x < -edge, x + bias, np.where(x > edge, x - bias, 0))


elementwise("onnx.Shrink", _shrink, _shrink_meaning, compound=True)

# -- trigonometry that the scalar functions can express
elementwise("onnx.Tan", lambda op, x: apply("sin", x) / apply("cos", x), lambda op, x: np.tan(x), compound=True)
elementwise("onnx.Sinh", lambda op, x: (exp(x) - exp(-x)) * 0.5, lambda op, x: np.sinh(x), compound=True)
elementwise("onnx.Cosh", lambda op, x: (exp(x) + exp(-x)) * 0.5, lambda op, x: np.cosh(x), compound=True)
elementwise(
    "onnx.Asinh akg.Asinh",
    lambda op, x: apply("sign", x) * log(absolute(x) + sqrt(x * x + 1)),
    lambda op, x: np.arcsinh(x),
    compound=True,
)
elementwise("onnx.Acosh akg.Acosh", lambda op, x: log(x + sqrt(x * x - 1)), lambda op, x: np.arccosh(x), compound=True)
elementwise("onnx.Atanh", lambda op, x: log((1 + x) / (1 - x)) * 0.5, lambda op, x: np.arctanh(x), compound=True)

elementwise("onnx.Atan akg.Atan", lambda op, x: apply("atan", x), lambda op, x: np.arctan(x))
elementwise("akg.Atan2", _angle, lambda op, y, x: np.arctan2(y, x), compound=True)
elementwise(
    "onnx.Asin akg.Asin",
    lambda op, x: apply("atan", x / sqrt(1 - x * x)),
    lambda op, x: np.arcsin(x),
    compound=True,
)
elementwise(
    "onnx.Acos akg.Acos",
    lambda op, x: apply("atan", sqrt((1 - x) / (1 + x))) * 2,
    lambda op, x: np.arccos(x),
    compound=True,
)
