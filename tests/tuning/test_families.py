"""GTA's ten operator families, from the operator to a checked best kernel; small here, at published sizes when slow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx
import pytest

import engine
from engine.kernels.gemm.space import CUDA_CORES
from engine.records.nodes import FAILED
from engine.records.store import RecordStore
from engine.suite import read_suite
from engine.suite.nodes import Size, SuiteRow
from engine.suite.operators import model_of
from engine.tuning.problem import SearchProblem, problem, why_not_followed
from engine.tuning.settings import SearchLimits, SearchSettings
from tests.support.needs import needs_compiler
from tests.tuning.runs import begin_search

MMA = "mma_m16n8k16_f16"
ROWS, WALKS = {"lanes of a row", "warps of a column"}, {"walks"}

SMALL: Mapping[str, tuple[str, Mapping[str, Size], list[set[str]]]] = {
    # family: (operator, sizes, the mappings of each kernel that has a choice)
    "gemv": ("gemv", {"m": 96, "k": 64}, [ROWS]),
    "gemm": ("matmul", {"m": 48, "n": 80, "k": 64}, [{MMA, CUDA_CORES}]),
    "conv1d": (
        "conv",
        {"batch": 1, "space": (40,), "channels": 16, "filters": 32, "kernel": (3,), "stride": (1,), "pad": (2,),
         "dilation": (2,)},
        [{MMA, CUDA_CORES}],
    ),
    "conv2d": (
        "conv",
        {"batch": 1, "space": (12, 12), "channels": 8, "filters": 16, "kernel": (3, 3), "stride": (2, 2),
         "pad": (1, 1)},
        [{MMA, CUDA_CORES}],
    ),
    "conv3d": (
        "conv",
        {"batch": 1, "space": (4, 6, 6), "channels": 4, "filters": 16, "kernel": (3, 3, 3), "stride": (1, 1, 1),
         "pad": (1, 1, 1)},
        [{MMA, CUDA_CORES}],
    ),
    "transposed": (
        "transposed-conv",
        {"batch": 1, "space": (5, 5), "channels": 16, "filters": 24, "kernel": (3, 3), "stride": (2, 2),
         "pad": (1, 1)},
        [{MMA, CUDA_CORES}],
    ),
    "dilated": (
        "conv",
        {"batch": 1, "space": (8, 8), "channels": 32, "filters": 16, "kernel": (1, 1), "stride": (1, 1), "pad": (0, 0),
         "dilation": (2, 2)},
        [{MMA, CUDA_CORES}],
    ),
    "mean": ("mean", {"batch": 1, "channels": 8, "space": (14, 14)}, [ROWS]),
    "variance": ("variance", {"batch": 1, "channels": 8, "space": (14, 14)}, [ROWS]),
    "scan": ("scan", {"m": 16, "n": 48, "k": 32}, [WALKS, {MMA, CUDA_CORES}]),
}  # fmt: skip
"""The published families in small."""

TRUE = (
    "gemv-512x16", "gemm-16x512x128", "conv1d-1x512x892-512-k3-s1", "conv2d-C7-b1", "conv3d-1x512x2x7x7-512-k3-s1",
    "transposed-1x256x7x7-512-k3-s1", "dilated-1024x14x14-512", "mean-64x56x56", "variance-64x56x56", "scan-16x512x128",
)  # fmt: skip
"""One row of each family as published."""


def load(row: SuiteRow, folder: Path) -> engine.OperatorGraph:
    path = folder / f"{row.name}.onnx"
    onnx.save(model_of(row), path)
    return engine.load(path)


def tuned_and_checked(graph: engine.OperatorGraph, folder: Path, trials: int) -> list[set[str]]:
    """The mappings of each kernel that was searched, once the best of each was compared with the reference."""
    plan = engine.fuse(graph)
    recipe = engine.default_recipe(plan)
    with RecordStore(folder / "r.db") as store:
        search = begin_search(plan.groups, recipe, store, SearchSettings(limits=SearchLimits(trials)))
        attempts = list(search.run())
        assert not search.skipped and {attempt.group for attempt in attempts} == {g.name for g in plan.groups}
        assert all(attempt.state != FAILED for attempt in attempts), [a.failure for a in attempts]
        best = search.recipe()
    for group in plan.groups:
        kernel, before = engine.compile(group, best), engine.compile(group, recipe)
        assert engine.predict(kernel).microseconds <= engine.predict(before).microseconds
        check = engine.check(kernel)
        assert check.status == "pass", (group.name, kernel.advice, check.message)
    # Mappings with loops around an intrinsic count for the intrinsic.
    return [{task.name.partition(" inside ")[0] for task in one.problem.tasks} for one in search.progress.values()]


@pytest.mark.few(4)
@needs_compiler
@pytest.mark.parametrize("family", SMALL)
def test_each_family_is_tuned_end_to_end(family: str, tmp_path: Path) -> None:
    operator, sizes, mappings = SMALL[family]
    graph = load(SuiteRow(family, operator, "float16", sizes, 0, 0), tmp_path)
    assert tuned_and_checked(graph, tmp_path, 4) == mappings


@pytest.mark.slow(sentinel=False)
@needs_compiler
@pytest.mark.parametrize("name", TRUE)
def test_each_family_is_tuned_end_to_end_at_a_published_size(name: str, tmp_path: Path) -> None:
    row = next(row for row in read_suite("gta").rows if row.name == name)
    assert tuned_and_checked(load(row, tmp_path), tmp_path, 8)


@pytest.mark.few(2)
@pytest.mark.parametrize("family", SMALL)
def test_what_the_advisers_chose_is_a_program_and_makes_their_kernel(family: str, tmp_path: Path) -> None:
    operator, sizes, _ = SMALL[family]
    plan = engine.fuse(load(SuiteRow(family, operator, "float16", sizes, 0, 0), tmp_path))
    recipe = engine.default_recipe(plan)
    for group in plan.groups:
        found = problem(group, recipe)
        assert isinstance(found, SearchProblem)
        assert found.advised in found.programs
        again = engine.compile(group, found.recipe_of(found.advised))
        assert again.source.text == engine.compile(group, recipe).source.text
        assert why_not_followed(again) == ""
