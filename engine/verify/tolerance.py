"""How far a right kernel may be from the reference, from number formats and reduction lengths alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from engine.tensor.nodes import Apply, Scalar, TensorProgram
from engine.tensorize.intrinsics import INTRINSICS

UNIT = {"float32": 2.0**-24, "float16": 2.0**-11, "tf32": 2.0**-11}
"""Unit roundoff: the largest relative error of one rounding."""

FUNCTION_ULPS = 4
"""Units in the last place that a scalar function of either side may be off (CUDA C++ programming guide, appendix on
mathematical functions: at most 2 for expf, logf, tanhf, erff; NumPy and ONNX Runtime are allowed as much)."""

INEXACT = frozenset("exp log tanh erf sigmoid pow sin cos atan rsqrt div sqrt".split())
"""Scalar functions whose results are rounded with that much freedom."""

SUM_FACTOR = 4
"""A sum of n rounded terms in any order is off by about sqrt(n) roundoffs of its largest term (random signs); both
sides sum, and 2 more leaves room for the largest of many elements."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """|got - expected| <= relative * (|expected| + largest |expected|); exact for integers and booleans."""

    relative: float
    because: str

    def errors(self, got: np.ndarray, expected: np.ndarray, scale: float) -> np.ndarray:
        """Error of each element in the unit of `relative`: 0 where both are the same number, NaN or infinity."""
        if expected.dtype.kind != "f":
            return np.where(got == expected, 0.0, np.inf)
        a, b = got.astype(np.float64), expected.astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        with np.errstate(invalid="ignore", divide="ignore"):
            error = np.abs(a - b) / (np.abs(b) + scale)
        return np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))


def tolerance(program: TensorProgram, intrinsic: str = "") -> Tolerance:
    """The tolerance of every output of a program: roundings along it, functions, the longest reduction.

    intrinsic: the instruction that multiplies on tensor cores; tf32 rounds both operands of every product.
    """
    rounded = 2 if intrinsic in INTRINSICS and INTRINSICS[intrinsic].numerics == "tf32" else 0
    halves = sum(program.arrays[s.write.array].dtype == "float16" for s in program.statements)
    singles = sum(program.arrays[s.write.array].dtype == "float32" for s in program.statements)
    functions = sum(_functions(s.expression) for s in program.statements)
    lengths = [math.prod(i.extent for i in s.reduced) for s in program.statements if s.reduction]
    longest = max(lengths, default=1)
    summed = SUM_FACTOR * math.sqrt(longest) if lengths else 0
    single = UNIT["float32"] * (2 * singles + FUNCTION_ULPS * functions + summed)
    half = UNIT["float16"] * 2 * halves
    reasons = [f"{halves} roundings to float16 (2^-11)"] * (halves > 0)
    reasons += [f"{singles} to float32 (2^-24)"] * (singles > 0)
    reasons += [f"{functions} functions of {FUNCTION_ULPS} ulp"] * (functions > 0)
    reasons += [f"a reduction of {longest} terms ({SUM_FACTOR} sqrt n)"] * bool(lengths)
    reasons += [f"{rounded} operands rounded to tf32 (2^-11)"] * (rounded > 0)
    return Tolerance(single + half + UNIT["tf32"] * rounded, ", ".join(reasons) or "exact: integers and booleans")


def _functions(value: Scalar) -> int:
    if not isinstance(value, Apply):
        return 0
    return (value.function in INEXACT) + sum(_functions(o) for o in value.operands)
