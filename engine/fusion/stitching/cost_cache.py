"""Costs of kernels, computed once for all that are alike but for the names of their arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence

from engine.fusion.stitching.dataflow import Flow
from engine.fusion.stitching.nodes import MOST_STATEMENTS, CandidateKernel, Cost, Fit, Fixed, Gain, Legality
from engine.fusion.stitching.pattern_score import cost, gain
from engine.target import Target
from engine.tensor.nodes import Statement

Outline = Callable[[Statement], tuple[Hashable, tuple[str, ...]]]
"""What a statement is but for the names of its arrays, and these in order of appearance."""


class Assessor:
    """Says of kernels whether and how they fit, and what they cost."""

    def __init__(
        self, flow: Flow, legal: Legality, outline: Outline, target: Target, fixed: Fixed | None = None
    ) -> None:
        self.flow = flow
        self.target = target
        self._legal = legal
        self._outline = outline
        self._fixed = fixed or Fixed()
        self._known: dict[CandidateKernel, Cost | None] = {}
        """Costs of first kernels."""
        self._fits: dict[CandidateKernel, Fit | str] = {}
        self._first: dict[Hashable, CandidateKernel] = {}
        self._first_of: dict[CandidateKernel, CandidateKernel] = {}
        self.times: dict[CandidateKernel, float] = {}
        """Microseconds by the accurate model, of first kernels."""

    def cost(self, kernel: CandidateKernel) -> Cost | None:
        """What a kernel costs, in the names of the first kernel alike; None where it cannot be one."""
        if self._why_apart(kernel.members):
            return None
        first = self.first(kernel)
        try:  # nearly always known: the search asks for the same kernels many times
            return self._known[first]
        except KeyError:
            fit, statements, kept = self.fit(first), self.flow.statements(first.members), self.stored_arrays(first)
            found = None if isinstance(fit, str) else cost(statements, fit, kept, self.flow.program, self.target)
            return self._known.setdefault(first, found)

    def first(self, kernel: CandidateKernel) -> CandidateKernel:
        """The first kernel alike: the one in whose names the cost speaks."""
        found = self._first_of.get(kernel)
        return found or self._first_of.setdefault(kernel, self._first.setdefault(self._key(kernel), kernel))

    def fit(self, kernel: CandidateKernel) -> Fit | str:
        """How the statements of a kernel fit, or why they do not, in the kernel's own names."""
        if kernel not in self._fits:
            statements = self.flow.statements(kernel.members)
            if len(statements) > MOST_STATEMENTS:
                return f"a kernel of {len(statements)} steps takes long to schedule, {MOST_STATEMENTS} are the most"
            reason = self._why_apart(kernel.members)
            self._fits[kernel] = reason or self._legal(statements, self.stored_arrays(kernel))
        return self._fits[kernel]

    def because(self, kernel: CandidateKernel) -> str:
        """Why a kernel does not fit, as precisely as can be told a person; "" where it does."""
        if not self._fixed.apart and not isinstance(self.fit(self.first(kernel)), str):
            return ""  # as of all that are alike; reasons name operators
        fit = self.fit(kernel)
        if not isinstance(fit, str):
            return ""
        if len(self.flow.statements(kernel.members)) > MOST_STATEMENTS or self._why_apart(kernel.members):
            return fit
        return self._legal.because(self.flow.statements(kernel.members), self.stored_arrays(kernel), fit)

    def why_closed(self, kernel: CandidateKernel) -> str:
        """Why a kernel takes no other in, or ""."""
        operators = {s.operator for s in self.flow.statements(kernel.members)}
        for group in self._fixed.groups:
            if not operators.isdisjoint(group):
                together = f"one kernel of {' + '.join(group)}" if len(group) > 1 else f"a kernel of {group[0]} alone"
                return f"you made {together}, which takes in no other"
        if not kernel.closed:
            return ""
        anchor = next((s.operator for s in self.flow.statements(kernel.members) if s.reduction), "")
        return f"the product {anchor} takes in only element-wise operators after it" if anchor else ""

    def gain(self, parts: Sequence[CandidateKernel], whole: CandidateKernel) -> Gain | None:
        """What one kernel instead of several saves; None where it cannot be one."""
        together = self.cost(whole)
        if together is None:
            return None
        costs = [c for part in parts if (c := self.cost(part)) is not None]
        return gain(costs, together, self.target) if len(costs) == len(parts) else None

    def stored_arrays(self, kernel: CandidateKernel) -> frozenset[str]:
        """Arrays of a kernel that are written for others."""
        flow = self.flow
        return frozenset(a for root in kernel.roots for a in flow.steps[root].made if self._leaves(a, root, kernel))

    def _leaves(self, array: str, step: int, kernel: CandidateKernel) -> bool:
        """Whether an array of a root is needed outside; what else its step makes stays where it is made."""
        flow = self.flow
        if len(flow.steps[step].made) == 1 or array in flow.outputs:
            return True
        return any(n not in kernel.members and array in flow.steps[n].reads for n in flow.consumers[step])

    def _why_apart(self, members: Collection[int]) -> str:
        """Why a person's choice keeps some steps out of one kernel, or ""."""
        if not self._fixed.apart:
            return ""
        return self._fixed.why_apart({s.operator for m in members for s in self.flow.steps[m].statements})

    def _key(self, kernel: CandidateKernel) -> Hashable:
        """Equal for kernels that differ in the names of arrays alone."""
        program, inputs, kept = self.flow.program, self.flow.inputs, self.stored_arrays(kernel)
        place: dict[str, int] = {}
        outlines = [self._outline(statement) for statement in self.flow.statements(kernel.members)]
        numbers = tuple([number for number, _ in outlines])
        places = tuple([place.setdefault(name, len(place)) for _, names in outlines for name in names])
        arrays = tuple([(program.arrays[a].shape, program.arrays[a].dtype, a in kept, a in inputs) for a in place])
        return numbers, places, arrays
