"""Published advice as recipe entries of the user: loop order, elements of a block, threads and vector width.

    [1, 0, ?] -> grid, [0, 1, ?] (/4) -> threads, [0, 1, ?] (%4) -> vector,   over 4096 x 3072
      all @ i: mark block 1            one row a block, 4096 blocks
      all @ innermost: mark thread 768
      all @ innermost: mark vector 4
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from engine.errors import Unsupported
from engine.fuse.nodes import FusionGroup
from engine.recipe import Advice, Entry, Scenario, entry
from engine.schedule.published.digits import Digit, digits_of
from engine.schedule.published.match import Runs, match
from engine.schedule.published.nodes import Axis, Published
from engine.tensor.nodes import Iterator

FLAGS_LEFT_OUT = " (without {})"
"""Ends the label of advice whose compiler flags our kernels are compiled without."""


def translate(published: Published, group: FusionGroup) -> tuple[Advice, ...]:
    """The advice of a file for a group, as the user's.

    Raises BadInput for advice of another operator or that contradicts itself, Unsupported for an order of elements that
    no kernel here has.
    """
    runs = match(published, group)
    digits = _in_order(published, digits_of(published))
    axes = published.pattern[0].axes
    order = tuple(dict.fromkeys(d.axis for d in digits))
    order += tuple(k for k in range(len(axes)) if k not in order)
    iterators = tuple(i for axis in order for i in runs[axis])
    entries = _pins(published.name, iterators) if _is_permuted(order, runs) else []
    entries += _marks(published, digits, axes, iterators)
    left_out = FLAGS_LEFT_OUT.format(", ".join(published.flags)) if published.flags else ""
    return (Advice("user", Scenario(tuple(entries), label=published.name + left_out)),)


def _in_order(published: Published, digits: Sequence[Digit]) -> tuple[Digit, ...]:
    """The digits as a kernel counts its elements: grid, loops of a thread, threads, vector.

    Kernels here count the elements of the axes, in some order, one after the other; Unsupported for other ways.
    """
    ranks = [published.blocks, (), published.threads, published.vectors]

    def rank(digit: Digit) -> tuple[int, int]:
        return next((k for k, dimensions in enumerate(ranks) if digit.dimension in dimensions), 1), digit.dimension

    ordered = tuple(sorted((d for d in digits if d.size > 1), key=rank))
    axes = published.pattern[0].axes
    seen: list[Digit] = []
    for digit in ordered:
        before = [d for d in seen if d.axis == digit.axis]
        if before and (seen[-1].axis != digit.axis or before[-1].low < digit.low):
            inner, outer = f"dimension {digit.dimension}", f"dimension {before[-1].dimension}"
            raise _unsupported(published, f"{inner} goes on with {axes[digit.axis].name} of {outer}, out of turn")
        seen.append(digit)
    for axis in dict.fromkeys(d.axis for d in ordered[1:] if d.axis != ordered[0].axis):
        counted = math.prod(d.size for d in ordered if d.axis == axis)
        if counted != axes[axis].extent:
            reason = f"{axes[axis].name} has {axes[axis].extent} values and is counted up to {counted}"
            raise _unsupported(published, f"{reason}, which only the outermost may")
    return ordered


def _unsupported(published: Published, reason: str) -> Unsupported:
    hint = "one axis after the other, in the order grid, loops, threads, vector"
    return Unsupported("schedule", f"advice {published.name}", reason, hint)


def _is_permuted(order: Sequence[int], runs: Runs) -> bool:
    real = [axis for axis in order if runs[axis]]
    return real != sorted(real)


def _pins(name: str, iterators: Sequence[Iterator]) -> list[Entry]:
    """The loop order; the last loop follows from the others."""
    entries = [_said(name, f"{iterators[0].name} comes first", pin=iterators[0].name, at="outermost")]
    for outer, inner in pairwise(iterators[:-1]):
        reason = f"{inner.name} comes after {outer.name}"
        entries.append(_said(name, reason, pin=inner.name, at=f"after {outer.name}"))
    return entries


def _marks(
    published: Published, digits: Sequence[Digit], axes: Sequence[Axis], iterators: Sequence[Iterator]
) -> list[Entry]:
    """What a block takes, its threads, and the width of a thread's accesses."""

    def product(dimensions: Sequence[int]) -> int:
        return math.prod(d.size for d in digits if d.dimension in dimensions)

    name = published.name
    entries: list[Entry] = []
    if published.blocks:
        blocks = product(published.blocks)
        elements = math.prod(d.size for d in digits if d.dimension not in published.blocks)
        if blocks != -(-published.pattern[0].points // elements):
            raise _unsupported(published, f"some of the {blocks} blocks have nothing to do")
        values, dimension = _block(elements, iterators)
        reason = f"{blocks} block{'s' if blocks > 1 else ''}, of {elements} elements each"
        entries.append(_said(name, reason, mark=("block", values), at=dimension))
    if published.threads:
        threads = product(published.threads)
        reason = f"{threads} thread{'s' if threads > 1 else ''} of a block"
        entries.append(_said(name, reason, mark=("thread", threads), at="innermost"))
    if published.vectors:
        width = product(published.vectors)
        entries.append(_said(name, f"accesses of {width} elements", mark=("vector", width), at="innermost"))
    return entries


def _block(elements: int, iterators: Sequence[Iterator]) -> tuple[int, str]:
    """(values, iterator): so many neighbouring values of the outermost iterator that divides the elements evenly."""
    position = len(iterators) - 1
    while position > 0 and elements % iterators[position].extent == 0:
        elements //= iterators[position].extent
        position -= 1
    return elements, iterators[position].name if iterators else ""


def _said(
    name: str, reason: str, *, at: str, pin: str | None = None, mark: tuple[str, int | str] | None = None
) -> Entry:
    return entry(pin=pin, mark=mark, at=at, because=f"published advice {name}: {reason}")
