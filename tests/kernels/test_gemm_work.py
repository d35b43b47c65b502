"""The work of a product's kernel in closed form is what its tile program is counted to do.

Registers alone differ: the closed form estimates them, a tile program does not know them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import engine
from engine.kernels.gemm.mapping_tasks import product_tasks
from engine.kernels.gemm.problem import config_of_tile, gemm_axes
from engine.kernels.gemm.promise import fused_gemm
from engine.kernels.gemm.work import work
from engine.kernels.tuned_entries import with_tuned_entries
from engine.tensorize.intrinsics import INTRINSICS
from tests.everything.files import COMPLEX, SIZES, files
from tests.kernels.test_row_results import Case, group_of, layer_norm, means_of_planes, softmax_of_floats
from tests.support.work_fields import AFTERWARDS

ROWS = (
    "alcop/MM_BERT_FC1", "alcop/MM_RN50_FC", "alcop/BMM_BERT_SV", "alcop/Conv2D_RN50_1", "gta/gemm-16x512x128",
    "transformer/8192x3072x768-bias-gelu",
)  # fmt: skip
SAMPLED = 4
"""Configurations of each mapping that are compared beside the default."""
LOADED = [path for _, path in files() if path.stem != COMPLEX]
"""All files but the one that `engine.load` refuses, as complex numbers have no kernel whose work could be counted."""


def assert_same_work(kernel: engine.Kernel) -> bool:
    """Compare field by field; False for a kernel that is no tiled product of two plain factors."""
    config = config_of_tile(kernel.tile)
    if config is None or gemm_axes(kernel.program) is None:
        return False
    gemm = fused_gemm(kernel.program, INTRINSICS.get(kernel.tile.intrinsic), config.outer)
    found = work(gemm, config, kernel.target)
    assert found.registers
    names = [f.name for f in fields(found) if f.name not in AFTERWARDS]
    wrong = {name: (getattr(found, name), getattr(kernel.facts, name)) for name in names}
    assert all(ours == counted for ours, counted in wrong.values()), f"{kernel.group.name} at {config}: {wrong}"
    return True


def configurations(group: engine.FusionGroup, seed: int, count: int) -> Iterator[engine.Kernel]:
    """The default kernel of a group, and kernels at configurations drawn from the search space of each mapping."""
    kernel = engine.compile(group)
    yield kernel
    chance = random.Random(seed)
    for task in product_tasks(group, kernel, engine.compile)[0]:
        programs = list(task.programs)
        for program in chance.sample(programs, min(count, len(programs))):
            recipe = with_tuned_entries(kernel.recipe, group, task.template.decided, task.template.entries(program))
            yield engine.compile(group, recipe)


def products(file: str) -> list[engine.FusionGroup]:
    plan = engine.fuse(engine.load(file, dims=SIZES.get(Path(file).stem)))
    return [group for group in plan.groups if group.kind == "contraction"]


@pytest.mark.few(2)
@pytest.mark.parametrize("row", ROWS)
def test_drawn_configurations_do_the_work_that_the_closed_form_says(row: str) -> None:
    kernels = list(configurations(products(f"suite:{row}")[-1], seed=len(row), count=SAMPLED))
    assert len(kernels) > SAMPLED and all(map(assert_same_work, kernels))


@pytest.mark.parametrize("case", [layer_norm, softmax_of_floats, means_of_planes], ids=lambda case: case.__name__)
def test_products_that_reduce_rows_do_too(case: Callable[[], Case], tmp_path: Path) -> None:
    assert all(map(assert_same_work, configurations(group_of(case(), tmp_path), seed=7, count=SAMPLED)))


@pytest.mark.parametrize("mark", [("slices", 4), ("split_k", 4), ("stages", 1), ("register_stages", 1)])
def test_who_shares_the_depth_and_how_far_copies_run_ahead_count(mark: tuple[str, int]) -> None:
    (group,) = products("suite:alcop/MM_RN50_FC")
    kernel = engine.compile(group, engine.default_recipe(group).advise("user", engine.entry("S0", mark=mark, at="k")))
    assert assert_same_work(kernel)


@pytest.mark.slow
@pytest.mark.parametrize("file", [str(file) for file in LOADED], ids=lambda file: Path(file).stem)
def test_every_product_of_the_shared_models_does_the_work_that_the_closed_form_says(file: str) -> None:
    for number, group in enumerate(products(file)):
        for kernel in configurations(group, seed=number, count=1):
            assert_same_work(kernel)
