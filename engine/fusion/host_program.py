"""What a host program does between the launches of a plan: which operators it runs, when, and what it leaves out.

launch 0: c; launch 1: a; launch 2: b; If(c) {a} else {b}
->    launch 1 where c holds, launch 2 where it does not; after all three, the choice
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from engine.fusion.nodes import FusionGroup, FusionPlan, Launch
from engine.graph.host import BRANCHES
from engine.graph.nodes import HostStep, Operator


@dataclass(frozen=True, slots=True, order=True)
class LaunchCondition:
    """A launch that is needed where a tensor of one element is true, or where it is not."""

    tensor: str
    holds: bool


Conditions = frozenset[LaunchCondition]


@dataclass(frozen=True, slots=True)
class HostRun:
    """An operator that the host runs."""

    operator: Operator
    step: HostStep
    """What the host does for it."""
    after: int
    """Launches that have to be done before."""


@dataclass(frozen=True, slots=True)
class HostProgram:
    """The host's part of a plan."""

    runs: tuple[HostRun, ...]
    """In order."""
    conditions: tuple[tuple[LaunchCondition, ...], ...]
    """Of each launch: all have to hold, else nobody reads what it writes.  Asked in order: where one does not hold, the
    tensors of those behind it may not be there."""


def host_program(plan: FusionPlan) -> HostProgram:
    """The host's part of a plan; a plan that comes from no graph has none."""
    graph = plan.source
    if graph is None or not graph.host:
        return HostProgram((), ((),) * len(plan.launches))
    groups, runs = {group.name: group for group in plan.groups}, places_without_kernel(plan)
    shown = frozenset((*graph.outputs, *(update.value for update in graph.updates)))
    readers: dict[str, Conditions] = dict.fromkeys(shown, frozenset())
    conditions: dict[int, Conditions] = {}
    steps = list(enumerate(_sequence(plan, runs)))
    ready = {name: at for at, step in steps for name in _tensors(groups, step)[1]}
    for at, step in reversed(steps):
        reads, writes = _tensors(groups, step)
        needed = reduce(frozenset.intersection, [readers[name] for name in writes if name in readers] or [frozenset()])
        needed = frozenset(one for one in needed if ready.get(one.tensor, -1) < at)
        for name, slots in _slots(step, reads).items():
            conditions_here = needed | slots
            readers[name] = readers[name] & conditions_here if name in readers else conditions_here
        conditions[at] = needed
    of_launches = [
        tuple(sorted(conditions[at], key=lambda one: (ready.get(one.tensor, -1), one)))
        for at, step in steps
        if isinstance(step, Launch)
    ]
    on_host = [HostRun(op, graph.host[op.name], after) for op, after in runs if op.name in graph.host]
    return HostProgram(tuple(on_host), tuple(of_launches))


def places_without_kernel(plan: FusionPlan) -> list[tuple[Operator, int]]:
    """Operators that no kernel computes in order, with how many launches make what they read."""
    graph, without_kernel = plan.source, plan.without_kernel
    if graph is None or not without_kernel:
        return []
    groups = {group.name: group for group in plan.groups}
    done: dict[str, int] = {}
    for number, launch in enumerate(plan.launches):
        done.update(dict.fromkeys(_tensors(groups, launch)[1], number + 1))
    found = []
    for op in graph.operators:
        if op.name in without_kernel:
            after = max((done.get(name, 0) for name in op.inputs), default=0)
            done.update(dict.fromkeys(op.outputs, after))
            found.append((op, after))
    return sorted(found, key=lambda one: one[1])


def host_row(run: HostRun) -> dict[str, Any]:
    """An operator that the host runs, why, and the numbers that the data decide there, as plain data."""
    sizes = {one.name: {"made_for": one.assumed, "largest": one.largest} for one in run.step.decisions}
    return {"operator": run.operator.name, "type": run.operator.kind, "because": run.step.because, "sizes": sizes}


Groups = Mapping[str, FusionGroup]


def _sequence(plan: FusionPlan, runs: Sequence[tuple[Operator, int]]) -> Iterator[Launch | Operator]:
    """Launches and operators without a kernel in order; runs: by the number of launches before them."""
    left = deque(runs)
    for number, launch in enumerate((*plan.launches, None)):
        while left and left[0][1] == number:
            yield left.popleft()[0]
        if launch:
            yield launch


def _tensors(groups: Groups, step: Launch | Operator) -> tuple[list[str], list[str]]:
    """What a step reads, and what it writes."""
    if isinstance(step, Operator):
        return [name for name in step.inputs if name], [name for name in step.outputs if name]
    group = groups[step.group]
    arrays = group.instances[step.instance].arrays
    return [arrays[name] for name in group.program.inputs], [arrays[name] for name in group.program.outputs]


def _slots(step: Launch | Operator, reads: Sequence[str]) -> dict[str, Conditions]:
    """Tensor that a step reads -> the conditions under which it does."""
    always = dict.fromkeys(reads, Conditions())
    if not isinstance(step, Operator) or step.kind != "If":
        return always
    found: dict[str, Conditions] = {step.inputs[0]: frozenset()}
    for branch, holds in zip(BRANCHES, (True, False), strict=True):
        names = step.attributes.get(branch)
        for name in names if isinstance(names, tuple) else ():
            here = frozenset((LaunchCondition(step.inputs[0], holds),))
            found[str(name)] = found[str(name)] & here if str(name) in found else here
    return always | found
