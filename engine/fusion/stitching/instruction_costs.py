"""What scalar functions cost: instructions by class, and how long a warp takes for one of each class."""

from __future__ import annotations

from collections.abc import Mapping

from engine.tensor.nodes import Apply, Scalar

CYCLES: Mapping[str, tuple[float, str]] = {
    "arithmetic": (4.0, "Jia et al., arXiv 1804.06826: a dependent FFMA on V100, assumed for later GPUs"),
    "special": (16.0, "programming guide: 16 results per clock and SM, 4 per scheduler, half a warp at a time"),
    "shuffle": (23.0, "Jia et al.: V100"),
    "shared": (19.0, "Jia et al.: a shared load on V100"),
    "barrier": (30.0, "inferred: a shared round trip and the slowest warp"),
}
"""Instruction class -> (cycles of a warp, source)."""

CLASSES: Mapping[str, Mapping[str, int]] = {
    "exp": {"arithmetic": 5, "special": 1}, "log": {"arithmetic": 18, "special": 1},
    "sqrt": {"arithmetic": 5, "special": 1}, "rsqrt": {"arithmetic": 1, "special": 1},
    "reciprocal": {"arithmetic": 5, "special": 1}, "div": {"arithmetic": 7, "special": 1},
    "tanh": {"arithmetic": 12, "special": 2}, "sigmoid": {"arithmetic": 10, "special": 2},
    "erf": {"arithmetic": 30, "special": 1}, "sin": {"arithmetic": 20}, "cos": {"arithmetic": 20},
    "atan": {"arithmetic": 20, "special": 1}, "pow": {"arithmetic": 30, "special": 2}, "mod": {"arithmetic": 10},
    "cast": {"arithmetic": 1}, "copy": {},
}  # fmt: skip
"""Scalar function -> instructions by class; every function not listed is one of arithmetic."""

_FEW = 4
"""Instructions that are not many."""


def instructions(function: str) -> int:
    """Instructions of arithmetic that a scalar function takes as long as."""
    unit, _ = CYCLES["arithmetic"]
    return round(sum(count * CYCLES[name][0] / unit for name, count in classes(function).items()))


def classes(function: str) -> Mapping[str, int]:
    """Instructions of a scalar function by class."""
    return CLASSES.get(function, {"arithmetic": 1})


def is_expensive(value: Scalar) -> bool:
    """Whether an element takes a function of more than a few instructions."""
    return isinstance(value, Apply) and (instructions(value.function) > _FEW or any(map(is_expensive, value.operands)))
