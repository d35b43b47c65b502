"""Bayesian optimisation with the modelled time as prior mean: a Gaussian process learns the model's error.

Before any trial, the modelled time is the expected time.  A Gaussian process over the features of programs learns how
far trials deviate from it, with an uncertainty for every program; the program with the largest expected improvement is
tried next.  So the search follows the model at first and the trials later.  A process that is too sure of itself would
stay where it is: once it finds nothing better, every other proposal is a random neighbour of one of the best programs,
as an evolutionary search would take it.  ALCOP instead starts a boosted ranking from
its model's scores; a Gaussian process needs fewer trials (about ten), and its uncertainty spreads the proposals.
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

LEAST_TRIALS = 5
"""Trials from which on length scale and noise are fitted; random until then where no model tells programs apart."""
LENGTHS, NOISES = (0.3, 0.6, 1.0, 2.0, 4.0), (0.02, 0.1, 0.3)
"""Choices of the length scale (standard deviations times sqrt(features)) and of the noise variance (signal is 1)."""
GUESS = (1.0, 0.1)
"""Length scale and noise before there are enough trials."""
DOUBT = 0.3
"""Standard deviation of log time from the model's before any trial, and its minimum until there are enough trials."""
SLOPE = 1.0
"""Variance, relative to the signal, of the slope between modelled and real log times."""
COVARIANCE_TRIALS = 256
"""Most trials in the covariance matrix: half of them the fastest, half the latest."""
WIDE = 4096
"""Candidates that are considered: PROMISING of them the best by the model, the others random."""
PROMISING = 0.75
PARENTS = 4
"""The best programs so far whose neighbours are considered, too."""
PATIENCE, NEAR_CHANCE, NEAR_PARENTS = 10, 0.5, 8
"""Trials without a better program after which a proposal may be a random neighbour, the chance of that, and of how many
best programs it is one."""
STRETCHES, SCALES, SPREAD = (2.0, 0.5), (0.125, 8.0), 1.0
"""Steps of a feature's scale, the least and the largest, and the variance of its logarithm before any trial.

`LEAST_TRIALS`, the scales, and `PATIENCE` with what belongs to it, were chosen on the measured spaces convolution_A4000
and gemm_RTX_3060_laptop.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Correction:
    """A Gaussian process over feature vectors, whose last element is the logarithm of the modelled time."""

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
        """Fit to the deviations of log time (`values`) of some rows.  least: minimum of their standard deviation."""
        factor = np.linalg.cholesky(_covariance(rows, rows, length) + noise * np.eye(len(rows)))
        inverse = np.linalg.inv(factor)
        ones = inverse.sum(axis=1)
        # The common offset has a prior of unit variance, too, hence the 1 in the denominator.
        mean = float(ones @ (inverse @ values) / (1.0 + ones @ ones))
        whitened = inverse @ (values - mean)
        scale = max(float(whitened @ whitened) / max(len(rows), 1), least**2)
        likelihood = -0.5 * len(rows) * math.log(scale) - float(np.log(np.diag(factor)).sum())
        return Correction(rows, inverse, inverse.T @ whitened, mean, scale, length, likelihood)

    def at(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of the prediction at some rows."""
        across = _covariance(rows, self.rows, self.length)
        mean = self.mean + across @ self.weights
        left = 1.0 + SLOPE * rows[:, -1] ** 2 - ((across @ self.inverse.T) ** 2).sum(axis=1)
        return mean, np.sqrt(self.scale * np.maximum(left, 1e-9))


class GaussianProcess:
    """Proposes the programs of largest expected improvement on the best one so far."""

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
        self._scales = np.ones(len(self._centre))
        """Of features: one that matters is stretched."""
        self._rng = rng
        self._is_informed = bool(np.ptp(candidates.promised) > 0) if len(candidates.programs) else True
        """Whether the modelled times tell programs apart."""
        self._fixed: tuple[int, float, float] = (0, *GUESS)
        """Trials when length and noise were chosen, and these."""

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
            near = self._neighbour()
            if near is not None:
                found.append(candidates.take(near))
                continue
            if not self._is_informed and numbers.size < LEAST_TRIALS:
                found.append(candidates.take(int(self._rng.choice(open_ones))))
                numbers, values = np.append(numbers, candidates.numbers[found[-1]]), np.append(values, 0.0)
                continue
            correction = self._correction(numbers, values)
            mean, doubt = correction.at(self._rows(open_ones))
            expected = candidates.promised[open_ones] + mean
            best = float((candidates.promised[numbers] + values).min()) if numbers.size else float(expected.min())
            chosen = int(np.argmax(_improvement(best, expected, doubt)))
            found.append(candidates.take(int(open_ones[chosen])))
            numbers, values = np.append(numbers, open_ones[chosen]), np.append(values, mean[chosen])
        return found

    def _neighbour(self) -> int | None:
        """An untried neighbour of one of the best programs, now and then while trials find none that is better."""
        numbers, times = self._candidates.observations()
        if not numbers.size or numbers.size - 1 - int(times.argmin()) < PATIENCE or self._rng.random() >= NEAR_CHANCE:
            return None
        best = numbers[np.argsort(times, kind="stable")[:NEAR_PARENTS]]
        near = {n for parent in best for n in self._candidates.neighbours(int(parent)) if self._candidates.is_open[n]}
        return self._rng.choice(sorted(near)) if near else None

    def _open_ones(self, numbers: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Untried programs that are considered: those looked at, and those that differ from the best in one choice."""
        candidates = self._candidates
        best = np.argsort(candidates.promised[numbers] + values, kind="stable")[:PARENTS]
        near = [number for parent in best for number in candidates.neighbours(int(numbers[parent]))]
        considered: np.ndarray = np.union1d(self._looked_at, np.array(near, int))
        return np.asarray(considered[candidates.is_open[considered]])

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
        return numbers, times - self._candidates.promised[numbers]

    def _correction(self, numbers: np.ndarray, values: np.ndarray) -> Correction:
        """A fit with length scale and noise of maximum likelihood, chosen again once there are a tenth more trials."""
        rows = self._rows(numbers)
        if numbers.size < LEAST_TRIALS:
            return Correction.of(rows, values, *GUESS, least=DOUBT)
        at, length, noise = self._fixed
        if numbers.size > 1.1 * at or numbers.size < at:
            tried = [(Correction.of(rows, values, *pair).likelihood, pair) for pair in _PAIRS]
            length, noise = max(tried, key=lambda one: one[0])[1]
            self._fixed = numbers.size, length, noise
            rows = self._fit_scales(numbers, values)
        return Correction.of(rows, values, length, noise)

    def _fit_scales(self, numbers: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Stretch features, one after the other, to what is likelier; the rows of the trials under the new scales."""
        _, length, noise = self._fixed
        rows = self._rows(numbers)
        likelihood = Correction.of(rows, values, length, noise).likelihood - self._penalty()
        for at in range(len(self._scales)):
            for factor in STRETCHES:
                before = self._scales[at]
                self._scales[at] = before * factor
                if SCALES[0] <= self._scales[at] <= SCALES[1]:
                    stretched = rows.copy()
                    stretched[:, at] *= factor
                    found = Correction.of(stretched, values, length, noise).likelihood - self._penalty()
                    if found > likelihood:
                        rows, likelihood = stretched, found
                        break
                self._scales[at] = before
        return rows

    def _penalty(self) -> float:
        """Of scales that are far from 1: logarithms are normal with variance `SPREAD`."""
        return float((np.log(self._scales) ** 2).sum() / (2 * SPREAD))

    def _rows(self, numbers: np.ndarray) -> np.ndarray:
        """Standardised features that vary, divided by the root of their number, and the modelled log time."""
        if not len(numbers):
            return np.zeros((0, len(self._centre) + 1))
        figures = (self._candidates.features(numbers)[:, self._varies] - self._centre) / self._spread
        promised = self._candidates.promised[numbers] - self._usual
        return np.column_stack([self._scales * figures / math.sqrt(max(1, len(self._centre))), promised])


_PAIRS = [(length, noise) for length in LENGTHS for noise in NOISES]


def _covariance(one: np.ndarray, other: np.ndarray, length: float) -> np.ndarray:
    """Matern 5/2 kernel of the features (smooth, not infinitely so) plus a linear kernel of the modelled log time."""
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


def gaussian_process(space: ProgramSpace, rng: random.Random) -> Strategy:
    """The strategy that learns a correction of the model."""
    return GaussianProcess(space, rng)
