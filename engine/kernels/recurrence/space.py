"""What a search may choose of a recurrence: the threads of a block, and its points of every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from engine.cost.nodes import Work, phased_work
from engine.fusion.nodes import FusionGroup
from engine.kernels.advice import mark
from engine.kernels.nodes import Kernel
from engine.kernels.prune import PruningRule, make_task
from engine.kernels.recurrence.lower import RecurrenceConfig, most_blocks, steps_of_schedule
from engine.kernels.sketch_rules import THREAD_CHOICES, TILING_WITH_FUSION, Situation
from engine.kernels.space import KernelTemplate, Program, Task, Value, with_counts
from engine.kernels.stitched.block_walks import BlockWalks, block_walks
from engine.kernels.stitched.layout import StitchedConfig
from engine.kernels.stitched.placement import plan_parts
from engine.recipe import Entry
from engine.support.divisors import divisors
from engine.support.errors import Unsupported
from engine.target.registers import STITCHED_BASE

NAME = "steps that meet"
MOST_IDLE = 8
"""One SM in so many has a block at least: with fewer blocks a step only takes longer."""


@dataclass(frozen=True, slots=True)
class Recurrence(KernelTemplate):
    """The programs of a recurrence."""

    steps: tuple[BlockWalks, ...]

    name: ClassVar[str] = NAME
    decided: ClassVar[frozenset[str]] = frozenset(("block", "thread"))

    def dimension(self, step: BlockWalks) -> str:
        """Of the points of a block, which steps of as many points share."""
        is_one = len({other.points for other in self.steps}) == 1
        return "points" if is_one else f"points of {step.points}"

    def blocks(self, program: Program) -> int:
        """Of the launch: of the step that has most."""
        return max(step.points // program.number(self.dimension(step)) for step in self.steps)

    def entries(self, program: Program) -> Sequence[Entry]:
        """The marks that ask for a program, on each step."""
        found: list[Entry] = []
        for step in self.steps:
            everyone = tuple(s.name for s in step.program.statements)
            found.append(mark(everyone, "outermost", "thread", program.number("threads"), ""))
            if step.nest.outer:
                found.append(mark(everyone, "outermost", "block", program.number(self.dimension(step)), ""))
        return found

    def work(self, program: Program) -> Work:
        """That of each step from its walks, put right by the count of `kernel`."""
        advised = self.program_of(self.kernel)
        assert advised is not None, "every recurrence has threads and points"
        found = []
        for walks, counted in zip(self.steps, self.kernel.facts.launches, strict=True):
            form, now = (self._form(walks, one, counted) for one in (program, advised))
            found.append(with_counts(form, now, counted))
        return phased_work(found)

    def program_of(self, kernel: Kernel) -> Program | None:
        """The program with a kernel's threads and points."""
        config = kernel.tile.config
        if not isinstance(config, RecurrenceConfig):
            return None
        values: dict[str, Value] = {"threads": config.threads}
        for walks, step in zip(self.steps, config.steps, strict=True):
            assert isinstance(step, StitchedConfig), "steps are stitched"
            values.setdefault(self.dimension(walks), step.points)
        return Program(NAME, tuple(values.items()))

    def _form(self, walks: BlockWalks, program: Program, counted: Work) -> Work:
        """One step in closed form, where a byte and a sector stand for a point.  counted: of the advised kernel."""
        threads, points = program.number("threads"), program.number(self.dimension(walks))
        blocks, walked = walks.points // points, walks.under(threads, points)
        staged, turns = 0, 1
        try:
            plan = plan_parts(walks.program, walked.parts, walks.names, points, {}, self.machine)
            staged, turns = plan.shared_bytes, plan.longest_loop(walks.program.inputs)
        except Unsupported:
            pass  # what a block has no room for, its compilation refuses
        return replace(
            counted,
            blocks=self.blocks(program),
            threads=threads,
            serial_steps=turns,
            shared_bytes=walked.scratch_bytes + staged,
            shared_bytes_moved=blocks * (2 * staged + walked.met_bytes),
            registers=STITCHED_BASE + walked.elements_held,
            l2_bytes=blocks * walked.points_visited,
            global_sectors=blocks * walked.points_visited,
        )


def recurrence_tasks(group: FusionGroup, kernel: Kernel) -> list[Task]:
    """The one task of a recurrence."""
    steps = (block_walks(step.program, tree) for step, tree in steps_of_schedule(group, kernel.schedule))
    template = Recurrence(group, kernel, tuple(steps))
    advised = template.program_of(kernel)
    assert advised is not None, "every recurrence has threads and points"
    choices: dict[str, tuple[Value, ...]] = {}
    for step in template.steps:
        most = max(1, MOST_IDLE * step.points // kernel.target.sm_count)
        own = {advised.number(template.dimension(step)), *divisors(step.points, most)}
        choices[template.dimension(step)] = tuple(sorted(own))
    offers = {TILING_WITH_FUSION: {"threads": THREAD_CHOICES, **choices}}

    def left_out(program: Program) -> str:
        threads, blocks = program.number("threads"), template.blocks(program)
        most = most_blocks(threads, 0, template.machine)
        return f"{blocks:,} blocks, {most:,} of {threads} threads run at once" if blocks > most else ""

    room = PruningRule("blocks at once", left_out, "each block waits for all others")
    return [make_task(template, Situation(NAME, dict(advised.values), offers), (room,), kernel, kernel.target)]
