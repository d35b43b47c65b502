"""Stitched groups: points and threads of a block, threads that share a reduction, where intermediates wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from engine.cost.nodes import Work
from engine.fusion.nodes import AGAIN, REGISTER, SHARED, SHUFFLE, FusionGroup
from engine.kernels.advice import mark
from engine.kernels.nodes import Kernel
from engine.kernels.prune import PruningRule, make_task
from engine.kernels.sketch_rules import (
    COMPUTE_LOCATION,
    CROSS_THREAD,
    THREAD_CHOICES,
    TILING_WITH_FUSION,
    Choices,
    Situation,
)
from engine.kernels.space import KernelTemplate, Program, Task, Value, with_counts
from engine.kernels.stitched.block_walks import (
    BlockWalks,
    WalkedParts,
    block_walks,
)
from engine.kernels.stitched.layout import StitchedConfig
from engine.kernels.stitched.parts import Part
from engine.kernels.stitched.placement import PlacementPlan, plan_parts
from engine.kernels.stitched.walk import BlockWalk
from engine.recipe import Entry
from engine.support.divisors import divisors
from engine.support.errors import Unsupported
from engine.target.hardware import SUM_BYTES, WARP
from engine.target.registers import STITCHED_BASE

NAME = "one block for all parts"
DECIDED = frozenset(("block", "thread", "lane", "warp", "scope"))
AUTO = "auto"
"""Of a dimension: the compiler chooses, as it does where no entry says anything."""
MOST_POINTS = 2048
"""Of a block: all divisors of the points up to it are tried."""
SHARERS: tuple[Value, ...] = (AUTO, 4, 16, 32, 128)
PLACES: tuple[Value, ...] = (AUTO, SHARED, AGAIN)
OPEN_PLACES = 2
"""Intermediates whose place is open: those with most elements."""


@dataclass(frozen=True, slots=True)
class Stitched(KernelTemplate):
    """The programs of a stitched group."""

    walks: BlockWalks
    places: tuple[str, ...]
    """Statements whose result may wait in several ways."""
    now: Work | None = None
    """What `work` says of `kernel` in closed form; None while that is computed."""
    plans: dict[tuple[tuple[str, Value], ...], PlacementPlan | str] = field(
        default_factory=dict, compare=False, repr=False
    )
    """What was planned, by the values that it follows from."""

    name: ClassVar[str] = NAME
    decided: ClassVar[frozenset[str]] = DECIDED

    def entries(self, program: Program) -> Sequence[Entry]:
        """The marks that ask for a program; nothing of what is left to the compiler."""
        everyone = tuple(s.name for s in self.kernel.program.statements)
        found = [mark(everyone, "outermost", "thread", program.number("threads"), "")]
        if self.walks.nest.outer:
            found.append(mark(everyone, "outermost", "block", program.number("points"), ""))
        for name, dimension, by_row in (("lane", "lanes", True), ("warp", "warps", False)):
            sharers = program[dimension]
            if isinstance(sharers, int):
                found.append(mark(self._reducing(program, by_row), "innermost", name, sharers, ""))
        wishes = [(s, program[_place(s)]) for s in self.places]
        return (*found, *(Entry((s,), "innermost", "mark", ("scope", w)) for s, w in wishes if w != AUTO))

    def _reducing(self, program: Program, by_row: bool) -> tuple[str, ...]:
        """The reductions whose terms neighbouring threads share, or those of several warps."""
        sharing = [p for p in self.parts_before_sharing(program) if p.walk.by_row == by_row and p.walk.reduced]
        return tuple(s.name for part in sharing for s in part.statements if s.reduction is not None)

    def parts_before_sharing(self, program: Program) -> tuple[Part, ...]:
        """The parts of a program, with as many sharers of each reduction as the compiler chooses."""
        return self.walks.under(program.number("threads"), program.number("points")).parts

    def walked_parts(self, program: Program) -> WalkedParts:
        """The parts of a program with its own sharers."""
        found = self.parts_before_sharing(program)
        return WalkedParts(tuple(replace(part, walk=_with_sharers(part.walk, program)) for part in found))

    def plan(self, program: Program) -> PlacementPlan | str:
        """Where the intermediates of a program wait, or why a block has no room for them."""
        if program.values not in self.plans:
            self.plans[program.values] = self._make_plan(program)
        return self.plans[program.values]

    def _make_plan(self, program: Program) -> PlacementPlan | str:
        statements = self.kernel.program
        wishes = {statements.statement(s).write.array: str(w) for s in self.places if (w := program[_place(s)]) != AUTO}
        try:
            points, parts = program.number("points"), self.walked_parts(program).parts
            return plan_parts(statements, parts, self.walks.names, points, wishes, self.machine)
        except Unsupported as error:
            return error.reason

    def work(self, program: Program) -> Work:
        """From the walks and the places, put right by the count of `kernel`; L2 serves every point that is visited."""
        walked, plan = self.walked_parts(program), self.plan(program)
        staged = plan.shared_bytes if isinstance(plan, PlacementPlan) else 0
        facts, blocks = self.kernel.facts, self.walks.points // program.number("points")
        form = replace(
            facts,
            blocks=blocks,
            threads=program.number("threads"),
            serial_steps=plan.longest_loop(self.kernel.program.inputs) if isinstance(plan, PlacementPlan) else 1,
            shared_bytes=walked.scratch_bytes + staged,
            shared_bytes_moved=blocks * (2 * staged + walked.met_bytes),
            registers=STITCHED_BASE + walked.elements_held,
            l2_bytes=blocks * walked.points_visited,
            global_sectors=blocks * walked.points_visited,
        )
        if self.now is None:
            return form
        found = with_counts(form, self.now, facts)
        width = SUM_BYTES * max(part.walk.vector for part in walked.parts) * WARP
        return replace(found, global_requests=found.l2_bytes // width)

    def program_of(self, kernel: Kernel) -> Program | None:
        """The program with a kernel's launch that leaves the rest to the compiler, as the advisers do."""
        config = kernel.tile.config
        if not isinstance(config, StitchedConfig):
            return None
        rest: list[tuple[str, Value]] = [(name, AUTO) for name in ("lanes", "warps", *map(_place, self.places))]
        return Program(NAME, (("threads", config.threads), ("points", config.points), *rest))


def _place(statement: str) -> str:
    return f"place of {statement}"


def _with_sharers(walk: BlockWalk, program: Program) -> BlockWalk:
    """A walk with the sharers that a program asks for."""
    sharers = program["lanes" if walk.by_row else "warps"]
    return replace(walk, sharers=sharers) if walk.reduced and isinstance(sharers, int) else walk


def stitched_tasks(group: FusionGroup, kernel: Kernel) -> list[Task]:
    """The one task of a stitched group."""
    walks = block_walks(kernel.program, kernel.schedule)
    family = Stitched(group, kernel, walks, _open_places(kernel))
    advised = family.program_of(kernel)
    assert advised is not None, "every stitched kernel has points"
    family = replace(family, now=family.work(advised))
    return [make_task(family, _situation(family), _checks(family), kernel, kernel.target)]


def _open_places(kernel: Kernel) -> tuple[str, ...]:
    """The statements with most elements among those that hand something over."""

    def elements(statement: str) -> int:
        program = kernel.program
        return program.arrays[program.statement(statement).write.array].elements

    return tuple(sorted(kernel.tile.schemes, key=lambda name: -elements(name))[:OPEN_PLACES])


def _situation(family: Stitched) -> Situation:
    """What the rules may open of a stitched group."""
    kernel, total = family.kernel, family.walks.points
    advised = family.program_of(kernel)
    assert advised is not None
    points = tuple(sorted({advised.number("points"), *divisors(total, MOST_POINTS)}))
    walks = [part.walk for part in family.parts_before_sharing(advised) if part.walk.reduced]
    shared = {name: any(w.by_row == by_row for w in walks) for name, by_row in (("lanes", True), ("warps", False))}
    sharing: Choices = {name: SHARERS for name, is_there in shared.items() if is_there}
    offers: dict[str, Choices] = {TILING_WITH_FUSION: {"threads": THREAD_CHOICES, "points": points}}
    if sharing:
        offers[CROSS_THREAD] = sharing
    if family.places:
        offers[COMPUTE_LOCATION] = {_place(s): PLACES for s in family.places}
    refuses = {"multi-level tiling": "what a thread takes follows from the threads of its block and their walk"}
    return Situation(NAME, dict(advised.values), offers, refuses)


def _checks(family: Stitched) -> tuple[PruningRule, ...]:
    """What stitched kernels take, cheapest first."""
    return (
        PruningRule("threads of a block", lambda p: _idle(family, p), "threads without an element have nothing to do"),
        PruningRule("sharers of a reduction", lambda p: _sharers(family, p), "no kernel has them, or is that without"),
        PruningRule("place of intermediates", lambda p: _places(family, p), "no kernel has them there, or all do"),
    )


def _idle(family: Stitched, program: Program) -> str:
    threads = program.number("threads")
    widest = max(part.walk.rows * part.walk.columns for part in family.parts_before_sharing(program))
    return f"{threads} threads for {widest} elements" if threads > max(WARP, 2 * widest) else ""


def _sharers(family: Stitched, program: Program) -> str:
    for dimension, by_row in (("lanes", True), ("warps", False)):
        sharers = program[dimension]
        walks = [p.walk for p in family.parts_before_sharing(program) if p.walk.reduced and p.walk.by_row == by_row]
        if not isinstance(sharers, int):
            continue
        for walk in walks:
            most = walk.threads if not by_row or walk.rows <= 1 else max(WARP, walk.threads // walk.rows)
            if sharers > most:
                return f"{sharers} threads share a reduction, up to {most} may"
        if all(walk.sharers == sharers for walk in walks):
            return f"{sharers} threads share every reduction anyway"
    return ""


def _places(family: Stitched, program: Program) -> str:
    asked = [s for s in family.places if program[_place(s)] != AUTO]
    plan = family.plan(program)
    if isinstance(plan, str):
        return plan
    free = family.plan(_leave_open(program, asked)) if asked else plan
    chosen, anyway = (_schemes(one) if isinstance(one, PlacementPlan) else {} for one in (plan, free))
    for statement in asked:
        wish = program[_place(statement)]
        if chosen.get(statement) != wish:
            return f"{statement} waits in {chosen.get(statement, 'nothing')}, not in {wish}"
        if anyway.get(statement) == wish:
            return f"{statement} waits in {wish} anyway"
    return ""


def _leave_open(program: Program, statements: Sequence[str]) -> Program:
    """The program that leaves the places of some statements to the compiler."""
    return program.with_values({_place(s): AUTO for s in statements})


def _schemes(plan: PlacementPlan) -> Mapping[str, str]:
    """Statement -> how its result is handed over; what is shuffled counts as in a register."""
    return {name: REGISTER if scheme == SHUFFLE else scheme for name, (scheme, _) in plan.schemes().items()}
