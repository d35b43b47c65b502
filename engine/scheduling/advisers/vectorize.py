"""The author `vectorize`: loop orders and vector widths under which neighbouring threads fill whole sectors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from engine.fusion.nodes import FusionGroup
from engine.recipe import Advice, Entry, Scenario, entry
from engine.scheduling.advisers.access import row_vector
from engine.scheduling.advisers.mapping import mark
from engine.scheduling.advisers.plans import Plan, alternatives, widest
from engine.target.hardware import SECTOR
from engine.tensor.nodes import TensorProgram


def vectorize_group(group: FusionGroup, ranked: Sequence[Plan]) -> Advice:
    """Vector widths, and for element-wise groups whose accesses disagree loop orders, as alternatives, best first.

    Contractions choose their copies alone.  Down columns neighbouring threads already fill whole transactions; wider
    threads would only leave fewer blocks.  ranked: the group's `plans`, best first.
    """
    program = group.program
    if group.kind in ("contraction", "column reduction"):
        return Advice("vectorize", Scenario())
    if any(s.reduction is not None for s in program.statements):
        return Advice("vectorize", Scenario(tuple(_rows(program))))
    if not ranked or ranked[0].is_tiled:
        return Advice("vectorize", Scenario())
    offered = alternatives(ranked)
    if len(offered) == 1:
        plan = offered[0]
        pins = () if plan.is_textual else tuple(_pins(plan))
        return Advice("vectorize", Scenario((*pins, *_vectors(plan, program, is_pinned=bool(pins)))))
    return Advice("vectorize", Scenario((), tuple(_scenario(plan, program) for plan in offered)))


def _rows(program: TensorProgram) -> Iterator[Entry]:
    """The width of row reductions: neighbours along the row."""
    target = next(s for s in program.statements if s.reduction is not None)
    along = target.reduced[-1].name
    width = row_vector(program, along)
    if width > 1:
        reason = f"neighbours along {along} are contiguous: one access moves {width} elements"
        yield mark((target.name,), "innermost", "vector", width, reason)


def _scenario(plan: Plan, program: TensorProgram) -> Scenario:
    """One alternative."""
    walk = plan.walk
    label = f"{plan.innermost} innermost" + (f", {walk.run[-1]} in strips" if walk.in_strips else "")
    return Scenario(plan_entries(plan, program), label=label)


def plan_entries(plan: Plan, program: TensorProgram) -> tuple[Entry, ...]:
    """The entries that ask for a plan: the loop order, then what a thread moves at once."""
    return (*_pins(plan), *_vectors(plan, program, is_pinned=True))


def _pins(plan: Plan) -> Iterator[Entry]:
    """The loop order, as short as it can be said; the reason of the order stands with its innermost loop."""
    names = [name for name, _ in plan.walk.order]
    if not plan.is_textual:
        for outer, name in zip(["", *names], names[:-2], strict=False):
            at = f"after {outer}" if outer else "outermost"
            yield entry(pin=name, at=at, because=f"{plan.innermost} goes inside")
    yield entry(pin=plan.innermost, at="innermost", because=_reason(plan))


def _reason(plan: Plan) -> str:
    full = f"{plan.requests.sectors * SECTOR:.3g} bytes of sectors for each element"
    return f"{plan.score}; a warp requests {full}"


def _vectors(plan: Plan, program: TensorProgram, is_pinned: bool) -> Iterator[Entry]:
    """The vector of a thread, and the strip that it needs where threads are neighbours along another iterator.

    is_pinned: whether the entry of the loop order gives the score already.
    """
    walk, statement = plan.walk, (widest(program).name,)
    if walk.width == 1:
        return
    along = walk.run[-1]
    if walk.in_strips:
        reason = f"a thread owns {walk.width} neighbours along {along}, threads are neighbours along {plan.innermost}"
        yield entry(*statement, split=walk.width, at=along, because=reason)
    # By its name, so that the vector stays with the iterator when somebody asks for another order.
    yield mark(statement, along, "vector", walk.width, _width_reason(plan, is_pinned))


def _width_reason(plan: Plan, is_pinned: bool) -> str:
    walk = plan.walk
    rows = "" if len(walk.run) == 1 else f", over the ends of rows of {walk.order[-1][1]}"
    reason = f"one access moves {walk.width} neighbours along {walk.run[-1]}{rows}"
    if not is_pinned:
        reason = f"{plan.score}; {reason}"
    if plan.held_back:
        threads = math.prod(extent for _, extent in walk.order) // plan.held_back
        reason += f"; {plan.held_back} would leave {threads:,} threads, too few to fill the machine twice"
    return reason
