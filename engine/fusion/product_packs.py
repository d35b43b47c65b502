"""Put products that share a factor into one launch where that is predicted to be faster: queries, keys and values.

Two whose results meet element by element, gate and up, may even share their main loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations

from engine.fusion.group_signature import likeness
from engine.fusion.group_times import Group
from engine.fusion.packing import factors_of, packed_shape, parts_of
from engine.fusion.paired_products import paired_shape, products_first
from engine.fusion.partition import Partition
from engine.fusion.regrouping import Regrouping
from engine.fusion.shape import Shape, is_contraction
from engine.fusion.stitching.nodes import Fixed
from engine.tensor.nodes import Statement

Form = Callable[[Sequence[Statement], frozenset[str]], Shape | str]
"""The loop space of a group, given the arrays that are needed outside, or why it has none."""
MOST_PRODUCTS = 8
"""Of a launch, each of which has a text of its own in the kernel."""


def with_product_packs(partition: Partition, before: Partition, fixed: Fixed) -> Partition:
    """The partition with products that share a factor in one launch each, where the estimate gains.

    before, fixed: as of `Regrouping`.
    """
    packer = _ProductPacker(partition, before, fixed)
    for members in list(packs(packer.groups)):
        for pair in combinations(members, 2):
            packer.try_to_pair(pair)
    for members in list(packs(packer.groups)):
        packer.try_to_pack(members)
    return packer.partition()


def packs(groups: Mapping[int, Group]) -> Iterator[list[int]]:
    """Places of products that have a factor in common, those of a factor together."""
    readers: dict[str, list[int]] = {}
    for n, (statements, shape) in groups.items():
        products = [s for s in statements if is_contraction(s)]
        if shape.kind.takes_reductions and len(products) == 1:
            for array in sorted(factors_of(products[0])):
                readers.setdefault(array, []).append(n)
    for members in readers.values():
        for first in range(0, len(members) - 1, MOST_PRODUCTS):
            yield members[first : first + MOST_PRODUCTS]


class _ProductPacker(Regrouping):
    @cached_property
    def _place(self) -> dict[str, int]:
        """Statement -> its place in the program."""
        return {s.name: n for n, s in enumerate(self._before.program.statements)}

    def try_to_pair(self, pair: Sequence[int]) -> None:
        """One group in the place of two, one of which reads what the other one makes, where one main loop is faster."""
        if not self.groups.keys() >= set(pair):
            return
        parts = [self.groups[n] for n in pair]
        made = [{s.write.array for s in statements} for statements, _ in parts]
        read = [{array for s in statements for array in s.sources} for statements, _ in parts]
        if made[0].isdisjoint(read[1]) and made[1].isdisjoint(read[0]):
            return
        both = {s.name: s for statements, _ in parts for s in statements}
        own = sorted(self._place[name] for name in both if name in self._place)
        statements = products_first([self._before.program.statements[n] for n in own])
        if len(statements) < len(both) or not self._may_be_one(statements, pair):
            return
        self._try(pair, statements, paired_shape, "pair")

    def try_to_pack(self, members: Sequence[int]) -> None:
        """One group in the place of the last of several, where they are independent and one launch is faster."""
        members = [n for n in members if n in self.groups and not self.groups[n][1].kind.has_parts]
        statements = tuple({s.name: s for n in members for s in self.groups[n][0]}.values())
        if len(members) < 2 or not self._may_be_one(statements, members) or len(parts_of(statements)) < len(members):
            return
        self._try(members, statements, packed_shape, "products")

    def _try(self, members: Sequence[int], statements: tuple[Statement, ...], form: Form, word: str) -> None:
        """One group of some form in the place of several, where it is faster.  word: for the form."""
        kept, parts = self._before.program.needed_outside(statements), [self.groups[n] for n in members]

        def find() -> Shape | str:
            return form(statements, kept)

        key = (word, likeness(statements, kept))
        found = self._before.times.faster_shape(key, statements, parts, find, "one launch would be slower")
        if not isinstance(found, str):
            shape, saving = found
            self._put(members, (statements, shape), saving)
