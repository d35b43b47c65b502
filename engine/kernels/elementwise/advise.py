"""Advice for element-wise and layout groups: loop orders and vectors that fill whole sectors, threads of a block."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from engine.kernels.advice import AS_IN_TEXT, mark
from engine.kernels.elementwise.plans import WalkPlan, alternatives, widest
from engine.kernels.elementwise.tiles import edge_of
from engine.kernels.marks import DEFAULT_THREADS, FEWEST_THREADS
from engine.recipe import Advice, Entry, Scenario, entry
from engine.target import Target
from engine.target.hardware import SECTOR
from engine.tensor.nodes import TensorProgram


def vectorize(program: TensorProgram, machine: Target, ranked: Sequence[WalkPlan]) -> Advice:
    """Loop orders, vector widths and tiles: alternatives, best first, where accesses disagree on the innermost loop or
    on the width.

    ranked: the program's `plans`, best first.  machine: whose streaming multiprocessors want a block each.
    """
    if not ranked:
        return Advice("vectorize", Scenario())
    plan, *others = alternatives(program, ranked)
    if not others:
        label = f"all accesses agree: best {AS_IN_TEXT}" if plan.is_textual else f"{plan.innermost} innermost"
        return Advice("vectorize", Scenario(short_entries(plan, program), label=label))
    return Advice("vectorize", Scenario((), tuple(_scenario(p, program, machine, ranked[0]) for p in (plan, *others))))


def map_threads(program: TensorProgram, machine: Target, ranked: Sequence[WalkPlan]) -> Advice:
    """Threads of a block, for the best plan; where that is a tile, each alternative has its own.

    machine: whose streaming multiprocessors want a block each.
    """
    plain = ranked[:1] if ranked and not ranked[0].is_tiled else ()
    return Advice("map", Scenario(tuple(_threads(program, machine, plain[0])) if plain else ()))


def _threads(program: TensorProgram, machine: Target, plan: WalkPlan) -> list[Entry]:
    statement = (widest(program).name,)
    vectors = -(-math.prod(extent for _, extent in plan.walk.order) // plan.walk.width)
    threads = DEFAULT_THREADS
    while threads > FEWEST_THREADS and -(-vectors // threads) < machine.sm_count:
        threads //= 2
    blocks = -(-vectors // threads)
    several = f"{blocks:,} block{'s' if blocks > 1 else ''} of {threads} threads"
    reason = f"elements are independent: {several} for {machine.sm_count} SMs, {plan.walk.width} elements a thread"
    return [mark(statement, "innermost", "thread", threads, reason)]


def _scenario(plan: WalkPlan, program: TensorProgram, machine: Target, best: WalkPlan) -> Scenario:
    """One alternative."""
    walk = plan.walk
    if plan.is_tiled:
        return Scenario(tile_entries(plan, program), label="turned in a shared tile")
    label = f"{plan.innermost} innermost" + (f", {walk.run[-1]} in strips" if walk.in_strips else "")
    label += f", {AS_IN_TEXT}" if plan.is_textual else ""
    label += f", {walk.width} at once" if walk.width > 1 else ", one at a time"
    threads = _threads(program, machine, plan) if best.is_tiled else ()
    return Scenario((*plan_entries(plan, program), *threads), label=label)


def tile_entries(plan: WalkPlan, program: TensorProgram, edge: int = 0) -> tuple[Entry, ...]:
    """The tile of a plan that turns one, and its vectors.  edge: 0 for the one that goes with them."""
    assert plan.turned is not None, plan
    statement, (read, write) = (widest(program).name,), (plan.turned.read, plan.walk.width)
    reason = "a read runs across the direction of the write: a shared tile makes both contiguous"
    tile = mark(statement, "innermost", "tile", edge or edge_of(read, write), f"{reason}; {_reason(plan)}")
    if max(read, write) == 1:
        return (tile,)
    reason = f"a thread reads {read} neighbours along {plan.turned.across} at once, turns {write} such vectors in its "
    reason += f"registers, and writes {write} along {plan.innermost}"
    return (tile, mark(statement, "innermost", "vector", max(read, write), reason))


def short_entries(plan: WalkPlan, program: TensorProgram) -> tuple[Entry, ...]:
    """The entries of a plan that stands alone: the order of the text needs no word, a tile is given elsewhere."""
    pins = () if plan.is_textual else tuple(_pins(plan))
    return () if plan.is_tiled else (*pins, *_vectors(plan, program, is_pinned=bool(pins)))


def plan_entries(plan: WalkPlan, program: TensorProgram) -> tuple[Entry, ...]:
    """The entries that ask for a plan: the loop order, then what a thread moves at once."""
    return (*_pins(plan), *_vectors(plan, program, is_pinned=True))


def _pins(plan: WalkPlan) -> Iterator[Entry]:
    """The loop order, as short as it can be said; the reason of the order stands with its innermost loop."""
    names = [name for name, _ in plan.walk.order]
    if not plan.is_textual:
        for outer, name in zip(["", *names], names[:-2], strict=False):
            at = f"after {outer}" if outer else "outermost"
            yield entry(pin=name, at=at, because=f"{plan.innermost} goes inside")
    yield entry(pin=plan.innermost, at="innermost", because=_reason(plan))


def _reason(plan: WalkPlan) -> str:
    return f"{plan.score}; {_sectors(plan)}"


def _sectors(plan: WalkPlan) -> str:
    return f"a warp requests {plan.requests.sectors * SECTOR:.3g} bytes of sectors for each element"


def _vectors(plan: WalkPlan, program: TensorProgram, is_pinned: bool) -> Iterator[Entry]:
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


def _width_reason(plan: WalkPlan, is_pinned: bool) -> str:
    walk = plan.walk
    rows = "" if len(walk.run) == 1 else f", over the ends of rows of {walk.order[-1][1]}"
    reason = f"one access moves {walk.width} neighbours along {walk.run[-1]}{rows}"
    if not is_pinned:
        reason = f"{plan.score}; {reason}"
    if plan.held_back:
        threads = math.prod(extent for _, extent in walk.order) // plan.held_back
        reason += f"; {plan.held_back} would leave {threads:,} threads, too few to fill the machine twice"
    return reason
