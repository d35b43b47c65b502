"""Bayesian optimisation with the modelled time as prior mean: a Gaussian process learns the model's error.

Before any trial, the modelled time is the expected time.  A Gaussian process over the features of programs learns how
far trials deviate from it, with an uncertainty for every program; the program with the largest expected improvement is
tried next.  So the search follows the model at first and the trials later.  ALCOP instead starts a boosted ranking from
its model's scores; a Gaussian process needs fewer trials (about ten), and its uncertainty spreads the proposals.

Where no model tells programs apart, the first trials spread over the space, each as far from the others as can be, and
what is learned is not the logarithm of the time but how far the speed is behind the best: how slow the slow ones are
does not matter then.  A process that is too sure of itself would stay where it is: once it finds nothing better, every
other proposal is a random neighbour of one of the best programs, as an evolutionary search would take it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np

from engine.kernels.space import Program
from engine.tuning.candidate_pool import Candidates
from engine.tuning.strategy import ProgramSpace, Result, Strategy
from engine.tuning.surrogate import Correction, Covariance, fit

LEAST_TRIALS = 8
"""Trials from which on the shape of the covariance is fitted; where no model tells programs apart, they spread."""
FIRST_DRAWN = 300
"""Programs of which the farthest from all trials so far is taken as one of the first."""
DOUBT = 0.6
"""Standard deviation of log time from the model's before any trial, and its minimum until there are enough trials.

Larger than models are wrong, so that the first trials spread: with 0.3 the ten first stayed near the model's best, also
where that was a fourth slower than others.  Chosen on ALCOP's square products on the synthetic device (best of 10 from
0.84 to 0.98); the recorded CPU spaces have 0.986 with either.
"""
EMPHASIS = 3.0
"""Power of the speed that is learned where there is no model: the larger, the less do slow programs count."""
COVARIANCE_TRIALS = 128
"""Most trials in the covariance matrix: half of them the fastest, half the latest."""
WIDE, PROMISING = 4096, 0.75
"""Programs that are looked at where a model tells programs apart, and the part of them that it promises most."""
LEADING, DRAWN = 1100, 400
"""Programs that a proposal weighs: those that the model promises most, if there is one, and others at random.

That not all are weighed each time makes searches less greedy: they found better programs so.
"""
PARENTS = 3
"""The best programs so far whose neighbours are considered, too."""
PATIENCE, NEAR_CHANCE, NEAR_PARENTS = 20, 0.5, 8
"""Trials without a better program after which a proposal may be a random neighbour, the chance of that, and of how many
best programs it is one.

What else is above, and what is in `surrogate`, was chosen on the measured spaces convolution_A4000 and
gemm_RTX_3060_laptop.
"""


class GaussianProcess:
    """Proposes the programs of largest expected improvement on the best one so far."""

    def __init__(self, space: ProgramSpace, rng: random.Random) -> None:
        self._candidates, self._rng = Candidates(space), rng
        promised = self._candidates.promised
        self._is_informed = bool(promised.size and np.ptp(promised) > 0)
        """Whether the modelled times tell programs apart."""
        looked_at = self._first()
        self._pool = looked_at if self._is_informed else np.arange(len(promised))
        """Programs that proposals draw from."""
        self._varies, self._centre, self._spread, self._usual = np.zeros(0, bool), np.zeros(0), np.ones(0), 0.0
        if len(looked_at):  # of a space without programs there is nothing to scale
            figures = self._candidates.features(looked_at)
            centre, spread = figures.mean(axis=0), figures.std(axis=0)
            self._varies = spread > 0
            self._centre, self._spread = centre[self._varies], spread[self._varies]
            self._usual = float(self._prior[looked_at].mean())
        self._shape = Covariance.usual(len(self._centre))
        self._fitted = 0
        """Trials when the shape was fitted."""

    @property
    def _prior(self) -> np.ndarray:
        """What is expected of each program before any trial."""
        promised = self._candidates.promised
        return promised if self._is_informed else np.zeros(len(promised))

    def _first(self) -> np.ndarray:
        """`WIDE` programs by the model: the most promising, and others at random."""
        order = np.argsort(self._candidates.promised, kind="stable")
        first = int(PROMISING * WIDE) if self._is_informed else 0
        others = self._rng.sample(list(order[first:]), max(0, min(WIDE, len(order)) - first))
        return np.concatenate([order[:first], np.array(others, int)]).astype(int)

    def propose(self, count: int) -> list[Program]:
        """The next programs one by one, each proposal counted as a trial with the expected time.

        Without that, all proposals of one call would be neighbours.
        """
        candidates = self._candidates
        numbers, values = self._trials()
        found: list[Program] = []
        while len(found) < count:
            open_ones = self._open_ones(numbers, values)
            if not open_ones.size:
                left = np.flatnonzero(candidates.is_open)
                left = left[np.argsort(candidates.promised[left], kind="stable")]
                return found + [candidates.take(int(number)) for number in left[: count - len(found)]]
            if not self._is_informed and len(candidates.times) < LEAST_TRIALS:
                found.append(candidates.take(self._farthest(open_ones)))
                continue
            near = self._neighbour()
            if near is not None:
                found.append(candidates.take(near))
                continue
            correction = self._correction(numbers, values)
            mean, doubt = correction.at(self._rows(open_ones))
            expected = self._prior[open_ones] + mean
            best = float((self._prior[numbers] + values).min()) if numbers.size else float(expected.min())
            chosen = int(np.argmax(_improvement(best, expected, doubt)))
            found.append(candidates.take(int(open_ones[chosen])))
            numbers, values = np.append(numbers, open_ones[chosen]), np.append(values, mean[chosen])
        return found

    def _farthest(self, open_ones: np.ndarray) -> int:
        """Of some untried programs, the one whose features differ most from those of every program proposed so far."""
        drawn = np.array(self._rng.sample(list(open_ones), min(FIRST_DRAWN, len(open_ones))), int)
        proposed = np.flatnonzero(~self._candidates.is_open)
        if not proposed.size:
            return int(drawn[0])
        rows, others = self._rows(drawn), self._rows(proposed)
        return int(drawn[np.abs(rows[:, None] - others[None]).sum(axis=2).min(axis=1).argmax()])

    def _neighbour(self) -> int | None:
        """An untried neighbour of one of the best programs, now and then while trials find none that is better."""
        numbers, times = self._candidates.observations()
        if not numbers.size or numbers.size - 1 - int(times.argmin()) < PATIENCE or self._rng.random() >= NEAR_CHANCE:
            return None
        best = numbers[np.argsort(times, kind="stable")[:NEAR_PARENTS]]
        near = {n for parent in best for n in self._candidates.neighbours(int(parent)) if self._candidates.is_open[n]}
        return self._rng.choice(sorted(near)) if near else None

    def _open_ones(self, numbers: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Untried programs that are considered: some of the pool, and those that differ from the best in one choice."""
        candidates = self._candidates
        best = np.argsort(self._prior[numbers] + values, kind="stable")[:PARENTS]
        near = np.array([one for parent in best for one in candidates.neighbours(int(numbers[parent]))], int)
        pool = self._pool[candidates.is_open[self._pool]]
        leading = LEADING if self._is_informed else 0
        if len(pool) > leading + DRAWN:
            others = self._rng.sample(range(leading, len(pool)), DRAWN)
            pool = np.concatenate([pool[:leading], pool[others]])
        return np.union1d(pool, near[candidates.is_open[near]])

    def leave_out(self, program: Program) -> None:
        """See `Strategy`."""
        self._candidates.leave_out(program)

    def learn(self, results: Sequence[Result]) -> None:
        """Store results."""
        self._candidates.learn(results)

    def _trials(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers and deviations of the trials that are fitted."""
        numbers, times = self._candidates.observations()
        if numbers.size > COVARIANCE_TRIALS:
            fastest = np.argsort(times, kind="stable")[: COVARIANCE_TRIALS // 2]
            chosen = np.union1d(fastest, np.arange(numbers.size - COVARIANCE_TRIALS // 2, numbers.size))
            numbers, times = numbers[chosen], times[chosen]
        if not self._is_informed and times.size:
            times = (1 - np.exp(EMPHASIS * (times.min() - times))) / EMPHASIS
        return numbers, times - self._prior[numbers]

    def _correction(self, numbers: np.ndarray, values: np.ndarray) -> Correction:
        """A fit with the likeliest shape, which is looked for again once there are a tenth more trials."""
        rows = self._rows(numbers)
        if numbers.size < LEAST_TRIALS:
            return Correction.of(rows, values, self._shape, DOUBT)
        if numbers.size > 1.1 * self._fitted or numbers.size < self._fitted:
            for _ in range(1 if self._fitted else 2):
                self._shape = fit(rows, values, self._shape)
            self._fitted = numbers.size
        return Correction.of(rows, values, self._shape)

    def _rows(self, numbers: np.ndarray) -> np.ndarray:
        """Standardised features that vary, and the modelled log time."""
        if not len(numbers):
            return np.zeros((0, len(self._centre) + 1))
        figures = (self._candidates.features(numbers)[:, self._varies] - self._centre) / self._spread
        return np.column_stack([figures, self._prior[numbers] - self._usual])


def _improvement(best: float, expected: np.ndarray, doubt: np.ndarray) -> np.ndarray:
    """Expected improvement on `best`, of logarithms of times."""
    z = (best - expected) / doubt
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    below = 0.5 * (1 + _error_function(z / math.sqrt(2)))
    return np.asarray(doubt * (z * below + density))


_error_function = np.vectorize(math.erf, otypes=[float])


def gaussian_process(space: ProgramSpace, rng: random.Random) -> Strategy:
    """The strategy that learns a correction of the model."""
    return GaussianProcess(space, rng)
