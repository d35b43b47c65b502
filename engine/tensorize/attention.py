"""Whether an instruction multiplies both products of an attention."""

from __future__ import annotations

from engine.fusion.shape import product_operands
from engine.tensor.nodes import Access, Apply, Scalar, Statement, TensorProgram, accesses
from engine.tensor.shifted_exponentials import match_weighted
from engine.tensorize.nodes import Intrinsic


def intrinsic_misfit(scores: Statement, values: Statement, program: TensorProgram, intrinsic: Intrinsic) -> str:
    """Why tensor cores do not multiply an attention after its online rewrite by this instruction; "" where they do.

    Weights become operands in the registers that hold them: as the instruction's elements, which they are rounded to.
    """
    factors, term = product_operands(scores.expression), match_weighted(values.expression)
    if factors is None or term is None or term.factor is None:
        return "the weighted sum is not in its online form"
    held_as = term.rounded or "float32"
    if held_as != intrinsic.dtype:
        return f"weights are {held_as}, the instruction takes {intrinsic.dtype}"
    if not isinstance(scores.expression, Apply) or scores.expression.function != "mul":
        return "products are rounded before they are summed, the instruction sums them as they are"
    for factor in (*factors, term.factor):
        held = {program.arrays[access.array].dtype for access in accesses(factor)}
        if held | {_dtype(factor, program)} != {intrinsic.dtype}:
            return f"a factor is {' and '.join(sorted(held))}, the instruction takes {intrinsic.dtype}"
    return ""


def _dtype(factor: Scalar, program: TensorProgram) -> str:
    """The element type of a factor before its conversion to float32, which the instruction makes by itself."""
    if isinstance(factor, Apply) and factor.function == "cast" and factor.dtype == "float32":
        factor = factor.operands[0]
    if isinstance(factor, Access):
        return program.arrays[factor.array].dtype
    return factor.dtype
