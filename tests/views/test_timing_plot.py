"""Axes of the sample plot: round ticks, room that grows, extremes that are never left out."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from PySide6.QtCore import QRectF

from views.format import moment
from views.timing.scale import columns, limits, sample_axis, ticks

AREA = QRectF(50, 10, 400, 200)


@pytest.mark.parametrize("seed", range(40))
def test_ticks_are_round_few_and_inside(seed: int) -> None:
    draw = random.Random(seed)
    low = draw.choice((0.0, draw.uniform(0.001, 500)))
    high = low + draw.uniform(0.01, 300)
    found = ticks(low, high, 5)
    assert 2 <= len(found) <= 6
    assert all(low - 1e-9 <= value <= high + 1e-9 for value in found)
    steps = {round((b - a) / (found[1] - found[0]), 6) for a, b in pairwise(found)}
    assert steps == {1.0}
    mantissa = float(f"{found[1] - found[0]:e}".partition("e")[0])
    assert round(mantissa, 6) in (1.0, 2.0, 2.5, 5.0)


def test_all_samples_are_drawn_while_they_are_few() -> None:
    samples = [3.0, 1.0, 2.0]
    assert columns(samples, 1) == [(0, 3.0), (1, 1.0), (2, 2.0)]


def test_of_very_many_samples_no_extreme_is_left_out() -> None:
    draw = random.Random(1)
    samples = [draw.gauss(10, 0.1) for _ in range(50_000)]
    samples[31_415], samples[27_182] = 99.0, 0.5
    drawn = columns(samples, 120)
    assert len(drawn) <= 360
    assert (31_415, 99.0) in drawn and (27_182, 0.5) in drawn
    assert all(samples[number] == value for number, value in drawn)
    found = sorted(drawn)
    assert max(b[0] - a[0] for a, b in pairwise(found)) < 2 * 50_000 / 120, "no gap in the picture"


def test_the_axis_keeps_its_room_until_it_is_full() -> None:
    assert sample_axis(AREA, 5, 0).room == sample_axis(AREA, 20, 0).room == 20
    assert sample_axis(AREA, 21, 0).room == 40 and sample_axis(AREA, 21, 200).room == 200
    axis = sample_axis(AREA, 30, 100)
    assert AREA.left() < axis.x(0) < axis.x(29) < axis.x(99) < AREA.right()


def test_limits_hold_everything_and_are_never_empty() -> None:
    low, high = limits([5.0, 5.0])
    assert low < 5.0 < high
    low, high = limits([0.001, 9.0])
    assert low == 0.0 and high > 9.0


def test_dates_are_written_for_people() -> None:
    assert moment("2026-11-18T09:12:00+00:00") == "18 Nov 2026 09:12"
    assert moment("yesterday") == "yesterday" and moment("") == ""
