"""The programs of a space that may be too large to be looked at whole.

Of a space of at most WHOLE programs every one is asked.  Of a larger one a random sample is, and then the neighbours of
the program with the least modelled time, of the next one, and so on, EXPANDED times: what a search begins with is there
within a second, and takes as much memory, whatever the size of the space.  Strategies ask for more, one by one, near
what turned out to be fast.

>>> from engine.kernels.sieve import Sieve
>>> from engine.kernels.sketch_rules import Sketch
>>> made = Sketch("line", {"x": tuple(range(1000)), "y": tuple(range(1000))})
>>> funnel, times = programs_of(made, Sieve((), lambda program: None), lambda p: 1 + abs(p["x"] - 700) + p["y"], None)
>>> print(funnel.total, min(times.values()))
1000000 1
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import count

from engine.kernels.sieve import Sieve
from engine.kernels.sketch_rules import Sketch
from engine.kernels.space import Dropped, Funnel, Program

WHOLE, DRAWN, EXPANDED = 4096, 2048, 128
"""Programs of a space that is looked at whole, of the sample of a larger one, and those whose neighbours are asked.

By the estimate, of 40 tasks of four models the best so found is the best of all, but for one that is 0.4 % behind.
"""
UNSEEN = "not looked at"
"""Name of what a funnel counts for the programs that are left out so."""
BECAUSE = f"of so many, {DRAWN:,} are drawn, and the neighbours of the {EXPANDED} that promise most are asked"

Rank = Callable[[Program], float]
"""Modelled microseconds."""


def programs_of(made: Sketch, sieve: Sieve, rank: Rank, now: Program | None) -> tuple[Funnel, dict[Program, float]]:
    """The programs of a space that pass, with the modelled time of each in microseconds.

    now: the one that the group's kernel stands at, which is asked in any case; None where it is none of the space.
    """
    total = len(made)
    if total <= WHOLE:
        times = {program: rank(program) for program in made.points() if sieve.passes(program)}
        return sieve.funnel(times), times
    drawn = {made.point(number): None for number in random.Random(made.mapping).sample(range(total), DRAWN)}
    if now is not None and now in made:
        drawn[now] = None
    times = {program: rank(program) for program in drawn if sieve.passes(program)}
    seen, order = set(drawn), count()
    waiting = [(time, next(order), program) for program, time in times.items()]
    heapq.heapify(waiting)
    for _ in range(EXPANDED):
        if not waiting:
            break
        _, _, best = heapq.heappop(waiting)
        for near in made.neighbours(best):
            if near not in seen:
                seen.add(near)
                if sieve.passes(near):
                    times[near] = rank(near)
                    heapq.heappush(waiting, (times[near], next(order), near))
    found, unseen = sieve.funnel(times), Dropped(UNSEEN, BECAUSE, total - len(seen), "")
    return replace(found, total=found.total + unseen.count, dropped=(unseen, *found.dropped)), times


def unseen_of(made: Sketch, sieve: Sieve, rank: Rank, most: float) -> Callable[[Program], float | None] | None:
    """What tells the modelled time of a program that `programs_of` did not look at; None where it looked at all.

    It tells None of what is no program of the space, is dropped, or is promised more than `most` microseconds.
    """
    if len(made) <= WHOLE:
        return None

    def time_of(program: Program) -> float | None:
        if program not in made or not sieve.passes(program):
            return None
        time = rank(program)
        return time if time <= most else None

    return time_of
