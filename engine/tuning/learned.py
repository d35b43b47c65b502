"""Model-ranked search that learns from measurements: a correction of the modelled times, sensible from few trials on.

The model's time is what is expected before anything ran.  A Gaussian process over the figures of programs learns by
how much trials deviate from it, how far it can be trusted at all, and how sure that is elsewhere; the program with the
largest expected improvement is tried next: the search goes by the model at first and by what it saw later.  ALCOP
starts a boosted ranking from its model's scores; a process tells more from ten trials, and what is left of its doubt
spreads the proposals.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.kernels.space import Program
from engine.tuning.candidate_pool import Candidates
from engine.tuning.strategy import ProgramSpace, Result, Strategy

ENOUGH = 10
"""Trials from which lengths and noise are fitted to them."""
LENGTHS, NOISES = (0.3, 0.6, 1.0, 2.0, 4.0), (0.02, 0.1, 0.3)
"""Distance, in units of sqrt(figures) deviations, over which a deviation holds; noise in parts of its size."""
GUESS = (1.0, 0.1)
"""Length and noise before there are enough."""
DOUBT = 0.3
"""Deviation of the logarithm of a time from the model's before anything ran; the least until there are enough."""
SLOPE = 1.0
"""Variance, in units of DOUBT squared, of the factor by which the model's logarithms may be wrong as a whole."""
MOST = 256
"""Trials that are learned from: half of them the fastest, half the last."""
WIDE = 4096
"""Candidates that are looked at, most of them those that the model promises most; chance draws the others."""
PROMISING = 0.75


@dataclass(frozen=True, slots=True, eq=False)
class Correction:
    """A Gaussian process over rows of figures, of which the last is the logarithm of the modelled time."""

    rows: np.ndarray
    inverse: np.ndarray
    """Of the Cholesky factor of the trials' covariance in units of `scale`."""
    weights: np.ndarray
    mean: float
    scale: float
    """Variance of a deviation."""
    length: float
    likelihood: float
    """Logarithm, for the choice of length and noise."""

    @staticmethod
    def of(rows: np.ndarray, values: np.ndarray, length: float, noise: float, least: float = 0.01) -> Correction:
        """Learn deviations (logarithms) of rows, whose usual size is at least `least`."""
        factor = np.linalg.cholesky(_covariance(rows, rows, length) + noise * np.eye(len(rows)))
        inverse = np.linalg.inv(factor)
        ones = inverse.sum(axis=1)
        # A constant that all share is known no better than one more deviation.
        mean = float(ones @ (inverse @ values) / (1.0 + ones @ ones))
        whitened = inverse @ (values - mean)
        scale = max(float(whitened @ whitened) / max(len(rows), 1), least**2)
        likelihood = -0.5 * len(rows) * math.log(scale) - float(np.log(np.diag(factor)).sum())
        return Correction(rows, inverse, inverse.T @ whitened, mean, scale, length, likelihood)

    def at(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Expected deviation of rows, and the deviation of that."""
        across = _covariance(rows, self.rows, self.length)
        mean = self.mean + across @ self.weights
        left = 1.0 + SLOPE * rows[:, -1] ** 2 - ((across @ self.inverse.T) ** 2).sum(axis=1)
        return mean, np.sqrt(self.scale * np.maximum(left, 1e-9))


class Learned:
    """Proposes by expected improvement on the best program so far."""

    def __init__(self, space: ProgramSpace, rng: random.Random) -> None:
        self._candidates = candidates = Candidates(space)
        order = np.argsort(candidates.promised, kind="stable")
        first = int(PROMISING * WIDE)
        others = rng.sample(list(order[first:]), max(0, min(WIDE, len(order)) - first))
        self._looked_at = np.concatenate([order[:first], np.array(others, int)]).astype(int)
        self._centre, self._spread, self._usual = np.zeros(0), np.ones(0), 0.0
        self._varies = np.zeros(0, bool)
        if len(self._looked_at):  # of a space without programs there is nothing to scale
            figures = candidates.features(self._looked_at)
            centre, spread = figures.mean(axis=0), figures.std(axis=0)
            self._varies = spread > 0
            self._centre, self._spread = centre[self._varies], spread[self._varies]
            self._usual = float(candidates.promised[self._looked_at].mean())
        self._fixed: tuple[int, float, float] = (0, *GUESS)
        """Trials when length and noise were chosen, and these."""

    def propose(self, count: int) -> list[Program]:
        """One after the other: what is proposed counts as if it came out as expected."""
        candidates = self._candidates
        numbers, values = self._trials()
        found: list[Program] = []
        while len(found) < count:
            open_ones = self._looked_at[candidates.is_open[self._looked_at]]
            if not open_ones.size:
                left = np.flatnonzero(candidates.is_open)
                left = left[np.argsort(candidates.promised[left], kind="stable")]
                return found + [candidates.take(int(number)) for number in left[: count - len(found)]]
            correction = self._correction(numbers, values)
            mean, doubt = correction.at(self._rows(open_ones))
            expected = candidates.promised[open_ones] + mean
            best = float((candidates.promised[numbers] + values).min()) if numbers.size else float(expected.min())
            chosen = int(np.argmax(_improvement(best, expected, doubt)))
            found.append(candidates.take(int(open_ones[chosen])))
            numbers, values = np.append(numbers, open_ones[chosen]), np.append(values, mean[chosen])
        return found

    def learn(self, results: Sequence[Result]) -> None:
        """Take results in."""
        self._candidates.learn(results)

    def _trials(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers and deviations of what is learned from."""
        numbers, times = self._candidates.observations()
        if numbers.size > MOST:
            fastest = np.argsort(times, kind="stable")[: MOST // 2]
            chosen = np.union1d(fastest, np.arange(numbers.size - MOST // 2, numbers.size))
            numbers, times = numbers[chosen], times[chosen]
        return numbers, times - self._candidates.promised[numbers]

    def _correction(self, numbers: np.ndarray, values: np.ndarray) -> Correction:
        """Length and noise that the trials make most likely, chosen again after every tenth more."""
        rows = self._rows(numbers)
        if numbers.size < ENOUGH:
            return Correction.of(rows, values, *GUESS, least=DOUBT)
        at, length, noise = self._fixed
        if numbers.size > 1.1 * at or numbers.size < at:
            tried = [(Correction.of(rows, values, *pair).likelihood, pair) for pair in _PAIRS]
            length, noise = max(tried, key=lambda one: one[0])[1]
            self._fixed = numbers.size, length, noise
        return Correction.of(rows, values, length, noise)

    def _rows(self, numbers: np.ndarray) -> np.ndarray:
        """Figures that vary, in deviations, scaled so that distances do not grow with their number; and the promise."""
        if not len(numbers):
            return np.zeros((0, len(self._centre) + 1))
        figures = (self._candidates.features(numbers)[:, self._varies] - self._centre) / self._spread
        promised = self._candidates.promised[numbers] - self._usual
        return np.column_stack([figures / math.sqrt(max(1, len(self._centre))), promised])


_PAIRS = [(length, noise) for length in LENGTHS for noise in NOISES]


def _covariance(one: np.ndarray, other: np.ndarray, length: float) -> np.ndarray:
    """Matern 5/2 of the figures, for deviations are smooth but not infinitely so, and linear in the promise."""
    linear = SLOPE * one[:, -1:] @ other[:, -1:].T
    one, other = one[:, :-1], other[:, :-1]
    squares = (one**2).sum(1)[:, None] + (other**2).sum(1)[None, :] - 2 * one @ other.T
    distance = np.sqrt(5 * np.maximum(squares, 0.0)) / length
    return np.asarray((1 + distance + distance**2 / 3) * np.exp(-distance) + linear)


def _improvement(best: float, expected: np.ndarray, doubt: np.ndarray) -> np.ndarray:
    """Expected improvement on `best`, of logarithms of times."""
    z = (best - expected) / doubt
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    below = 0.5 * (1 + _error_function(z / math.sqrt(2)))
    return np.asarray(doubt * (z * below + density))


_error_function = np.vectorize(math.erf, otypes=[float])


def learned(space: ProgramSpace, rng: random.Random) -> Strategy:
    """The model first, then what was learned."""
    return Learned(space, rng)
