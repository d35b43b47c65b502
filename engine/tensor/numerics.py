"""How numbers are rounded: what `Recipe.numerics` says, and a plan by default.

"tensor_cores": "tf32" lets contractions of float32 round their operands.  "arithmetic": "opmath" computes in float32
between what a kernel loads and what it stores, and approximates functions where all results have 16 bits or fewer;
"faithful", as is said by saying nothing, rounds behind every operator of the graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from engine.tensor.nodes import TensorProgram
from engine.tensor.terms import HALVES, NARROW

ARITHMETIC, FAITHFUL, OPMATH = "arithmetic", "faithful", "opmath"


def default_numerics(program: TensorProgram) -> dict[str, str]:
    """The default for a graph's program: `opmath` where any array has 16-bit floats, as XLA and Inductor compute."""
    return {ARITHMETIC: OPMATH} if has_halves(program) else {}


def has_halves(program: TensorProgram) -> bool:
    """Whether a program has 16-bit floats, which the two arithmetics round at other places."""
    return any(array.dtype in HALVES for array in program.arrays.values())


def is_opmath(numerics: Mapping[str, str]) -> bool:
    """Whether 16-bit floats are rounded where they are stored alone."""
    return numerics.get(ARITHMETIC) == OPMATH


def with_arithmetic(program: TensorProgram, numerics: Mapping[str, str]) -> TensorProgram:
    """The program of a group with word of whether its kernel approximates functions."""
    stored = {program.arrays[name].dtype for name in program.outputs}
    floats = {dtype for dtype in stored if "float" in dtype}
    approximates = is_opmath(numerics) and bool(floats) and floats <= set(NARROW)
    return program if program.approximates == approximates else replace(program, approximates=approximates)
