"""Two runs beside each other: small series whose answers are counted by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engine.documents.comparison import ProgramDifference
from engine.tuning.comparison import GroupTrials, best_so_far, compare, first_within, pair_groups


def series(*times: float | None, origin: str = "measured", **program: str) -> GroupTrials:
    return GroupTrials(origin, np.array([math.nan if time is None else time for time in times]), program)


def test_the_best_so_far_falls_and_waits_for_the_first_time() -> None:
    found = best_so_far(np.array([math.nan, math.inf, 5.0, 7.0, math.nan, 3.0]))
    np.testing.assert_array_equal(found, [math.nan, math.nan, 5.0, 5.0, 5.0, 3.0])
    assert len(best_so_far(np.empty(0))) == 0


@pytest.mark.parametrize(("limit", "number"), [(7.0, 3), (6.9, 5), (4.0, 5), (3.9, None)])
def test_the_first_trial_within_a_time(limit: float, number: int | None) -> None:
    assert first_within(np.array([math.nan, 9.0, 7.0, math.inf, 4.0, 4.0]), limit) == number


def test_trials_until_both_were_where_the_slower_ended() -> None:
    own, other = series(20, 10, None, 8, 4), series(30, None, 12, 8, 8)
    found = compare(own, other)
    assert (found.own.best, found.own.number, found.own.trials, found.own.failures) == (4, 5, 5, 1)
    assert (found.other.best, found.other.number, found.other.trials, found.other.failures) == (8, 4, 5, 1)
    assert (found.own.reached, found.other.reached) == (4, 4)
    assert found.ratio == 2 and found.why_not == ""
    turned = compare(other, own)
    assert turned.ratio == 0.5 and turned.other == found.own and turned.own == found.other


def test_the_faster_run_was_there_before_its_best() -> None:
    found = compare(series(9, 6, 1), series(*[8] * 5, 7))
    assert (found.own.reached, found.own.number, found.other.reached) == (2, 3, 6)


def test_times_of_different_origins_do_not_compare() -> None:
    found = compare(series(9, 6), series(3, 2, origin="predicted", stages="3"))
    assert found.ratio is None and found.why_not == "measured and predicted times do not compare"
    assert found.own.reached is None and found.other.reached is None
    assert (found.own.best, found.other.best) == (6, 2)
    assert found.differences == (ProgramDifference("stages", "", "3"),)


def test_a_run_without_a_time_or_without_the_group() -> None:
    found = compare(series(9, 6, stages="2"), series(None, None))
    assert found.why_not == "one of the runs has no time yet" and found.ratio is None
    assert found.other.failures == 2 and found.other.best is None and found.other.number is None
    assert found.differences == (), "there is no best program to differ from"
    assert compare(series(), series(None)).why_not == "neither run has a time yet"
    alone = compare(None, series(5))
    assert "only one" in alone.why_not and (alone.own.trials, alone.own.origin) == (0, "")
    assert alone.other.best == 5 and alone.ratio is None
    assert compare(series(5), None).own.best == 5


def test_dimensions_in_which_the_best_programs_differ() -> None:
    found = compare(series(1, stages="2", warps="8", own="x"), series(1, warps="4", stages="2", other="y"))
    assert found.differences == (
        ProgramDifference("warps", "8", "4"), ProgramDifference("own", "x", ""), ProgramDifference("other", "", "y"),
    )  # fmt: skip


def test_groups_are_pairs_by_name() -> None:
    assert pair_groups(("a", "b", "c"), ("c", "d", "a")) == (("a", "a"), ("b", None), ("c", "c"), (None, "d"))
    assert pair_groups(("a", "b"), ("c",)) == (("a", None), ("b", None), (None, "c"))
    assert pair_groups((), ("c",)) == ((None, "c"),)


def test_the_only_groups_of_two_runs_are_a_pair() -> None:
    assert pair_groups(("matmul_0",), ("dense_1024",)) == (("matmul_0", "dense_1024"),)
