"""Statistics of a run's trials: accuracy of the model's ranking, and influence of each dimension."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

LEAST_TRIALS = 3
"""Trials below which nothing is said."""

Numbers = NDArray[np.float64]


def rank_correlation(promised: Numbers, came: Numbers) -> float:
    """Spearman's rank correlation of two series of one length, equal values sharing their rank.

    Pairs of which one is not finite do not count.  NaN where fewer than `LEAST_TRIALS` are left or one
    series is constant.
    """
    both = np.isfinite(promised) & np.isfinite(came)
    if both.sum() < LEAST_TRIALS:
        return math.nan
    first, second = _ranks(promised[both]), _ranks(came[both])
    first, second = first - first.mean(), second - second.mean()
    length = math.sqrt(float(first @ first) * float(second @ second))
    return float(first @ second) / length if length else math.nan


def variance_explained(times: Numbers, values: NDArray[np.int32]) -> float:
    """Part of the variance of the logarithm of the times that one dimension explains by itself (eta squared).

    times: microseconds, all finite and positive; values: number of each trial's value, negative where it has none.
    0 where the dimension has one value, all times are equal, or fewer than `LEAST_TRIALS` trials have it.
    """
    known = values >= 0
    if known.sum() < LEAST_TRIALS:
        return 0.0
    logs, codes = np.log(times[known]), values[known]
    total = float(((logs - logs.mean()) ** 2).sum())
    if total <= 0 or codes.min() == codes.max():
        return 0.0
    counts = np.bincount(codes)
    sums = np.bincount(codes, weights=logs)
    means = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
    between = float((counts * (means - logs.mean()) ** 2 * (counts > 0)).sum())
    return min(between / total, 1.0)


def _ranks(values: Numbers) -> Numbers:
    """The rank of each value, from 1; equal values get the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return ((last - counts + 1 + last) / 2)[place]
