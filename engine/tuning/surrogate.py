"""A Gaussian process over the features of programs: main effects first, and what features do together.

The covariance is a product over the features of 1 + weight * Matern 3/2, so it is the sum of a constant, of functions
of each feature, of each pair and so on (an ANOVA kernel): what a feature does in most programs is expected of programs
that differ from all trials in several others.  A linear kernel of the modelled log time is added.  Weights and lengths
are fitted to the trials, with priors that keep both where they are unless trials speak against it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

SLOPE = 1.0
"""Variance, relative to the signal, of the slope between modelled and real log times."""
WEIGHT, LENGTH, NOISE = 0.3, 1.5, 1e-3
"""Medians of what is fitted: weights, lengths in standard deviations of the feature, noise variance (signal is 1)."""
SPREAD = 0.5
"""Standard deviation of the logarithms of weights and lengths before any trial."""
STEPS = (("weights", 3.0), ("weights", 1 / 3), ("lengths", 2.0), ("lengths", 0.5))
"""Of a fit, for each feature."""
NOISES = (1e-4, 1e-3, 1e-2)
WIDE_MEAN = 100.0
"""Variance, relative to the signal, of the offset that all programs share."""
LEAST_SCALE = 1e-2
"""Standard deviation that a fit assumes at least."""


@dataclass(frozen=True, slots=True, eq=False)
class Covariance:
    """The kernel of a process: what a feature contributes, and how far it reaches."""

    weights: np.ndarray
    """Of features."""
    lengths: np.ndarray
    noise: float

    @staticmethod
    def usual(features: int) -> Covariance:
        """Of the prior."""
        return Covariance(np.full(features, WEIGHT), np.full(features, LENGTH), NOISE)

    def prior(self) -> float:
        """Logarithm of the density of weights and lengths, up to a constant."""
        away = np.log(np.concatenate([self.weights / WEIGHT, self.lengths / LENGTH]))
        return -float(away @ away) / (2 * SPREAD**2)

    def factor(self, feature: int, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """What a feature contributes to the covariance of two lists of its values; 1 where they are equal."""
        rows, row_of = np.unique(one, return_inverse=True)
        columns, column_of = np.unique(other, return_inverse=True)  # features have few values: look the kernel up
        distance = math.sqrt(3) / self.lengths[feature] * np.abs(rows[:, None] - columns[None, :])
        weight = self.weights[feature]
        table = (1 + weight * (1 + distance) * np.exp(-distance)) / (1 + weight)
        return np.asarray(table[row_of][:, column_of])

    def between(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Of two lists of rows, whose last element is the modelled log time."""
        product = np.ones((len(one), len(other)))
        for feature in range(len(self.weights)):
            product *= self.factor(feature, one[:, feature], other[:, feature])
        return np.asarray(product + SLOPE * one[:, -1:] @ other[:, -1:].T)


@dataclass(frozen=True, slots=True, eq=False)
class Correction:
    """A Gaussian process over rows of features, whose last element is the logarithm of the modelled time."""

    rows: np.ndarray
    inverse: np.ndarray
    """Of the Cholesky factor of the trials' covariance in units of `scale`."""
    weights: np.ndarray
    mean: float
    scale: float
    """Variance of a deviation."""
    shape: Covariance
    likelihood: float
    """Logarithm, for the choice of the shape."""

    @staticmethod
    def of(rows: np.ndarray, values: np.ndarray, shape: Covariance, least: float = LEAST_SCALE) -> Correction:
        """Fit to the deviations (`values`) of some rows.  least: minimum of their standard deviation."""
        return _of(rows, values, shape, shape.between(rows, rows), least)

    def at(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of the prediction at some rows."""
        across = self.shape.between(rows, self.rows)
        mean = self.mean + across @ self.weights
        left = 1.0 + SLOPE * rows[:, -1] ** 2 - ((across @ self.inverse.T) ** 2).sum(axis=1)
        return mean, np.sqrt(self.scale * np.maximum(left, 1e-9))


def _of(rows: np.ndarray, values: np.ndarray, shape: Covariance, covariance: np.ndarray, least: float) -> Correction:
    factor = np.linalg.cholesky(covariance + (shape.noise + 1e-8) * np.eye(len(rows)))
    inverse = np.linalg.inv(factor)
    ones = inverse.sum(axis=1)
    mean = float(ones @ (inverse @ values) / (1.0 / WIDE_MEAN + ones @ ones))
    whitened = inverse @ (values - mean)
    scale = max(float(whitened @ whitened) / max(len(rows), 1), least**2)
    likelihood = -0.5 * len(rows) * math.log(scale) - float(np.log(np.diag(factor)).sum())
    return Correction(rows, inverse, inverse.T @ whitened, mean, scale, shape, likelihood)


def fit(rows: np.ndarray, values: np.ndarray, shape: Covariance, least: float = LEAST_SCALE) -> Covariance:
    """A likelier shape than the given one: noise, then each feature's weight and length go a step where that helps."""
    features = len(shape.weights)
    factors = [shape.factor(at, rows[:, at], rows[:, at]) for at in range(features)]
    linear = SLOPE * rows[:, -1:] @ rows[:, -1:].T

    def judge(one: Covariance, covariance: np.ndarray) -> float:
        return _of(rows, values, one, covariance, least).likelihood + one.prior()

    covariance = np.prod(factors, axis=0) + linear
    tried = [replace(shape, noise=noise) for noise in dict.fromkeys((shape.noise, *NOISES))]
    best, _, shape = max((judge(one, covariance), -at, one) for at, one in enumerate(tried))
    for at in range(features):
        others = (covariance - linear) / factors[at]
        for name, step in STEPS:
            figures = getattr(shape, name).copy()
            figures[at] *= step
            changed = replace(shape, **{name: figures})
            factor = changed.factor(at, rows[:, at], rows[:, at])
            found = judge(changed, others * factor + linear)
            if found > best:
                best, shape, factors[at] = found, changed, factor
        covariance = others * factors[at] + linear
    return shape
