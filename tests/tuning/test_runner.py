"""Runners: what they prepare, what they finish, and what their trials are kept under."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import pytest

import engine
from engine.execution.nodes import MEASURED, PREDICTED, Failure, Timing
from engine.execution.nvrtc import nvrtc_version
from engine.recipe import Recipe
from engine.records.nodes import FAILED, NEW
from engine.records.reader import RunReader
from engine.records.store import RecordStore
from engine.support.errors import BadInput, MissingCapability
from engine.tuning import api as tuning
from engine.tuning.problem import SearchProblem, problem
from engine.tuning.progress import program_of
from engine.tuning.runner import (
    NOT_RECORDED,
    NOT_TAKEN,
    PRUNED,
    MeasuredRunner,
    Outcome,
    PredictedRunner,
    ReplayedRunner,
)
from tests.tuning.runs import plan, recipe, run, search

needs_nvrtc = pytest.mark.skipif(nvrtc_version() is None, reason="the NVRTC library cannot be loaded")
GROUP = plan().groups[0]


@cache
def tuned() -> Recipe:
    found = problem(GROUP, recipe())
    assert isinstance(found, SearchProblem)
    return found.recipe_of(found.programs[0])


@dataclass
class Device:
    """A GPU for tests: it remembers what it was given."""

    kernels: list[str] = field(default_factory=list)
    fails: str = ""

    def __call__(self, kernel: engine.Kernel) -> Outcome:
        self.kernels.append(kernel.source.text)
        return Failure(self.fails, "by this device") if self.fails else Timing(MEASURED, 3.0 + len(self.kernels))


def passes(kernel: engine.Kernel) -> str:
    """A compiler that rules nothing out."""
    return ""


def test_a_predicted_time_is_known_once_the_kernel_is_compiled() -> None:
    found = PredictedRunner().prepare(GROUP, tuned())
    kernel = engine.compile(GROUP, tuned())
    assert isinstance(found.outcome, Timing) and found.outcome.origin == PREDICTED
    assert found.outcome.microseconds == engine.predict(kernel).microseconds
    assert Recipe.loads(found.recipe).groups[GROUP.name] == kernel.advice
    without_graph = PredictedRunner().prepare(replace(GROUP, graph=None), tuned())
    assert without_graph.subject == found.subject, "a graph is needed to compare results alone"


def test_what_the_kernel_does_not_follow_is_no_trial() -> None:
    statement = GROUP.program.statements[0].name
    wish = engine.entry(statement, at="k", mark=("stages", 6), because="too much for shared memory with the next")
    other = engine.entry(statement, at="i", mark=("block", 40), because="no kernel has it")
    for runner in (PredictedRunner(), MeasuredRunner(Device()), ReplayedRunner()):
        odd = recipe().with_group(GROUP.name, ()).advise("tune", wish, other, group=GROUP.name)
        found = runner.prepare(GROUP, odd)
        assert found.subject is None and isinstance(found.outcome, Failure)
        assert found.outcome.kind in (NOT_TAKEN, "compile") and found.outcome.message


@needs_nvrtc
def test_a_kernel_is_measured_only_after_the_compiler_let_it_pass() -> None:
    device = Device()
    ruled_out = MeasuredRunner(device, lambda kernel: "spilled registers: 8 bytes").prepare(GROUP, tuned())
    assert ruled_out.subject is None and ruled_out.outcome == Failure(PRUNED, "spilled registers: 8 bytes")
    passed = MeasuredRunner(device).prepare(GROUP, tuned())
    assert passed.outcome is None and passed.subject is not None and device.kernels == []
    assert passed.subject.compiler == f"NVRTC {nvrtc_version()}" and "seed 0" in passed.subject.inputs
    assert ReplayedRunner().prepare(GROUP, tuned()).subject == passed.subject, "a replay finds what was measured"
    assert MeasuredRunner(device).finish(GROUP, tuned()) == Timing(MEASURED, 4.0)
    assert device.kernels == [engine.compile(GROUP, tuned()).source.text]


@needs_nvrtc
def test_measured_trials_are_kept_and_replayed_with_their_failures(tmp_path: Path) -> None:
    device = Device()
    attempts = run(tmp_path / "r.db", 4, runner=MeasuredRunner(device, passes))[1]
    assert [a.state for a in attempts] == [NEW] * 5 and len(device.kernels) == 5
    broken = run(tmp_path / "r.db", 6, seed=1, runner=MeasuredRunner(Device(fails="crash"), passes))[1]
    assert {a.failure for a in broken[1:]} == {"crash"} and broken[0].failure == "", "the old recipe was known"
    one, replayed = run(tmp_path / "r.db", 50, strategy="exhaustive", runner=ReplayedRunner())
    advised = one.progress[GROUP.name].problem.advised  # its kernel is that of the old recipe
    assert {program_of(a) for a in replayed} == {advised, *(program_of(a) for a in (*attempts, *broken))}
    funnels = [task.funnel for task in one.progress[GROUP.name].problem.tasks]
    assert all(funnel.total == len(funnel.left) + sum(d.count for d in funnel.dropped) for funnel in funnels)
    assert sum(a.state == FAILED for a in replayed) == 6 and one.why_ended == "every program was tried"
    with RecordStore(tmp_path / "r.db") as store:
        assert store.counts() == {MEASURED: (5, {"crash": 6})}


@needs_nvrtc
def test_what_the_compiler_rules_out_costs_no_trial(tmp_path: Path) -> None:
    device = Device()
    said = iter(["", "", "no room on an SM: 70,000 registers", "", "spilled registers: 8 bytes", *[""] * 20])
    one, attempts = run(tmp_path / "r.db", 4, runner=MeasuredRunner(device, lambda kernel: next(said)))
    assert [a.failure for a in attempts] == ["", "", PRUNED, "", PRUNED, "", ""]
    assert one.spent == 4 and one.progress["matmul_0"].failures == {PRUNED: 2}
    with RunReader(tmp_path / "r.db") as reader:
        assert reader.attempts(1)[2].message == "no room on an SM: 70,000 registers"


def test_nothing_is_run_in_a_replay() -> None:
    assert ReplayedRunner().finish(GROUP, tuned()) == Failure(NOT_RECORDED, "no trial of this kernel is kept")


def test_runners_have_names() -> None:
    assert isinstance(tuning.find_runner("predicted"), PredictedRunner) and isinstance(
        tuning.find_runner("replayed"), ReplayedRunner
    )
    with pytest.raises(BadInput, match="one of predicted, measured, replayed"):
        tuning.find_runner("guessed")


def test_measuring_needs_pycuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingCapability, match="PyCUDA is not installed"):
        tuning.find_runner("measured")
    assert tuning.find_runner("measured", needs_gpu=False).origin == MEASURED, "the GPUs are a cluster's"


def test_a_search_of_one_origin_finds_no_other(tmp_path: Path) -> None:
    run(tmp_path / "r.db", 4)
    with RecordStore(tmp_path / "r.db") as store, pytest.raises(engine.Unsupported, match="no measured trials"):
        search(store, runner=ReplayedRunner())
    assert len(run(tmp_path / "r.db", 4, runner=ReplayedRunner(PREDICTED))[1]) == 4
