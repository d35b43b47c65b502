"""Put several steps of a recurrence into one launch where that is predicted faster.

    h1 = f(h0 @ r, x1);  h2 = f(h1 @ r, x2);  ...      a block has a row of h and takes one step after the other
                                                       or: a block has a part of each step, and all blocks meet

By itself each block reads all of r in every step: that pays for small matrices, where launches take longer than steps.
Where all meet (`recurrence.py`), a meeting takes less than a launch.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from engine.fusion.anchors import is_product
from engine.fusion.group_signature import likeness
from engine.fusion.group_times import Group, Saving
from engine.fusion.partition import Partition, name_parts
from engine.fusion.recurrence import recurrence_shape
from engine.fusion.regrouping import Regrouping
from engine.fusion.shape import Shape, is_contraction
from engine.fusion.stitched import MOST_VECTORS, fewest_vectors, stitched_shape
from engine.fusion.stitching.nodes import Fixed
from engine.target.machines import is_cpu
from engine.tensor.nodes import Access, Literal, Statement, StatementForm, map_leaves, of_form

MOST_KERNELS = 3
"""Kernels of one step."""
MOST_JOINED = 40
"""Statements of a launch of several steps: the scheduler's time grows faster than what a longer one saves."""
MOST_JUDGED = 32
"""Kinds of launches of steps that are compiled to judge them, each of which takes as long as to plan hundreds of
operators: recurrences have a few, chance has no end of them."""

_OPERAND = Access("", ())
"""Stands for any."""
Step = tuple[int, ...]
"""The groups of one step, by their places."""
_Way = Callable[[Sequence[Statement], frozenset[str]], Shape | str]
"""Statements of some steps and what is needed outside -> their loop space, or why they have none."""


def with_recurrent_steps(partition: Partition, before: Partition, fixed: Fixed) -> Partition:
    """The partition with steps of recurrences in one launch where the estimate gains.

    before, fixed: as of `Regrouping`.
    """
    joiner = _StepJoiner(partition, before, fixed)
    recurrences = list(joiner.recurrences())
    joiner.name_parts(recurrences)
    for steps in recurrences:
        joiner.try_to_join(steps)
    return joiner.partition()


class _StepJoiner(Regrouping):
    def __init__(self, partition: Partition, before: Partition, fixed: Fixed) -> None:
        super().__init__(partition, before, fixed)
        self._arrays, self._views = dict(partition.program.arrays), dict(partition.views)
        readers: dict[str, list[int]] = {}
        for n, (statements, _) in self.groups.items():
            for array in {array for s in statements for array in s.sources}:
                readers.setdefault(array, []).append(n)
        self._readers = readers
        self._times = partition.times
        self._ways: dict[str, _Way] = {"a block by itself": _by_itself}
        """How steps may share a launch."""
        if not is_cpu(self._times.target.name):  # whose threads do not wait for each other
            self._ways["all blocks meet"] = recurrence_shape
        self._next: dict[int, int | None] = {}
        self._possible: dict[int, bool] = {}
        self._vectors: dict[StatementForm, int] = {}
        """Of products, those that a block needs at least."""
        self._keys: dict[int, Hashable] = {}
        self._computations: dict[StatementForm, Hashable] = {}
        self._judged: set[Hashable] = set()

    def partition(self) -> Partition:
        """As `Regrouping` says, with the names of what launches of several steps write."""
        after = super().partition()
        if after is self._before:
            return after
        return replace(after, program=after.program.over(self._arrays, after.program.outputs), views=self._views)

    def recurrences(self) -> Iterator[list[Step]]:
        """Equal steps, each of which reads what the one before makes: runs of which a launch can hold two and more."""
        taken: set[int] = set()
        for first in self.groups:
            if first in taken:
                continue
            ahead = list(itertools.islice(self._path(first, taken), 2 * MOST_KERNELS))
            keys = [self._key(n) for n in ahead]
            for length in range(1, len(ahead) // 2 + 1):
                if keys[:length] != keys[length : 2 * length]:
                    continue
                if not self._share_a_factor(tuple(ahead[:length]), tuple(ahead[length : 2 * length])):
                    continue
                steps = list(self._repeats(first, keys[:length], taken))
                taken.update(n for step in steps for n in step)
                if self._most(steps) > 1:
                    yield steps
                break

    def _repeats(self, first: int, keys: Sequence[Hashable], taken: set[int]) -> Iterator[Step]:
        """The steps with these keys, from a group on."""
        path = self._path(first, taken)
        while True:
            step = tuple(itertools.islice(path, len(keys)))
            if [self._key(n) for n in step] != list(keys):
                return
            yield step

    def _path(self, n: int, taken: Container[int]) -> Iterator[int]:
        """A group, the first one that reads what it makes, and so on, up to those of other recurrences."""
        while n not in taken and self._may_be_of_step(n):
            yield n
            following = self._following(n)
            if following is None:
                return
            n = following

    def _following(self, n: int) -> int | None:
        """The first group behind that of a place which reads what it makes."""
        if n not in self._next:
            made = {s.write.array for s in self.groups[n][0]}
            self._next[n] = min((m for array in made for m in self._readers.get(array, ()) if m > n), default=None)
        return self._next[n]

    def _key(self, n: int) -> Hashable:
        """Equal for groups of equal steps, which read other slices of their inputs."""
        if n not in self._keys:
            statements, shape = self.groups[n]
            self._keys[n] = shape.kind, tuple([of_form(self._computations, s, _computation) for s in statements])
        return self._keys[n]

    def _may_be_of_step(self, n: int) -> bool:
        """Whether a block may make a group's results for its row: no attention, no part of a launch, few vectors."""
        if n not in self._possible:
            statements, shape = self.groups[n]
            is_plain = not (shape.kind.is_pattern or shape.kind.has_parts)
            vectors = (of_form(self._vectors, s, fewest_vectors) for s in statements if is_contraction(s))
            self._possible[n] = is_plain and all(number <= MOST_VECTORS for number in vectors)
        return self._possible[n]

    def _share_a_factor(self, first: Step, second: Step) -> bool:
        """Whether two steps multiply with the same matrix, as those of a recurrence do and equal layers do not."""

        def factors(step: Step) -> set[str]:
            products = [s for n in step for s in self.groups[n][0] if is_product(s)]
            return {array for product in products for array in product.sources}

        return not factors(first).isdisjoint(factors(second))

    def name_parts(self, recurrences: Iterable[Sequence[Step]]) -> None:
        """Name what launches may write of recurrences, before times of any are asked for."""
        for steps in recurrences:
            most = self._most(steps)
            for first in range(0, len(steps), most):
                name_parts(self._statements(steps[first : first + most]), self._arrays, self._views)
        program = self._before.program
        self._times = self._before.times.of(program.over(self._arrays, (*program.outputs, *self._views)))

    def try_to_join(self, steps: Sequence[Step]) -> None:
        """Equal numbers of steps to a launch: of two, where that gains, and of as many as there may be."""
        two = self._join_steps(steps[:2])
        if two is None:
            return
        most = _even(len(steps), self._most(steps))
        many = self._join_steps(steps[:most]) if most > 2 else None
        together = most if many is not None and many[1].fused * 2 < two[1].fused * most else 2
        for first in range(0, len(steps) - 1, together):
            launch = steps[first : first + together]
            asked = many if together > 2 else two
            found = asked if not first and len(launch) == together else self._join_steps(launch)
            if found is not None and len(launch) > 1:
                self._put([n for step in launch for n in step], *found)

    def _join_steps(self, steps: Sequence[Step]) -> tuple[Group, Saving] | None:
        """One group of steps and what it saves; None where it cannot be one or does not pay."""
        members = [n for step in steps for n in step]
        own = self._statements(steps)
        if not self._may_be_one(own, members):
            return None
        statements = name_parts(own, self._arrays, self._views)
        needed = self._before.program.needed_outside(own)
        kept = frozenset(s.write.array for s in statements if self._views.get(s.write.array, s.write.array) in needed)
        parts = [self.groups[n] for n in members]
        key = ("steps", likeness(statements, kept))
        if key not in self._judged and len(self._judged) >= MOST_JUDGED:
            return None
        self._judged.add(key)

        found = [
            self._times.faster_shape((*key, way), statements, parts, partial(find, statements, kept), "slower")
            for way, find in self._ways.items()
        ]
        gains = [((statements, one[0]), one[1]) for one in found if not isinstance(one, str)]
        return min(gains, key=lambda gain: gain[1].fused, default=None)

    def _most(self, steps: Sequence[Step]) -> int:
        """Steps of a launch, at most."""
        return min(len(steps), MOST_JOINED // len(self._statements(steps[:1])))

    def _statements(self, steps: Sequence[Step]) -> tuple[Statement, ...]:
        return tuple(s for step in steps for n in step for s in self.groups[n][0])


def _by_itself(statements: Sequence[Statement], kept: frozenset[str]) -> Shape | str:
    return stitched_shape(statements, kept, MOST_VECTORS)


def _computation(statement: Statement) -> Hashable:
    """What a statement computes, wherever its operands lie."""
    operations = map_leaves(statement.expression, lambda leaf: leaf if isinstance(leaf, Literal) else _OPERAND)
    reduced = statement.reduction and statement.reduction.operation
    return tuple(i.extent for i in statement.iterators), reduced, operations, len(statement.sources)


def _even(steps: int, most: int) -> int:
    """Steps of a launch, so that launches are as long as each other: all alike where a divisor is near `most`."""
    whole = next(n for n in range(most, 0, -1) if steps % n == 0)
    return whole if 2 * whole > most else -(-steps // -(-steps // most))
