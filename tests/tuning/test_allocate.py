"""The published rules of allocation, with figures worked out by hand."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from engine.tuning.budget_scheduler import (
    Subgraph,
    backward,
    forward,
    next_round,
    prospect,
    sample,
    without_outsiders,
)


class Fixed(random.Random):
    """Draws what it is told to."""

    def __init__(self, *draws: float) -> None:
        super().__init__(0)
        self.draws = list(draws)

    def random(self) -> float:
        return self.draws.pop(0)


def test_the_past_is_the_change_over_three_rounds() -> None:
    assert backward((100.0, 90.0, 80.0)) == 0.0, "three rounds have no fourth to compare with"
    assert backward((100.0, 90.0, 80.0, 70.0)) == -10.0
    assert backward((500.0, 100.0, 90.0, 80.0, 76.0)) == -8.0
    assert backward((math.inf, 90.0, 80.0, 70.0)) == 0.0


def test_hope_is_the_smaller_of_two_guesses() -> None:
    one = Subgraph("a", (100.0, 80.0, 60.0, 60.0), flops=600.0)
    assert forward(one, ()) == -15.0, "60 - 60 / 4, less 60"
    quick = Subgraph("b", (10.0,), flops=1000.0)
    assert forward(one, (quick,)) == pytest.approx(2 * 600 / 100 - 60), "as fast as b would be 6 us, twice that 12"
    slow = Subgraph("c", (1000.0,), flops=1000.0)
    assert forward(one, (slow,)) == -15.0


def test_the_gradient_weighs_past_and_hope() -> None:
    one = Subgraph("a", (90.0, 80.0, 70.0, 60.0), flops=600.0, similar="gemm")
    quick = Subgraph("b", (10.0,), flops=1000.0, similar="gemm")
    alone = prospect(one, (one,))
    assert (alone.backward, alone.forward) == (-10.0, -15.0)
    assert alone.gradient == pytest.approx(0.2 * -10 + 0.8 * -15)
    assert prospect(one, (one, quick)).gradient == pytest.approx(0.2 * -10 + 0.8 * -48)
    other = Subgraph("b", (10.0,), flops=1000.0, similar="conv")
    assert prospect(one, (one, other)).gradient == alone.gradient
    twelve = Subgraph("a", one.best, one.flops, weight=12.0)
    assert prospect(twelve, (twelve,)).gradient == pytest.approx(12 * alone.gradient)


def test_each_gets_a_round_and_then_the_steepest() -> None:
    rng = random.Random(0)
    first, second = Subgraph("a", (100.0,), 1.0), Subgraph("b", (), 1.0)
    turn = next_round((first, second), rng)
    assert turn is not None and turn.subgraph == "b" and "first round" in turn.because
    second = Subgraph("b", (10.0,), 1.0)
    turn = next_round((first, second), rng)
    assert turn is not None and turn.subgraph == "a"
    assert [p.gradient for p in turn.prospects] == pytest.approx([-80.0, -8.0])


def test_equal_gains_go_by_chance() -> None:
    equal = [Subgraph(name, (10.0, 10.0), 1.0) for name in "abc"]
    rng = random.Random(3)
    assert {turn.subgraph for _ in range(40) if (turn := next_round(equal, rng))} == set("abc")


def test_the_dead_get_nothing() -> None:
    rng = random.Random(0)
    done = Subgraph("a", (100.0,), 1.0, is_exhausted=True)
    stuck = Subgraph("b", (50.0,), 1.0, stagnant=9)
    live = Subgraph("c", (1.0,), 1.0)
    turn = next_round((done, stuck, live), rng, limit=8)
    assert turn is not None and turn.subgraph == "c"
    turn = next_round((done, stuck, live), rng)
    assert turn is not None and turn.subgraph == "b", "without a limit standing still is no death"
    assert next_round((done,), rng) is None


def test_what_can_save_too_little_of_the_model_gets_no_more_rounds() -> None:
    rng = random.Random(0)
    slight = Subgraph("a", (100.0,), 1.0, hope=99.5)
    once, often = Subgraph("b", (10.0,), 1.0, hope=9.95), Subgraph("b", (10.0,), 1.0, weight=40.0, hope=9.95)
    # Of 110 us a thousandth is 0.11: the first may save 0.5 at most, the second 0.05; of 500 us of the model it is
    # 0.5, and 40 launches of the second save 2.
    turn = next_round((slight, once), rng, least=0.001)
    assert turn is not None and turn.subgraph == "a" and turn.done == pytest.approx({"b": 0.05})
    turn = next_round((slight, often), rng, least=0.001)
    assert turn is not None and turn.subgraph == "b" and not turn.done
    assert next_round((slight, once), rng, least=0.01) is None
    # What counts is what they leave together: of three that may save 0.05 each, two are done.
    three = [replace(once, name=name) for name in "abc"]
    turn = next_round(three, rng, least=0.11 / 30)
    assert turn is not None and turn.subgraph == "c" and set(turn.done) == {"a", "b"}
    assert next_round((slight, once), rng) is not None, "nobody asks what it saves"
    fresh, broken = Subgraph("c", (), 1.0, hope=99.0), Subgraph("d", (math.inf,), 1.0, hope=1.0)
    for one in (fresh, broken):
        turn = next_round((slight, once, one), rng, least=0.01)
        assert turn is not None and turn.subgraph == one.name


def test_what_never_ran_is_tried_before_figures_are_compared() -> None:
    broken, fine = Subgraph("a", (math.inf,), 1.0), Subgraph("b", (5.0,), 1.0)
    turn = next_round((fine, broken), random.Random(0))
    assert turn is not None and turn.subgraph == "a"


@pytest.mark.parametrize(("rounds", "time", "leaves"), [(7, 30.0, True), (6, 30.0, False), (7, 15.0, False)])
def test_a_slow_one_leaves_those_it_is_similar_to(rounds: int, time: float, leaves: bool) -> None:
    slow = Subgraph("a", (time,) * rounds, 100.0, similar="gemm")
    quick = Subgraph("b", (10.0,), 100.0, similar="gemm")
    after = without_outsiders((slow, quick))
    assert [one.similar for one in after] == ["" if leaves else "gemm", "gemm"]


TIMES = {"a": 10.0, "b": 20.0, "c": 40.0, "d": 40.0, "e": 40.0}


def test_shares_are_parts_of_all_speeds() -> None:
    found = sample(TIMES, Fixed(1, 1, 1, 1, 1))
    assert list(found.shares.values()) == pytest.approx([4 / 9, 2 / 9, 1 / 9, 1 / 9, 1 / 9])
    assert found.kept == ("a",) and found.raised == ()


def test_chance_raises_a_share_by_its_part() -> None:
    found = sample(TIMES, Fixed(1, 1, 0.1, 0.2, 1), explore=0.2)
    assert found.raised == ("c",), "0.2 is not below 0.2"
    assert found.shares["c"] == pytest.approx(1 / 9 + 0.2 / 5)
    assert found.kept == ("a",)


def test_a_pruned_mapping_can_come_back() -> None:
    near = {"a": 10.0, "b": 10.5, "c": 40.0, "d": 40.0, "e": 40.0}
    assert sample(near, Fixed(1, 1, 1, 1, 1)).kept == ("a",)
    assert sample(near, Fixed(1, 0.0, 1, 1, 1)).kept == ("b",)


@pytest.mark.parametrize(
    ("count", "keep", "kept"), [(4, 0.2, 4), (5, 0.2, 1), (35, 0.2, 7), (180, 0.2, 36), (5, 0.6, 3)]
)
def test_a_part_of_the_mappings_stays_and_all_of_few(count: int, keep: float, kept: int) -> None:
    times = {str(number): 1.0 + number for number in range(count)}
    assert len(sample(times, random.Random(1), keep=keep).kept) == kept


def test_mappings_that_never_ran_have_no_share_unless_none_did() -> None:
    found = sample({"a": math.inf, "b": 1.0}, Fixed(1, 1))
    assert found.shares == {"a": 0.0, "b": 1.0}
    assert sample({"a": math.inf, "b": math.inf}, Fixed(1, 1)).shares == {"a": 0.5, "b": 0.5}


def test_how_often_a_share_is_raised() -> None:
    rng = random.Random(5)
    raised = sum(len(sample(TIMES, rng, explore=0.2).raised) for _ in range(2000))
    assert raised / 10_000 == pytest.approx(0.2, abs=0.02)

