"""Vertices of the fusion search: products and a person's groups are closed to it, all other statements open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from engine.fusion.anchors import anchors, serves_product
from engine.fusion.legality import KernelLegality
from engine.fusion.shape import Shape
from engine.fusion.stitching.dataflow import Flow, FlowStep
from engine.fusion.stitching.nodes import MOST_STATEMENTS, Fixed
from engine.fusion.user_groups import UserGroups, opaque, step
from engine.graph.nodes import Operator
from engine.tensor.nodes import Statement, TensorProgram


@dataclass(frozen=True, slots=True)
class Steps:
    """A program's flow, and the loop spaces of those closed steps that were looked at."""

    flow: Flow
    shapes: Mapping[int, Shape]


def steps_of(program: TensorProgram, without_kernel: Sequence[Operator], fits: KernelLegality, fixed: Fixed) -> Steps:
    """The steps of a program.

    without_kernel: operators of the graph that the program lacks; kernels stand before or behind them.  Raises
    BadInput, naming operators and figures, where a person's group cannot be one kernel.
    """
    return _Maker(program, without_kernel, fits, fixed).steps()


class _Maker:
    def __init__(
        self, program: TensorProgram, without_kernel: Sequence[Operator], fits: KernelLegality, fixed: Fixed
    ) -> None:
        self.program, self.fits, self.fixed = program, fits, fixed
        self.inputs = frozenset(program.inputs)
        self.opaque = [opaque(op) for op in without_kernel]
        self.alone = {s.name: self._step((s,), False) for s in program.statements}
        self.number = {s.name: n for n, s in enumerate(program.statements)}
        self.left = dict.fromkeys(s.name for s in program.statements)
        """Statements that are in no step yet."""

    def steps(self) -> Steps:
        forced = self._user_groups()
        closed = [*forced, *self._products([step for step, _ in forced])]
        frames = [self._step((s,), True) for s in self._take(self._is_frame)]
        rest = self._by_array()
        steps = sorted([*(step for step, _ in closed), *frames, *rest, *self.opaque], key=self._place)
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
            for statement in statements:
                del self.left[statement.name]
            forced.hold(statements)
            assert isinstance(fit.shape, Shape), fit
            found.append((self._step(statements, True), fit.shape))
        return found

    def _products(self, forced: Sequence[FlowStep]) -> list[tuple[FlowStep, Shape]]:
        """Products with their epilogues, none of which takes from a person's groups."""
        free = [self.alone[name] for name in self.left]
        flow = Flow(self.program, [*free, *forced, *self.opaque])
        found = []
        for anchor in anchors(flow, self.program.readers, self.fits.target, self.fixed):
            statements = flow.statements(anchor.steps)
            for statement in statements:
                del self.left[statement.name]
            found.append((self._step(statements, True), anchor.shape))
        return found

    def _is_frame(self, statement: Statement) -> bool:
        return serves_product(statement, self.program.readers.get(statement.write.array, ()))

    def _by_array(self) -> list[FlowStep]:
        """What is left, the parts of one array together where one kernel can write them."""
        writers: dict[str, list[Statement]] = {}
        for statement in self.program.statements:
            if statement.name in self.left:
                writers.setdefault(statement.write.array, []).append(statement)
        steps: list[FlowStep] = []
        for array, writing in writers.items():
            # The scheduler's time grows faster than the statements of a kernel: long concatenations are cut up.
            for first in range(0, len(writing), MOST_STATEMENTS):
                statements = writing[first : first + MOST_STATEMENTS]
                whole = len(statements) > 1 and self._share_loops(statements, array)
                steps += [self._step(statements, False)] if whole else [self.alone[s.name] for s in statements]
        return steps

    def _share_loops(self, statements: Sequence[Statement], array: str) -> bool:
        """Whether the parts of an array are one kernel for other reasons than that it is one launch."""
        fit = self.fits(statements, frozenset((array,)))
        return not isinstance(fit, str) and isinstance(fit.shape, Shape) and not fit.shape.kind.has_parts

    def _take(self, wanted: Callable[[Statement], bool]) -> tuple[Statement, ...]:
        """The statements left that are wanted, which are left no more."""
        taken = tuple(s for s in self.program.statements if s.name in self.left and wanted(s))
        for statement in taken:
            del self.left[statement.name]
        return taken

    def _step(self, statements: Sequence[Statement], closed: bool) -> FlowStep:
        return step(statements, closed, self.inputs)

    def _place(self, step: FlowStep) -> int:
        return self.number[step.statements[-1].name] if step.statements else len(self.number)
