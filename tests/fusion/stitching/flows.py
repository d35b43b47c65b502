"""Flows of single statements for tests of the search."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from engine.fusion.group_signature import Patterns
from engine.fusion.legality import KernelLegality
from engine.fusion.stitching.cost_cache import Assessor
from engine.fusion.stitching.dataflow import Flow, FlowStep
from engine.fusion.stitching.nodes import CandidateKernel
from engine.target import target
from engine.tensor.nodes import Statement, TensorProgram

H200 = target("h200")


def flow_of(program: TensorProgram, closed: Collection[str] = ()) -> Flow:
    """Each statement a step; those named in `closed` take no part in fusion."""

    def step(statement: Statement) -> FlowStep:
        made = frozenset((statement.write.array,))
        read = frozenset(a.array for a in statement.reads())
        return FlowStep((statement,), read - made, made, statement.name in closed)

    return Flow(program, [step(s) for s in program.statements])


def assessor_of(flow: Flow) -> Assessor:
    """An assessor with the code generator's loop spaces."""
    patterns = Patterns(flow.program.arrays, ())
    return Assessor(flow, KernelLegality(flow.program.arrays, H200), patterns.statement, H200)


def alone(flow: Flow) -> list[CandidateKernel]:
    """A kernel for each step."""
    return [CandidateKernel(frozenset((n,)), frozenset((n,)), step.closed) for n, step in enumerate(flow.steps)]


def names(flow: Flow, kernels: Sequence[CandidateKernel]) -> list[str]:
    """The kernels by their statements' names, those that are written marked: "S0 S1*"."""
    return [
        " ".join(f"{s.name}{'*' if n in kernel.roots else ''}" for n in sorted(kernel.members)
                 for s in flow.steps[n].statements)
        for kernel in kernels
    ]  # fmt: skip
