"""Put a product and one that weighs with what is made of its results into one kernel, where the estimate gains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.fusion.chained_products import chained_shape
from engine.fusion.group_signature import likeness
from engine.fusion.packing import packed_shape, parts_of
from engine.fusion.partition import Partition
from engine.fusion.product_packs import packs
from engine.fusion.regrouping import Regrouping
from engine.fusion.shape import Shape, is_contraction
from engine.fusion.stitching.nodes import Fixed
from engine.target.machines import is_cpu


def with_product_chains(partition: Partition, before: Partition, fixed: Fixed) -> Partition:
    """The partition with products in a row in one kernel each, where the estimate gains.

    before, fixed: as of `Regrouping`.
    """
    if is_cpu(partition.times.target.name):  # whose kernels of products make one each
        return partition
    chainer = _ProductChainer(partition, before, fixed)
    for first, second in list(chainer.candidates()):
        chainer.try_to_chain(first, second)
    return chainer.partition()


class _ProductChainer(Regrouping):
    def candidates(self) -> Iterator[tuple[int, int]]:
        """Places of products of which the second multiplies what the first one's kernel makes."""
        makers = {
            s.write.array: n for n, (statements, shape) in self.groups.items() for s in statements
            if shape.kind.takes_reductions
        }  # fmt: skip
        for n, (statements, shape) in self.groups.items():
            product = next((s for s in statements if is_contraction(s)), None)
            if shape.kind.takes_reductions and product is not None:
                for first in dict.fromkeys(makers[a] for a in product.sources if a in makers):
                    if first != n:
                        yield first, n

    def try_to_chain(self, first: int, second: int) -> None:
        """One group in the place of two, where it is faster."""
        if not self.groups.keys() >= {first, second}:
            return
        parts = [self.groups[n] for n in (first, second)]
        statements = tuple({s.name: s for group, _ in parts for s in group}.values())
        if not self._may_be_one(statements, (first, second)):
            return
        inlined = tuple(name for _, shape in parts for name in shape.inlined)
        kept = self._before.program.needed_outside(statements)
        place = {s.name: n for n, s in enumerate(statements)}

        def find() -> Shape | str:
            return chained_shape(statements, kept, inlined, self._before.program.arrays, self._before.times.target)

        key = ("chain", likeness(statements, kept), tuple(place[name] for name in inlined))
        found = self._before.times.faster_shape(key, statements, parts, find, "one kernel would be slower")
        if isinstance(found, str):
            return
        shape, saving = found
        if saving.separate - saving.fused > self._saved_beside(second):
            self._put((first, second), (statements, shape), saving)

    def _saved_beside(self, second: int) -> float:
        """Microseconds that a launch of the second product and others of a factor of its saves, more than one of the
        others alone."""
        most = 0.0
        for members in packs(self.groups):
            if second in members:
                others = [n for n in members if n != second]
                most = max(most, self._saved_by_pack(members) - self._saved_by_pack(others))
        return most

    def _saved_by_pack(self, members: Sequence[int]) -> float:
        """Microseconds that one launch of independent products saves; 0 where it is none."""
        parts = [self.groups[n] for n in members]
        statements = tuple({s.name: s for group, _ in parts for s in group}.values())
        if len(members) < 2 or len(parts_of(statements)) < len(members) or not self._may_be_one(statements, members):
            return 0.0
        shape = packed_shape(statements, self._before.program.needed_outside(statements))
        if isinstance(shape, str):
            return 0.0
        saving = self._before.times.saving((statements, shape), parts)
        return max(0.0, saving.separate - saving.fused)
