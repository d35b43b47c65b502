"""Which program of a group is tried next: strategies behind one interface."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from engine.tune.nodes import Program

Result = tuple[Program, float | None]
"""A program and its time in microseconds; None where it failed."""


class Strategy(Protocol):
    """Proposes programs, each at most once, and may learn from what became of them."""

    def propose(self, count: int) -> list[Program]:
        """Up to `count` programs that were not proposed before; fewer only where no more are left."""

    def learn(self, results: Sequence[Result]) -> None:
        """What became of proposed programs."""


class Ordered:
    """Programs in an order that is known from the start: results change nothing."""

    def __init__(self, points: Sequence[Program]) -> None:
        self._points, self._next = points, 0

    def propose(self, count: int) -> list[Program]:
        """The next ones."""
        found = list(self._points[self._next : self._next + count])
        self._next += len(found)
        return found

    def learn(self, results: Sequence[Result]) -> None:
        """Nothing to learn."""


Rank = Callable[[Program], float]
"""A modelled time: smaller is tried first."""


def exhaustive(points: Sequence[Program], rank: Rank, rng: random.Random) -> Strategy:
    """Every program in the order of the space."""
    return Ordered(points)


def at_random(points: Sequence[Program], rank: Rank, rng: random.Random) -> Strategy:
    """Every program in an order drawn by chance."""
    return Ordered(rng.sample(points, len(points)))


def by_model(points: Sequence[Program], rank: Rank, rng: random.Random) -> Strategy:
    """The program that the model promises most first."""
    return Ordered(sorted(points, key=rank))


STRATEGIES: Mapping[str, Callable[[Sequence[Program], Rank, random.Random], Strategy]] = {
    "model": by_model,
    "random": at_random,
    "exhaustive": exhaustive,
}
"""By the name that a user gives."""
