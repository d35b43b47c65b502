"""The operators that can be compiled.  Importing the package fills `registry.RULES`, family by family."""

from importlib import import_module

from engine.tensor.operators.registry import RULES, OperatorRule, rule_of

__all__ = ["RULES", "OperatorRule", "rule_of"]

FAMILIES = (
    "activations bits block_quantized contractions convolution einsum elementwise fourier gather layout local "
    "normalization pooling quantization quantized_products recurrent reductions resize sample scan scatter strided "
)
"""Modules of operators; each enters its own into the registry when it is imported."""

for _family in FAMILIES.split():
    import_module(f"{__name__}.{_family}")
