"""Groups that a person asks for: whether their operators can be one kernel, and which operator prevents it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from functools import cached_property

from engine.fusion.attention_shape import attention_form
from engine.fusion.chained_products import chained_shape
from engine.fusion.legality import KernelLegality
from engine.fusion.packing import parts_of
from engine.fusion.paired_products import NO_PAIR, paired_shape, products_first
from engine.fusion.shape import is_contraction
from engine.fusion.stitching.dataflow import Flow, FlowStep
from engine.fusion.stitching.kernel_graph import Joins, joins_of
from engine.fusion.stitching.nodes import Fit, Fixed
from engine.graph.nodes import Operator
from engine.support.errors import BadInput
from engine.support.grouping import group_by
from engine.target.machines import is_cpu
from engine.tensor.nodes import Statement, TensorProgram


def check_fixed(fixed: Fixed, program: TensorProgram) -> None:
    """BadInput where what a person decided names no operator of the program, or contradicts itself."""
    known = {s.operator for s in program.statements}
    for kind, listed in (("groups", fixed.groups), ("apart", fixed.apart)):
        for operators in listed:
            if isinstance(operators, str) or not operators or (kind == "apart" and len(set(operators)) != 2):
                reason = f"takes tuples of {'two ' if kind == 'apart' else ''}operators, not {operators!r}"
                raise BadInput("fuse", f"fixed {kind}", reason, 'for example (("Add_3", "Mul_4"),)')
            for name in operators:
                if name not in known:
                    near = get_close_matches(str(name), known) or sorted(known)[:8]
                    hint = f"operators are {', '.join(near)}"
                    reason = f"{name} names no operator that has a kernel"
                    raise BadInput("fuse", " + ".join(map(str, operators)), reason, hint)
    for group in fixed.groups:
        contradiction = fixed.why_apart(group)
        if contradiction:
            raise BadInput("fuse", " + ".join(group), f"is to be one kernel, and {contradiction}", "leave out one")


class UserGroups:
    """Checks groups of one program.  Other kernels matter only for cycles: what they wait for and what they feed."""

    def __init__(self, program: TensorProgram, without_kernel: Sequence[FlowStep], fits: KernelLegality) -> None:
        self.program, self.fits = program, fits
        self._without_kernel = without_kernel
        self._number = {s.name: n for n, s in enumerate(program.statements)}
        self._by_operator = group_by(program.statements, lambda s: s.operator)

    def statements(self, operators: Collection[str]) -> tuple[Statement, ...]:
        """What operators compute, as data flows: what is made is soon used, so that few values are alive at once."""
        found = [s for op in dict.fromkeys(operators) for s in self._by_operator.get(op, ())]
        return tuple(sorted(found, key=lambda s: self._single.order[self._number[s.name]]))

    def fit(self, group: Sequence[str], among: Collection[str] | None = None) -> tuple[tuple[Statement, ...], Fit]:
        """The statements of a group's operators and how they fit one kernel.

        among: names of the statements that are free to be taken; by default all.  Raises BadInput, telling operators
        and figures, where the group cannot be.
        """
        found = self.statements(group)
        statements = found if among is None else tuple(s for s in found if s.name in among)
        subject = " + ".join(group)
        if not statements:
            raise BadInput("fuse", subject, "names no operator that has a kernel", "name operators of the graph")
        if self._joins.closes_cycle(self._places(statements)):
            raise BadInput("fuse", subject, self._cycle(statements), "take it in, or leave one of them out")
        kept = self.program.needed_outside(statements)
        fit = refused = self.fits(statements, kept)
        if isinstance(refused, str):
            fit = self._attention(statements, kept) or refused
        if isinstance(fit, str):
            fit = self._pair(statements, kept) or fit
            statements = statements if isinstance(fit, str) else products_first(statements)
        if isinstance(fit, str):
            fit = self._chain(statements, kept) or fit
        if isinstance(fit, str):
            reason = self.fits.because(statements, kept, fit) if fit == refused else fit
            raise BadInput("fuse", subject, f"cannot be one kernel: {reason}", "leave that operator out")
        return statements, fit

    def hold(self, statements: Sequence[Statement]) -> None:
        """Note that a group that fits is one kernel: groups looked at later must not wait for it and feed it."""
        self._joins.join(self._places(statements))

    def _places(self, statements: Sequence[Statement]) -> tuple[int, ...]:
        return tuple(self._single.order[self._number[s.name]] for s in statements)

    @cached_property
    def _joins(self) -> Joins:
        return joins_of(self._single)

    def _attention(self, statements: Sequence[Statement], kept: frozenset[str]) -> Fit | str:
        """How statements fit the kernel of an attention, or why not; "" where they are nothing like one."""
        shape = attention_form(statements, kept, self.program.arrays, self.fits.target)
        return shape if isinstance(shape, str) else self.fits.of(shape, statements)

    def _pair(self, statements: Sequence[Statement], kept: frozenset[str]) -> Fit | str:
        """How statements fit the kernel of two products of a factor, or why not; "" where they are nothing like it."""
        shape = paired_shape(statements, kept)
        if shape == NO_PAIR or len(parts_of(statements)) > 1 or is_cpu(self.fits.target.name):
            return ""
        return shape if isinstance(shape, str) else self.fits.of(shape, statements)

    def _chain(self, statements: Sequence[Statement], kept: frozenset[str]) -> Fit | None:
        """How statements fit the kernel of two products in a row; None where they do not."""
        if is_cpu(self.fits.target.name):
            return None
        read = {array for s in statements if is_contraction(s) for array in s.sources}
        factors = tuple(s.name for s in statements if s.reduction is None and s.write.array in read - kept)
        for inlined in ((), factors):
            shape = chained_shape(statements, kept, inlined, self.program.arrays, self.fits.target)
            if not isinstance(shape, str):
                return self.fits.of(shape, statements)
        return None

    @cached_property
    def _single(self) -> Flow:
        """Every statement as a step of its own."""
        inputs = frozenset(self.program.inputs)
        steps = [step((s,), False, inputs) for s in self.program.statements]
        return Flow(self.program, [*steps, *self._without_kernel])

    def _cycle(self, statements: Sequence[Statement]) -> str:
        """Which operators lie between those of a group."""
        inside = {s.name for s in statements}
        after, before = {s.write.array for s in statements}, {array for s in statements for array in s.sources}
        between: list[Statement] = []
        for statement in self.program.statements:
            if statement.name not in inside and not after.isdisjoint(statement.sources):
                after.add(statement.write.array)
                between.append(statement)
        for statement in reversed(self.program.statements):
            if statement.write.array in before:
                before.update(statement.sources)
        names = list(dict.fromkeys(s.operator for s in between if s.write.array in before))
        if not names:
            return "would wait for itself: another of your groups needs a result of it and makes what it reads"
        more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
        are = "lie between them and are other kernels" if len(names) > 1 else "lies between them and is another kernel"
        return f"would wait for itself: {', '.join(names[:3])}{more} {are}"


def step(statements: Sequence[Statement], closed: bool, inputs: frozenset[str]) -> FlowStep:
    """Statements that are computed together.  inputs: of the program; one that they overwrite, they also read."""
    made = frozenset([s.write.array for s in statements])
    reads = frozenset([array for s in statements for array in s.sources])
    elsewhere = reads if made.isdisjoint(reads) else reads - (made - inputs)
    return FlowStep(tuple(statements), elsewhere, made, closed)


def opaque(op: Operator) -> FlowStep:
    """An operator without statements, which kernels must still stand before or behind."""
    return FlowStep((), frozenset(n for n in op.inputs if n), frozenset(n for n in op.outputs if n), True)
