"""The operators that can be compiled.  Importing the package fills `registry.RULES`, family by family."""

from engine.tensor.operators import contractions, convolution, elementwise, gather, layout, normalization, reductions
from engine.tensor.operators.registry import RULES, Rule, rule_of

__all__ = [
    "RULES", "Rule", "rule_of",
    "contractions", "convolution", "elementwise", "gather", "layout", "normalization", "reductions",
]  # fmt: skip
