"""Plans for an element-wise group: loop order, vectors, strips or a tile, ranked by what a warp would request.

Candidates have each access's ideal iterator innermost, the other iterators in the order of the text or as their scores
say, and vectors along the innermost iterators or, in strips, along another one.  Fewer sectors come first, then fewer
requests, then wider accesses, then the higher score.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from engine.kernels.access_patterns import Pattern, patterns, run_limit, wanted_widths
from engine.kernels.elementwise.tiles import widest_turn
from engine.kernels.elementwise.warp import ThreadWalk, WarpRequests, count_requests
from engine.kernels.score import Score, greedy_order, score
from engine.tensor.access import stride
from engine.tensor.nodes import Statement, TensorProgram

ALTERNATIVES = 3
"""Plans that are offered at most."""
ANYWHERE = 4
"""Elements of an access that is worth fewer threads everywhere: AKG's rule.  Past it a warp's sectors are as full, only
its requests fewer."""
ROUNDS = 2
"""Times that wider accesses must leave the machine full of threads, so that its last round is no large part."""
HALF_TILE = 16
"""Shorter dimensions would leave most of a transposing tile empty, which has 32 rows and columns at least."""
ALMOST = 1.05
"""Times the fewest sectors that count as the fewest: where a sampled warp begins moves them by as much."""
CLEAR = 1.1
"""Times the sectors of another order that a plan in the order of the text may take."""


@dataclass(frozen=True, slots=True)
class TileTurn:
    """How a tile is turned."""

    across: str
    """The iterator that the turned reads are contiguous along."""
    read: int
    """Neighbours along it that a thread reads at once; the walk's width are those that it writes at once."""
    dtypes: tuple[str, ...]
    """Of the arrays that are turned."""


@dataclass(frozen=True, slots=True)
class WalkPlan:
    """One way to walk a group."""

    walk: ThreadWalk
    score: Score
    requests: WarpRequests
    turned: TileTurn | None = None
    """Of reads across the direction of the write, which go through a tile in shared memory."""
    is_textual: bool = True
    """Whether the loops stay in the order of the text."""
    held_back: int = 0
    """Width that the accesses allow and the launch does not; 0 where nothing is held back."""

    @property
    def is_tiled(self) -> bool:
        return self.turned is not None

    @property
    def innermost(self) -> str:
        return self.walk.order[-1][0]

    @property
    def way(self) -> tuple[str, tuple[str, ...], int, bool]:
        """What accesses may disagree on: the innermost iterator, what is moved at once, and whether a tile turns it."""
        return self.innermost, self.walk.run[-1:], self.walk.width, self.is_tiled

    @property
    def sectors(self) -> float:
        """What counts in the ranking: an order other than the text's, strips and tiles must save a tenth."""
        plain = self.is_textual and not self.walk.in_strips and not self.is_tiled
        return self.requests.sectors * (1 if plain else CLEAR)


def widest(program: TensorProgram) -> Statement:
    """The statement whose loops the whole group shares, the last one of several."""
    return max(reversed(program.statements), key=lambda s: len(s.iterators))


def plans(program: TensorProgram, places: int) -> tuple[WalkPlan, ...]:
    """The plans of a group, best first; none for a group with reductions and for a single element.

    Nor are there plans where a statement has iterators that the widest one lacks: a walk of its box settles none.
    places: threads that the target holds at once.
    """
    target = widest(program)
    if any(s.reduction is not None or not s.extents.keys() <= target.extents.keys() for s in program.statements):
        return ()
    names = [i.name for i in target.iterators]
    found = patterns(program)
    if not names or not found:
        return ()
    # An access that does not move along the last loop is one element for all threads there: it loses nothing.
    losing = [p.ideal for p in found if p.ideal is not None and names[-1] in p.moves]
    ideals = dict.fromkeys([names[-1], *losing])
    candidates = [
        plan
        for innermost in ideals
        for order in dict.fromkeys([_textual(innermost, names), greedy_order(innermost, names, found)])
        for plan in _along(program, order, found, [n for n in ideals if n != innermost], places)
    ]
    tiled = _tiled_plans(program, found, places)
    return _rank((*candidates, *tiled))


def _rank(found: Sequence[WalkPlan]) -> tuple[WalkPlan, ...]:
    """Best first; plans with almost the fewest sectors are equals in that."""
    fewest = min(plan.sectors for plan in found)

    def key(plan: WalkPlan) -> tuple[float, float, int, int]:
        sectors = plan.sectors if plan.sectors > ALMOST * fewest else fewest
        return sectors, plan.requests.requests, -plan.walk.width, -plan.score.value

    return tuple(sorted(found, key=key))


def alternatives(program: TensorProgram, ranked: Sequence[WalkPlan]) -> tuple[WalkPlan, ...]:
    """The plans that are worth a try, best first; the best alone where the accesses agree.

    Where they disagree on the innermost iterator: the best plan with each of them innermost, one in the order of the
    text always among them.  Where they disagree on the width alone: the best plan with another width.
    """
    best, found = ranked[0], patterns(program)
    last = [i.name for i in widest(program).iterators][-1]
    ideals = {p.ideal for p in found if p.ideal is not None and last in p.moves}
    offered = [best]
    if best.is_tiled or len(ideals) > 1:
        plain = [p for p in ranked if not p.is_tiled]
        offered += [p for p in plain if p.is_textual and not p.walk.in_strips][:1]
        offered += {p.innermost: p for p in reversed(plain)}.values()
    elif best.walk.run and len(wanted_widths(found, best.walk.run[-1])) > 1:
        offered += [p for p in ranked if p.walk.order == best.walk.order and p.walk.width != best.walk.width][:1]
    ways = {p.way: p for p in reversed(offered)}
    kept = [p for p in offered if ways[p.way] is p]
    return tuple(sorted(dict.fromkeys(kept[:ALTERNATIVES]), key=ranked.index))


def _textual(innermost: str, names: Sequence[str]) -> tuple[str, ...]:
    return (*(n for n in names if n != innermost), innermost)


def _along(
    program: TensorProgram, order: tuple[str, ...], found: Sequence[Pattern], others: Sequence[str], places: int
) -> Iterator[WalkPlan]:
    """Plans with one loop order: without vectors, with them along the last iterators, and in strips along `others`."""
    extents = widest(program).extents
    sized = tuple((name, extents[name]) for name in order)
    is_textual = order == tuple(extents)
    why = score(order[-1], found, innermost=True)
    total = math.prod(extents.values())
    widest_inner = 0
    for run in ((order[-1],), *(order[k:] for k in range(len(order) - 2, -1, -1)), *((name,) for name in others)):
        limit = run_limit(program, run, {s.name: tuple(n for n in run if n in s.extents) for s in program.statements})
        if run[-1] != order[-1] and not _moves_all(found, run[-1], order[-1], limit):
            continue
        if run[-1] == order[-1]:
            # A longer run along the same end is worth its divisions only where it allows wider vectors.
            if limit <= widest_inner:
                continue
            widest_inner = limit
        powers = (1 << n for n in range(limit.bit_length()))
        allowed = _worth_their_width(powers, total, places)
        for width in allowed:
            walk = ThreadWalk(sized, run, width)
            held = limit if limit > allowed[-1] else 0
            yield WalkPlan(walk, why, count_requests(walk, found), None, is_textual, held)


def _worth_their_width(widths: Iterable[int], total: int, places: int) -> list[int]:
    """Those that leave the machine full of threads, which hold `places`, and all that are worth fewer anywhere."""
    return [w for w in widths if w <= ANYWHERE or total // w >= ROUNDS * places]


def _moves_all(found: Sequence[Pattern], along: str, innermost: str, width: int) -> bool:
    """Whether strips make vectors of more than operands that all threads share."""
    return any(p.can_be((along,), width) and {along, innermost} <= p.moves for p in found)


def _tiled_plans(program: TensorProgram, found: Sequence[Pattern], places: int) -> Iterator[WalkPlan]:
    """Plans with a shared tile for the reads that run across the write, where both dimensions fill half of one."""
    target = widest(program)
    last, sized = target.iterators[-1], tuple(target.extents.items())
    across = next((a for p in found if (a := _across(p, last.name)) is not None), None)
    if across is None or min(last.extent, target.extents[across]) < HALF_TILE:
        return
    turned = [p for p in found if _across(p, last.name) == across]
    direct = [p for p in found if p not in turned]
    reads = [(p.access, program.statement(p.statement), across) for p in turned]
    limits = widest_turn(program, reads, {s.name: (last.name,) for s in program.statements if last.name in s.extents})
    dtypes = tuple(program.arrays[p.access.array].dtype for p in turned)
    powers = (1 << n for n in range(max(limits).bit_length()))
    for width in _worth_their_width(powers, math.prod(target.extents.values()), places):
        read, write = (min(width, limit) for limit in limits)
        walk = ThreadWalk(sized, (last.name,), write)
        through = ThreadWalk((*(s for s in sized if s[0] != across), (across, target.extents[across])), (across,), read)
        parts = count_requests(walk, direct), count_requests(through, turned)
        together = WarpRequests(sum(p.sectors for p in parts), sum(p.requests for p in parts))
        why = score(last.name, found, innermost=True)
        yield WalkPlan(walk, why, together, TileTurn(across, read, dtypes))


def _across(pattern: Pattern, last: str) -> str | None:
    """The iterator that a read is contiguous along, where it jumps along the last one."""
    if pattern.written or not pattern.is_regular or stride(pattern.where, last) in (0, 1, None):
        return None
    return pattern.ideal
