"""Statistics on distributions whose answer is known.  All data is seeded; rates are over 400 trials."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from engine.execution.statistics import FASTER, SAME, SLOWER, TOO_FEW, compare, in_rounds, noise, summarise

Draw = Callable[[np.random.Generator, int], np.ndarray]
TRIALS = 400


def normal(stream: np.random.Generator, count: int) -> np.ndarray:
    return stream.normal(10.0, 0.1, count)


def skewed(stream: np.random.Generator, count: int) -> np.ndarray:
    return 10.0 + stream.exponential(0.1, count)


def with_outliers(stream: np.random.Generator, count: int) -> np.ndarray:
    """One sample in ten takes up to four times as long."""
    return normal(stream, count) * np.where(stream.random(count) < 0.1, stream.uniform(1, 4, count), 1)


def wandering(stream: np.random.Generator, count: int) -> np.ndarray:
    """A slow walk of the clock, about 1 % over the run, under 0.3 % of noise."""
    walk = np.cumsum(stream.normal(0, 0.01, count)) / math.sqrt(count)
    return 10.0 * (1 + walk) + stream.normal(0, 0.03, count)


def share(draw: Draw, factor: float, verdict: str, tie: float = 0.0) -> float:
    """How often 50 samples against 50 that take `factor` as long get the verdict."""
    stream, hits = np.random.default_rng(7), 0
    for _ in range(TRIALS):
        a, b = draw(stream, 50).tolist(), (factor * draw(stream, 50)).tolist()
        hits += compare(in_rounds(a), in_rounds(b), tie=tie).verdict == verdict
    return hits / TRIALS


@pytest.mark.parametrize("draw", [normal, skewed, with_outliers])
def test_equal_distributions_are_called_equal(draw: Draw) -> None:
    # 95 % in theory; three standard deviations of 400 trials are 3.3 %.
    assert share(draw, 1.0, SAME) > 0.917


def test_with_the_tie_band_a_wandering_clock_is_no_change() -> None:
    assert share(wandering, 1.0, SAME, tie=0.02) > 0.95


@pytest.mark.parametrize("draw", [normal, skewed, with_outliers, wandering])
def test_a_difference_of_five_percent_is_seen(draw: Draw) -> None:
    assert share(draw, 1.05, SLOWER, tie=0.02) > 0.95
    assert share(draw, 1 / 1.05, FASTER, tie=0.02) > 0.95


def test_the_interval_covers_the_true_ratio() -> None:
    stream, covered = np.random.default_rng(11), 0
    for _ in range(TRIALS):
        found = compare(in_rounds(normal(stream, 50).tolist()), in_rounds((1.1 * normal(stream, 50)).tolist()))
        covered += found.low <= 1.1 <= found.high
    assert 0.917 < covered / TRIALS < 0.983


def test_interleaved_rounds_cancel_what_drifts() -> None:
    """A drift of 20 % hides 4 % between two runs; pairs taken side by side show it."""
    stream = np.random.default_rng(3)
    drift = np.linspace(1.0, 1.2, 12)[:, None]
    a = (10.0 * drift * stream.normal(1, 0.002, (12, 5))).tolist()
    b = (10.4 * drift * stream.normal(1, 0.002, (12, 5))).tolist()
    assert compare(a, b).verdict == SAME
    paired = compare(a, b, interleaved=True)
    assert paired.verdict == SLOWER and paired.low < 1.04 < paired.high


def test_a_sure_but_small_difference_is_a_tie() -> None:
    stream = np.random.default_rng(5)
    a, b = (in_rounds((scale * stream.normal(1, 1e-4, 50)).tolist()) for scale in (10.0, 10.1))
    assert compare(a, b, tie=0.0).verdict == SLOWER
    found = compare(a, b)
    assert found.verdict == SAME and "tie" in found.because


def test_constant_times_have_an_interval_of_no_width() -> None:
    found = compare([[2.0]] * 5, [[3.0]] * 5)
    assert (found.ratio, found.low, found.high) == pytest.approx((1.5, 1.5, 1.5))
    assert found.verdict == SLOWER
    assert compare([[2.0]] * 5, [[2.0]] * 5).verdict == SAME


@pytest.mark.parametrize(("a", "b"), [([], []), ([[1.0]] * 3, [[9.0]] * 9), ([[1.0]] * 9, [[], [9.0], [], []])])
def test_too_few_rounds_say_nothing(a: list[list[float]], b: list[list[float]]) -> None:
    assert compare(a, b).verdict == TOO_FEW


def test_samples_are_cut_in_order() -> None:
    assert in_rounds(list(range(7)), 3) == [[0, 1], [2, 3], [4, 5, 6]]
    assert [len(one) for one in in_rounds([0.0] * 50)] == [7, 7, 7, 7, 7, 7, 8]
    assert [len(one) for one in in_rounds([0.0] * 100)] == [10] * 10
    assert in_rounds([1.0, 2.0, 3.0]) == [[1.0], [2.0], [3.0]]
    assert in_rounds([]) == []


def test_a_summary_has_the_percentiles_of_the_distribution() -> None:
    samples = np.random.default_rng(2).normal(100.0, 2.0, 20_000).tolist()
    found = summarise(samples)
    # The 20th and 80th percentile of a normal distribution are 0.8416 deviations from its middle.
    assert found.median == pytest.approx(100.0, abs=0.1)
    assert found.low == pytest.approx(100 - 0.8416 * 2, abs=0.1)
    assert found.high == pytest.approx(100 + 0.8416 * 2, abs=0.1)
    assert found.noise == ""
    with pytest.raises(ValueError, match="no samples"):
        summarise([])


def test_noise_says_what_is_wrong() -> None:
    quiet = np.random.default_rng(1).normal(10, 0.05, 60)
    assert noise(quiet.tolist()) == ""
    assert noise(np.random.default_rng(1).normal(10, 1.5, 60).tolist()).startswith("p20 to p80 is ")
    drifting = (quiet * np.linspace(1, 1.09, 60)).tolist()
    assert noise(drifting).startswith("times drift by +")
    assert noise(quiet.tolist(), [1980, 1975, 1980]) == ""
    assert noise(quiet.tolist(), [1980, 1400]) == "the clock moved between 1400 and 1980 MHz"
