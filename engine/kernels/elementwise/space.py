"""Element-wise and layout groups: loop order, vectors, threads, and how many of them a thread takes.

    walks          each thread owns vectors of elements; threads are neighbours along the innermost dimension
    shared tile    reads that run across the direction of the write are turned in a square tile in shared memory
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from engine.cost.nodes import Work
from engine.fusion.nodes import FusionGroup
from engine.graph.nodes import DTYPES
from engine.kernels.advice import mark
from engine.kernels.elementwise.advise import plan_entries, tile_entries
from engine.kernels.elementwise.config import ElementwiseConfig, Strips
from engine.kernels.elementwise.plans import WalkPlan, plans, widest
from engine.kernels.elementwise.tiles import EDGES, TransposeConfig, edge_of, threads_of
from engine.kernels.loop_nest import loop_nest
from engine.kernels.marks import WRITTEN_OUT
from engine.kernels.nodes import Kernel
from engine.kernels.prune import PruningRule, make_task, user_entries
from engine.kernels.sketch_rules import CACHE_READ, INLINE, THREAD_CHOICES, TILING, Choices, Situation
from engine.kernels.space import KernelTemplate, Program, Task, Value
from engine.recipe import Entry
from engine.support.divisors import divisors
from engine.target.hardware import MAX_THREADS, REGISTER_BYTES, WARP
from engine.target.registers import ELEMENTWISE_BASE
from engine.tensor.live_values import most_alive
from engine.tensor.rewrite import plain_iterator
from engine.tile.storage import shared_bytes_of

WALKS, TILED = "walks", "shared tile"
DECIDED = frozenset(("pin", "split", "vector", "thread", "block", "tile", "unroll"))
ORDER = frozenset(("pin", "cut", "split", "parallel", "terms", "equal", "objective"))
"""Fields of entries that say in which order loops are, or how they are cut."""
STEPS = (1, 2, 4, 8)
"""Portions that each thread of a block takes."""


def _with_requests(work: Work, plan: WalkPlan, elements: int, scale: float) -> Work:
    """The work with the requests to global memory that sampled warps of a plan make.

    scale: sectors that a kernel touches for each of those that the samples of its own plan say.
    """
    requests, sectors = plan.requests.requests * elements, plan.requests.sectors * elements * scale
    return replace(work, global_requests=round(requests), global_sectors=round(sectors))


def _scale_of_samples(kernel: Kernel, plan: WalkPlan | None, elements: int) -> float:
    """As `_with_requests` takes it, from the default kernel.  plan: its own; None where it has none of a template."""
    said = plan.requests.sectors * elements if plan else 0.0
    return kernel.facts.global_sectors / said if said else 1.0


@dataclass(frozen=True, slots=True)
class Walks(KernelTemplate):
    """The programs of an element-wise group without a shared tile."""

    plans: dict[str, WalkPlan]
    """By their names: what a program may take for `walk`."""
    elements: int
    alive: int
    """Values that a thread holds for one element."""
    scale: float = 1.0
    """As `_with_requests` takes it."""

    name: ClassVar[str] = WALKS
    decided: ClassVar[frozenset[str]] = DECIDED

    def plan(self, program: Program) -> WalkPlan:
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

    def work(self, program: Program) -> Work:
        """From the walk: every element is asked for once.  Requests are those of sampled warps."""
        width, steps = self.plan(program).walk.width, program.number("steps")
        block = self.portion(program) * steps
        blocks = -(-self.elements // block)
        facts, config = self.kernel.facts, self.kernel.tile.config
        ours = facts.blocks * config.edge**2 if isinstance(config, TransposeConfig) else _moved_by_walks(self.kernel)
        work = replace(
            facts,
            blocks=blocks,
            threads=program.number("threads"),
            serial_steps=1 if steps <= WRITTEN_OUT else steps,
            shared_bytes=0,
            shared_bytes_moved=0,
            registers=ELEMENTWISE_BASE + self.alive * width,
            l2_bytes=facts.l2_bytes * blocks * block // ours,
        )
        return _with_requests(work, self.plan(program), self.elements, self.scale)

    def program_of(self, kernel: Kernel) -> Program | None:
        """The program that a kernel stands at."""
        config = kernel.tile.config
        if not isinstance(config, ElementwiseConfig):
            return None
        found = next((name for name, plan in self.plans.items() if _is_walked(plan, kernel, config.strips)), None)
        if found is None:
            return None
        return Program(WALKS, (("walk", found), ("threads", config.threads), ("steps", config.steps)))


def _is_walked(plan: WalkPlan, kernel: Kernel, strips: Strips) -> bool:
    """Whether a kernel's loops and vectors are those of a plan."""
    iterators = _order(kernel)
    owned = {str(iterators[dimension]): size for dimension, size in strips.owned.items()}
    walk = plan.walk
    return (
        tuple(iterators.values()) == tuple(name for name, _ in walk.order)
        and strips.vector == walk.width
        and owned == ({walk.run[-1]: walk.width} if walk.in_strips else {})
    )


def _order(kernel: Kernel) -> Mapping[str, str | None]:
    """Dimension -> iterator of the widest statement, outermost first."""
    target = widest(kernel.program).name
    return {m.name: plain_iterator(m.rows[target]) for m in loop_nest(kernel.program, kernel.schedule).outer}


@dataclass(frozen=True, slots=True)
class TransposePrograms(KernelTemplate):
    """The programs of a group whose reads are turned in a shared tile."""

    plans: dict[int, WalkPlan]
    """By the widest vector: what a program may take for `vector`."""
    elements: int
    alive: int
    scale: float

    name: ClassVar[str] = TILED
    decided: ClassVar[frozenset[str]] = DECIDED

    def config(self, program: Program) -> TransposeConfig:
        """What a program gives to its blocks and threads."""
        plan, edge = self.plans[program.number("vector")], program.number("edge")
        assert plan.turned is not None
        return TransposeConfig(program.number("threads"), edge, plan.turned.read, plan.walk.width)

    def entries(self, program: Program) -> Sequence[Entry]:
        """The tile, its vectors, and the threads that move it."""
        plan = self.plans[program.number("vector")]
        threads = mark((widest(self.kernel.program).name,), "innermost", "thread", program.number("threads"), "")
        return (*tile_entries(plan, self.kernel.program, program.number("edge")), threads)

    def work(self, program: Program) -> Work:
        """A tile for each block, every read turned in one of its own."""
        config, facts = self.config(program), self.kernel.facts
        plan = self.plans[program.number("vector")]
        assert plan.turned is not None
        moved, blocks = self._elements_moved(config.edge), _tiles(plan, config.edge)
        own = self.kernel.tile.config
        ours = self._elements_moved(own.edge) if isinstance(own, TransposeConfig) else _moved_by_walks(self.kernel)
        sizes = [DTYPES[dtype] for dtype in plan.turned.dtypes]
        held = 2 * config.read * config.write * max(sizes) // REGISTER_BYTES
        work = replace(
            facts,
            blocks=blocks,
            threads=config.threads,
            serial_steps=1,
            shared_bytes=sum(shared_bytes_of(config.tile("", dtype)) for dtype in plan.turned.dtypes),
            shared_bytes_moved=2 * moved * sum(sizes),
            registers=ELEMENTWISE_BASE + max(held, self.alive * config.write),
            l2_bytes=facts.l2_bytes * moved // ours,
        )
        return _with_requests(work, plan, self.elements, self.scale)

    def _elements_moved(self, edge: int) -> int:
        """Elements of all tiles, those past the ends of the array counted."""
        return _tiles(next(iter(self.plans.values())), edge) * edge**2

    def program_of(self, kernel: Kernel) -> Program | None:
        """The program that a kernel stands at."""
        config = kernel.tile.config
        if not isinstance(config, TransposeConfig):
            return None
        vector = max(config.read, config.write)
        return Program(TILED, (("vector", vector), ("edge", config.edge), ("threads", config.threads)))


def _tiles(plan: WalkPlan, edge: int) -> int:
    """Tiles with so many rows and columns."""
    assert plan.turned is not None
    ends = (plan.innermost, plan.turned.across)
    return math.prod(-(-extent // edge) if name in ends else extent for name, extent in plan.walk.order)


def _moved_by_walks(kernel: Kernel) -> int:
    """Elements that the threads of an element-wise kernel move, those past the end counted."""
    config = kernel.tile.config
    assert isinstance(config, ElementwiseConfig)
    return kernel.facts.blocks * config.elements


def element_tasks(group: FusionGroup, kernel: Kernel) -> list[Task]:
    """A task for walks and one for a shared tile, where that turns something; that of `kernel` first."""
    program = kernel.program
    found = plans(program, 0)
    elements, alive = math.prod(widest(program).extents.values()), most_alive(program.statements).values
    named = {_name(plan): plan for plan in found if _is_walk(plan) and _is_left(plan, kernel)}
    inline: dict[str, Choices] = {INLINE: {}} if len(group.program.statements) > 1 else {}
    tasks: list[Task] = []
    if named:
        walks = Walks(group, kernel, named, elements, alive)
        stands = walks.program_of(kernel)
        walks = replace(walks, scale=_scale_of_samples(kernel, walks.plan(stands) if stands else None, elements))
        even = divisors(elements // WARP, MAX_THREADS // WARP) if elements % WARP == 0 else ()
        threads = tuple(sorted({*THREAD_CHOICES, *(WARP * warps for warps in even)}))
        offers: dict[str, Choices] = {TILING: {"walk": tuple(named), "threads": threads, "steps": STEPS}}
        fixed: dict[str, Value] = {"walk": next(iter(named)), "threads": THREAD_CHOICES[0], "steps": 1}
        whole = PruningRule("elements per block", lambda p: _too_few(walks, p), "one block takes all of them as well")
        tasks.append(make_task(walks, Situation(WALKS, fixed, offers | inline), (whole,), kernel, kernel.target))
    tiled = {_widest_vector(plan): plan for plan in found if plan.is_tiled}
    if tiled and not _orders_of_user(kernel):
        config = kernel.tile.config
        own = tiled.get(max(config.read, config.write)) if isinstance(config, TransposeConfig) else None
        tiles = TransposePrograms(group, kernel, tiled, elements, alive, _scale_of_samples(kernel, own, elements))
        choices: Choices = {"vector": tuple(sorted(tiled)), "edge": EDGES, "threads": THREAD_CHOICES}
        first = {name: of[0] for name, of in choices.items()}
        situation = Situation(TILED, first, {CACHE_READ: {}, TILING: choices} | inline)
        fits = PruningRule("threads of a tile", lambda p: _why_no_tile(tiles, p), "each thread turns whole vectors")
        tasks.append(make_task(tiles, situation, (fits,), kernel, kernel.target))
    return sorted(tasks, key=lambda task: task.template.program_of(kernel) is None)


def _widest_vector(plan: WalkPlan) -> int:
    """Elements of the wider of the two accesses of a plan that turns a tile."""
    assert plan.turned is not None
    return max(plan.turned.read, plan.walk.width)


def _why_no_tile(family: TransposePrograms, program: Program) -> str:
    """Why a tile has no kernel with these vectors and threads; "" where it has."""
    config = family.config(program)
    least = edge_of(config.read, config.write)
    if config.edge < least:
        return f"vectors of {program.number('vector')} take tiles of {least} x {least} and more"
    fewest, most = threads_of(config.edge, config.read, config.write)
    if not fewest <= config.threads <= most:
        return f"{fewest} to {most} threads turn a tile of {config.edge} x {config.edge}, not {config.threads}"
    return ""


def _is_walk(plan: WalkPlan) -> bool:
    """Whether a plan needs no tile, and no strips of one element."""
    return not plan.is_tiled and not (plan.walk.in_strips and plan.walk.width == 1)


def _name(plan: WalkPlan) -> str:
    """A word for a walk: its loops, outermost first, and its vectors."""
    order = " ".join(name for name, _ in plan.walk.order)
    if plan.walk.width == 1:
        return order
    return f"{order}, {plan.walk.width} along {plan.walk.run[-1]}"


def _orders_of_user(kernel: Kernel) -> bool:
    """Whether a person says something of the order of loops."""
    return any(entry.field in ORDER for entry in user_entries(kernel))


def _is_left(plan: WalkPlan, kernel: Kernel) -> bool:
    """Whether a person's order of loops, where there is one, is that of a plan."""
    if not _orders_of_user(kernel):
        return True
    order = tuple(_order(kernel).values())
    return order == tuple(name for name, _ in plan.walk.order) and not plan.walk.in_strips


def _too_few(family: Walks, program: Program) -> str:
    portion, steps = family.portion(program), program.number("steps")
    needed = -(-family.elements // portion)
    if steps > needed:
        return f"{steps} times {portion} elements, {needed} are all of {family.elements}"
    return ""
