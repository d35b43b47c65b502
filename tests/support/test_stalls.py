"""The stall assertion: a sleep of the window's thread is caught, and one below the limit is not."""

from __future__ import annotations

from time import sleep

import pytest

from tests.support.stalls import assert_fluent, slowdown


def test_a_window_that_sleeps_is_caught(qtbot: object) -> None:
    rounds: list[float] = []

    def work() -> None:
        sleep(0.3 * slowdown())  # well beyond the limit, also where the machine gets slower meanwhile
        rounds.append(0.0)

    with pytest.raises(AssertionError, match="stood still"):
        assert_fluent(work)
    assert len(rounds) == 3


def test_a_pause_below_the_limit_passes(qtbot: object) -> None:
    assert_fluent(lambda: sleep(0.05))
