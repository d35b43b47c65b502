"""Summary of a set of times, and a significance test between two sets.

Samples of one run are not independent, because clocks and temperature drift.  Samples are therefore grouped into
rounds, the median of a round counts as one observation, and confidence intervals are Student's t over the logarithms of
the medians.  Rounds that were interleaved (A, B, A, B, ...) are compared pair by pair, which cancels slow drift.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FASTER, SLOWER, SAME, TOO_FEW = "faster", "slower", "no significant change", "too few samples"
"""Verdicts of a comparison."""
TIE = 0.02
"""Relative differences up to this are a tie, however significant: two runs of one kernel differ by as much."""
ROUNDS, LENGTH = 10, 7
"""Samples without rounds are cut into this many, or fewer so that each has LENGTH: four of seven must be disturbed
before its median is."""
LEAST_ROUNDS = 4
"""Rounds needed on each side for a verdict."""
WIDE, DRIFT, CLOCK = 0.10, 0.05, 0.05
"""Limits of a quiet run: p20 to p80, first third to last third, lowest to highest clock; each a part of the median."""

_STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Two-sided 95 % quantiles for 1, 2, ... degrees of freedom."""


@dataclass(frozen=True, slots=True)
class TimeSummary:
    """Summary of one set of times in microseconds."""

    median: float
    low: float
    """20th percentile."""
    high: float
    """80th percentile."""
    noise: str
    """Why the figures are unreliable ("p20 to p80 is 14 % of the median"); "" for a quiet run."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Change of a time from A to B."""

    ratio: float
    """B over A; above 1 is slower."""
    low: float
    """Lower end of the 95 % interval of the ratio."""
    high: float
    verdict: str
    because: str


def summarise(samples: Sequence[float], clocks: Sequence[float] = ()) -> TimeSummary:
    """Median, percentiles and noise of times in the order in which they were taken.

    clocks: of the SMs in MHz, read now and then during the run.  ValueError without samples.
    """
    if not samples:
        raise ValueError("there are no samples")
    taken = np.asarray(samples, dtype=float)
    low, median, high = (float(value) for value in np.percentile(taken, (20, 50, 80)))
    return TimeSummary(median, low, high, noise(samples, clocks))


def noise(samples: Sequence[float], clocks: Sequence[float] = ()) -> str:
    """Why times, in the order in which they were taken, are unreliable; "" for a quiet run."""
    taken = np.asarray(samples, dtype=float)
    low, middle, high = np.percentile(taken, (20, 50, 80))
    found = []
    if high - low > WIDE * middle:
        found.append(f"p20 to p80 is {(high - low) / middle:.0%} of the median")
    third = len(taken) // 3
    if third >= LEAST_ROUNDS:
        drift = float(np.median(taken[-third:]) / np.median(taken[:third])) - 1
        if abs(drift) > DRIFT:
            found.append(f"times drift by {drift:+.0%}")
    if clocks and max(clocks) - min(clocks) > CLOCK * statistics.median(clocks):
        found.append(f"the clock moved between {min(clocks):.0f} and {max(clocks):.0f} MHz")
    return "; ".join(found)


def in_rounds(samples: Sequence[float], rounds: int = 0) -> list[Sequence[float]]:
    """Samples in the order taken, cut into `rounds` of nearly equal length; 0: as ROUNDS and LENGTH say."""
    count = rounds or min(ROUNDS, max(LEAST_ROUNDS, len(samples) // LENGTH))
    edges = [len(samples) * n // count for n in range(count + 1)]
    return [samples[a:b] for a, b in itertools.pairwise(edges) if b > a]


def compare(
    a: Sequence[Sequence[float]], b: Sequence[Sequence[float]], *, interleaved: bool = False, tie: float = TIE
) -> Difference:
    """The change from rounds of A to rounds of B, with a 95 % interval.

    interleaved: round n of A and of B were taken right after one another.  tie: the part below which a difference is
    none, however sure.
    """
    x, y = ([math.log(statistics.median(one)) for one in rounds if one] for rounds in (a, b))
    if min(len(x), len(y)) < LEAST_ROUNDS:
        ratio = _ratio(x, y)
        counts = f"{len(x)} and {len(y)} rounds; {LEAST_ROUNDS} each are needed"
        return Difference(ratio, 0.0, math.inf, TOO_FEW, counts)
    centre, half = _paired_difference(x, y) if interleaved and len(x) == len(y) else _welch_difference(x, y)
    ratio, low, high = (math.exp(value) for value in (centre, centre - half, centre + half))
    span = f"{ratio - 1:+.1%}, 95 % between {low - 1:+.1%} and {high - 1:+.1%}"
    if low <= 1 <= high:
        return Difference(ratio, low, high, SAME, span)
    if abs(ratio - 1) <= tie:
        return Difference(ratio, low, high, SAME, f"{span}: within the {tie:.0%} that count as a tie")
    return Difference(ratio, low, high, SLOWER if ratio > 1 else FASTER, span)


def _ratio(x: Sequence[float], y: Sequence[float]) -> float:
    return math.exp(statistics.fmean(y) - statistics.fmean(x)) if x and y else math.nan


def _paired_difference(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """Centre and half width of the mean difference of pairs."""
    differences = [after - before for before, after in zip(x, y, strict=True)]
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    return statistics.fmean(differences), error * _quantile(len(differences) - 1)


def _welch_difference(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """Centre and half width of the difference of two means of unequal variance (Welch)."""
    parts = [statistics.variance(side) / len(side) for side in (x, y)]
    total = sum(parts)
    centre = statistics.fmean(y) - statistics.fmean(x)
    if total == 0:
        return centre, 0.0
    freedom = total**2 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, (x, y), strict=True))
    return centre, math.sqrt(total) * _quantile(freedom)


def _quantile(freedom: float) -> float:
    """Student's two-sided 95 % quantile."""
    whole = int(freedom)
    return _STUDENT[whole - 1] if whole <= len(_STUDENT) else 1.96 + 2.4 / freedom
