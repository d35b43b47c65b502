"""The operators that can be compiled.  Importing the package fills `registry.RULES`, family by family."""

from engine.tensor.operators import (
    activations,
    bits,
    contractions,
    convolution,
    einsum,
    elementwise,
    fourier,
    gather,
    layout,
    local,
    normalization,
    pooling,
    recurrent,
    reductions,
    resize,
    sample,
    scan,
    scatter,
    strided,
)
from engine.tensor.operators.registry import RULES, OperatorRule, rule_of

__all__ = [
    "RULES", "OperatorRule", "rule_of",
    "activations", "bits", "contractions", "convolution", "einsum", "elementwise", "fourier", "gather", "layout",
    "local", "normalization", "pooling", "recurrent", "reductions", "resize", "sample", "scan", "scatter",
    "strided",
]  # fmt: skip
