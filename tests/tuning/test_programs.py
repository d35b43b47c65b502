"""Programs of every kind of group: kernels are those that were asked for and right, ranks what they promised."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import onnx
import pytest

import engine
from engine.cost.estimate import estimate_microseconds
from engine.cost.nodes import Work
from engine.execution.nodes import Check
from engine.fusion.nodes import FusionGroup
from engine.kernels.large_spaces import UNSEEN
from engine.kernels.space import RESOURCE_NAMES, Program, Task
from engine.recipe import Recipe
from engine.suite.nodes import Size, SuiteRow
from engine.suite.operators import model_of
from engine.tuning.problem import SearchProblem, problem, why_not_followed
from engine.tuning.statistics import rank_correlation
from tests.fusion.test_recurrent_steps import layer
from tests.kernels.stitched_programs import checked, group_norm, layernorm_backward, pooled_attention, stitched
from tests.support.needs import needs_compiler
from tests.support.work_fields import AFTERWARDS

MODELS = Path("resources/models")
SAMPLE, RUN, MANY = 12, 2, 96
"""Programs of a task that are compiled, that are run, and that are compiled under slow."""
OF_PARTS = frozenset(("l2_bytes", "shared_bytes", "shared_bytes_moved"))
"""What a block of several parts moves depends on the loads that they share and on which of their buffers are alive
together: a search takes it to follow the points that are visited."""
Checker = Callable[[engine.Kernel], Check]


@dataclass(frozen=True)
class Case:
    """A small group of one kind."""

    make: Callable[[Path], FusionGroup]
    mappings: tuple[str, ...]
    """That of the advisers first."""
    correlation: float = 0.9
    """Least rank correlation of what is promised and what the model of the compiled kernel tells, over all tasks."""
    check: Checker = engine.check
    estimated: frozenset[str] = frozenset()
    """Fields of `Work` that are not known exactly before a program is compiled, beside `AFTERWARDS`."""


def model(name: str, kind: str) -> Callable[[Path], FusionGroup]:
    return lambda folder: next(g for g in engine.fuse(engine.load(MODELS / name)).groups if g.kind == kind)


def row(operator: str, kind: str, dtype: str = "float16", **sizes: Size) -> Callable[[Path], FusionGroup]:
    def made(folder: Path) -> FusionGroup:
        path = folder / f"{operator}.onnx"
        onnx.save(model_of(SuiteRow(operator, operator, dtype, sizes, 0, 0)), path)
        return next(g for g in engine.fuse(engine.load(path)).groups if g.kind == kind)

    return made


def recurrence(folder: Path) -> FusionGroup:
    groups = engine.fuse(layer(folder, "LSTM", 4, 3, 128), target="a100").groups
    return next(g for g in groups if g.kind == "recurrence")


ROWS, COLUMNS, MMA, CORES = "lanes of a row", "warps of a column", "mma_m16n8k16_f16", "CUDA cores"
CASES: Mapping[str, Case] = {
    "softmax": Case(model("softmax_96x512.onnx", "row reduction"), (ROWS, COLUMNS)),
    "variance": Case(row("variance", "row reduction", batch=1, channels=48, space=(12, 20)), (ROWS, COLUMNS)),
    "column sum": Case(model("column_sum_1000x384.onnx", "column reduction"), (COLUMNS, ROWS)),
    "gemv": Case(row("gemv", "row reduction", m=192, k=256), (ROWS, COLUMNS)),
    "element-wise": Case(model("add_relu_odd_3x5x127.onnx", "element-wise"), ("walks",)),
    "layout": Case(model("transpose_2x12x64x64.onnx", "layout"), ("shared tile", "walks"), 0.0),
    "stitched": Case(
        lambda folder: stitched(pooled_attention(8, 16, 32)), ("one block for all parts",), check=checked,
        estimated=OF_PARTS,
    ),
    "group norm": Case(lambda folder: stitched(group_norm()), ("one block for all parts",), 0.9, checked, OF_PARTS),
    "packed": Case(lambda folder: stitched(layernorm_backward()), ("parts of one launch",), 0.9, checked, OF_PARTS),
    "recurrence": Case(recurrence, ("steps that meet",), 0.9, engine.check, OF_PARTS),
    "attention": Case(
        row("attention", "attention", batch=2, heads=2, queries=48, keys=96, head=32), (MMA, CORES)
    ),
    "decoding": Case(row("attention", "attention", batch=1, heads=4, queries=1, keys=530, head=32), (MMA, CORES)),
    "product": Case(row("matmul", "contraction", m=96, n=160, k=128), (MMA, CORES), 0.0),
}  # fmt: skip
"""layout: the model of compiled kernels knows nothing of sectors, by which promises differ.  product: tiles that are
promised far more time are gone; test_rules asks how all of them are ranked."""


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Case, SearchProblem]:
    chosen = CASES[request.param]
    group = chosen.make(tmp_path_factory.mktemp("models"))
    found = problem(group, engine.default_recipe(group))
    assert isinstance(found, SearchProblem), found
    return chosen, found


def sampled(task: Task, count: int) -> list[Program]:
    return random.Random(task.name).sample(task.programs, min(count, len(task.programs)))


@pytest.mark.few(2)
def test_tasks_and_their_funnels(case: tuple[Case, SearchProblem]) -> None:
    chosen, found = case
    assert tuple(task.name for task in found.tasks) == chosen.mappings
    assert found.advised in found.tasks[0].programs
    for task in found.tasks:
        funnel = task.funnel
        assert funnel.total == math.prod(map(len, task.dimensions.values()))
        assert funnel.total == len(funnel.left) + sum(d.count for d in funnel.dropped)
        assert len(set(task.programs)) == len(task.programs) > 0
        assert all(d.because and (d.example or d.rule == UNSEEN) for d in funnel.dropped if d.count)
        assert [a.rule for a in task.applied][-1] == "skip stage" and all(a.because for a in task.applied if a.opened)
        for program in sampled(task, SAMPLE):
            assert [name for name, _ in program.values] == list(task.dimensions)
            assert all(value in task.dimensions[name] for name, value in program.values)


@pytest.mark.few(4)
def test_kernels_are_those_that_were_asked_for(case: tuple[Case, SearchProblem]) -> None:
    chosen, found = case
    promised: list[float] = []
    came: list[float] = []
    for task in found.tasks:
        for program in sampled(task, SAMPLE):
            kernel = engine.compile(found.group, found.recipe_of(program))
            assert why_not_followed(kernel) == "", program
            promised.append(found.rank(program))
            came.append(estimate_microseconds(kernel.facts, kernel.target))
    if len(set(came)) > 2:
        assert rank_correlation(np.array(promised), np.array(came)) >= chosen.correlation


def differences(chosen: Case, found: SearchProblem, task: Task, program: Program) -> dict[str, tuple[object, object]]:
    """Field of `Work` -> (what was known before, what the kernel does), where it is said to be known and differs."""
    before, after = task.template.work(program), engine.compile(found.group, found.recipe_of(program)).facts
    names = [one.name for one in fields(Work) if one.name not in AFTERWARDS | chosen.estimated | {"launches"}]
    works = [(before, after), *zip(before.launches, after.launches, strict=True)]  # phases are works of their own
    pairs = [(name, getattr(one, name), getattr(other, name)) for one, other in works for name in names]
    return {name: (one, other) for name, one, other in pairs if one != other}


@pytest.mark.few(5)
@pytest.mark.parametrize("count", [SAMPLE, pytest.param(MANY, marks=pytest.mark.slow)])
def test_work_is_known_before_compiling(case: tuple[Case, SearchProblem], count: int) -> None:
    """Field by field what is counted of the compiled kernel's tile program."""
    chosen, found = case
    for task in found.tasks:
        for program in sampled(task, count):
            assert differences(chosen, found, task, program) == {}, program


@pytest.mark.few(4)
@needs_compiler
def test_kernels_are_right(case: tuple[Case, SearchProblem]) -> None:
    chosen, found = case
    for task in found.tasks:
        for program in sampled(task, RUN):
            result = chosen.check(engine.compile(found.group, found.recipe_of(program)))
            assert result.status == "pass", (program, result.message)


def test_features_are_finite_and_differ(case: tuple[Case, SearchProblem]) -> None:
    _, found = case
    for task in found.tasks:
        features = [task.features(program) for program in sampled(task, SAMPLE)]
        size = len(task.dimensions) + len(RESOURCE_NAMES) + len(["promised time"])
        assert all(len(one) == size and all(map(math.isfinite, one)) for one in features)
        assert len(set(features)) == len(features)


def test_entries_print_and_replay(case: tuple[Case, SearchProblem]) -> None:
    """A recipe that went through its text gives the same kernel."""
    _, found = case
    program = found.programs[len(found.programs) // 2]
    recipe = found.recipe_of(program)
    entries = [e for one in recipe.groups[found.group.name] if one.author == "tune" for e in one.scenario.entries]
    assert entries and len(set(map(str, entries))) == len(entries)
    again = Recipe.loads(json.dumps(recipe.to_json()))
    assert engine.compile(found.group, again).source.text == engine.compile(found.group, recipe).source.text
