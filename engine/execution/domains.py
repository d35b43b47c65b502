"""Inputs that must be positive for the roots and logarithms of a graph to be defined, from signs alone.

    sqrt(0.999 v + 0.001 g g) / t    ->    v, the state of an optimiser, drawn positive; g stays as it is
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

import numpy as np

from engine.graph.nodes import Operator, OperatorGraph

ROOTS = frozenset(("Sqrt", "Rsqrt", "Log"))
"""Operators of numbers that are not negative."""
_NEVER_NEGATIVE = frozenset(
    "Abs Exp Relu Sigmoid HardSigmoid Softplus Softmax Sqrt Rsqrt ReduceL1 ReduceL2 ReduceSumSquare".split()
)
_ALL = frozenset("Add Div Sum Mean Min ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd Where Concat".split())
"""Their result is not negative where none of their operands is."""
_FIRST = frozenset(
    "Reshape Transpose Squeeze Unsqueeze Flatten Expand Slice Identity Cast Gather Pad Split Tile Reciprocal CumSum "
    "GlobalAveragePool AveragePool MaxPool".split()
)
"""Theirs is not negative where the first operand is not."""

MOST_FACTORS = 16
"""Of a product of products: what has more is a single factor."""

Need = frozenset[str] | None
"""Inputs that must be positive; None where no input's sign decides."""


def positive_inputs(graph: OperatorGraph, free: Collection[str]) -> frozenset[str]:
    """Those of the `free` inputs that, drawn positive, keep operands of roots and logarithms from being negative."""
    makers = {name: op for op in graph.operators for name in op.outputs if name}
    signs = _Signs(graph, makers, frozenset(free))
    found: set[str] = set()
    for op in graph.operators:
        if op.kind in ROOTS or (op.kind == "Pow" and not _is_whole(graph, op)):
            found.update(signs.need(op.inputs[0]) or ())
    return frozenset(found)


def _is_whole(graph: OperatorGraph, op: Operator) -> bool:
    """Whether the exponent of a power is a known whole number."""
    constant = graph.constants.get(op.inputs[1])
    return constant is not None and constant.value is not None and not np.mod(constant.value, 1).any()


class _Signs:
    """What it takes for tensors not to be negative, each looked at once."""

    def __init__(self, graph: OperatorGraph, makers: Mapping[str, Operator], free: frozenset[str]) -> None:
        self._graph, self._makers, self._free = graph, makers, free
        self._known: dict[str, Need] = {}

    def need(self, name: str) -> Need:
        """What it takes for a tensor.  Chains may be long: no recursion."""
        waiting = [name]
        while waiting:
            one = waiting[-1]
            missing = [n for n in self._parts(one) if n not in self._known] if one not in self._known else []
            if missing:
                waiting.extend(missing)
            else:
                self._known.setdefault(one, self._of(one))
                waiting.pop()
        return self._known[name]

    def _parts(self, name: str) -> tuple[str, ...]:
        """The operands whose signs decide."""
        op = self._makers.get(name)
        if op is None or op.kind in _NEVER_NEGATIVE or _is_square(self._graph, op):
            return ()
        if op.kind == "Mul":
            return self._single_factors(op)
        if op.kind in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", *_FIRST):
            return op.inputs[:1]
        if op.kind == "Where":
            return op.inputs[1:]
        if op.kind == "Pow":
            return op.inputs[:1]
        if op.kind == "Clip":
            return tuple(n for n in op.inputs[:2] if n)  # what is clipped, and the least value
        return tuple(n for n in op.inputs if n) if op.kind in (*_ALL, "Max") else ()

    def _single_factors(self, op: Operator) -> tuple[str, ...]:
        """The factors of a product of products that do not stand there twice: of (0.001 g) g the constant."""
        counted: Counter[str] = Counter()
        waiting = list(op.inputs)
        while waiting:
            name = waiting.pop()
            inner = self._makers.get(name)
            if inner is not None and inner.kind == "Mul" and len(counted) + len(waiting) < MOST_FACTORS:
                waiting.extend(inner.inputs)
            else:
                counted[name] += 1
        return tuple(name for name, times in counted.items() if times % 2)

    def _of(self, name: str) -> Need:
        """What it takes, that of the operands known."""
        op, constant = self._makers.get(name), self._graph.constants.get(name)
        if constant is not None:
            value = constant.value
            return frozenset() if value is not None and (value.size == 0 or value.min() >= 0) else None
        if op is None:
            tensor = self._graph.tensors.get(name)
            return frozenset((name,)) if name in self._free and tensor and "float" in tensor.dtype else None
        if op.kind in _NEVER_NEGATIVE or _is_square(self._graph, op):
            return frozenset()
        parts = [self._known[n] for n in self._parts(name)]
        if op.kind in ("Max", "Clip"):
            found = [part for part in parts if part is not None]
            return min(found, key=len, default=None)
        if any(part is None for part in parts) or not (parts or op.kind == "Mul"):
            return None
        return frozenset().union(*(part for part in parts if part is not None))


def _is_square(graph: OperatorGraph, op: Operator) -> bool:
    """Whether a result is an even power."""
    if op.kind != "Pow":
        return False
    constant = graph.constants.get(op.inputs[1])
    return constant is not None and constant.value is not None and not np.mod(constant.value, 2).any()
