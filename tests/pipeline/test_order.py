"""The order of a product's blocks: rows of tiles walked together, every tile once."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.cost.estimate import model_prediction
from engine.kernels.gemm.mapping_tasks import product_tasks
from engine.kernels.gemm.problem import config_of_tile
from engine.kernels.gemm.space import GemmTemplate
from engine.kernels.space import Task
from engine.kernels.tuned_entries import with_tuned_entries
from engine.scheduling.nodes import NOT_REACHED
from engine.tensor.index import Index
from engine.tile.nodes import Let
from tests.kernels.test_tensor_cores import advised, check_against_numpy, halves, product_arrays, product_group
from tests.support.needs import needs_compiler


def tiles(kernel: engine.Kernel) -> list[tuple[int, int]]:
    """(row, column) of the tile of each block, in order."""
    bound = {op.name: op.index for op in kernel.tile.body if isinstance(op, Let)}

    def value(name: str, block: int) -> int:
        return bound[name].substitute({"block": Index((), block)}, {}).constant

    return [(value("tile_row", block), value("tile_column", block)) for block in range(kernel.tile.grid)]


def rastered(folder: Path, wish: int, rows: int = 130, columns: int = 70) -> engine.Kernel:
    """Tiles of 16 x 16."""
    sizes = [f"all @ {side}: mark {name} 16" for side in "ij" for name in ("block", "warp")]
    return advised(product_group(folder, (rows, 64), (64, columns)), *sizes, f"all @ i: mark raster {wish}")


@pytest.mark.parametrize(("wish", "given"), [(1, 1), (3, 3), (4, 3), (9, 9), (100, 9)])
def test_rows_of_tiles_are_walked_together(wish: int, given: int, tmp_path: Path) -> None:
    """Nine rows of five: what does not divide them becomes the next smaller number that does."""
    kernel = rastered(tmp_path, wish)
    order = tiles(kernel)
    assert sorted(order) == [(row, column) for row in range(9) for column in range(5)]
    assert order[: given + 1] == [(n, 0) for n in range(given)] + [(0, 1)]
    (verdict,) = (v for v in kernel.verdicts if "raster" in str(v.placed.entry))
    assert verdict.outcome == ("honoured" if wish == given else "relaxed")
    assert wish == given or f"raster {given}: this kernel takes a divisor of the 9 rows of tiles" in verdict.because


@needs_compiler
def test_every_tile_is_written_once(tmp_path: Path) -> None:
    kernel = rastered(tmp_path, 3)
    left, right = halves(1, (130, 64), 1 / 8), halves(2, (64, 70))
    check_against_numpy(kernel, left.astype(np.float64) @ right, product_arrays(kernel, left, right))
    assert engine.check(kernel).status == "pass"


def test_the_advice_is_given_where_several_waves_run(tmp_path: Path) -> None:
    """192 x 64 tiles on 132 SMs: eleven rows and twelve columns of tiles at once, not two rows and all 64 columns."""
    large = advised(product_group(tmp_path, (4096, 64), (64, 4096)))
    (verdict,) = (v for v in large.verdicts if "raster" in str(v.placed.entry) and v.outcome != NOT_REACHED)
    assert verdict.outcome == "honoured"
    assert "read 2,880 rows and columns of the operands, not 4,288" in verdict.placed.entry.because
    first = tiles(large)[:132]
    assert (len({row for row, _ in first}), len({column for _, column in first})) == (11, 12)
    small = advised(product_group(tmp_path, (512, 64), (64, 512)))
    assert not [v for v in small.verdicts if "raster" in str(v.placed.entry)]


LARGE = (8192, 2048)
"""Rows and depths of a factor: with one of as many columns it is 67 MB in halves, of which an L2 of A100 holds 28."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[engine.FusionGroup, Task]:
    """A product whose operands an A100's L2 does not hold, and the search space of its mapping to tensor cores."""
    group = product_group(tmp_path_factory.mktemp("large"), LARGE, LARGE[::-1])
    return group, space_of(group)


def space_of(group: engine.FusionGroup) -> Task:
    kernel = engine.compile(group, engine.default_recipe(group, "a100"))
    return product_tasks(group, kernel, engine.compile)[0][0]


def test_the_order_is_open_where_l2_loses_operands_and_closed_elsewhere(
    large: tuple[engine.FusionGroup, Task], tmp_path: Path
) -> None:
    task = large[1]
    orders = [int(str(value)) for value in task.dimensions["raster"]]
    assert {1, 2, 4, 8, 16} <= set(orders) and {program["raster"] for program in task.programs} >= {1, 4, 16}
    assert "raster" not in space_of(product_group(tmp_path, (4096, 64), (64, 4096))).dimensions


def test_each_order_is_compiled_and_estimated_as_it_is_asked_for(large: tuple[engine.FusionGroup, Task]) -> None:
    """The estimate before compiling is that of the kernel; by rows, L2 loses more than in groups of 16."""
    group, task = large
    now, times = task.programs[0], {}
    recipe = engine.default_recipe(group, "a100")
    for raster in (1, 2, 16):
        program = replace(now, values=tuple((name, raster if name == "raster" else v) for name, v in now.values))
        asked = with_tuned_entries(recipe, group, task.template.decided, task.template.entries(program))
        kernel = engine.compile(group, asked)
        config = config_of_tile(kernel.tile)
        assert config is not None and config.raster == raster and task.template.program_of(kernel) == program
        assert kernel.facts.orders == task.template.work(program).orders != ()
        times[raster] = prediction_of(kernel)["DRAM traffic"]
    assert times[1] > 1.2 * times[16] and times[2] >= times[16]


def test_the_advice_says_what_is_read_again(large: tuple[engine.FusionGroup, Task]) -> None:
    """33 MB each: by rows all columns are read in every group of rows but the first."""
    group = large[0]
    kernel = engine.compile(group, engine.default_recipe(group, "a100"))
    (verdict,) = (v for v in kernel.verdicts if "raster" in str(v.placed.entry) and v.outcome != NOT_REACHED)
    told = r"; ([\d.]+) MB are read from DRAM again as L2 lost them, not ([\d.]+) MB$"
    found = re.search(told, verdict.placed.entry.because)
    assert found is not None and 0 <= float(found[1]) < float(found[2]) / 2


def prediction_of(kernel: engine.Kernel) -> dict[str, float]:
    return {term.name: term.value for term in model_prediction(kernel.facts, kernel.target).terms}


def test_orders_that_do_not_divide_the_rows_are_left_out(large: tuple[engine.FusionGroup, Task]) -> None:
    template = large[1].template
    assert isinstance(template, GemmTemplate)
    for program in large[1].programs:
        config = template.config(program)
        assert -(-LARGE[0] // config.block[0]) % config.raster == 0
