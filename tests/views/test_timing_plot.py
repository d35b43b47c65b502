"""The sample plot: round ticks, room that grows, extremes that are never left out."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from views.format import moment
from views.plots.scale import limits, log_ticks, room_for, ticks


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


def test_ticks_of_things_are_whole() -> None:
    assert ticks(1, 11, 4, whole=True) == [3, 6, 9]
    assert log_ticks(0, 6, 6) == [0, 1, 2, 3, 4, 5, 6] and 10 ** log_ticks(0.5, 1.0, 4)[0] == pytest.approx(4)


def test_the_axis_keeps_its_room_until_it_is_full() -> None:
    assert room_for(5, 0, 20) == room_for(20, 0, 20) == 20
    assert room_for(21, 0, 20) == 40 and room_for(21, 200, 20) == 200 and room_for(300, 200, 20) == 300


def test_limits_hold_everything_and_are_never_empty() -> None:
    low, high = limits([5.0, 5.0])
    assert low < 5.0 < high
    low, high = limits([0.001, 9.0])
    assert low == 0.0 and high > 9.0


def test_dates_are_written_for_people() -> None:
    assert moment("2026-11-18T09:12:00+00:00") == "18 Nov 2026 09:12"
    assert moment("yesterday") == "yesterday" and moment("") == ""
