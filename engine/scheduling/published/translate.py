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

from engine.fusion.nodes import FusionGroup
from engine.recipe import Advice, Entry, Scenario, entry
from engine.scheduling.published.digits import Digit, digits_of
from engine.scheduling.published.match import Runs, match
from engine.scheduling.published.nodes import Published
from engine.support.errors import Unsupported
from engine.tensor.nodes import Iterator

FLAGS_LEFT_OUT = " (without {})"
"""Ends the label of advice whose compiler flags our kernels are compiled without."""


def translate(published: Published, group: FusionGroup) -> tuple[Advice, ...]:
    """The advice of a file for a group, as the user's.

    Raises BadInput for advice of another operator or that contradicts itself, Unsupported for an order of elements that
    no kernel here has.
    """
    runs = match(published, group)
    digits = digits_of(published)
    strip = _strip(published, digits)
    walked = _in_order(published, digits, strip)
    axes = published.pattern[0].axes
    order = tuple(dict.fromkeys(d.axis for d in walked))
    order += tuple(k for k in range(len(axes)) if k not in order)
    iterators = tuple(i for axis in order for i in runs[axis])
    entries = _pins(published.name, iterators) if _is_permuted(order, runs) else []
    owner = runs[strip.axis][-1] if strip else None
    if strip and owner:
        if owner.extent % strip.size:
            raise _refusal(published, f"{strip.size} values of {owner.name} do not divide its {owner.extent}")
        reason = f"dimension {strip.dimension} is inside the threads' loops: a thread owns its {strip.size} values"
        entries.append(_published_entry(published.name, reason, split=strip.size, at=owner.name))
    entries += _marks(published, digits, axes, iterators, owner.name if owner else "innermost")
    left_out = FLAGS_LEFT_OUT.format(", ".join(published.flags)) if published.flags else ""
    return (Advice("user", Scenario(tuple(entries), label=published.name + left_out)),)


def _strip(published: Published, digits: Sequence[Digit]) -> Digit | None:
    """The vector's dimension where the rest of its axis stands further out, loops of other axes between: a strip."""
    ordered = _sort_by_role(published, digits)
    vector = [d for d in ordered if d.dimension in published.vectors]
    before = [d for d in ordered if d not in vector]
    if len(vector) != 1 or vector[0].low != 1 or not before or before[-1].axis == vector[0].axis:
        return None
    return vector[0] if any(d.axis == vector[0].axis for d in before) else None


def _sort_by_role(published: Published, digits: Sequence[Digit]) -> tuple[Digit, ...]:
    """The digits that count anything: grid, loops of a thread, threads, vector."""
    ranks = [published.blocks, (), published.threads, published.vectors]

    def rank(digit: Digit) -> tuple[int, int]:
        return next((k for k, dimensions in enumerate(ranks) if digit.dimension in dimensions), 1), digit.dimension

    return tuple(sorted((d for d in digits if d.size > 1), key=rank))


def _in_order(published: Published, digits: Sequence[Digit], strip: Digit | None) -> tuple[Digit, ...]:
    """The digits as a kernel counts its elements, but for a strip, which each thread counts for itself.

    Kernels here count the elements of the axes, in some order, one after the other; Unsupported for other ways.
    """
    ordered = tuple(d for d in _sort_by_role(published, digits) if d != strip)
    axes = published.pattern[0].axes
    seen: list[Digit] = []
    for digit in ordered:
        before = [d for d in seen if d.axis == digit.axis]
        if before and (seen[-1].axis != digit.axis or before[-1].low < digit.low):
            inner, outer = f"dimension {digit.dimension}", f"dimension {before[-1].dimension}"
            raise _refusal(published, f"{inner} goes on with {axes[digit.axis].name} of {outer}, out of turn")
        seen.append(digit)
    for axis in dict.fromkeys(d.axis for d in ordered[1:] if d.axis != ordered[0].axis):
        counted = math.prod(d.size for d in (*ordered, strip) if d and d.axis == axis)
        if counted != axes[axis].extent:
            reason = f"{axes[axis].name} has {axes[axis].extent} values and is counted up to {counted}"
            raise _refusal(published, f"{reason}, which only the outermost may")
    return ordered


def _refusal(published: Published, reason: str) -> Unsupported:
    hint = "one axis after the other, in the order grid, loops, threads, vector"
    return Unsupported("schedule", f"advice {published.name}", reason, hint)


def _is_permuted(order: Sequence[int], runs: Runs) -> bool:
    real = [axis for axis in order if runs[axis]]
    return real != sorted(real)


def _pins(name: str, iterators: Sequence[Iterator]) -> list[Entry]:
    """The loop order; the last loop follows from the others."""
    entries = [_published_entry(name, f"{iterators[0].name} comes first", pin=iterators[0].name, at="outermost")]
    for outer, inner in pairwise(iterators[:-1]):
        reason = f"{inner.name} comes after {outer.name}"
        entries.append(_published_entry(name, reason, pin=inner.name, at=f"after {outer.name}"))
    return entries


def _marks(
    published: Published, digits: Sequence[Digit], axes: Sequence[Iterator], iterators: Sequence[Iterator], along: str
) -> list[Entry]:
    """What a block takes, its threads, and the width of a thread's accesses, which run along a dimension."""

    def product(dimensions: Sequence[int]) -> int:
        return math.prod(d.size for d in digits if d.dimension in dimensions)

    name = published.name
    entries: list[Entry] = []
    if published.blocks:
        blocks = product(published.blocks)
        elements = math.prod(d.size for d in digits if d.dimension not in published.blocks)
        if blocks != -(-published.pattern[0].points // elements):
            raise _refusal(published, f"some of the {blocks} blocks have nothing to do")
        values, dimension = _block(elements, iterators)
        reason = f"{blocks} block{'s' if blocks > 1 else ''}, of {elements} elements each"
        entries.append(_published_entry(name, reason, mark=("block", values), at=dimension))
    if published.threads:
        threads = product(published.threads)
        reason = f"{threads} thread{'s' if threads > 1 else ''} of a block"
        entries.append(_published_entry(name, reason, mark=("thread", threads), at="innermost"))
    if published.vectors:
        width = product(published.vectors)
        entries.append(_published_entry(name, f"accesses of {width} elements", mark=("vector", width), at=along))
    return entries


def _block(elements: int, iterators: Sequence[Iterator]) -> tuple[int, str]:
    """(values, iterator): so many neighbouring values of the outermost iterator that divides the elements evenly."""
    position = len(iterators) - 1
    while position > 0 and elements % iterators[position].extent == 0:
        elements //= iterators[position].extent
        position -= 1
    return elements, iterators[position].name if iterators else ""


def _published_entry(
    name: str, reason: str, *, at: str, pin: str | None = None, mark: tuple[str, int | str] | None = None,
    split: int | None = None,
) -> Entry:  # fmt: skip
    return entry(pin=pin, mark=mark, split=split, at=at, because=f"published advice {name}: {reason}")
