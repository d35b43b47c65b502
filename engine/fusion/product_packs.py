"""Put products that share a factor into one launch where that is predicted to be faster: queries, keys and values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from engine.fusion.group_signature import likeness
from engine.fusion.group_times import Saving
from engine.fusion.packing import factors_of, packed_shape, parts_of
from engine.fusion.partition import Partition
from engine.fusion.shape import Shape, is_contraction
from engine.fusion.stitching.kernel_graph import Joins
from engine.fusion.stitching.nodes import Fixed
from engine.tensor.nodes import Statement

MOST_PRODUCTS = 8
"""Of a launch, each of which has a text of its own in the kernel."""


def with_product_packs(partition: Partition, before: Partition, fixed: Fixed) -> Partition:
    """The partition with products that share a factor in one launch each, where the estimate gains.

    before: the partition as the search left it.  fixed: a person's groups take nothing in, and what is kept apart stays
    so.
    """
    packer = _ProductPacker(partition, before, fixed)
    for members in list(packer.candidates()):
        packer.try_to_pack(members)
    return packer.partition()


class _ProductPacker:
    def __init__(self, partition: Partition, before: Partition, fixed: Fixed) -> None:
        self._before, self._fixed = partition, fixed
        self.groups = dict(enumerate(partition.groups))
        self._joins = Joins(partition.chosen.graph)
        number = {s.name: n for (group, _), n in zip(before.groups, before.numbers, strict=True) for s in group}
        for group, _ in self.groups.values():  # what became one group after the kernels were chosen is one here, too
            kernels = {number[s.name] for s in group}
            if len(kernels) > 1:
                self._joins.join(kernels)
        self._savings = dict(partition.savings)
        self._spent = dict(partition.spent)

    def partition(self) -> Partition:
        """The groups as they are now, in an order that respects data flow."""
        places = {n: place for place, n in enumerate(self._joins.in_order())}
        ordered = sorted(self.groups, key=lambda n: places[self._before.numbers[n]])
        after = self._before.with_groups(self.groups, ordered)
        firsts = dict(self._before.firsts)
        return replace(after, refusals=self._before.refusals, firsts=firsts, savings=self._savings, spent=self._spent)

    def candidates(self) -> Iterator[list[int]]:
        """Places of products that have a factor in common, those of a factor together."""
        readers: dict[str, list[int]] = {}
        for n, (statements, shape) in self.groups.items():
            products = [s for s in statements if is_contraction(s)]
            if shape.kind.takes_reductions and len(products) == 1:
                for array in sorted(factors_of(products[0])):
                    readers.setdefault(array, []).append(n)
        for members in readers.values():
            for first in range(0, len(members) - 1, MOST_PRODUCTS):
                yield members[first : first + MOST_PRODUCTS]

    def try_to_pack(self, members: Sequence[int]) -> None:
        """One group in the place of the last of several, where they are independent and one launch is faster."""
        members = [n for n in members if n in self.groups and not self.groups[n][1].kind.has_parts]
        numbers = [self._before.numbers[n] for n in members]
        statements = tuple({s.name: s for n in members for s in self.groups[n][0]}.values())
        if len(members) < 2 or not self._may_be_one(statements, numbers) or len(parts_of(statements)) < len(members):
            return
        kept, parts = self._before.program.needed_outside(statements), [self.groups[n] for n in members]

        def find() -> Shape | str:
            return packed_shape(statements, kept)

        key = ("products", likeness(statements, kept))
        found = self._before.times.faster_shape(key, statements, parts, find, "one launch would be slower")
        if isinstance(found, str):
            return
        shape, saving = found
        self._joins.join(numbers)
        self._tell(numbers[-1], members, saving)
        for n in members:
            del self.groups[n]
        self.groups[members[-1]] = statements, shape

    def _tell(self, number: int, members: Sequence[int], saving: Saving) -> None:
        """What the launch saves, and takes beside the search's own figures."""
        known = [self._spent.pop(self._before.numbers[n], None) for n in members]
        before = sum(
            self._before.figures([n]).microseconds if time is None else time
            for n, time in zip(members, known, strict=True)
        )
        self._savings[number] = saving
        self._spent[number] = before - saving.separate + saving.fused

    def _may_be_one(self, statements: Sequence[Statement], numbers: Sequence[int]) -> bool:
        """Whether neither a person nor another kernel stands between them."""
        operators = {s.operator for s in statements}
        is_held = any(not operators.isdisjoint(group) for group in self._fixed.groups)
        return not (is_held or self._fixed.why_apart(operators) or self._joins.closes_cycle(numbers))
