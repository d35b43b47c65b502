"""Element-wise and layout groups: loop order, vectors, threads, and how many of them a thread takes.

    walks          each thread owns vectors of elements; threads are neighbours along the innermost dimension
    shared tile    reads that run across the direction of the write are turned in a square tile in shared memory
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from engine.fusion.nodes import FusionGroup
from engine.kernels.advice import mark
from engine.kernels.analytical_estimate import promised
from engine.kernels.elementwise.advise import plan_entries
from engine.kernels.elementwise.plans import Plan, plans, widest
from engine.kernels.elementwise.thread_tiling import UNROLLED
from engine.kernels.elementwise.transpose import TILE
from engine.kernels.loop_nest import Nest, loop_nest
from engine.kernels.marks import Marks
from engine.kernels.nodes import Kernel
from engine.kernels.prune import Check, checked, resource_checks, user_check
from engine.kernels.sketch_rules import CACHE_READ, INLINE, TILING, Choices, Situation, sketch
from engine.kernels.space import KernelPrograms, Program, ResourceEstimate, Task, Value
from engine.recipe import Entry
from engine.target.hardware import SECTOR
from engine.target.registers import ELEMENTWISE_BASE
from engine.tensor.live_values import most_alive
from engine.tensor.rewrite import plain_iterator

WALKS, TILED = "walks", "shared tile"
DECIDED = frozenset(("pin", "split", "vector", "thread", "block", "tile", "unroll"))
ORDER = frozenset(("pin", "cut", "split", "parallel", "terms", "equal", "objective"))
"""Fields of entries that say in which order loops are, or how they are cut."""
THREADS, STEPS = (32, 64, 128, 256, 512, 1024), (1, 2, 4, 8)
"""Threads of a block, and portions that each of them takes."""


@dataclass(frozen=True, slots=True)
class Walks(KernelPrograms):
    """The programs of an element-wise group without a shared tile."""

    plans: dict[str, Plan]
    """By their names: what a program may take for `walk`."""
    elements: int
    alive: int
    """Values that a thread holds for one element."""

    name: ClassVar[str] = WALKS
    decided: ClassVar[frozenset[str]] = DECIDED

    def plan(self, program: Program) -> Plan:
        """How a program walks."""
        return self.plans[str(program["walk"])]

    def portion(self, program: Program) -> int:
        """Elements that the threads of a block take at once."""
        return program.number("threads") * self.plan(program).walk.width

    def entries(self, program: Program) -> Sequence[Entry]:
        """Loop order, vectors, threads, and the elements of a block."""
        target = (widest(self.kernel.program).name,)
        block = self.portion(program) * program.number("steps")
        return (
            *plan_entries(self.plan(program), self.kernel.program),
            mark(target, "innermost", "thread", program.number("threads"), ""),
            mark(target, "innermost", "block", block, ""),
        )

    def figures(self, program: Program) -> ResourceEstimate:
        """From the walk: every element is asked for once."""
        width, steps = self.plan(program).walk.width, program.number("steps")
        block = self.portion(program) * steps
        blocks = -(-self.elements // block)
        facts = self.kernel.facts
        ours = facts.blocks * self.kernel.tile.constants.get("BLOCK_ELEMENTS", TILE**2)
        return ResourceEstimate(
            blocks=blocks,
            threads=program.number("threads"),
            steps=1 if steps <= UNROLLED else steps,
            stages=1,
            shared_bytes=0,
            registers=ELEMENTWISE_BASE + self.alive * width,
            requested=facts.l2_bytes * blocks * block // ours,
        )

    def rank(self, program: Program) -> float:
        """What the model of compiled kernels promises, with the sectors that a warp requests in this order."""
        requests = self.plan(program).requests
        sectors = round(requests.sectors * SECTOR * self.elements)
        return promised(
            self.kernel.facts, self.figures(program), self.machine, requests.requests * self.elements, sectors
        )

    def program_of(self, kernel: Kernel) -> Program | None:
        """The program that a kernel stands at."""
        sizes = kernel.tile.constants
        if not {"BLOCK_ELEMENTS", "STEPS", "VECTOR"} <= sizes.keys():
            return None
        nest = loop_nest(kernel.program, kernel.schedule)
        found = next((name for name, plan in self.plans.items() if _is_walked(plan, nest, kernel)), None)
        if found is None:
            return None
        return Program(WALKS, (("walk", found), ("threads", kernel.tile.threads), ("steps", sizes["STEPS"])))


def _is_walked(plan: Plan, nest: Nest, kernel: Kernel) -> bool:
    """Whether a kernel's loops and vectors are those of a plan."""
    sizes, target = kernel.tile.constants, widest(kernel.program).name
    order = tuple(plain_iterator(m.rows[target]) for m in nest.outer)
    if order != tuple(name for name, _ in plan.walk.order) or plan.walk.width != sizes["VECTOR"]:
        return False
    if not plan.walk.in_strips:
        return "OWNED" not in sizes
    along = Marks(nest).member("vector")
    run = plain_iterator(along.rows[target]) if along is not None else None
    return run == plan.walk.run[-1] and sizes.get("OWNED") == plan.walk.width


@dataclass(frozen=True, slots=True)
class Tiles(KernelPrograms):
    """The programs of a group whose reads are turned in a shared tile."""

    plan: Plan
    elements: int
    alive: int

    name: ClassVar[str] = TILED
    decided: ClassVar[frozenset[str]] = DECIDED

    def entries(self, program: Program) -> Sequence[Entry]:
        """The tile, and the threads that move it."""
        target = (widest(self.kernel.program).name,)
        threads = mark(target, "innermost", "thread", program.number("threads"), "")
        return (mark(target, "innermost", "tile", TILE, ""), threads)

    def figures(self, program: Program) -> ResourceEstimate:
        """A tile for each block, every read turned in one of its own."""
        threads, facts = program.number("threads"), self.kernel.facts
        turned = 4 * TILE * (TILE + 1)
        return ResourceEstimate(
            -(-self.elements // TILE**2), threads, 1, 1, turned, ELEMENTWISE_BASE + self.alive * (TILE**2 // threads),
            facts.l2_bytes,
        )  # fmt: skip

    def rank(self, program: Program) -> float:
        """What the model of compiled kernels promises, with the sectors that a warp requests through the tile."""
        requests = self.plan.requests
        sectors = round(requests.sectors * SECTOR * self.elements)
        return promised(
            self.kernel.facts, self.figures(program), self.machine, requests.requests * self.elements, sectors
        )

    def program_of(self, kernel: Kernel) -> Program | None:
        """The program that a kernel stands at."""
        is_tiled = {"TILE", "ACROSS", "ALONG"} <= kernel.tile.constants.keys()
        return Program(TILED, (("threads", kernel.tile.threads),)) if is_tiled else None


def element_tasks(group: FusionGroup, kernel: Kernel) -> list[Task]:
    """A task for walks and one for a shared tile, where that turns something; that of `kernel` first."""
    program = kernel.program
    found = plans(program, 0)
    elements, alive = math.prod(widest(program).extents.values()), most_alive(program.statements).values
    named = {_name(plan): plan for plan in found if _is_walk(plan) and _is_left(plan, kernel)}
    tasks: list[Task] = []
    if named:
        walks = Walks(group, kernel, named, elements, alive)
        offers: dict[str, Choices] = {TILING: {"walk": tuple(named), "threads": THREADS, "steps": STEPS}}
        fixed: dict[str, Value] = {"walk": next(iter(named)), "threads": THREADS[0], "steps": 1}
        whole = Check("elements of a block", lambda p: _too_few(walks, p), "one block takes all of them as well")
        tasks.append(_task(walks, Situation(WALKS, fixed, offers | _inline(group)), (whole,)))
    tiled = next((plan for plan in found if plan.is_tiled), None)
    if tiled is not None and not _orders_of_user(kernel):
        tiles = Tiles(group, kernel, tiled, elements, alive)
        offers = {CACHE_READ: {}, TILING: {"threads": THREADS}}
        tasks.append(_task(tiles, Situation(TILED, {"threads": THREADS[0]}, offers | _inline(group)), ()))
    return sorted(tasks, key=lambda task: task.family.program_of(kernel) is None)


def _inline(group: FusionGroup) -> dict[str, Choices]:
    return {INLINE: {}} if len(group.program.statements) > 1 else {}


def _task(family: Walks | Tiles, situation: Situation, checks: tuple[Check, ...]) -> Task:
    made, applied = sketch(situation)
    resources = resource_checks(family.figures, family.machine)
    rules = (*checks, *resources, user_check(family, family.kernel))
    return Task(family.name, made.dimensions, checked(made.points(), rules), applied, family)


def _is_walk(plan: Plan) -> bool:
    """Whether a plan needs no tile, and no strips of one element."""
    return not plan.is_tiled and not (plan.walk.in_strips and plan.walk.width == 1)


def _name(plan: Plan) -> str:
    """A word for a walk: its loops, outermost first, and its vectors."""
    order = " ".join(name for name, _ in plan.walk.order)
    if plan.walk.width == 1:
        return order
    return f"{order}, {plan.walk.width} along {plan.walk.run[-1]}"


def _orders_of_user(kernel: Kernel) -> bool:
    """Whether a person says something of the order of loops."""
    own = (e for one in kernel.advice if one.author == "user" for e in one.scenario.entries if e.enabled)
    return any(entry.field in ORDER for entry in own)


def _is_left(plan: Plan, kernel: Kernel) -> bool:
    """Whether a person's order of loops, where there is one, is that of a plan."""
    if not _orders_of_user(kernel):
        return True
    target = widest(kernel.program).name
    order = tuple(plain_iterator(m.rows[target]) for m in loop_nest(kernel.program, kernel.schedule).outer)
    return order == tuple(name for name, _ in plan.walk.order) and not plan.walk.in_strips


def _too_few(family: Walks, program: Program) -> str:
    portion, steps = family.portion(program), program.number("steps")
    needed = -(-family.elements // portion)
    if steps > needed:
        return f"{steps} times {portion} elements, {needed} are all of {family.elements}"
    return ""
