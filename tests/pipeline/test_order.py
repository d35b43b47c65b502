"""The order of a product's blocks: rows of tiles walked together, every tile once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import engine
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
    assert "read 2,880 rows and columns of the operands instead of 4,288" in verdict.placed.entry.because
    first = tiles(large)[:132]
    assert (len({row for row, _ in first}), len({column for _, column in first})) == (11, 12)
    small = advised(product_group(tmp_path, (512, 64), (64, 512)))
    assert not [v for v in small.verdicts if "raster" in str(v.placed.entry)]
