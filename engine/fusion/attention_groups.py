"""Merge the groups of an attention into one kernel where no other kernel reads its intermediates and it is faster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.fusion.attention import Attention, Finder, refusal
from engine.fusion.attention_shape import check_closed, excess, loops, padding, rows_of_groups
from engine.fusion.group_signature import likeness
from engine.fusion.group_times import Saving
from engine.fusion.partition import Partition
from engine.fusion.shape import Shape
from engine.fusion.stitching.nodes import Fixed
from engine.support.errors import Unsupported
from engine.tensor.nodes import Statement, TensorProgram
from engine.tensor.rewrite import inline

OPERANDS = "an attention takes in what lies between its products and after them, not what makes their operands"
"""Why what an attention reads is made in another kernel."""


def with_attention(partition: Partition, program: TensorProgram, fixed: Fixed) -> Partition:
    """The partition with the groups of each attention as one; the others say at their boundary why they are not.

    fixed: a person's groups take nothing in, and what is kept apart stays so.
    """
    joiner = _AttentionJoiner(partition, program, fixed)
    finder = Finder(program)
    for statement in program.statements:
        quotient = finder.quotient(statement) if statement.name in joiner.home else None
        if quotient is None or joiner.is_attention(statement):
            continue
        try:
            joiner.join(finder.attention(statement, quotient))
        except Unsupported as refused:
            joiner.refusals[quotient.write.array, statement.operator] = refused.reason
    return joiner.partition()


class _AttentionJoiner:
    def __init__(self, partition: Partition, program: TensorProgram, fixed: Fixed) -> None:
        self.program, self._fixed = program, fixed
        self._before = partition
        self.groups = dict(enumerate(partition.groups))
        self.refusals = dict(partition.refusals)
        self.home = {s.name: n for n, (group, _) in enumerate(partition.groups) for s in group}
        self._savings, self._spent = dict(partition.savings), dict(partition.spent)

    def is_attention(self, statement: Statement) -> bool:
        """Whether a statement is in one already: a person's."""
        _, shape = self.groups[self.home[statement.name]]
        return shape.kind.is_pattern

    def partition(self) -> Partition:
        """The groups as they are now, in an order that respects data flow."""
        after = self._before.with_groups(self.groups, sorted(self.groups))
        return replace(after, refusals=self.refusals, savings=self._savings, spent=self._spent)

    def join(self, found: Attention) -> None:
        """One group for an attention, in the place of the last.  Unsupported, saying why, where it stays several."""
        numbers = sorted({self.home[s.name] for s in found.members})
        members = {s.name for s in found.members}
        # A statement that several of the groups compute again stands in each of them.
        statements = tuple({s.name: s for n in numbers for s in self.groups[n][0]}.values())
        inlined = tuple(name for n in numbers for name in self.groups[n][1].inlined if name not in members)
        self._check_wishes(found, statements)
        check_closed(found, statements, self._needs(statements))
        shape, saving = self._loops(found, statements, inlined, numbers)
        last = self._before.numbers[numbers[-1]]
        self._savings[last], self._spent[last] = saving, self._before.joined_time(numbers, saving)
        for number in numbers:
            del self.groups[number]
        self.groups[numbers[-1]] = statements, shape
        for statement in statements:
            self.refusals |= {(a.array, statement.operator): OPERANDS for a in statement.reads()}
        self.home |= {s.name: numbers[-1] for s in statements}

    def _loops(
        self, found: Attention, statements: tuple[Statement, ...], inlined: tuple[str, ...], numbers: Sequence[int]
    ) -> tuple[Shape, Saving]:
        """The loops of one kernel and what it saves, found once for attentions that differ in names alone.

        Unsupported, saying why, where it cannot be one or does not pay.
        """
        place = {s.name: n for n, s in enumerate(statements)}
        roles = tuple(place[s.name] for s in found.members), tuple(place[name] for name in inlined)
        key = likeness(statements, ()), roles

        def find() -> Shape | str:
            own, target = [s for s in statements if s.name not in inlined], self._before.chosen.assessor.target
            arrays = self.program.arrays
            shape = loops(found, own, inlined)
            reason = excess(found, arrays, target) or padding(found, statements, inlined)
            whole = inline([s for s in statements if s.name in inlined], statements)
            other = rows_of_groups(found, whole, inlined, arrays, self.program.needed_outside(statements), target)
            return reason or (self._faster(statements, (shape, other)) if other else shape)

        parts = [self.groups[n] for n in numbers]
        joined = self._before.times.faster_shape(key, statements, parts, find, "one kernel would not be faster")
        if isinstance(joined, str):
            raise refusal(found.values, joined)
        return joined

    def _faster(self, statements: tuple[Statement, ...], shapes: tuple[Shape, ...]) -> Shape:
        """The loop space whose kernel is predicted to be fastest."""
        return min(shapes, key=lambda shape: self._before.times.figures(statements, shape)[0])

    def _check_wishes(self, found: Attention, statements: Sequence[Statement]) -> None:
        operators = {s.operator for s in statements}
        if apart := self._fixed.why_apart(operators):
            raise refusal(found.values, apart)
        for group in self._fixed.groups:
            if not operators.isdisjoint(group):
                raise refusal(found.values, f"you hold {' + '.join(group)} together, without the rest of the attention")

    def _needs(self, statements: Sequence[Statement]) -> dict[str, str]:
        """What others need of statements -> how that is said."""
        inside, needed = {s.name for s in statements}, {}
        for array in self.program.needed_outside(statements):
            others = (s.operator for s in self.program.readers.get(array, ()) if s.name not in inside)
            is_output = array in self.program.outputs
            needed[array] = "is an output too" if is_output else f"is read elsewhere too, by {next(others)}"
        return needed
