"""The programs of a space as feature vectors, and which are untried: the data of the learning strategies.

Programs that the space has not looked at join where a strategy comes to them, as neighbours of what was fast.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from engine.kernels.space import Program, Value
from engine.tuning.strategy import ProgramSpace, Result

WORST = 2.0
"""A failed program counts as this many times the slowest one."""


class Candidates:
    """Programs by number, their features (computed on demand) and the results so far."""

    def __init__(self, space: ProgramSpace) -> None:
        self.space = space
        self.programs = list(space.programs)
        self.numbers = {program: number for number, program in enumerate(self.programs)}
        self.promised = np.array([math.log(max(space.rank(program), 1e-9)) for program in self.programs])
        """Logarithm of the modelled microseconds of each."""
        self.is_open = np.ones(len(self.programs), bool)
        """Whether each was neither proposed nor tried."""
        self.times: dict[int, float] = {}
        """Number -> logarithm of microseconds; infinite where it failed."""
        self._dropped: set[Program] = set()
        """What was asked for and may not be proposed."""
        self._features: dict[int, tuple[float, ...]] = {}
        self._aligned = [name for name, choices in space.dimensions.items() if _is_aligned(choices)]

    def features(self, numbers: Sequence[int] | np.ndarray) -> np.ndarray:
        """Figures of some programs: shape (programs, figures).

        Beside those of the space, the power of two that divides a count: vectors, banks and bounds ask for it.
        """
        for number in numbers:
            if number not in self._features:
                program = self.programs[number]
                aligned = (math.log2(program.number(name) & -program.number(name)) for name in self._aligned)
                self._features[number] = (*self.space.features(program), *aligned)
        return np.array([self._features[number] for number in numbers], float)

    def find(self, program: Program) -> int | None:
        """The number of a program, which joins the others where it was not looked at so far; None of one that may not
        be proposed."""
        number = self.numbers.get(program)
        if number is not None or program in self._dropped:
            return number
        time = self.space.time_of_unseen(program)
        if time is None:
            self._dropped.add(program)
            return None
        number = self.numbers[program] = len(self.programs)
        self.programs.append(program)
        self.promised = np.append(self.promised, math.log(max(time, 1e-9)))
        self.is_open = np.append(self.is_open, True)
        return number

    def neighbours(self, number: int) -> list[int]:
        """Programs that differ from one in the value of a single dimension."""
        program = self.programs[number]
        found = []
        for at, (name, value) in enumerate(program.values):
            for other in self.space.dimensions.get(name, ()):
                values = (*program.values[:at], (name, other), *program.values[at + 1 :])
                near = self.find(Program(program.mapping, values)) if other != value else None
                if near is not None:
                    found.append(near)
        return found

    def learn(self, results: Sequence[Result]) -> int:
        """Store results; how many were of programs of this space."""
        known = [(number, time) for program, time in results if (number := self.find(program)) is not None]
        for number, time in known:
            self.is_open[number] = False
            self.times[number] = math.inf if time is None else math.log(max(time, 1e-9))
        return len(known)

    def take(self, number: int) -> Program:
        """Propose a program."""
        self.is_open[number] = False
        return self.programs[number]

    def leave_out(self, program: Program) -> None:
        """Do not propose a program."""
        number = self.find(program)
        if number is not None:
            self.is_open[number] = False

    def observations(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers and log times of the tried programs; a failure counts as slower than all others."""
        numbers = np.array(list(self.times), int)
        times = np.array(list(self.times.values()))
        ran = np.isfinite(times)
        slowest = times[ran].max() if ran.any() else self.promised.max(initial=0.0)
        return numbers, np.where(ran, times, slowest + math.log(WORST))


def _is_aligned(choices: Sequence[Value]) -> bool:
    """Whether a dimension is of counts that powers of two divide to different degrees, not of those powers alone."""
    counts = [choice for choice in choices if isinstance(choice, int) and choice > 0]
    return len(counts) == len(choices) and any(count & (count - 1) for count in counts)
