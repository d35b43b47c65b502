"""Lower bounds of a program, whatever its schedule: compulsory bytes and operations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from engine.graph.nodes import DTYPES
from engine.support.values import kept_with
from engine.tensor.nodes import Access, Apply, Literal, Scalar, Statement, TensorProgram, iterators_of
from engine.tensor.shifted_exponentials import Weighted, is_shifted, match_weighted

Box = tuple[tuple[int, int], ...]
"""Lowest and highest index along each axis."""

COSTS: Mapping[str, tuple[int, int]] = {
    "exp": (6, 1), "log": (20, 1), "sqrt": (6, 1), "rsqrt": (2, 1), "reciprocal": (6, 1), "div": (8, 1),
    "tanh": (16, 2), "sigmoid": (14, 2), "erf": (40, 1), "sin": (20, 0), "cos": (20, 0), "atan": (20, 1),
    "pow": (40, 2), "mod": (10, 1), "cast": (0, 0), "copy": (0, 0), "select": (1, 0),
}  # fmt: skip
"""Scalar function -> (operations on CUDA cores, results of special-function units) of its accurate float32 form.
Estimates from the shape of the usual implementations; every function not listed is one operation."""

APPROXIMATE_COSTS: Mapping[str, tuple[int, int]] = {
    "exp": (1, 1), "sqrt": (0, 1), "rsqrt": (0, 1), "reciprocal": (0, 1), "div": (1, 0), "sigmoid": (2, 2),
    "tanh": (5, 2), "erf": (13, 2),
}  # fmt: skip
"""The same of approximations (`include/scalar.cuh`), counted in their text; a quotient without the reciprocal of what
it is divided by, which is computed once for all that share it."""

SLOW_PATHS = frozenset(("div", "sqrt", "reciprocal", "sigmoid", "sin", "cos", "pow", "mod"))
"""Functions whose accurate float32 form jumps aside for rare operands; approximations do not.  The compiler moves no
load past the jump: of 16 loads with one of these between them, one was issued at a time (NVRTC 13.0, sm_80 and sm_90a),
with any other function at least 15 together."""

OF_SHIFT = 3
"""Operations per weight of an online softmax: compare with the running maximum, subtract it, add to the sum."""


@kept_with
def compulsory_bytes(program: TensorProgram) -> tuple[int, int]:
    """(read, written): each input element that is needed once, each output element that is written once, in bytes."""
    reads: dict[str, dict[Box, int]] = {}
    writes: dict[str, dict[Box, int]] = {}
    for statement in program.statements:
        _note(reads, statement.reads(), statement)
        _note(writes, (statement.write,), statement)
    read = sum(_footprint(program, name, reads.get(name, {})) for name in dict.fromkeys(program.inputs))
    written = sum(_footprint(program, name, writes.get(name, {})) for name in dict.fromkeys(program.outputs))
    return read, written


@kept_with
def flop_counts(program: TensorProgram) -> tuple[int, int]:
    """(operations on CUDA cores, special-function results) over whole boxes: guards are not subtracted."""
    flops = special = 0
    costs = {**COSTS, **APPROXIMATE_COSTS} if program.approximates else COSTS
    for statement in program.statements:
        points = statement.points
        term = match_weighted(statement.expression) if is_shifted(statement) else None
        per_point = _cost(statement.expression if term is None else term.factor, costs)
        flops += points * (per_point[0] + _joins(statement, term))
        special += points * per_point[1]
        special += _reciprocals(statement, statement.expression) if program.approximates else 0
        if term is not None:
            weights = math.prod(statement.extents[name] for name in iterators_of(term.exponent))
            of_weight = _cost(Apply("exp", (term.exponent,), "float32"), costs)
            flops, special = flops + weights * (of_weight[0] + OF_SHIFT), special + weights * of_weight[1]
    return flops, special


def flops_of(expression: Scalar) -> int:
    """Operations on CUDA cores of one evaluation."""
    return _cost(expression, COSTS)[0]


def has_slow_path(expression: Scalar, approximates: bool) -> bool:
    """Whether the code of an expression jumps aside for rare operands."""
    if not isinstance(expression, Apply):
        return False
    is_exact = not approximates or expression.function not in APPROXIMATE_COSTS
    if expression.function in SLOW_PATHS and is_exact and "float" in expression.dtype and not _is_scaling(expression):
        return True
    return any(has_slow_path(operand, approximates) for operand in expression.operands)


def _is_scaling(value: Apply) -> bool:
    """Whether a quotient is one by a power of two, for which the compiler multiplies."""
    divisor = value.operands[-1]
    return value.function == "div" and isinstance(divisor, Literal) and abs(math.frexp(divisor.value)[0]) == 0.5


def _joins(statement: Statement, term: Weighted | None) -> int:
    """Operations that combine one value of a reduction with the others; weighted terms need a product too."""
    if statement.reduction is None:
        return 0
    return 1 if term is None else 2 if term.factor is not None else 0


def _reciprocals(statement: Statement, value: Scalar) -> int:
    """Reciprocals for all quotients of an expression: none for a constant, one for all points that share it."""
    if not isinstance(value, Apply):
        return 0
    count = sum(_reciprocals(statement, operand) for operand in value.operands)
    if value.function == "div" and not isinstance(value.operands[1], Literal):
        count += math.prod(statement.extents[name] for name in iterators_of(value.operands[1]))
    return count


def _note(found: dict[str, dict[Box, int]], touched: Iterable[Access], statement: Statement) -> None:
    """Record the box of each access with the most elements that any access of that box can touch."""
    extents = statement.extents
    for access in touched:
        box = tuple(index.bounds(extents) for index in access.indices)
        instances = math.prod(extents[name] for name in _iterators(access))
        boxes = found.setdefault(access.array, {})
        boxes[box] = max(boxes.get(box, 0), min(_volume(box), instances))


def _iterators(access: Access) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for index in access.indices for name in index.iterators()))


def _footprint(program: TensorProgram, name: str, boxes: Mapping[Box, int]) -> int:
    """Bytes of the union of the boxes: no more than their sum, their hull, or the array."""
    if not boxes:
        return 0
    hull = tuple((min(low for low, _ in axis), max(high for _, high in axis)) for axis in zip(*boxes, strict=True))
    array = program.arrays[name]
    return min(sum(boxes.values()), _volume(hull), array.elements) * DTYPES[array.dtype]


def _volume(box: Box) -> int:
    return math.prod(high - low + 1 for low, high in box)


def _cost(expression: Scalar | None, costs: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """Operations and special-function results of one evaluation; none for no expression."""
    if not isinstance(expression, Apply):
        return 0, 0
    flops, special = costs.get(expression.function, (1, 0))
    for operand in expression.operands:
        inner = _cost(operand, costs)
        flops, special = flops + inner[0], special + inner[1]
    return flops, special
