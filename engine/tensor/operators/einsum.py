"""Einsum: sums of products of any number of operands, two at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import mul

from engine.graph.nodes import Operator
from engine.support.errors import BadInput
from engine.tensor.build import StatementBuilder, accumulator, box
from engine.tensor.index import Index
from engine.tensor.operators.attributes import text
from engine.tensor.operators.registry import operator
from engine.tensor.terms import cast

Labels = tuple[str, ...]
"""One label for each axis; those of an ellipsis are numbers from the last axis backwards."""


@dataclass(frozen=True, slots=True)
class Equation:
    """An equation with its ellipses written out."""

    operands: tuple[Labels, ...]
    result: Labels
    sizes: Mapping[str, int]


def equation_of(op: Operator, shapes: Sequence[Sequence[int]]) -> Equation:
    """Read the equation for operands of these shapes; BadInput where they do not fit."""
    left, arrow, right = text(op, "equation", "").replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(shapes):
        raise BadInput("tensor", f"operator {op.name}", f"its equation is for {len(parts)} operands, not {len(shapes)}")
    operands = tuple(_labels(op, part, len(shape)) for part, shape in zip(parts, shapes, strict=True))
    sizes: dict[str, int] = {}
    for labels, shape in zip(operands, shapes, strict=True):
        for label, size in zip(labels, shape, strict=True):
            if sizes.setdefault(label, size) != size and 1 not in (size, sizes[label]):
                reason = f"{label} is {sizes[label]} in one operand and {size} in another"
                raise BadInput("tensor", f"operator {op.name}", reason)
            sizes[label] = max(size, sizes[label])
    free = sorted((label for label in sizes if label.isdigit()), key=int, reverse=True)
    if arrow:
        before, dots, behind = right.partition("...")
        strange = next((label for label in before + behind if label not in sizes or right.count(label) > 1), "")
        if strange:
            reason = f"its result has the axis {strange}, which is no axis of an operand, or has it twice"
            raise BadInput("tensor", f"operator {op.name}", reason)
        return Equation(operands, (*before, *(free if dots else ()), *behind), sizes)
    once = sorted(label for label in sizes if not label.isdigit() and left.count(label) == 1)
    return Equation(operands, (*free, *once), sizes)


def _labels(op: Operator, part: str, rank: int) -> Labels:
    before, dots, behind = part.partition("...")
    hidden = rank - len(before) - len(behind)
    if hidden < 0 or (hidden and not dots):
        raise BadInput("tensor", f"operator {op.name}", f"{part} does not name the {rank} axes of its operand")
    if not all(label.isascii() and label.isalpha() for label in (*before, *behind)):
        raise BadInput("tensor", f"operator {op.name}", f"{part}: axes are named by letters")
    return (*before, *(str(at) for at in reversed(range(hidden))), *behind)


@operator("onnx.Einsum")
def einsum(op: Operator, build: StatementBuilder) -> None:
    """From left to right; what no later operand and no result needs is summed as early as possible."""
    equation = equation_of(op, [build.shape(name) for name in op.inputs])
    pending = list(zip(op.inputs, equation.operands, strict=True))
    while len(pending) > 2:
        needed = set(equation.result).union(*(labels for _, labels in pending[2:]))
        kept = tuple(dict.fromkeys(label for _, labels in pending[:2] for label in labels if label in needed))
        shape = [equation.sizes[label] for label in kept]
        part = build.temporary(op.outputs[0], "part", shape, accumulator("sum", build.dtype(op.inputs[0])))
        _product(build, part, kept, pending[:2], equation.sizes)
        pending = [(part, kept), *pending[2:]]
    _product(build, op.outputs[0], equation.result, pending, equation.sizes)


def _product(
    build: StatementBuilder,
    target: str,
    result: Labels,
    operands: Sequence[tuple[str, Labels]],
    sizes: Mapping[str, int],
) -> None:
    """Append the product of one or two operands, summed over the labels that the result lacks."""
    named = dict.fromkeys(label for _, labels in operands for label in labels)
    summed = [label for label in named if label not in result]
    space = box([sizes[label] for label in result], [sizes[label] for label in summed])
    where = dict(zip((*result, *summed), space.point, strict=True))
    kind = accumulator("sum", build.dtype(operands[0][0]))
    factors = []
    for name, labels in operands:
        axes = zip(labels, build.shape(name), strict=True)
        factors.append(cast(build.read(name, [where[label] if size > 1 else Index() for label, size in axes]), kind))
    value = reduce(mul, factors)
    build.emit(target, space, value, reduction="sum" if summed else "", because="sum of products")
