"""Exponentials of sums that a kernel makes itself: what a sum is off by, its exponential is off by, relatively.

    exp(s + e) = exp(s) * (1 + e)    s off by t * |s|   ->   exp(s), and a softmax's quotient, off by up to 2 t * |s|

How large the sums are only their values tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from engine.tensor.evaluate import behind, evaluate
from engine.tensor.nodes import Apply, Scalar, Statement, TensorProgram, accesses
from engine.verify.tolerance import Tolerance, magnitude, tolerance

SIDES = 2
"""The exponential itself, and the sum of all that it is divided by."""


def with_exponents(found: Tolerance, program: TensorProgram, values: Mapping[str, np.ndarray]) -> Tolerance:
    """A kernel's tolerance with the freedom that its exponentials need.  values: of the program's inputs, at least."""
    made = {s.write.array for s in program.statements}
    arrays = {a.array for s in program.statements for e in _exponents(s.expression) for a in accesses(e)} & made
    part = behind(program, program.inputs, arrays)
    if not arrays or not any(map(_sums_up, part.statements)):
        return found
    computed = evaluate(part, {name: values[name] for name in part.inputs})
    largest = max(magnitude(computed[name]) for name in arrays)
    argument = tolerance(part)
    because = f"an exponential of sums of up to {largest:.3g}, themselves off by {argument.relative:.2g}"
    return Tolerance(found.relative + SIDES * largest * argument.relative, f"{found.because}, {because}")


def _sums_up(statement: Statement) -> bool:
    """Whether rounding errors add up in a statement: in a largest element there are none."""
    return statement.reduction is not None and statement.reduction.operation in ("sum", "prod")


def _exponents(value: Scalar) -> Iterator[Scalar]:
    """Arguments of the exponentials in an expression."""
    if isinstance(value, Apply):
        if value.function == "exp":
            yield value.operands[0]
        for operand in value.operands:
            yield from _exponents(operand)
