"""Error bounds of correct kernels, from number formats and reduction lengths alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from engine.fusion.nodes import FusionGroup
from engine.graph.nodes import is_float
from engine.tensor.evaluate import behind
from engine.tensor.lower import lower
from engine.tensor.nodes import Apply, Scalar, TensorProgram
from engine.tensor.terms import NARROW
from engine.tensorize.intrinsics import INTRINSICS

UNIT = {
    "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8, "tf32": 2.0**-11, "float8_e4m3fn": 2.0**-4,
    "float8_e4m3fnuz": 2.0**-4, "float8_e5m2": 2.0**-3, "float8_e5m2fnuz": 2.0**-3,
}  # fmt: skip
"""Unit roundoff: the largest relative error of one rounding."""

SUBNORMAL = {"float16": 2.0**-24}
"""Distance of the smallest numbers, which are rounded to half of it whatever their size; those of other types are too
small to matter."""

FUNCTION_ULPS = 4
"""Units in the last place that a scalar function of either side may be off (CUDA C++ programming guide, appendix on
mathematical functions: at most 2 for expf, logf, tanhf, erff; NumPy and ONNX Runtime are allowed as much)."""

OUTLIER = 2.0**10
"""Values this many times the lower quartile are masks, not results."""

UNDERFLOW = 2.0**-125
"""A difference this small is none: denormal results of float32 may be 0, as `fn_exp` of CPU kernels makes them."""

INEXACT = frozenset("exp log tanh erf sigmoid pow sin cos atan rsqrt div sqrt".split())
"""Scalar functions that may be off by `FUNCTION_ULPS`."""

EXACT = frozenset("select copy max min neg abs".split())
"""Scalar functions whose result is one of their operands, or its negative."""

SIDES = 2
"""A kernel rounds, and so does the reference."""

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
        if not is_float(expected.dtype):
            return np.where(got == expected, 0.0, np.inf)
        a, b = got.astype(np.float64), expected.astype(np.float64)
        # Equal infinities have the difference NaN and must count as equal.
        with np.errstate(invalid="ignore", divide="ignore"):
            same = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= UNDERFLOW)
            error = np.abs(a - b) / (np.abs(b) + scale)
        return np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))


@dataclass(frozen=True, slots=True)
class KernelRounding:
    """What a kernel rounds, beside its results."""

    operands: float = 0.0
    """Unit roundoff of the operands of matrix products; 0 where they are exact."""
    between: bool = True
    """Whether it rounds to 16 bits what its operators hand to each other, as the reference does."""


AS_REFERENCE = KernelRounding()
"""Of a kernel that rounds where the reference does."""


def group_tolerance(group: FusionGroup, kernel: KernelRounding = AS_REFERENCE) -> Tolerance:
    """The tolerance of what a group writes.

    Where it reads what a lowering made inside an operator (the state of an LSTM, the mean of a norm), the reference has
    no value for that: it is computed from the nearest tensors that have one, and those statements round too.  Where it
    reads the parts of a sum, the reference has added up the whole.
    """
    if group.graph is None:
        return tolerance(group.program, kernel=kernel)
    known, arrays = group.graph.tensors.keys(), group.instances[0].arrays
    inside = {tensor for n in group.program.inputs if (tensor := arrays[n]) not in known}
    if not inside:
        return tolerance(group.program, kernel=kernel)
    lowered = lower(group.graph)
    wholes = set() if inside <= lowered.arrays.keys() else {arrays[n] for n in group.program.outputs}
    return tolerance(group.program, behind(lowered, known - wholes, inside | wholes), kernel=kernel)


def tolerance(*programs: TensorProgram, kernel: KernelRounding = AS_REFERENCE) -> Tolerance:
    """The tolerance of every output of programs that feed each other: roundings, functions, the longest reduction."""
    statements = [(program, statement) for program in programs for statement in program.statements]
    kinds = [program.arrays[statement.write.array].dtype for program, statement in statements]
    narrow = {
        dtype: kinds.count(dtype) + sum(_roundings_inside(s.expression, dtype) for _, s in statements)
        for dtype in NARROW
    }
    singles = kinds.count("float32")
    functions = sum(_functions(s.expression) for _, s in statements)
    lengths = [math.prod(i.extent for i in s.reduced) for _, s in statements if s.reduction]
    longest = max(lengths, default=1)
    summed = SUM_FACTOR * math.sqrt(longest) if lengths else 0
    single = UNIT["float32"] * (SIDES * singles + FUNCTION_ULPS * functions + summed)
    results = [program.arrays[name].dtype for program in programs[:1] for name in program.outputs]
    own = {d: count if kernel.between else min(count, results.count(d)) for d, count in narrow.items()}
    rounded = sum(UNIT[dtype] * (count + own[dtype]) for dtype, count in narrow.items())
    operands = 2 * kernel.operands
    reasons = [f"{count} roundings to {d} (2^{math.log2(UNIT[d]):.0f})" for d, count in narrow.items() if count]
    reasons += [f"{own[d]} of them by the kernel" for d, count in narrow.items() if own[d] < count]
    reasons += [f"{singles} to float32 (2^-24)"] * (singles > 0)
    reasons += [f"{functions} functions of {FUNCTION_ULPS} ulp"] * (functions > 0)
    reasons += [f"a reduction of {longest} terms ({SUM_FACTOR} sqrt n)"] * bool(lengths)
    reasons += ["from the nearest tensors that the reference has"] * (len(programs) > 1)
    reasons += [f"2 operands rounded to tf32 (2^{math.log2(kernel.operands):.0f})"] if kernel.operands else []
    return Tolerance(single + rounded + operands, ", ".join(reasons) or "exact: integers and booleans")


def operand_roundoff(intrinsic: str) -> float:
    """Unit roundoff of the operands of an instruction's products, 0 where it takes them as they are."""
    is_tf32 = intrinsic in INTRINSICS and INTRINSICS[intrinsic].numerics == "tf32"
    return UNIT["tf32"] if is_tf32 else 0.0


def _roundings_inside(value: Scalar, dtype: str) -> int:
    """Roundings to a narrow type on the way to a value, as of operators computed again inside their reader."""
    operands = value.operands if isinstance(value, Apply) else ()
    rounded = [o for o in operands if isinstance(o, Apply) and o.dtype == dtype and o.function not in EXACT]
    return len(rounded) + sum(_roundings_inside(operand, dtype) for operand in operands)


def _functions(value: Scalar) -> int:
    if not isinstance(value, Apply):
        return 0
    return (value.function in INEXACT) + sum(_functions(o) for o in value.operands)


def magnitude(value: np.ndarray) -> float:
    """Largest magnitude of an output's ordinary values, in which rounding errors of cancelled terms are measured.

    Values far above the rest (masks set to the lowest finite number) do not count: they would excuse any error.
    """
    if not is_float(value.dtype):
        return 0.0
    sizes = np.abs(value[np.isfinite(value) & (value != 0)].astype(np.float64))
    if not sizes.size:
        return 1.0
    ordinary = sizes[sizes <= OUTLIER * np.quantile(sizes, 0.25)]
    return float(ordinary.max())
