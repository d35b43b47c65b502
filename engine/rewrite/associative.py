"""Allow the scheduler to reorder the terms of one reduction.

    S0: c[i,j] = sum(k) a[i,k] * b[k,j]   in the order of k
->  S0: c[i,j] = sum(k) a[i,k] * b[k,j]   in any order: k may run outermost, in parallel, or in parts

The result is the same number; in floating point it is rounded elsewhere.
"""

from __future__ import annotations

from dataclasses import replace

from engine.rewrite.statements import statement_of, with_statement
from engine.support.errors import BadInput
from engine.tensor.nodes import TensorProgram

FREE = ("sum", "max", "min", "prod", "any", "all")
"""Operations that are associative and commutative up to rounding."""


def associative(program: TensorProgram, statement: str) -> TensorProgram:
    """The program with one reduction declared associative; unchanged if it already is.

    BadInput for a statement without a reduction, or with one whose operation depends on the order of its terms.
    """
    one = statement_of(program, statement)
    if one.reduction is None:
        reducing = ", ".join(s.name for s in program.statements if s.reduction) or "none"
        raise BadInput("rewrite", f"associative {statement}", f"{statement} reduces nothing", f"those do: {reducing}")
    operation = one.reduction.operation
    if operation not in FREE:
        hint = f"these do not: {', '.join(FREE)}"
        reason = f"a {operation} depends on the order of its terms"
        raise BadInput("rewrite", f"associative {statement}", reason, hint)
    return with_statement(program, replace(one, reduction=replace(one.reduction, associative=True)))
