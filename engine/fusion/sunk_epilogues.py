"""Sink the last element-wise values of a product's kernel into the one kernel that reads them, where that is faster.

    [y = x w + r;  f = float32(y);  q = f f]  [m = sum q;  z = f m]     ->     [y = x w + r]  [f;  q;  m;  z]

A product's epilogue takes in all element-wise operators that follow, before it is known who reads them.  A cast or a
square costs a reduction less than the bytes of its result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from engine.fusion.group_times import Group, Saving
from engine.fusion.legality import KernelLegality
from engine.fusion.partition import Partition
from engine.fusion.stitching.nodes import Fixed
from engine.tensor.nodes import Statement
from engine.tensor.rewrite import is_plain


@dataclass(frozen=True, slots=True)
class _Ending:
    """Where a product's kernel may end: what it keeps, and the reading kernel with the rest before it."""

    kept: tuple[Statement, ...]
    reading: tuple[Statement, ...]
    bytes: int
    """That both kernels must move."""


def with_sunk_epilogues(partition: Partition, fixed: Fixed) -> Partition:
    """The partition with the last element-wise values of products in the kernels that alone read them, where bytes and
    time of both are less by the estimate; their boundary says so.  fixed: a person's groups stay as they are."""
    sinking = _Sinking(partition, fixed)
    for product, reader in sinking.neighbours():
        sinking.try_to_sink(product, reader)
    return sinking.partition()


class _Sinking:
    """The groups of a partition, some of which hand values to others."""

    def __init__(self, partition: Partition, fixed: Fixed) -> None:
        self._before, self._fixed = partition, fixed
        self._groups = list(partition.groups)
        self._refusals, self._spent = dict(partition.refusals), dict(partition.spent)

    def partition(self) -> Partition:
        """The groups as they are now; their order stays."""
        return replace(self._before, groups=tuple(self._groups), refusals=self._refusals, spent=self._spent)

    def neighbours(self) -> Iterator[tuple[int, int]]:
        """Places of groups with tiles of a product, each with those of groups without one that read its results."""
        readers: dict[str, list[int]] = {}
        for n, (statements, shape) in enumerate(self._groups):
            if not shape.kind.is_product:
                for array in dict.fromkeys(array for s in statements for array in s.sources):
                    readers.setdefault(array, []).append(n)
        for n, (statements, shape) in enumerate(self._before.groups):
            if shape.kind.is_product:
                places = {reader for s in statements for reader in readers.get(s.write.array, ())}
                yield from ((n, reader) for reader in sorted(places))

    def try_to_sink(self, product: int, reader: int) -> None:
        """Move values from one group to another, as many as leave the fewest bytes, where the estimate gains."""
        before = [self._groups[product], self._groups[reader]]
        last = self._last_values(before[0][0], before[1][0])
        if not last:
            return
        first, *others = (self._ending(before, last[:n]) for n in range(len(last) + 1))
        best = min(others, key=lambda one: one.bytes)
        if best.bytes >= first.bytes or self._is_held(best):
            return
        fits = KernelLegality(self._before.program.arrays, self._before.times.target)
        after: list[Group] = []
        for statements, (_, shape) in zip((best.kept, best.reading), before, strict=True):
            found = fits(statements, self._before.program.needed_outside(statements))
            if isinstance(found, str) or found.shape.kind != shape.kind:
                return
            after.append((statements, found.shape))
        if (saving := self._saving(before, after)).pays:
            self._replace((product, reader), before, after)
            moved = {s.name for s in before[0][0]} - {s.name for s in best.kept}
            for statement in best.reading:
                if statement.name in moved:
                    told = f"{statement.operator} is computed where its result is read: {saving}"
                    self._refusals |= {(array, statement.operator): told for array in statement.sources}

    def _last_values(self, product: Sequence[Statement], reading: Sequence[Statement]) -> list[Statement]:
        """Element-wise statements of the first group that only the second reads, or what moves before them; last one
        first."""
        program, found = self._before.program, list[Statement]()
        taken = {s.name for s in reading}
        for statement in reversed(product):
            array = statement.write.array
            readers = [s.name for s in program.readers.get(array, ())]
            is_whole = statement.reduction is None and statement.covers and not statement.guards
            if (
                readers and taken.issuperset(readers)
                and is_whole and is_plain(statement.write) and array not in program.outputs
            ):  # fmt: skip
                found.append(statement)
                taken.add(statement.name)
        return found

    def _ending(self, groups: Sequence[Group], moved: Sequence[Statement]) -> _Ending:
        """The two groups once some of the first one's values are the second one's."""
        names = {s.name for s in moved}
        kept = tuple(s for s in groups[0][0] if s.name not in names)
        reading = (*reversed(moved), *groups[1][0])
        return _Ending(kept, reading, sum(map(self._before.moved_bytes, (kept, reading))))

    def _is_held(self, ending: _Ending) -> bool:
        """Whether a person decided against it: holds some of these operators, or keeps two of them apart."""
        operators = {s.operator for s in (*ending.kept, *ending.reading)}
        is_grouped = any(not operators.isdisjoint(group) for group in self._fixed.groups)
        return is_grouped or bool(self._fixed.why_apart({s.operator for s in ending.reading}))

    def _saving(self, before: Sequence[Group], after: Sequence[Group]) -> Saving:
        """What groups save in the place of others."""
        now, was = ([self._before.times.figures(*group) for group in groups] for groups in (after, before))
        return Saving(
            sum(time for time, _ in now), sum(time for time, _ in was),
            sum(size for _, size in now), sum(size for _, size in was),
        )  # fmt: skip

    def _replace(self, places: Sequence[int], before: Sequence[Group], after: Sequence[Group]) -> None:
        """Groups in the place of others, with what they take beside those that the search's models tell."""
        for place, was, now in zip(places, before, after, strict=True):
            number = self._before.numbers[place]
            known = self._spent.get(number)
            spent = self._before.figures([place]).microseconds if known is None else known
            change = self._before.times.figures(*now)[0] - self._before.times.figures(*was)[0]
            self._spent[number] = spent + change
            self._groups[place] = now
