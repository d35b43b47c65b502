"""The programs of a space as feature vectors, and which are untried: the data of the learning strategies."""

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
        self.programs = tuple(space.programs)
        self.numbers = {program: number for number, program in enumerate(self.programs)}
        self.promised = np.array([math.log(max(space.rank(program), 1e-9)) for program in self.programs])
        """Logarithm of the modelled microseconds of each."""
        self.is_open = np.ones(len(self.programs), bool)
        """Whether each was neither proposed nor tried."""
        self.times: dict[int, float] = {}
        """Number -> logarithm of microseconds; infinite where it failed."""
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

    def neighbours(self, number: int) -> list[int]:
        """Programs that differ from one in the value of a single dimension."""
        program = self.programs[number]
        found = []
        for at, (name, value) in enumerate(program.values):
            for other in self.space.dimensions.get(name, ()):
                values = (*program.values[:at], (name, other), *program.values[at + 1 :])
                near = self.numbers.get(Program(program.mapping, values)) if other != value else None
                if near is not None:
                    found.append(near)
        return found

    def learn(self, results: Sequence[Result]) -> int:
        """Store results; how many were of programs of this space."""
        known = [(self.numbers[program], time) for program, time in results if program in self.numbers]
        for number, time in known:
            self.is_open[number] = False
            self.times[number] = math.inf if time is None else math.log(max(time, 1e-9))
        return len(known)

    def take(self, number: int) -> Program:
        """Propose a program."""
        self.is_open[number] = False
        return self.programs[number]

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
