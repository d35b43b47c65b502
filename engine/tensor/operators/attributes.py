"""Attributes of operators with their defaults, and parameters that moved from attributes to inputs over the opsets."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from engine.graph.nodes import Operator
from engine.support.errors import BadInput, Unsupported
from engine.tensor.build import StatementBuilder


def integer(op: Operator, name: str, default: int) -> int:
    """An integer or flag; BadInput where the file has another type there."""
    value = op.attributes.get(name, default)
    if not isinstance(value, int):
        raise BadInput("tensor", f"operator {op.name}", f"attribute {name} is {value!r}, an integer is needed")
    return int(value)


def real(op: Operator, name: str, default: float) -> float:
    """A number; BadInput where the file has another type there."""
    value = op.attributes.get(name, default)
    if not isinstance(value, int | float):
        raise BadInput("tensor", f"operator {op.name}", f"attribute {name} is {value!r}, a number is needed")
    return float(value)


def text(op: Operator, name: str, default: str) -> str:
    """A word; numbers are taken as their text."""
    return str(op.attributes.get(name, default))


def integers(op: Operator, name: str) -> tuple[int, ...] | None:
    """A list of integers (one integer counts as a list of it); None where it is absent."""
    value = op.attributes.get(name)
    if value is None:
        return None
    items = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(item, int) for item in items):
        raise BadInput("tensor", f"operator {op.name}", f"attribute {name} is {value!r}, integers are needed")
    return tuple(int(item) for item in items if isinstance(item, int))


def reals(op: Operator, name: str) -> tuple[float, ...]:
    """A list of numbers, empty where it is absent; BadInput where the file has another type there."""
    value = op.attributes.get(name, ())
    if not isinstance(value, tuple) or not all(isinstance(item, int | float) for item in value):
        raise BadInput("tensor", f"operator {op.name}", f"attribute {name} is {value!r}, numbers are needed")
    return tuple(float(item) for item in value)


def words(op: Operator, name: str) -> tuple[str, ...]:
    """A list of words, empty where it is absent; BadInput where the file has another type there."""
    value = op.attributes.get(name, ())
    if not isinstance(value, tuple) or not all(isinstance(item, str) for item in value):
        raise BadInput("tensor", f"operator {op.name}", f"attribute {name} is {value!r}, words are needed")
    return tuple(str(item) for item in value)


def parameter(op: Operator, build: StatementBuilder, name: str, at: int) -> tuple[int, ...] | None:
    """Integers that are an attribute in older opsets and input `at` in newer ones; None where absent.

    Raises Unsupported when the input is no constant: shapes must not depend on data.
    """
    if name in op.attributes:
        return integers(op, name)
    if len(op.inputs) <= at or not op.inputs[at]:
        return None
    value = build.value(op.inputs[at])
    if value is None:
        reason = f"{name} ({op.inputs[at]}) depends on the data"
        raise Unsupported("tensor", f"operator {op.name}", reason, "constant values are compiled")
    return tuple(int(v) for v in value.reshape(-1))


def parameter_value(op: Operator, operands: list[np.ndarray], name: str, at: int) -> tuple[int, ...] | None:
    """`parameter` for meanings: the same integers from the operands' values."""
    if name in op.attributes:
        return integers(op, name)
    return tuple(int(v) for v in operands[at].reshape(-1)) if present(op, at) else None


def present(op: Operator, at: int) -> bool:
    """Whether the optional input `at` is there."""
    return len(op.inputs) > at and op.inputs[at] != ""


def present_output(op: Operator, at: int) -> bool:
    """Whether somebody asks for the optional output `at`."""
    return len(op.outputs) > at and op.outputs[at] != ""


def axis_of(op: Operator, axis: int, rank: int) -> int:
    """The axis counted from the front; BadInput where it is outside the rank."""
    if not -max(rank, 1) <= axis < max(rank, 1):
        raise BadInput("tensor", f"operator {op.name}", f"axis {axis} of a tensor with {rank} axes")
    return axis % rank if rank else 0


def axes_of(op: Operator, axes: Iterable[int], rank: int) -> tuple[int, ...]:
    """Distinct axes counted from the front, in order."""
    return tuple(sorted({axis_of(op, axis, rank) for axis in axes}))
