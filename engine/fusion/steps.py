"""Vertices of the fusion search: products, scatters and groups of a person are closed to it, all others are open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.fusion.anchors import anchors
from engine.fusion.group_times import GroupTimes
from engine.fusion.legality import KernelLegality
from engine.fusion.shape import Shape
from engine.fusion.stitching.dataflow import Flow, FlowStep
from engine.fusion.stitching.nodes import MOST_STATEMENTS, Fixed
from engine.fusion.user_groups import UserGroups, opaque, step
from engine.graph.nodes import Operator
from engine.support.grouping import group_by
from engine.tensor.nodes import Statement, StatementForm, TensorProgram, of_form, writers_of
from engine.tensor.scatter import is_scatter, match_scatter


@dataclass(frozen=True, slots=True)
class Steps:
    """A program's flow, and the loop spaces of those closed steps that were looked at."""

    flow: Flow
    shapes: Mapping[int, Shape]


def steps_of(
    program: TensorProgram, without_kernel: Sequence[Operator], fits: KernelLegality, times: GroupTimes, fixed: Fixed
) -> Steps:
    """The steps of a program.

    without_kernel: operators of the graph that the program lacks; kernels stand before or behind them.  times: of
    groups of the program.  Raises BadInput, naming operators and figures, where a person's group cannot be one kernel.
    """
    return _Maker(program, without_kernel, fits, times, fixed).steps()


class _Maker:
    def __init__(
        self, program: TensorProgram, without_kernel: Sequence[Operator], fits: KernelLegality, times: GroupTimes,
        fixed: Fixed,
    ) -> None:  # fmt: skip
        self.program, self.fits, self.times, self.fixed = program, fits, times, fixed
        self.inputs = frozenset(program.inputs)
        self.opaque = [opaque(op) for op in without_kernel]
        self.alone = {s.name: step((s,), False, self.inputs) for s in program.statements}
        self.number = {s.name: n for n, s in enumerate(program.statements)}
        self.left = dict.fromkeys(s.name for s in program.statements)
        """Statements that are in no step yet."""

    def steps(self) -> Steps:
        forced = self._user_groups()
        closed = [*forced, *self._scatters()]
        closed += self._products([step for step, _ in closed])
        steps = sorted([*(step for step, _ in closed), *self._by_array(), *self.opaque], key=self._place)
        flow = Flow(self.program, steps)
        found = {id(step): shape for step, shape in closed}
        return Steps(flow, {n: found[id(step)] for n, step in enumerate(steps) if id(step) in found})

    def _user_groups(self) -> list[tuple[FlowStep, Shape]]:
        """A person's groups, each checked."""
        if not self.fixed.groups:
            return []
        forced = UserGroups(self.program, self.opaque, self.fits)
        found = []
        for group in self.fixed.groups:
            statements, fit = forced.fit(group, self.left)
            forced.hold(statements)
            found.append((self._close(statements), fit.shape))
        return found

    def _scatters(self) -> list[tuple[FlowStep, Shape]]:
        """Searches for updates with what is computed from their results in the same operator.

        Their kernels take nothing else in: models of fusion see the search, of which nothing is left.
        """
        found = []
        free = [s for s in self.program.statements if s.name in self.left]
        forms: dict[StatementForm, bool] = {}
        searching = {s.operator for s in free if of_form(forms, s, is_scatter)}
        for own in group_by((s for s in free if s.operator in searching), lambda s: s.operator).values():
            first = next(n for n, s in enumerate(own) if is_scatter(s))
            for end in range(len(own), first, -1):
                statements = own[first:end]
                kept = self.program.needed_outside(statements)
                if match_scatter(self.program.cut_out(statements, kept)) is None:
                    continue
                fit = self.fits(statements, kept)
                if not isinstance(fit, str):
                    found.append((self._close(statements), fit.shape))
                    break
        return found

    def _products(self, forced: Sequence[FlowStep]) -> list[tuple[FlowStep, Shape]]:
        """Products with their epilogues, none of which takes from a person's groups."""
        free = [self.alone[name] for name in self.left]
        flow = Flow(self.program, [*free, *forced, *self.opaque])
        found = []
        for anchor in anchors(flow, self.times, self.fixed):
            found.append((self._close(anchor.statements), anchor.shape))
        return found

    def _by_array(self) -> list[FlowStep]:
        """What is left, the parts of one array together where one kernel can write them."""
        steps: list[FlowStep] = []
        for array, writing in writers_of(s for s in self.program.statements if s.name in self.left).items():
            # The scheduler's time grows faster than the statements of a kernel: long concatenations are cut up.
            for first in range(0, len(writing), MOST_STATEMENTS):
                statements = writing[first : first + MOST_STATEMENTS]
                whole = len(statements) > 1 and self._share_loops(statements, array)
                steps += [step(statements, False, self.inputs)] if whole else [self.alone[s.name] for s in statements]
        return steps

    def _share_loops(self, statements: Sequence[Statement], array: str) -> bool:
        """Whether the parts of an array are one kernel for other reasons than that it is one launch."""
        fit = self.fits(statements, frozenset((array,)))
        return not isinstance(fit, str) and not fit.shape.kind.has_parts

    def _close(self, statements: Sequence[Statement]) -> FlowStep:
        """A closed step of statements, which are left no more."""
        for statement in statements:
            del self.left[statement.name]
        return step(statements, True, self.inputs)

    def _place(self, step: FlowStep) -> int:
        return self.number[step.statements[-1].name] if step.statements else len(self.number)
