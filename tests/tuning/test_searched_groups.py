"""The space of a group is built when its first round is due, and a search of several groups says so."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

import engine
from engine.fusion.nodes import FusionGroup
from engine.recipe import Recipe
from engine.records.nodes import NEW
from engine.records.reader import RunReader
from engine.support.errors import Unsupported
from engine.tuning import searched_groups
from engine.tuning.problem import SearchProblem, problem
from engine.tuning.report import NOT_BEGUN
from engine.tuning.tuning_run import TuningRun
from tests.semantics.single import Node, write_model

ROUND = 3
"""Trials of each group: one round."""
NAMES = ["matmul_0", "matmul_1", "matmul_2", "matmul_3"]
REASON = "its kernel has no choices"


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> engine.FusionPlan:
    """Four products in a row, each a group."""
    widths = (64, 80, 96, 112, 128)
    inputs = {"t0": ("float16", (96, widths[0]))}
    inputs |= {f"w{n}": ("float16", pair) for n, pair in enumerate(pairwise(widths))}
    nodes: list[Node] = [("MatMul", [f"t{n}", f"w{n}"], [f"t{n + 1}"], {}) for n in range(4)]
    path = write_model(tmp_path_factory.mktemp("chain") / "chain.onnx", nodes, inputs, ["t4"])
    plan = engine.fuse(engine.load(path), policy="none")
    assert [group.name for group in plan.groups] == NAMES
    return plan


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Groups whose spaces were built, as they come; that of the third has no choices."""
    names: list[str] = []

    def recorded(group: FusionGroup, recipe: Recipe) -> SearchProblem | str:
        names.append(group.name)
        return REASON if group.name == NAMES[2] else problem(group, recipe)

    monkeypatch.setattr(searched_groups, "problem", recorded)
    return names


def search(plan: engine.FusionPlan, records: Path, trials: int = ROUND, resume: bool = False) -> TuningRun:
    return engine.tune(plan, trials=trials, strategy="random", check=False, records=records, resume=resume)


def test_the_first_trial_waits_for_one_space_alone(chain: engine.FusionPlan, built: list[str], tmp_path: Path) -> None:
    run = search(chain, tmp_path / "r.db")
    assert built == NAMES[:1] and next(run).group == NAMES[0] and built == NAMES[:1]
    with RunReader(tmp_path / "r.db") as reader:
        assert {task.group for task in reader.run().tasks} == {NAMES[0]} and reader.run().skipped == {}
        assert list(reader.run().request.groups) == NAMES
    report = run.report()
    assert list(report.groups) == NAMES[:1] and report.skipped == dict.fromkeys(NAMES[1:], NOT_BEGUN)
    run.close()


def test_every_group_gets_its_round_and_one_without_choices_gives_its_trials_back(
    chain: engine.FusionPlan, built: list[str], tmp_path: Path
) -> None:
    run = search(chain, tmp_path / "r.db")
    assert run.budget == 4 * ROUND
    order = [attempt.group for attempt in run]
    searched = [NAMES[0], NAMES[1], NAMES[3]]
    assert order == [name for name in searched for _ in range(ROUND)] and built == NAMES
    assert run.spent == run.budget == 3 * ROUND
    with RunReader(tmp_path / "r.db") as reader:
        assert list(dict.fromkeys(task.group for task in reader.run().tasks)) == searched
        assert reader.run().skipped == run.report().skipped == {NAMES[2]: REASON}


@pytest.mark.slow(sentinel=True)
def test_a_run_that_goes_on_builds_what_it_had_and_then_what_is_due(
    chain: engine.FusionPlan, built: list[str], tmp_path: Path
) -> None:
    with search(chain, tmp_path / "r.db") as run:
        first = [next(run) for _ in range(ROUND + 1)]
    assert built == NAMES[:2]
    built.clear()
    again = search(chain, tmp_path / "r.db", resume=True)
    assert built == NAMES[:2] and again.spent == ROUND + 1
    rest = list(again)
    assert built == NAMES and [one.state for one in rest] == [NEW] * (2 * ROUND - 1)
    assert [one.group for one in rest[:ROUND]] == [NAMES[3]] * ROUND  # the others had a round, if a short one
    tried = {(one.group, one.mapping, one.values) for one in (*first, *rest)}
    assert len(tried) == 3 * ROUND


def test_no_group_with_choices_is_an_error_and_leaves_no_run(
    chain: engine.FusionPlan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(searched_groups, "problem", lambda group, recipe: REASON)
    with pytest.raises(Unsupported, match="nothing to search"):
        search(chain, tmp_path / "r.db")
    with RunReader(tmp_path / "r.db") as reader:
        assert not reader.runs()
