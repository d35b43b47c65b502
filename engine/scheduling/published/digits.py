"""Published schedule rows as digits: which part of which axis each dimension counts.

    x in 0 .. 9999:   [1, 0] (/4096)  [1, 0] (%4096, /4)  [1, 0] (%4)
    digits of x:      x / 4096        x / 4 % 1024        x % 4
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.scheduling.published.nodes import Free, Loops, Published, PublishedRow, StatementRows, contradiction
from engine.support.errors import Unsupported
from engine.tensor.nodes import Iterator


@dataclass(frozen=True, slots=True)
class Digit:
    """The values of one schedule dimension: axis / low % size."""

    dimension: int
    axis: int
    low: int
    size: int


def digits_of(published: Published) -> tuple[Digit, ...]:
    """What each dimension counts, the same for every statement.

    Raises BadInput where the dimensions of a statement miss or repeat a part of an axis, Unsupported for rows that
    combine iterators, and where statements would need kernels of their own.
    """
    loops = {one.statement: one for one in published.pattern}
    found = [_digits(wish, loops[wish.statement], published.name) for wish in published.wishes]
    first, sizes = published.wishes[0].statement, _extents(published.pattern[0])
    for wish, digits in zip(published.wishes, found, strict=True):
        if digits != found[0]:
            raise _beyond(published.name, f"{first} and {wish.statement} ask for different dimensions")
    for one in published.pattern:
        if _extents(one) != sizes:
            raise _beyond(published.name, f"{published.pattern[0]} and {one} have different loops")
    return found[0]


def _extents(loops: Loops) -> tuple[int, ...]:
    return tuple(axis.extent for axis in loops.axes)


def _beyond(name: str, reason: str) -> Unsupported:
    hint = "a group is one kernel: advise all its statements alike"
    return Unsupported("schedule", f"advice {name}", reason, hint)


def _digits(wish: StatementRows, loops: Loops, name: str) -> tuple[Digit, ...]:
    """The digits of one statement, with every open coefficient chosen."""
    chosen: dict[int, Digit] = {}
    links = _zero_links(wish.rows)
    fixed = [_fixed_axis(row, f"{wish.statement}, dimension {k}", name) for k, row in enumerate(wish.rows)]
    for number, axis in enumerate(fixed):
        if axis is not None:
            chosen[number] = digit_of(number, wish.rows[number], axis, loops.axes[axis], name)
    for number, row in enumerate(wish.rows):
        if number not in chosen:
            axis = _open_axis(row, links, chosen.values(), loops.axes)
            if axis is None:
                where = f"{wish.statement}, dimension {number}"
                if any(isinstance(c, Free) for c in row.coefficients[:-1]):
                    reason = f"{where}: no open coefficient of {row} can be 1 alone"
                    raise Unsupported("schedule", f"advice {name}", reason, "rows may be sums of iterators")
                raise contradiction(name, f"{where}: no coefficient of {row} can be 1")
            chosen[number] = digit_of(number, row, axis, loops.axes[axis], name)
    digits = tuple(chosen[k] for k in range(len(wish.rows)))
    for number, axis_of in enumerate(loops.axes):
        check_axis([d for d in digits if d.axis == number], axis_of, wish.statement, name)
    return digits


def _fixed_axis(row: PublishedRow, where: str, name: str) -> int | None:
    """The axis whose coefficient is 1; None where all that could be are open."""
    *iterators, constant = row.coefficients
    if isinstance(constant, int) and constant:
        raise Unsupported("schedule", f"advice {name}", f"{where}: shifted by {constant}", "leave the constant open")
    used = [(k, c) for k, c in enumerate(iterators) if isinstance(c, int) and c]
    if not used:
        return None
    if len(used) > 1 or used[0][1] != 1:
        hint = "kernels here take one iterator for each dimension"
        raise Unsupported("schedule", f"advice {name}", f"{where}: {row} combines or scales iterators", hint)
    return used[0][0]


def _zero_links(rows: Iterable[PublishedRow]) -> dict[int, int]:
    """Links that must be 0: those of constants, and of iterators beside a fixed one."""
    links: dict[int, int] = {}
    for row in rows:
        *iterators, constant = row.coefficients
        beside = iterators if any(isinstance(c, int) and c for c in iterators) else []
        links |= {c.link: 0 for c in (*beside, constant) if isinstance(c, Free) and c.link is not None}
    return links


def _open_axis(
    row: PublishedRow, links: dict[int, int], chosen: Iterable[Digit], axes: Sequence[Iterator]
) -> int | None:
    """The axis of an open row: one that a link already gives, else the first that is not yet counted in full.

    Links of the row get their values.
    """
    covered = dict.fromkeys(range(len(axes)), 1)
    for digit in chosen:
        covered[digit.axis] *= digit.size
    open_ones = [(k, c) for k, c in enumerate(row.coefficients[:-1]) if isinstance(c, Free)]
    linked = [k for k, c in open_ones if c.link is not None and links.get(c.link) == 1]
    possible = [k for k, c in open_ones if c.link is None or links.get(c.link, 1)]
    if len(linked) > 1 or not possible:
        return None
    axis = linked[0] if linked else min(possible, key=lambda k: (covered[k] >= axes[k].extent, k))
    for k, c in open_ones:
        if c.link is not None and links.setdefault(c.link, int(k == axis)) != int(k == axis):
            return None
    return axis


def digit_of(dimension: int, row: PublishedRow, axis: int, of: Iterator, name: str) -> Digit:
    """What a row counts of one axis, by its divisions and remainders.  Unsupported for remainders that cut a part.

    dimension: the row's number.  of: the axis as an iterator.  name: the advice's, for messages.
    """
    low, size, cut = 1, of.extent, False
    for sign, number in row.operations:
        if sign == "/":
            low, size = low * number, -(-size // number)
        elif cut and size % number and number < size:
            reason = f"dimension {dimension}: {row} takes the remainder by {number} of one by {size}"
            raise Unsupported("schedule", f"advice {name}", reason, "take remainders by divisors")
        elif number < size:
            size, cut = number, True
    return Digit(dimension, axis, low, size)


def check_axis(digits: Sequence[Digit], axis: Iterator, statement: str, name: str) -> None:
    """The digits must count every value of the axis exactly once."""
    reached = 1
    for digit in sorted(digits, key=lambda d: (d.low, d.size)):
        if digit.size == 1:
            continue
        if digit.low != reached:
            what = "is skipped" if digit.low > reached else "is counted twice"
            where = f"below dimension {digit.dimension} ({axis.name} / {digit.low} % {digit.size})"
            reason = f"{statement}: {where} a part of {axis.name} {what}"
            raise contradiction(name, reason, f"the dimensions inside it count {axis.name} up to {reached}")
        reached = digit.low * digit.size
    if reached < axis.extent:
        reason = f"{statement}: its dimensions count {axis.name} up to {reached}, its pattern has {axis.extent}"
        raise contradiction(name, reason)
