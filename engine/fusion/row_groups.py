"""Fuse row reductions into the product that they read, where a block can hold whole rows and the kernel is faster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.fusion.group_signature import likeness
from engine.fusion.group_times import Saving
from engine.fusion.partition import Partition
from engine.fusion.regrouping import joins_of_groups
from engine.fusion.shape import Shape, common_shape, is_contraction
from engine.fusion.stitching.nodes import Fixed
from engine.tensor.nodes import Statement
from engine.tensor.rewrite import inline

NO_FACTORS = "what its factors are computed from, computed as they are read, leaves no product of two arrays"
OPERANDS = "a kernel with whole rows takes in what follows its product, not what makes its operands"
"""Why what such a kernel reads is made in another one."""


def with_rows(partition: Partition, before: Partition, fixed: Fixed) -> Partition:
    """The partition with row reductions in the kernels of their products; the others say at their boundary why not.

    before: the partition before attentions were joined.  fixed: a person's groups take nothing in, and what is kept
    apart stays so.
    """
    joiner = _RowJoiner(partition, before, fixed)
    for place in range(len(partition.groups)):
        joiner.try_to_join(place)
    return joiner.partition()


class _RowJoiner:
    def __init__(self, partition: Partition, before: Partition, fixed: Fixed) -> None:
        self._before, self._fixed = partition, fixed
        self.groups = dict(enumerate(partition.groups))
        self._known_refusals = partition.refusals
        self.refusals = dict(partition.refusals)
        self._homes: dict[str, set[int]] = {}
        """Array -> the groups that make it or a part of it."""
        self._readers: dict[str, set[int]] = {}
        for n, (group, _) in self.groups.items():
            for statement in group:
                self._homes.setdefault(statement.write.array, set()).add(n)
            for array in _read(group):
                self._readers.setdefault(array, set()).add(n)
        self._joins = joins_of_groups(partition, before)
        self._firsts: dict[int, int] = {}
        self._savings = dict(partition.savings)
        self._spent = dict(partition.spent)

    def partition(self) -> Partition:
        """The groups as they are now, in an order that respects data flow."""
        places = {n: place for place, n in enumerate(self._joins.in_order())}
        ordered = sorted(self.groups, key=lambda n: places[self._before.numbers[n]])
        after = self._before.with_groups(self.groups, ordered)
        return replace(after, refusals=self.refusals, firsts=self._firsts, savings=self._savings, spent=self._spent)

    def try_to_join(self, place: int) -> None:
        """Put a group with reductions into that of a product it reads, the one handing over most first."""
        statements, shape = self.groups[place]
        if shape.kind.is_product or all(s.reduction is None for s in statements):
            return
        handed = {array: self._homes[array] for array in _read(statements) if array in self._homes}
        arrays = self._before.program.arrays
        products = sorted(
            {n for homes in handed.values() for n in homes - {place} if self._is_product(n)},
            key=lambda n: (-sum(arrays[a].bytes for a, homes in handed.items() if n in homes), n),
        )
        # Only one product fits a kernel: the one that hands over most saves most.
        for product in products:
            reason = self._join(product, place)
            if not reason:
                return
            for reader in statements:
                for array in (a for a in reader.sources if product in handed.get(a, ())):
                    known = self._known_refusals.get((array, reader.operator))
                    self.refusals[array, reader.operator] = f"{known}; {reason}" if known else reason

    def _is_product(self, n: int) -> bool:
        return n in self.groups and self.groups[n][1].kind.takes_reductions

    def _join(self, product: int, place: int) -> str:
        """One group in the place of the second; or why they stay two."""
        both = (self.groups[product][0], self.groups[place][0])
        statements = tuple({s.name: s for group in both for s in group}.values())
        numbers = [self._before.numbers[n] for n in (product, place)]
        reason = self._wish(statements) or self._between(numbers, statements)
        if reason:
            return reason
        found = self._loops(statements, {product, place})
        if isinstance(found, str):
            return found
        shape, saving = found
        self._savings[numbers[1]] = saving
        self._spent[numbers[1]] = self._time_before(product, place) - saving.separate + saving.fused
        self._joins.join(numbers)
        del self.groups[product]
        self.groups[place] = statements, shape
        self._firsts[numbers[1]] = self._firsts.pop(numbers[0], numbers[0])
        beside = _read(both[1]) - _read(both[0]) - {s.write.array for s in statements}
        for statement in both[1]:
            for array in beside.intersection(statement.sources):
                self.refusals.setdefault((array, statement.operator), OPERANDS)
        for statement in statements:
            homes = self._homes[statement.write.array]
            homes -= {product}
            homes |= {place}
        for array in _read(both[0]):
            self._readers[array] -= {product}
            self._readers[array] |= {place}
        return ""

    def _wish(self, statements: Sequence[Statement]) -> str:
        """What a person decided against it, or ""."""
        operators = {s.operator for s in statements}
        group = next((g for g in self._fixed.groups if not operators.isdisjoint(g)), ())
        taken = f"you made one kernel of {' + '.join(group)}, which takes in no other" if group else ""
        return self._fixed.why_apart(operators) or taken

    def _between(self, numbers: Sequence[int], statements: Sequence[Statement]) -> str:
        anchor = next(s for s in statements if is_contraction(s))
        closes = self._joins.closes_cycle(numbers)
        return f"another kernel needs results of {anchor.operator} and feeds what reduces them" if closes else ""

    def _loops(self, statements: tuple[Statement, ...], inside: set[int]) -> tuple[Shape, Saving] | str:
        """The loops of one kernel, found once for groups that differ in names alone; or why there are to be two."""
        kept, parts = self._arrays_needed(statements, inside), [self.groups[n] for n in sorted(inside)]
        key = likeness(statements, kept)

        def find() -> Shape | str:
            shape = common_shape(statements, kept)
            if isinstance(shape, str):
                return shape
            left = inline([s for s in statements if s.name in shape.inlined], statements)
            return shape if any(map(is_contraction, left)) else NO_FACTORS

        return self._before.times.faster_shape(key, statements, parts, find, "one kernel would be slower")

    def _arrays_needed(self, statements: Sequence[Statement], inside: set[int]) -> frozenset[str]:
        """Arrays that other groups than those inside read, or that are given out."""
        outputs, made = self._before.program.outputs, {s.write.array for s in statements}
        return frozenset(a for a in made if a in outputs or self._readers.get(a, set()) - inside)

    def _time_before(self, *places: int) -> float:
        """Microseconds of groups by the search's models."""
        known = [self._spent.get(self._before.numbers[place]) for place in places]
        return sum(
            self._before.figures([place]).microseconds if time is None else time
            for place, time in zip(places, known, strict=True)
        )


def _read(statements: Sequence[Statement]) -> set[str]:
    return {array for s in statements for array in s.sources}
