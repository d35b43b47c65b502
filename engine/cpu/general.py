"""The family that makes a kernel for a CPU of every legal schedule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.cpu.loops import RegionWriter
from engine.cpu.marks import CpuMarks
from engine.cpu.nodes import CppProgram
from engine.cpu.plan import STACK_BYTES, RegionPlan, plan_region
from engine.cpu.source import KernelText, scratch_arrays
from engine.cpu.traffic import loop_work
from engine.fusion.nodes import FusionGroup
from engine.kernels.general.launches import LaunchPart, launch_parts
from engine.kernels.general.mapping import map_threads
from engine.kernels.general.paths import loops_of, paths
from engine.poly.nodes import Dependence
from engine.scheduling.nodes import ScheduleTree
from engine.target.cpu import CpuTarget

GENERAL = "general"


def lower_general(
    group: FusionGroup, tree: ScheduleTree, needed: Sequence[Dependence], machine: CpuTarget
) -> CppProgram:
    """The kernel of a schedule: one parallel region, or several where its parts share no points."""
    program = group.program
    nest = loops_of(program, tree.root)
    marks = CpuMarks(tree)
    strip = marks.number("block", 0, "elements of a strip, or of what a thread takes at once")
    parts = _regions(list(launch_parts(group, nest, needed)), machine)
    plans = [plan_region(part.group.program, part.nest, part.dependences, machine, strip) for part in parts]
    kernel = KernelText(group, machine)
    shared = {s.write.array for s in program.statements} - {*program.outputs, *program.inputs}
    shared -= {name for plan in plans for name in plan.locals}
    with kernel.function():
        scratch = scratch_arrays(kernel.text, program, plans, sorted(shared))
        for plan in plans:
            with kernel.text.scope():
                RegionWriter(plan, kernel.text, int(machine.cores.value)).write()
    config = {"strip": max(plan.strip for plan in plans)}
    return CppProgram(
        GENERAL, kernel.source(scratch), loop_work(program, plans, machine), config, marks.notes(),
        {name: placement for plan in plans for name, placement in _placements(plan)},
    )  # fmt: skip


def _regions(parts: Sequence[LaunchPart], machine: CpuTarget) -> list[LaunchPart]:
    """The whole schedule as one region where that has points for all cores; else the longest runs of its parts."""
    whole = max(parts, key=lambda part: part.end - part.first)
    points = map_threads(whole.group.program, paths(whole.nest), whole.dependences).points
    if len(parts) == 1 or points >= 2 * machine.cores.value:
        return [whole]
    found: list[LaunchPart] = []
    while not found or found[-1].end < whole.end:
        first = found[-1].end if found else whole.first
        found.append(max((p for p in parts if p.first == first and p is not whole), key=lambda part: part.end))
    return found


def _placements(plan: RegionPlan) -> Iterator[tuple[str, str]]:
    for statement in plan.program.statements:
        place, array = plan.where[statement.name], statement.write.array
        if array in plan.locals:
            size = plan.locals[array].bytes
            kept = "on its stack" if size <= STACK_BYTES else "in memory of its own"
            yield statement.name, f"{size:,} bytes of each thread, {kept}: a later loop of the same point reads it"
        elif place.in_memory or array in plan.program.outputs:
            yield statement.name, "memory"
        else:
            yield statement.name, "variable: made and used in one iteration"
