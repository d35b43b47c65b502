"""How trials are dealt out to mappings, and what counts as the best."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace

import pytest

from engine.kernels.space import Funnel, Program, Task
from engine.records.nodes import FAILED, NEW, Attempt
from engine.tuning.progress import Progress, TaskProgress, allot, costs_trial
from engine.tuning.rounds import Rounds
from engine.tuning.settings import SearchLimits
from engine.tuning.strategy import exhaustive
from tests.tuning.runs import known


def progress(promised: dict[str, float], tried: dict[str, float] | None = None) -> Progress:
    """A group whose mappings promise these times, and of which some have these best ones."""
    tasks = {}
    for name, time in promised.items():
        program = Program(name, (("stages", 1),))
        family = known().tasks[0].template
        task = Task(name, {"stages": (1,)}, Funnel(1, (), (program,)), (), family)
        tasks[name] = TaskProgress(task, exhaustive(task, random.Random(0)), time)
    made = Progress(known(), tasks, 100.0)
    for name, time in (tried or {}).items():
        tasks[name].attempts, tasks[name].best = 3, time
    return made


class Never(random.Random):
    """Chance that raises no share."""

    def random(self) -> float:
        return 1.0


def timed(number: int, time: float | None, failure: str = "", mapping: str = "a") -> Attempt:
    state = FAILED if failure else NEW
    return Attempt(number, None, "matmul_0", mapping, (("stages", 1),), 1.0, state, time, failure, "", 0.0)


def test_new_mappings_are_tried_once_in_the_order_of_their_promises() -> None:
    assert allot(progress({"a": 9.0, "b": 3.0, "c": 6.0}), 2, random.Random(1)).tasks == ("b", "c")
    more = allot(progress({"a": 9.0, "b": 3.0, "c": 6.0}), 6, random.Random(1))
    assert more.tasks[:3] == ("b", "c", "a") and "first trials of 3 of 3" in more.because
    after = allot(progress({"a": 9.0, "b": 3.0, "c": 6.0}, {"b": 2.0}), 2, random.Random(1))
    assert after.tasks == ("c", "a")


def test_known_mappings_get_trials_by_their_speed() -> None:
    two = progress({"a": 1.0, "b": 1.0}, {"a": 2.0, "b": 6.0})
    chosen = allot(two, 16, Never())
    assert chosen.shares == pytest.approx({"a": 0.75, "b": 0.25})
    assert Counter(chosen.tasks) == {"a": 12, "b": 4} and Counter(chosen.tasks[:4]) == {"a": 3, "b": 1}
    many = progress({str(n): 1.0 for n in range(10)}, {str(n): 1.0 + n for n in range(10)})
    assert len(set(allot(many, 16, random.Random(3)).tasks)) == 2, "a fifth of them"


def test_mappings_without_programs_left_get_none() -> None:
    one = progress({"a": 1.0, "b": 2.0}, {"a": 2.0, "b": 6.0})
    one.tasks["a"].is_exhausted = True
    assert set(allot(one, 4, random.Random(0)).tasks) == {"b"}


@pytest.mark.parametrize("is_sampled", [False, True])
def test_a_result_brings_more_programs_only_where_not_all_were_looked_at(is_sampled: bool) -> None:
    """Their neighbours may join.  So what is tried does not depend on how many are under way at once."""
    one = progress({"a": 1.0})
    unseen = (lambda program: None) if is_sampled else None
    one.tasks["a"].task = replace(one.tasks["a"].task, unseen=unseen)
    one.tasks["a"].is_exhausted = True
    assert one.subgraph().is_exhausted
    rounds = Rounds({"matmul_0": one}, SearchLimits(), random.Random(0))
    assert rounds.why_none == f"every program {'that was looked at ' if is_sampled else ''}was tried"
    one.take(timed(1, 8.0))
    assert one.subgraph().is_exhausted != is_sampled


def test_the_winner_is_the_fastest_that_is_not_wrong() -> None:
    one = progress({"a": 1.0})
    assert one.winner is None and math.isinf(one.time) and one.gain == 0
    for attempt in (timed(1, 8.0), timed(2, 4.0), timed(3, 4.0), timed(4, None, "hang"), timed(5, 9.0)):
        one.take(attempt)
    assert one.winner == timed(2, 4.0) and one.gain == 96.0 and one.failures == {"hang": 1}
    assert [a.number for a in one.ranking] == [2, 3, 1, 5]
    one.mark_wrong(timed(2, 4.0), "wrong result")
    assert one.winner == timed(3, 4.0)
    one.again = {3: 7.0, 1: 6.0}
    assert one.winner == timed(1, 8.0) and one.time == 6.0
    one.take(timed(6, 1.0, "wrong result"))
    assert one.winner == timed(1, 8.0), "a run that goes on knows what was wrong"


def test_what_was_before_counts_as_nothing_tried() -> None:
    one = progress({"a": 1.0})
    one.take(timed(1, 3.0, mapping=""))
    assert one.before == 3.0 and one.winner is None
    one.take(timed(2, None, "crash", mapping=""))
    assert math.isinf(one.before)
    one.take(timed(3, 5.0))
    assert math.isinf(one.gain), "whatever runs is better than what does not"


def test_what_cost_nothing_is_not_charged() -> None:
    assert costs_trial(timed(1, 3.0)) and costs_trial(timed(1, None, "hang")) and costs_trial(timed(1, None, "compile"))
    assert not costs_trial(timed(1, 3.0, mapping=""))
    assert not costs_trial(replace(timed(1, None, "pruned")))
    assert not costs_trial(timed(1, None, "not recorded"))
