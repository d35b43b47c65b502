"""Lower operators that differ in names alone once; most of a model is repeated layers."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np

from engine.graph.nodes import Operator
from engine.tensor.build import StatementBuilder
from engine.tensor.nodes import Statement
from engine.tensor.rewrite import rename_statement


@dataclass(frozen=True, slots=True)
class _Lowered:
    """The statements of one lowered operator, to be copied under other names."""

    tensors: tuple[str, ...]
    """Those of the operator in order of appearance."""
    temporaries: tuple[tuple[str, str, str], ...]
    """What it declared in between: (name, owner, suffix)."""
    statements: tuple[Statement, ...]


class Repeats:
    """Lowers operators; equal ones by renaming the first one's statements."""

    def __init__(self, build: StatementBuilder) -> None:
        self._build = build
        self._made: dict[Hashable, _Lowered] = {}
        self._types: dict[Hashable, int] = {}
        self._type_of: dict[str, int] = {}

    def again(self, op: Operator) -> bool:
        """Lower an operator by renaming an equal one's statements; False if there was none."""
        tensors = tuple(dict.fromkeys((*op.inputs, *op.outputs)))
        first = self._made.get(self._likeness(op, tensors))
        if first is None:
            return False
        names = dict(zip(first.tensors, tensors, strict=True))
        for name, owner, suffix in first.temporaries:
            array = self._build.arrays[name]
            names[name] = self._build.temporary(names[owner], suffix, array.shape, array.dtype)
        statements = self._build.statements
        for statement in first.statements:
            statements.append(rename_statement(statement, f"S{len(statements)}", op.name, names))
        return True

    def lower(self, op: Operator, rule: Callable[[Operator, StatementBuilder], None]) -> None:
        """Lower an operator by its rule, and remember it if others can be equal."""
        build, start = self._build, len(self._build.statements)
        build.operator(op, rule)
        if not build.is_particular:
            tensors = tuple(dict.fromkeys((*op.inputs, *op.outputs)))
            made = _Lowered(tensors, tuple(build.temporaries), tuple(build.statements[start:]))
            self._made[self._likeness(op, tensors)] = made

    def _likeness(self, op: Operator, tensors: tuple[str, ...]) -> Hashable:
        """A key that is equal for operators that differ in names alone; known constant values are part of it."""
        if any(isinstance(value, np.ndarray) for value in op.attributes.values()):
            return op.name
        operands = (*op.inputs, *op.outputs)
        uses = tuple(map(tensors.index, operands)) if len(tensors) < len(operands) else None
        attributes = tuple([(name, repr(value)) for name, value in op.attributes.items()])
        types = tuple([self._type(name) for name in tensors])
        return op.dialect, op.kind, op.opset, attributes, len(op.inputs), uses, types

    def _type(self, tensor: str) -> int:
        """A number that stands for a tensor's shape, element type and known values; -1 for a missing operand."""
        if not tensor:
            return -1
        known = self._type_of.get(tensor)
        if known is None:
            array = self._build.arrays.get(tensor)  # what has no rule may have results of no known shape
            # Products of dequantised numbers are lowered in another way.
            producer = self._build.producer(tensor)
            is_dequantised = producer is not None and producer.kind == "DequantizeLinear"
            key = self._build.constant_key(tensor)
            facts = (array.shape, array.dtype, key, is_dequantised) if array else None
            known = self._type_of[tensor] = self._types.setdefault(facts, len(self._types))
        return known
