"""What the mask of an attention leaves out for sure: keys behind a diagonal, as in text that may not look ahead.

    x[i,j] = s[i,j] + select(j <= i + d, 0, -inf)        keys j > i + d weigh exp(-inf - m) = 0

With the lowest finite number in place of -inf they weigh 0 as well once m is the score of any key that counts, because
exp underflows for all differences below -104: every row must have such a key, and no other mask may take it away.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from engine.kernels.attention.nest import AttentionNest
from engine.tensor.nodes import Access, Apply, Literal, Position, Scalar, TensorProgram
from engine.tensor.rewrite import plain_iterator

LOWEST = {"float16": -65504.0, "bfloat16": -1e38, "float32": -1e38}
"""Finite numbers from which down a mask means that a key does not count."""


def diagonal(nest: AttentionNest, program: TensorProgram) -> int | None:
    """The d for which keys behind query + d weigh nothing in any row; None where the graph does not say so."""
    if len(nest.queries) != 1:
        return None
    conditions = [c for s in nest.chain for c in _conditions(s.expression, *_names(nest, s.name))]
    if len(set(conditions)) != 1:
        return None
    behind: dict[str, float | bool | None] = {}
    for statement in nest.chain:
        names = _names(nest, statement.name)
        behind[statement.write.array] = _value(statement.expression, behind, *names)
    last = nest.chain[-1].write.array
    value, (shift,) = behind[last], set(conditions)
    if value == -math.inf:
        return shift
    is_low = isinstance(value, float) and value <= LOWEST.get(program.arrays[last].dtype, -math.inf)
    own = {nest.scores.write.array, *(s.write.array for s in nest.chain)}
    is_only_mask = all(a.array in own for s in nest.chain for a in s.reads())
    return shift if is_low and is_only_mask and shift >= 0 else None


def _names(nest: AttentionNest, statement: str) -> tuple[str | None, str | None]:
    """The iterators of a statement that are the query and the key."""
    return plain_iterator(nest.queries[0].rows[statement]), plain_iterator(nest.key.rows[statement])


def _conditions(value: Scalar, query: str | None, key: str | None) -> Iterator[int]:
    """The d of every condition key <= query + d inside an expression."""
    if isinstance(value, Apply):
        shift = _shift(value, query, key)
        if shift is not None:
            yield shift
        for operand in value.operands:
            yield from _conditions(operand, query, key)


def _shift(value: Apply, query: str | None, key: str | None) -> int | None:
    """The d of a condition key <= query + d; None for every other value."""
    match value:
        case Apply("less_equal", (Position(column, _), Position(row, _)), _):
            shift = row.constant - column.constant
            is_own = plain_iterator(column - column.constant) == key and plain_iterator(row - row.constant) == query
            return shift if is_own and key is not None and query is not None else None
        case _:
            return None


def _value(
    value: Scalar, known: Mapping[str, float | bool | None], query: str | None, key: str | None
) -> float | bool | None:
    """What an expression is behind the diagonal, other operands of a sum being finite; None where that is not known."""
    match value:
        case Literal(number, _):
            return number
        case Access(array):
            return known.get(array)
        case Apply() if _shift(value, query, key) is not None:
            return False
        case Apply("cast", (operand,), _):
            return _value(operand, known, query, key)
        case Apply(function, operands, dtype):
            return _result(function, [_value(operand, known, query, key) for operand in operands], dtype)
        case _:
            return None


def _result(function: str, operands: list[float | bool | None], dtype: str) -> float | bool | None:
    """A function of what is known: a sum with what does not count does not count, a choice is that of its condition."""
    match function:
        case "select" if operands[0] is not None:
            return operands[1] if operands[0] else operands[2]
        case "and" if False in operands:
            return False
        case "add":
            lowest = LOWEST.get(dtype, -math.inf)
            return next((o for o in operands if isinstance(o, float) and o <= lowest), None)
        case _:
            return None
