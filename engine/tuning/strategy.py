"""Search strategies: the interface, and those that follow a fixed order."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from engine.kernels.space import Program, Value

Result = tuple[Program, float | None]
"""A program and its time in microseconds; None where it failed."""


class ProgramSpace(Protocol):
    """The search space of a strategy; a Task is one."""

    @property
    def programs(self) -> Sequence[Program]:
        """All of them."""

    @property
    def dimensions(self) -> Mapping[str, tuple[Value, ...]]:
        """Ordered choices of each dimension."""

    def rank(self, program: Program) -> float:
        """Modelled microseconds: smaller is tried first."""

    def time_of_unseen(self, program: Program) -> float | None:
        """Modelled microseconds of a program that may be proposed though `programs` does not have it; None of others.
        """

    def accesses(self, program: Program) -> tuple[int, int]:
        """Sectors and requests of global memory, which order programs of one rank."""

    def features(self, program: Program) -> tuple[float, ...]:
        """Figures for learned models."""


class Strategy(Protocol):
    """Proposes programs, each at most once, and may learn from what became of them."""

    def propose(self, count: int) -> list[Program]:
        """Up to `count` programs that were neither proposed nor learned before; fewer only where no more are left."""

    def leave_out(self, program: Program) -> None:
        """Do not propose a program: somebody else has, and its result will come."""

    def learn(self, results: Sequence[Result]) -> None:
        """Results of programs, whether this strategy proposed them or an earlier run tried them."""


class Ordered:
    """Programs in a fixed order, whatever the results."""

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

    def leave_out(self, program: Program) -> None:
        """See `Strategy`."""
        self._tried.add(program)

    def learn(self, results: Sequence[Result]) -> None:
        """Remember which programs were tried."""
        self._tried.update(program for program, _ in results)


def exhaustive(space: ProgramSpace, rng: random.Random) -> Strategy:
    """Every program that the space has looked at, in its order."""
    return Ordered(space.programs)


def at_random(space: ProgramSpace, rng: random.Random) -> Strategy:
    """Every program that the space has looked at, in random order."""
    return Ordered(rng.sample(space.programs, len(space.programs)))


def by_model(space: ProgramSpace, rng: random.Random) -> Strategy:
    """The same by modelled time, fastest first; of equal times those of the fewest accesses."""
    alike = itertools.groupby(sorted(space.programs, key=space.rank), key=space.rank)
    return Ordered(program for _, group in alike for program in _by_accesses(space, list(group)))


def _by_accesses(space: ProgramSpace, programs: list[Program]) -> list[Program]:
    return sorted(programs, key=space.accesses) if len(programs) > 1 else programs
