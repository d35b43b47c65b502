"""Reductions whose parts nothing but their own sum waits for become one launch again, where the estimate gains by it.

    p[c] = sum(k) x[n * c + k];   s = sum(c) p[c];   y[i] = x[i] - s     ->     s = sum(r) x[r];   y[i] = x[i] - s

Blocks of one launch can share the terms of a row: the last of them adds up what they leave, as a second launch would.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from engine.fusion.group_signature import likeness
from engine.fusion.legality import KernelLegality
from engine.fusion.partition import Partition
from engine.fusion.regrouping import Regrouping
from engine.fusion.shape import Shape
from engine.fusion.split_reductions import PARTS
from engine.fusion.stitching.nodes import Fixed
from engine.tensor.nodes import Statement, TensorProgram


def with_whole_reductions(partition: Partition, fixed: Fixed, program: TensorProgram) -> Partition:
    """The partition with reductions in one launch whose parts only one other launch reads, where the estimate gains.

    program: as it was before long reductions fell into parts.  fixed: as of `Regrouping`.
    """
    names = {s.name for s in partition.program.statements}
    sums = ((f"{s.name}{PARTS}", s) for s in program.statements if s.reduction is not None)
    whole = {name: s for name, s in sums if name in names}
    if not whole:
        return partition
    joiner = _PartJoiner(partition, partition, fixed)
    for part, maker, reader in list(joiner.candidates(whole)):
        joiner.try_to_join(whole[part.name], part, maker, reader)
    return joiner.partition()


class _PartJoiner(Regrouping):
    def candidates(self, names: Container[str]) -> Iterator[tuple[Statement, int, int]]:
        """Statements of these names that make parts, with the places of their group and of the one that reads them."""
        readers: dict[str, list[int]] = {}
        for n, (statements, _) in self.groups.items():
            for array in {array for s in statements for array in s.sources}:
                readers.setdefault(array, []).append(n)
        for n, (statements, _) in self.groups.items():
            for statement in statements:
                reading = readers.get(statement.write.array, [])
                if statement.name in names and len(reading) == 1 and reading != [n]:
                    yield statement, n, reading[0]

    def try_to_join(self, whole: Statement, part: Statement, maker: int, reader: int) -> None:
        """One group in the place of the two, with the reduction as it was."""
        if maker not in self.groups or reader not in self.groups:
            return
        first, last = self.groups[maker][0], self.groups[reader][0]
        statements = (
            *(s for s in first if s is not part), *(whole if s.name == whole.name else s for s in last)
        )  # fmt: skip
        if whole not in statements or not self._may_be_one(statements, [maker, reader]):
            return
        kept, times = self._before.program.needed_outside(statements), self._before.times
        fits = KernelLegality(self._before.program.arrays, times.target)

        def find() -> Shape | str:
            found = fits(statements, kept)
            return found if isinstance(found, str) else found.shape

        key = ("whole", likeness(statements, kept))
        parts = [self.groups[maker], self.groups[reader]]
        joined = times.faster_shape(key, statements, parts, find, "one launch would be slower")
        if not isinstance(joined, str):
            self._put([maker, reader], (statements, joined[0]), joined[1])
