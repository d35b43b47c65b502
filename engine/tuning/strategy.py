"""Which program of a task is tried next: strategies behind one interface."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from engine.kernels.space import Program, Value

Result = tuple[Program, float | None]
"""A program and its time in microseconds; None where it failed."""


class ProgramSpace(Protocol):
    """What is searched; a task is one."""

    @property
    def programs(self) -> Sequence[Program]:
        """All of them."""

    @property
    def dimensions(self) -> Mapping[str, tuple[Value, ...]]:
        """Ordered choices of each dimension."""

    def rank(self, program: Program) -> float:
        """Modelled microseconds: smaller is tried first."""

    def features(self, program: Program) -> tuple[float, ...]:
        """Figures for learned models."""


class Strategy(Protocol):
    """Proposes programs, each at most once, and may learn from what became of them."""

    def propose(self, count: int) -> list[Program]:
        """Up to `count` programs that were neither proposed nor learned before; fewer only where no more are left."""

    def learn(self, results: Sequence[Result]) -> None:
        """What became of programs, whether this strategy proposed them or an earlier run tried them."""


class Ordered:
    """Programs in an order that is known from the start: results change nothing."""

    def __init__(self, programs: Iterable[Program]) -> None:
        self._left = iter(programs)
        self._tried: set[Program] = set()

    def propose(self, count: int) -> list[Program]:
        """The next ones."""
        found: list[Program] = []
        while len(found) < count and (program := next(self._left, None)) is not None:
            if program not in self._tried:
                found.append(program)
        return found

    def learn(self, results: Sequence[Result]) -> None:
        """Nothing to learn but that they were tried."""
        self._tried.update(program for program, _ in results)


def exhaustive(space: ProgramSpace, rng: random.Random) -> Strategy:
    """Every program in the order of the space."""
    return Ordered(space.programs)


def at_random(space: ProgramSpace, rng: random.Random) -> Strategy:
    """Every program in an order drawn by chance."""
    return Ordered(rng.sample(space.programs, len(space.programs)))


def by_model(space: ProgramSpace, rng: random.Random) -> Strategy:
    """The program that the model promises most first."""
    return Ordered(sorted(space.programs, key=space.rank))
