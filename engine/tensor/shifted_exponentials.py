"""Online softmax as a reduction: exponentials relative to the row maximum, in one pass over the row.

    shifted_sum(k)  exp(x[k]) * w[k]   =   sum(k) exp(x[k] - m) * w[k]                 with m = max(k) x[k]
    shifted_mean(k) exp(x[k]) * w[k]   =   shifted_sum(k) exp(x[k]) * w[k]  /  shifted_sum(k) exp(x[k])

The terms are written without m, which belongs to the operation: no other statement has to find it first.  Parts of a
row join in any order.  A part is (m, l, o): its largest exponent, the sum of its weights exp(x - m), and the sum of the
weights times w; two parts with m >= m' make (m, l + l' c, o + o' c), c = exp(m' - m) (Milakov and Gimelshein, Online
normalizer calculation for softmax, 2018, algorithm 3).  A row whose exponents are all -inf has no finite m: its result
is NaN, as that of exp(x - max x) is.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.tensor.nodes import Apply, Scalar, Statement

SHIFTED_SUM, SHIFTED_MEAN = "shifted_sum", "shifted_mean"
"""Operations of such reductions."""


def is_shifted(statement: Statement) -> bool:
    """Whether a statement reduces exponentials relative to the largest exponent of the row."""
    return statement.reduction is not None and statement.reduction.operation in (SHIFTED_SUM, SHIFTED_MEAN)


@dataclass(frozen=True, slots=True)
class Weighted:
    """A term exp(exponent) * factor."""

    exponent: Scalar
    rounded: str
    """Element type that each weight is rounded to before it multiplies the factor, "" for none; the sum of the weights
    that a mean divides by takes them as they are."""
    factor: Scalar | None
    """None stands for 1."""

    def expression(self, dtype: str) -> Scalar:
        """The term in our own expressions, in the element type of the sum."""
        weight = Apply("exp", (self.exponent,), dtype)
        if self.rounded:
            weight = Apply("cast", (Apply("cast", (weight,), self.rounded),), dtype)
        return weight if self.factor is None else Apply("mul", (weight, self.factor), dtype)


def match_weighted(expression: Scalar) -> Weighted | None:
    """The parts of what `Weighted.expression` made; None for every other expression."""
    weight, factor = expression, None
    if isinstance(expression, Apply) and expression.function == "mul":
        weight, factor = expression.operands
    rounded = ""
    if isinstance(weight, Apply) and weight.function == "cast":
        narrow = weight.operands[0]
        if not isinstance(narrow, Apply) or narrow.function != "cast":
            return None
        rounded, weight = narrow.dtype, narrow.operands[0]
    if not isinstance(weight, Apply) or weight.function != "exp":
        return None
    return Weighted(weight.operands[0], rounded, factor)
