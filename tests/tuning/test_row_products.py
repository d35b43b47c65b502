"""Searching a product whose kernel reduces rows: every program left has whole rows, and the model promises a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import engine
from engine.kernels.gemm.limits import LIMITS, first_broken
from engine.kernels.gemm.mapping_tasks import product_tasks
from engine.kernels.gemm.problem import config_of_tile
from engine.kernels.gemm.promise import fused_gemm_of_tile
from engine.kernels.tuned_entries import with_tuned_entries
from engine.target import target
from engine.tensorize.space import GemmConfig
from tests.kernels.test_row_results import Case, group_of, layer_norm, means_of_planes, softmax_of_floats


@pytest.mark.parametrize("case", [layer_norm, softmax_of_floats, means_of_planes], ids=lambda case: case.__name__)
def test_only_tiles_of_whole_rows_are_left(case: Callable[[], Case], tmp_path: Path) -> None:
    group = group_of(case(), tmp_path)
    kernel = engine.compile(group)
    tasks, _ = product_tasks(group, kernel, engine.compile)
    for task in tasks:
        columns = task.template.problem.n
        assert task.funnel.left
        for program in task.funnel.left:
            block = task.template.config(program).block
            assert columns <= block[1] < 2 * max(columns, 16)
            assert 0 < task.template.rank(program) < 1000
        (dropped,) = (d for d in task.funnel.dropped if d.rule == "whole rows")
        assert dropped.count > 0 and f"cut rows of {columns}" in dropped.example
    assert tasks[0].template.program_of(kernel) is not None


def test_a_program_of_the_search_is_the_kernel_that_it_asks_for(tmp_path: Path) -> None:
    group = group_of(layer_norm(), tmp_path)
    recipe = engine.default_recipe(group)
    task = product_tasks(group, engine.compile(group, recipe), engine.compile)[0][0]
    for program in task.funnel.left[:: len(task.funnel.left) // 3]:
        entries = task.template.entries(program)
        kernel = engine.compile(group, with_tuned_entries(recipe, group, task.template.decided, entries))
        assert task.template.program_of(kernel) == program


def test_knobs_that_cut_rows_are_refused_with_the_nearest(tmp_path: Path) -> None:
    kernel = engine.compile(group_of(layer_norm(), tmp_path))
    gemm = fused_gemm_of_tile(kernel.program, kernel.tile)
    assert gemm is not None and gemm.problem.has_whole_rows
    broken = first_broken(gemm.problem, GemmConfig((32, 64, 32), (16, 32)), target("h200"), LIMITS)
    assert broken is not None
    assert broken[1] == "tiles of 64 columns cut rows of 104, which the kernel reduces: nearest is 128"
    now = config_of_tile(kernel.tile) or GemmConfig((1, 1, 1), (1, 1))
    assert first_broken(gemm.problem, now, target("h200"), LIMITS) is None
