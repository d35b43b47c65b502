"""Programs that no GPU or kernel could take, dropped before they cost anything; a funnel counts what each rule drops.

GTA drops by shared memory alone and leaves threads to Ansor's own check.  Here whatever a program's figures tell before
code is generated counts: threads, shared memory, estimated registers, the grid, and what its kind of kernel takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from engine.cost.alcop import allowed_registers
from engine.cost.nodes import Work
from engine.documents.units import kib
from engine.kernels.large_spaces import programs_of, unseen_of
from engine.kernels.nodes import Kernel
from engine.kernels.sieve import Sieve
from engine.kernels.sketch_rules import Situation, Sketch, sketch
from engine.kernels.space import Dropped, Funnel, KernelTemplate, Program, Task, Template
from engine.kernels.tuned_entries import kind_of
from engine.kernels.user_part import user_part
from engine.recipe import Entry
from engine.target import Target
from engine.target.hardware import MAX_GRID, WARP

PROMISE = "promise"
"""Name of the rule that asks a model of times."""
FAR_FROM_BEST, KEPT_ANYWAY = 1.5, 64
"""Times the best promise of a mapping beyond which a program is not tried, and how many are left to try all the same.
Found with ALCOP's model as the promise (tests/benchmarks/search_truth.py), before products had the one estimate:
ALCOP's dense operators keep a tenth of their programs so, none more than 0.19; on a device that the model does not know
none lost its best, nor would at 1.4 (at 1.3 one is 0.2 % worse)."""


@dataclass(frozen=True, slots=True)
class PruningRule:
    """One rule that drops programs before they cost anything."""

    name: str
    broken: Callable[[Program], str]
    """How a program breaks it, with figures; "" where it keeps it."""
    because: str
    """Why nothing else would do."""


def first(checks: Sequence[PruningRule], program: Program) -> tuple[PruningRule, str] | None:
    """The first check that a program breaks, and how; None where it keeps all."""
    return next(((check, how) for check in checks if (how := check.broken(program))), None)


def promising(funnel: Funnel, times: Mapping[Program, float], kept: Collection[Program]) -> Funnel:
    """Drop what a model promises far more time than the best of the same mapping; KEPT_ANYWAY stay whatever it says.

    times: modelled microseconds of each program.  kept: programs that stay whatever it says, as the one that the
    advisers chose.
    """
    limit = most_promised([times[program] for program in funnel.left])
    if limit == math.inf:
        return funnel
    left = tuple(program for program in funnel.left if times[program] <= limit or program in kept)
    slow = next((program for program in funnel.left if times[program] > limit and program not in kept), None)
    best = min(times[program] for program in funnel.left)
    example = f"{slow}: {times[slow]:.3g} µs promised, {best:.3g} µs of the best" if slow else ""
    because = f"the model is seldom off by more than {FAR_FROM_BEST:g} here, and {KEPT_ANYWAY} stay whatever it says"
    gone = Dropped(PROMISE, because, len(funnel.left) - len(left), example)
    return Funnel(funnel.total, (*funnel.dropped, gone), left)


def most_promised(times: Collection[float]) -> float:
    """Of modelled microseconds, those that a program may be promised to be tried; infinite where all are tried."""
    if len(times) <= KEPT_ANYWAY:
        return math.inf
    ranked = sorted(times)
    return max(FAR_FROM_BEST * ranked[0], ranked[KEPT_ANYWAY - 1])


def make_task(
    template: Template, situation: Situation, checks: Sequence[PruningRule], kernel: Kernel, machine: Target
) -> Task:
    """The programs that the rules open of a mapping, but those that break a check: the family's own, cheapest first,
    then what a launch may ask of a GPU, then what a person decided for `kernel`."""
    made, applied = sketch(situation)
    # Several checks in a row ask for the figures of one program: the last one's are kept.
    assert isinstance(template, KernelTemplate), "what a launch asks of a GPU is figures of its work"
    of_user = user_check(template, kernel)
    rules = (*checks, *resource_checks(lru_cache(1)(template.work), machine), of_user)
    sieve = Sieve(rules, lambda program: first(rules, program))
    part = left_by_user(made, template, kernel, of_user, sieve)
    funnel, times = programs_of(part, sieve, template.rank, template.program_of(kernel))
    unseen = unseen_of(part, sieve, template.rank, math.inf)
    return Task(template.name, made.dimensions, funnel, applied, template, times, unseen)


# Rules of every family


def user_entries(kernel: Kernel) -> list[Entry]:
    """What a person says of a kernel's group."""
    return [e for one in kernel.advice if one.author == "user" for e in one.scenario.entries if e.enabled]


def asked_intrinsic(kernel: Kernel) -> str:
    """The instruction that a person asks for; "" where nobody does."""
    marks = (entry.value for entry in user_entries(kernel) if isinstance(entry.value, tuple))
    return next((str(mark[1]) for mark in marks if mark[0] == "intrinsic"), "")


def left_by_user(made: Sketch, template: Template, kernel: Kernel, rule: PruningRule, sieve: Sieve) -> Sketch:
    """The part of a sketch that agrees with the user's entries; what it lacks is counted as dropped by that rule."""
    wishes = _wishes(template, kernel)
    part = user_part(made, wishes, template.entries, _contradict)
    sieve.leave_out(rule, len(made) - len(part), f"the user asks for {wishes[0]}" if wishes else "")
    return part


def _wishes(template: Template, kernel: Kernel) -> list[Entry]:
    """What a person says of a kernel's group that a program would decide."""
    return [entry for entry in user_entries(kernel) if kind_of(entry) in template.decided]


def user_check(template: Template, kernel: Kernel) -> PruningRule:
    """Programs that ask for something else than the user's own entries do.  kernel: of the group under its recipe."""
    wishes = _wishes(template, kernel)

    def why_broken(program: Program) -> str:
        pairs = ((wish, entry) for wish in wishes for entry in template.entries(program))
        found = next((wish for wish, entry in pairs if _contradict(wish, entry)), None)
        return f"the user asks for {found}" if found is not None else ""

    return PruningRule("entries of the user", why_broken, "what a person decided is not searched")


def _contradict(wish: Entry, entry: Entry) -> bool:
    """Whether two entries give the same dimension of a statement other values.

    A mark's place in the order of loops may be any dimension: no kernel takes two values of one mark.
    """
    if kind_of(wish) != kind_of(entry) or wish.value == entry.value:
        return False
    together = not wish.statements or not entry.statements or bool(set(wish.statements) & set(entry.statements))
    anywhere = wish.field == "mark" and (_is_place(wish) or _is_place(entry))
    return together and (wish.dimension == entry.dimension or anywhere)


def _is_place(entry: Entry) -> bool:
    """Whether an entry speaks of a place in the order of loops, not of a named one."""
    return entry.dimension in ("", "innermost", "outermost") or entry.dimension.startswith(("after ", "depth "))


def resource_checks(work: Callable[[Program], Work], machine: Target) -> tuple[PruningRule, ...]:
    """What a launch may ask of a GPU, by a family's figures."""

    def registers(program: Program) -> str:
        return too_many_registers(work(program).registers or 0, work(program).threads, machine)

    return (
        PruningRule("whole warps", lambda p: whole_warps(work(p).threads), "lanes without a thread cost as much"),
        PruningRule("threads", lambda p: too_many_threads(work(p).threads, machine), FAILS),
        PruningRule("shared memory", lambda p: too_much_shared(work(p).shared_bytes, machine), FAILS),
        PruningRule("registers", registers, SPILLS),
        PruningRule("grid", lambda p: too_many_blocks(work(p).blocks), "a launch of more blocks fails"),
    )


FAILS = "a launch that asks for more fails"
SPILLS = "what does not fit is spilled; an estimate, the compiler has the last word"


def whole_warps(threads: int) -> str:
    """How a block's threads leave lanes empty."""
    return f"{threads} threads are no whole warps of {WARP}" if threads % WARP else ""


def too_many_threads(threads: int, machine: Target) -> str:
    """How a block asks for more threads than it may have."""
    most = machine.threads_per_block.value
    return f"{threads:,} threads, a block may have {most:,.0f}" if threads > most else ""


def too_much_shared(needed: int, machine: Target) -> str:
    """How a block asks for more shared memory than it may have."""
    limit = machine.shared_limit
    return f"{kib(needed)} of shared memory, a block may have {kib(limit)}" if needed > limit else ""


def too_many_registers(needed: int, threads: int, machine: Target, error: float = 0) -> str:
    """How a thread needs more registers than it may have.  error: relative one of the estimate that is let pass."""
    most = allowed_registers(threads, machine)
    return f"about {needed} registers, a thread may have {most}" if needed > most * (1 + error) else ""


def too_many_blocks(blocks: int) -> str:
    """How a grid is longer than it may be."""
    return f"{blocks:,} blocks, a grid may have {MAX_GRID:,}" if blocks > MAX_GRID else ""
