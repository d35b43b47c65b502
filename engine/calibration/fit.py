"""Least squares over the logarithms of times: which figures of a target explain what was measured.

Unknown are the factors of the figures, as logarithms; a residual is log(predicted / measured) in units of SPREAD.  The
model is a maximum of terms, so a figure acts only on rows whose largest term it makes: the steps of
Levenberg-Marquardt are followed by tries along single figures, which find what no slope shows yet.  Residuals count
linearly past HUBER units, so that a row that ran beside something else bends the fit no more than a bad one; a weak
pull toward the target's own figures settles what rows leave open.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.cost.estimate import model_microseconds
from engine.cost.nodes import Work
from engine.target import Target

SPREAD = 0.05
"""Relative error of the model that is expected even with the right figures."""
HUBER = 2.0
PULL = math.log(4)
"""Distance of a figure from its description that costs one unit of residual (a prior)."""
STEPS, ROUNDS = 25, 4
LARGEST_STEP = 0.7
TRIES = (0.5, -0.5, 0.1, -0.1, 0.02, -0.02)
SLOPE = 1e-4
"""Step of the finite differences."""

Vector = np.ndarray[tuple[int], np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Observation:
    """One measured time and the launches that it is made of."""

    name: str
    kind: str
    """Of its dearest launch: "row reduction", "contraction on tensor cores" ..."""
    microseconds: float
    launches: tuple[tuple[int, Work], ...]
    """(times, one launch), one after another."""


def predicted_time(observation: Observation, target: Target) -> float:
    """Microseconds of all launches of an observation."""
    return sum(times * model_microseconds(facts, target) for times, facts in observation.launches)


def fit_target(observations: Sequence[Observation], target: Target, names: Sequence[str]) -> Target:
    """The target with the named figures changed so that its predictions come closest to the observations."""
    return _scale_figures(target, names, _FigureFit(observations, target, names).run())


def speaking(observations: Sequence[Observation], target: Target, names: Sequence[str]) -> Mapping[str, int]:
    """Figure -> number of observations that depend on it: their time changes by at least a tenth of the figure's
    change."""
    slopes = np.abs(_FigureFit(observations, target, names).slopes(np.zeros(len(names))))
    return {name: int((column >= 0.1).sum()) for name, column in zip(names, slopes.T, strict=True)}


def _scale_figures(target: Target, names: Sequence[str], factors: Vector) -> Target:
    figures = {name: getattr(target, name) for name in names}
    scaled = {
        name: replace(figure, value=float(figure.value * math.exp(factor)))
        for (name, figure), factor in zip(figures.items(), factors, strict=True)
    }
    return replace(target, **scaled)


class _FigureFit:
    """One problem: observations, the target, the figures that may change."""

    def __init__(self, observations: Sequence[Observation], target: Target, names: Sequence[str]) -> None:
        self._observations, self._target, self._names = observations, target, names
        self._measured = np.log([one.microseconds for one in observations])

    def run(self) -> Vector:
        """The factors, as logarithms."""
        best = np.zeros(len(self._names))
        for _ in range(ROUNDS):
            before = self._cost(best)
            best = self._along_slopes(best)
            best = self._along_figures(best)
            if before - self._cost(best) < 1e-3 * max(before, 1.0):
                break
        return best

    def slopes(self, factors: Vector) -> np.ndarray:
        """Row by row the change of the logarithm of its time by that of each figure."""
        here = self._logarithms(factors)
        columns = []
        for number in range(len(self._names)):
            beside = factors.copy()
            beside[number] += SLOPE
            columns.append((self._logarithms(beside) - here) / SLOPE)
        return np.stack(columns, axis=1)

    def _logarithms(self, factors: Vector) -> Vector:
        target = _scale_figures(self._target, self._names, factors)
        return np.log([predicted_time(one, target) for one in self._observations])

    def _residuals(self, factors: Vector) -> Vector:
        return (self._logarithms(factors) - self._measured) / SPREAD

    def _cost(self, factors: Vector) -> float:
        size = np.abs(self._residuals(factors))
        each = np.where(size <= HUBER, size**2 / 2, HUBER * (size - HUBER / 2))
        return float(each.sum() + ((factors / PULL) ** 2).sum() / 2)

    def _along_slopes(self, factors: Vector) -> Vector:
        """Levenberg and Marquardt, with the weights of Huber's loss."""
        cost, damping = self._cost(factors), 1e-2
        for _ in range(STEPS):
            residuals = self._residuals(factors)
            weights = np.minimum(1.0, HUBER / np.maximum(np.abs(residuals), 1e-12))
            slopes = self.slopes(factors) / SPREAD
            curvature = slopes.T @ (weights[:, None] * slopes) + np.eye(len(factors)) / PULL**2
            downhill = -(slopes.T @ (weights * residuals) + factors / PULL**2)
            step = np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), downhill)
            step = np.clip(step, -LARGEST_STEP, LARGEST_STEP)
            tried = self._cost(factors + step)
            if tried < cost:
                small = cost - tried < 1e-4 * max(cost, 1.0)
                factors, cost, damping = factors + step, tried, damping / 4
                if small:
                    break
            else:
                damping *= 8
                if damping > 1e6:
                    break
        return factors

    def _along_figures(self, factors: Vector) -> Vector:
        """Each figure alone, up and down by large and small parts, as long as it helps."""
        cost = self._cost(factors)
        for number in range(len(self._names)):
            for change in TRIES:
                while True:
                    tried = factors.copy()
                    tried[number] += change
                    found = self._cost(tried)
                    if found >= cost:
                        break
                    factors, cost = tried, found
        return factors
