"""Register pressure estimate: the most values alive at once while a thread computes one element of every statement.

    a = exp x;  b = tanh x;  c = a + b;  y = c * a        a, b and c are alive when c is made: three registers

An estimate: the compiler moves instructions, though seldom far, and values of 8 bytes, which are rare, count once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from engine.target.registers import VALUE_REGISTERS
from engine.tensor.nodes import Statement


@dataclass(frozen=True, slots=True)
class Alive:
    """The point of highest register pressure."""

    values: int
    operator: str
    """The operator that makes the last of them."""


def most_alive(statements: Sequence[Statement], elsewhere: Collection[str] = ()) -> Alive:
    """The highest number of live values, with statements in their order.

    elsewhere: arrays that threads find in memory when they need them, as they do the inputs.
    """
    last = {a.array: n for n, s in enumerate(statements) for a in s.reads()}
    ending: dict[int, list[str]] = {}
    alive: set[str] = set()
    peak = Alive(0, "")
    for n, statement in enumerate(statements):
        array = statement.write.array
        if array not in elsewhere:
            alive.add(array)
            ending.setdefault(max(n, last.get(array, n)), []).append(array)
        if len(alive) > peak.values:
            peak = Alive(len(alive), statement.operator)
        alive.difference_update(ending.pop(n, ()))
    return peak


def lanes_alive(statements: Sequence[Statement], loaded: int, width: int) -> int:
    """The largest power of two up to `width` of elements that a thread can compute at once.

    loaded: vectors that are read before the first of them is computed.
    """
    if width * (len(statements) + loaded) <= VALUE_REGISTERS:
        return width
    values = max(loaded, most_alive(statements).values)
    while width > 1 and width * values > VALUE_REGISTERS:
        width //= 2
    return width


def overwritten_before(loops: Sequence[tuple[Sequence[Statement], bool]], updated: Collection[str]) -> frozenset[str]:
    """Arrays that a later loop needs but cannot recompute, because their inputs were overwritten in between.

        x = x - max x;  s = sum x        the new x: the second loop finds no old one to make it from

    loops: statements in order, and whether they walk a row; other values are single ones, which no loop makes again.
    updated: arrays that are overwritten after they were read.
    """
    written = {s.write.array: n for n, (statements, _) in enumerate(loops) for s in statements}
    first = {array: written[array] for array in updated if array in written}
    """Array -> the loop in which what it is made of is overwritten first."""
    new: dict[str, int] = {}
    found: set[str] = set()
    for number, (statements, walks) in enumerate(loops):
        for statement in statements:
            found.update(a for a in statement.sources if min(first.get(a, number), new.get(a, number)) < number)
            behind = [first[array] for array in statement.sources if array in first]
            array, remade = statement.write.array, walks and statement.reduction is None
            if array in first:
                del first[array]
                if behind and remade:
                    new[array] = number
            elif behind and remade:
                first[array] = min(behind)
    return frozenset(found)
