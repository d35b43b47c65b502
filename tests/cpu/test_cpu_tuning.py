"""Searches for a CPU: the programs of a product, each as its entries ask for it, and trials that are measured."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import engine
from engine.cpu.nodes import CpuKernel
from engine.execution.nodes import MEASURED
from engine.tuning.final_validation import AGREES
from engine.tuning.problem import SearchProblem, problem
from tests.support.commands import MODELS
from tests.support.needs import needs_compiler

pytestmark = needs_compiler
PRODUCT = MODELS / "matmul_bias_gelu_128x256x512.onnx"


@pytest.fixture(scope="module")
def found() -> SearchProblem:
    plan = engine.fuse(engine.load(PRODUCT), target="cpu")
    made = problem(plan.groups[0], engine.default_recipe(plan))
    assert isinstance(made, SearchProblem)
    return made


def test_a_product_has_thousands_of_programs(found: SearchProblem) -> None:
    for task in found.tasks:
        assert task.funnel.total > 2000 and len(task.programs) >= 64
    assert found.advised in found.tasks[0].programs


def test_programs_are_taken_as_their_entries_say(found: SearchProblem) -> None:
    tasks, draw = found.tasks, random.Random(5)
    assert [task.name for task in tasks] == ["fma/j", "fma/i"]  # either side walked by lanes
    for task, program in [(one, program) for one in tasks for program in draw.sample(list(one.programs), 4)]:
        kernel = engine.compile(found.group, found.recipe_of(program))
        assert isinstance(kernel, CpuKernel)
        assert {v.outcome for v in kernel.verdicts} == {"honoured"}
        assert kernel.made.config["mapping"] == task.name
        assert task.template.program_of(kernel) == program
        assert engine.predict(kernel).microseconds == pytest.approx(task.rank(program))
        assert engine.check(kernel).status == "pass"


@pytest.mark.slow(sentinel=True)
def test_trials_are_measured_and_kept(tmp_path: Path) -> None:
    plan = engine.fuse(engine.load(PRODUCT), target="cpu")
    run = engine.tune(plan, trials=3, runner=MEASURED, records=tmp_path / "trials.db", patience=1)
    attempts = list(run)
    assert attempts and run.report().origin == MEASURED
    assert [one.note for one in run.report().groups.values()] == [AGREES], "every trial was compared before it counted"
    kernel = engine.compile(plan.groups[0], run.best)
    assert engine.check(kernel).status == "pass"
