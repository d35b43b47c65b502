"""Rank correlation and explained variance against values worked out by hand, and against SciPy's definition."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engine.tuning.statistics import rank_correlation, variance_explained


def numbers(*values: float) -> np.ndarray:
    return np.array(values, float)


def test_the_same_order_is_one_and_the_opposite_minus_one() -> None:
    assert rank_correlation(numbers(1, 2, 3, 40), numbers(10, 11, 900, 901)) == pytest.approx(1)
    assert rank_correlation(numbers(1, 2, 3, 40), numbers(9, 8, 7, 1)) == pytest.approx(-1)


def test_equal_values_share_their_rank() -> None:
    # Ranks 1, 2.5, 2.5, 4 against 1, 3, 2, 4: covariance 4.5 over sqrt(4.5 * 5).
    assert rank_correlation(numbers(1, 2, 2, 3), numbers(1, 3, 2, 4)) == pytest.approx(4.5 / math.sqrt(4.5 * 5))


def test_six_squared_differences_over_n_cubed_less_n() -> None:
    rng = np.random.default_rng(3)
    first, second = rng.permutation(50).astype(float), rng.permutation(50).astype(float)
    textbook = 1 - 6 * float(((first - second) ** 2).sum()) / (50**3 - 50)
    assert rank_correlation(first, second) == pytest.approx(textbook)


def test_pairs_that_are_not_known_do_not_count() -> None:
    promised, came = numbers(1, math.nan, 2, 3, math.inf), numbers(5, 1, 6, 7, 1)
    assert rank_correlation(promised, came) == pytest.approx(1)


@pytest.mark.parametrize("promised", [(1, 2), (1, math.nan, 2), (4, 4, 4)])
def test_nothing_is_said_of_too_little(promised: tuple[float, ...]) -> None:
    assert math.isnan(rank_correlation(numbers(*promised), numbers(*range(len(promised)))))


def test_a_dimension_that_decides_everything_explains_all() -> None:
    values = np.array([0, 1, 2, 0, 1, 2], np.int32)
    assert variance_explained(numbers(1, 2, 4, 1, 2, 4), values) == pytest.approx(1)


def test_a_dimension_without_effect_explains_nothing() -> None:
    assert variance_explained(numbers(1, 1, 8, 8), np.array([0, 1, 0, 1], np.int32)) == pytest.approx(0)
    assert variance_explained(numbers(1, 2, 3), np.array([4, 4, 4], np.int32)) == 0
    assert variance_explained(numbers(2, 2, 2), np.array([0, 1, 2], np.int32)) == 0


def test_two_dimensions_share_the_variance_of_their_product() -> None:
    # log2(time) = a + 2 b: variances 1/4 and 4/4 of 5/4.
    times = numbers(1, 2, 4, 8)
    assert variance_explained(times, np.array([0, 1, 0, 1], np.int32)) == pytest.approx(0.2)
    assert variance_explained(times, np.array([0, 0, 1, 1], np.int32)) == pytest.approx(0.8)


def test_trials_without_the_dimension_do_not_count() -> None:
    values = np.array([0, 0, 1, 1, -1], np.int32)
    assert variance_explained(numbers(1, 2, 4, 8, 1000), values) == pytest.approx(0.8)
