"""What a search may choose of steps that meet: no more blocks than run at once, what it promises of each phase."""

from __future__ import annotations

import pytest

import engine
from engine.cost.estimate import model_microseconds
from engine.kernels.recurrence.lower import most_blocks
from engine.target import target
from engine.tuning.problem import SearchProblem, problem
from tests.support.misfits import own_refusal
from tests.support.recurrences import GRU, LSTM, Layer, group_of

LAYERS = (GRU, LSTM, Layer("RNN", 160))


@pytest.fixture(scope="module", params=LAYERS, ids=lambda layer: layer.title)
def found(request: pytest.FixtureRequest) -> SearchProblem:
    group = group_of(request.param)
    made = problem(group, engine.default_recipe(group))
    assert isinstance(made, SearchProblem)
    return made


def points_of(found: SearchProblem) -> int:
    """Of one step."""
    layer = next(one for one in LAYERS if group_of(one) is found.group)
    return layer.batch * layer.hidden


def test_blocks_that_do_not_run_at_once_are_dropped(found: SearchProblem) -> None:
    """All that are dropped are too many, and none that is left is."""
    (task,) = found.tasks
    total, a100 = points_of(found), target("a100")
    too_many = [
        (threads, points)
        for threads in task.dimensions["threads"] for points in task.dimensions["points"]
        if total // points > most_blocks(threads, 0, a100)
    ]  # fmt: skip
    (dropped,) = (one for one in task.funnel.dropped if one.rule == "blocks at once")
    assert dropped.count == len(too_many) > 0 and dropped.because == "each block waits for all others"
    assert "run at once" in dropped.example
    assert not {(one.number("threads"), one.number("points")) for one in task.programs} & set(too_many)
    assert found.advised in task.programs


def test_what_was_dropped_would_be_refused(found: SearchProblem) -> None:
    (task,) = found.tasks
    program = task.programs[0]
    whole = type(program)(program.mapping, (("threads", 1024), ("points", 1)))
    assert whole not in task.programs
    assert "wait for each other" in str(own_refusal(engine.compile(found.group, found.recipe_of(whole))))


def test_each_phase_is_promised_as_it_is_counted(found: SearchProblem) -> None:
    """Blocks, threads and turns of every phase; times within an eighth of the compiled kernel's,
    of which alone it is known what loads share."""
    (task,), a100 = found.tasks, target("a100")
    for program in task.programs[:: len(task.programs) // 6]:
        promised = task.template.work(program)
        counted = engine.compile(found.group, found.recipe_of(program)).facts
        assert (promised.meetings, len(promised.launches)) == (counted.meetings, len(counted.launches))
        for one, other in zip(promised.launches, counted.launches, strict=True):
            assert (one.blocks, one.threads, one.serial_steps) == (other.blocks, other.threads, other.serial_steps)
        times = [model_microseconds(work, a100) for work in (promised, counted)]
        assert times[0] == pytest.approx(times[1], rel=1 / 8)
