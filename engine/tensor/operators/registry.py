"""The operator registry: each operator's lowering and its NumPy semantics (ONNX's own where there are any)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from engine.graph.nodes import Operator
from engine.tensor.build import StatementBuilder
from engine.tensor.operators.standard import standard

Lowering = Callable[[Operator, StatementBuilder], None]
Meaning = Callable[[Operator, list[np.ndarray]], Sequence[np.ndarray]]
"""Operands in, results out; an absent optional operand is an empty array of shape (0,).

Computed in the operands' own precision: in float64 it is the reference that kernels of AKG files are checked against.
"""


@dataclass(frozen=True, slots=True)
class OperatorRule:
    """One operator: `lower` raises Unsupported for a form that statements cannot express."""

    lower: Lowering
    meaning: Meaning


RULES: dict[str, OperatorRule] = {}
"""By dialect and operator, "onnx.MatMul" or "akg.MatMul"."""


def operator(*names: str, meaning: Meaning = standard) -> Callable[[Lowering], Lowering]:
    """Enter a lowering into the table under each name ("onnx.Softmax").

    meaning: for AKG's operators, and for those whose forms the standard's own implementation lacks or gets wrong.
    """

    def enter(lower: Lowering) -> Lowering:
        for name in names:
            assert name not in RULES, f"{name} has two rules"
            assert meaning is not standard or name.startswith("onnx."), f"{name} is no operator of the standard"
            RULES[name] = OperatorRule(lower, meaning)
        return lower

    return enter


def rule_of(op: Operator) -> OperatorRule | None:
    """The entry of an operator, None where there is none."""
    return RULES.get(f"{op.dialect}.{op.kind}")
