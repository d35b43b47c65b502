"""Activations and trigonometry: scalar formulas over the functions that kernels have.

Each with its scalar expression, and with its NumPy meaning where the standard has none.
"""

from __future__ import annotations

import math

import numpy as np

from engine.graph.nodes import Operator
from engine.tensor.operators.attributes import text
from engine.tensor.operators.elementwise import elementwise, formula
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


def _angle(y: Term, x: Term) -> Term:
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


formula("onnx.Relu", lambda x: maximum(x, 0))
elementwise("onnx.Gelu", _gelu, _gelu_meaning, compound=True)
formula("onnx.LeakyRelu", lambda x, alpha: select(compare("less", x, 0), x * alpha, x), compound=True, alpha=0.01)
formula("onnx.PRelu", lambda x, s: select(compare("less", x, 0), x * s, x))
formula("onnx.Elu", lambda x, alpha: select(compare("less", x, 0), (exp(x) - 1) * alpha, x), compound=True, alpha=1.0)
formula(
    "onnx.Celu", lambda x, alpha: maximum(x, 0) + minimum((exp(x / alpha) - 1) * alpha, 0), compound=True, alpha=1.0
)
formula(
    "onnx.Selu",
    lambda x, alpha, gamma: select(compare("greater", x, 0), x, (exp(x) - 1) * alpha) * gamma,
    compound=True,
    alpha=1.67326319218681884765625,
    gamma=1.05070102214813232421875,
)
formula("onnx.ThresholdedRelu", lambda x, alpha: select(compare("greater", x, alpha), x, 0), alpha=1.0)
formula(
    "onnx.HardSigmoid",
    lambda x, alpha, beta: maximum(minimum(x * alpha + beta, 1), 0),
    compound=True,
    alpha=0.2,
    beta=0.5,
)
formula("onnx.HardSwish", lambda x: x * maximum(minimum(x / 6 + 0.5, 1), 0), compound=True)
formula("onnx.Softplus", _softplus, compound=True)
formula("onnx.Softsign", lambda x: x / (absolute(x) + 1), compound=True)
formula("onnx.Mish", lambda x: x * tanh(_softplus(x)), compound=True)
formula("onnx.Swish", lambda x, alpha: x * sigmoid(x * alpha), compound=True, alpha=1.0)
formula(
    "onnx.Shrink",
    lambda x, lambd, bias: select(
        compare("less", x, -lambd), x + bias, select(compare("greater", x, lambd), x - bias, 0)
    ),
    compound=True,
    lambd=0.5,
    bias=0.0,
)

# -- trigonometry that the scalar functions can express
formula("onnx.Tan", lambda x: apply("sin", x) / apply("cos", x), compound=True)
formula("onnx.Sinh", lambda x: (exp(x) - exp(-x)) * 0.5, compound=True)
formula("onnx.Cosh", lambda x: (exp(x) + exp(-x)) * 0.5, compound=True)
formula(
    "onnx.Asinh akg.Asinh", lambda x: apply("sign", x) * log(absolute(x) + sqrt(x * x + 1)), np.arcsinh, compound=True
)
formula("onnx.Acosh akg.Acosh", lambda x: log(x + sqrt(x * x - 1)), np.arccosh, compound=True)
formula("onnx.Atanh", lambda x: log((1 + x) / (1 - x)) * 0.5, compound=True)

formula("onnx.Atan akg.Atan", lambda x: apply("atan", x), np.arctan)
formula("akg.Atan2", _angle, np.arctan2, compound=True)
formula("onnx.Asin akg.Asin", lambda x: apply("atan", x / sqrt(1 - x * x)), np.arcsin, compound=True)
formula("onnx.Acos akg.Acos", lambda x: apply("atan", sqrt((1 - x) / (1 + x))) * 2, np.arccos, compound=True)
