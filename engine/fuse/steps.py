"""The steps that a search works on: products closed, what a person fixed closed, everything else open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from engine.errors import BadInput
from engine.fuse.anchors import anchors, goes_round, serves_product
from engine.fuse.fits import Fits
from engine.graph.nodes import Operator
from engine.stitch.flow import Flow, Step
from engine.stitch.nodes import Fit, Fixed
from engine.tensor.nodes import Statement, TensorProgram


@dataclass(frozen=True, slots=True)
class Steps:
    """A program's flow, and how the statements of its closed steps fit."""

    flow: Flow
    fits: Mapping[int, Fit]


def steps_of(program: TensorProgram, without_kernel: Sequence[Operator], fits: Fits, fixed: Fixed) -> Steps:
    """The steps of a program.

    without_kernel: operators of the graph that the program lacks; kernels stand before or behind them.  Raises
    BadInput, naming operators and figures, where a person's group cannot be one kernel.
    """
    return _Maker(program, without_kernel, fits, fixed).steps()


class _Maker:
    def __init__(
        self, program: TensorProgram, without_kernel: Sequence[Operator], fits: Fits, fixed: Fixed
    ) -> None:
        self.program, self.fits, self.fixed = program, fits, fixed
        self.inputs = frozenset(program.inputs)
        self.opaque = [_opaque(op) for op in without_kernel]
        self.readers: dict[str, list[Statement]] = {}
        for statement in program.statements:
            for array in dict.fromkeys(a.array for a in statement.reads()):
                self.readers.setdefault(array, []).append(statement)
        self.number = {s.name: n for n, s in enumerate(program.statements)}
        self.left = dict.fromkeys(s.name for s in program.statements)
        """Statements that are in no step yet."""

    def steps(self) -> Steps:
        forced = self._forced()
        closed = [*forced, *self._anchored([step for step, _ in forced])]
        frames = [self._step((s,), True) for s in self._take(self._is_frame)]
        rest = [self._step(part, False) for part in self._by_array()]
        steps = sorted([*(step for step, _ in closed), *frames, *rest, *self.opaque], key=self._place)
        flow = Flow(self.program, steps)
        found = {id(step): fit for step, fit in closed}
        return Steps(flow, {n: found[id(step)] for n, step in enumerate(steps) if id(step) in found})

    def _forced(self) -> list[tuple[Step, Fit]]:
        """A person's groups, each checked."""
        if not self.fixed.groups:
            return []
        found = []
        single = self._flow(self.program.statements)
        for group in self.fixed.groups:
            statements = self._take(partial(_belongs, set(group)))
            subject = " + ".join(group)
            if not statements:
                raise BadInput("fuse", subject, "names no operator that has a kernel", "name operators of the graph")
            if goes_round(single, [self.number[s.name] for s in statements]):
                raise BadInput("fuse", subject, self._cycle(statements), "take it in, or leave one of them out")
            fit = self.fits(statements, self._kept(statements))
            if isinstance(fit, str):
                raise BadInput("fuse", subject, f"cannot be one kernel: {fit}", "leave that operator out")
            found.append((self._step(statements, True), fit))
        return found

    def _cycle(self, statements: Sequence[Statement]) -> str:
        """Which operators lie between those of a group."""
        inside = {s.name for s in statements}
        after, before = {s.write.array for s in statements}, {a.array for s in statements for a in s.reads()}
        between: list[Statement] = []
        for statement in self.program.statements:
            if statement.name not in inside and any(a.array in after for a in statement.reads()):
                after.add(statement.write.array)
                between.append(statement)
        for statement in reversed(self.program.statements):
            if statement.write.array in before:
                before |= {a.array for a in statement.reads()}
        names = dict.fromkeys(s.operator for s in between if s.write.array in before)
        return f"would wait for itself: {', '.join(list(names)[:4])} lies between them and is another kernel"

    def _anchored(self, forced: Sequence[Step]) -> list[tuple[Step, Fit]]:
        """Products with their epilogues, none of which takes from a person's groups."""
        free = [s for s in self.program.statements if s.name in self.left]
        apart = [set(pair) for pair in self.fixed.apart]
        flow = Flow(self.program, [*(self._step((s,), False) for s in free), *forced, *self.opaque])
        found = []
        for anchor in anchors(flow, self.readers, apart):
            statements = flow.statements(anchor.steps)
            for statement in statements:
                del self.left[statement.name]
            found.append((self._step(statements, True), self.fits.of(anchor.shape, statements)))
        return found

    def _is_frame(self, statement: Statement) -> bool:
        return serves_product(statement, self.readers.get(statement.write.array, ()))

    def _by_array(self) -> list[tuple[Statement, ...]]:
        """What is left, the parts of one array together where one kernel can write them."""
        writers: dict[str, list[Statement]] = {}
        for statement in self.program.statements:
            if statement.name in self.left:
                writers.setdefault(statement.write.array, []).append(statement)
        parts: list[tuple[Statement, ...]] = []
        for array, statements in writers.items():
            whole = len(statements) == 1 or not isinstance(self.fits(statements, frozenset((array,))), str)
            parts += [tuple(statements)] if whole else [(s,) for s in statements]
        return parts

    def _take(self, wanted: Callable[[Statement], bool]) -> tuple[Statement, ...]:
        """The statements left that are wanted, which are left no more."""
        taken = tuple(s for s in self.program.statements if s.name in self.left and wanted(s))
        for statement in taken:
            del self.left[statement.name]
        return taken

    def _kept(self, statements: Sequence[Statement]) -> frozenset[str]:
        """Arrays that others than `statements` read."""
        names = {s.name for s in statements}
        made = {s.write.array for s in statements}
        outputs = self.program.outputs
        return frozenset(a for a in made if a in outputs or any(r.name not in names for r in self.readers.get(a, ())))

    def _step(self, statements: Sequence[Statement], closed: bool) -> Step:
        made = frozenset(s.write.array for s in statements)
        reads = {a.array for s in statements for a in s.reads()}
        updated = reads & made & self.inputs
        return Step(tuple(statements), frozenset(reads - made | updated), made, closed)

    def _flow(self, statements: Sequence[Statement]) -> Flow:
        return Flow(self.program, [*(self._step((s,), False) for s in statements), *self.opaque])

    def _place(self, step: Step) -> int:
        return self.number[step.statements[-1].name] if step.statements else len(self.number)


def _opaque(op: Operator) -> Step:
    """An operator without statements, which kernels must still stand before or behind."""
    return Step((), frozenset(n for n in op.inputs if n), frozenset(n for n in op.outputs if n), True)


def _belongs(operators: set[str], statement: Statement) -> bool:
    return statement.operator in operators
