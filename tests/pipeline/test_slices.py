"""Split-K inside a block: slices of the depth, whose sums meet in shared memory in a fixed order."""

from __future__ import annotations

import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.execution.emulate.emulate import emulate
from engine.execution.nodes import ORDERS
from engine.execution.nvrtc import compile_cuda
from engine.scheduling.nodes import NOT_REACHED
from engine.target import ARCHITECTURES
from tests.kernels.test_tensor_cores import advised, check_against_numpy, halves, product_arrays, product_group
from tests.support.needs import needs_compiler, needs_nvrtc
from tests.verify.test_planted_faults import Fault, assert_caught

FOLDER = tempfile.TemporaryDirectory()
"""Of the model whose kernel is edited, which is read again when its values are made."""


def sliced(
    folder: Path, slices: int, warp: tuple[int, int] = (16, 16), shape: tuple[int, int, int] = (50, 40, 600),
    register: int = 1, kind: str = "float16", **gemm: int,
) -> engine.Kernel:  # fmt: skip
    """Tiles of 32 x 32 x 128."""
    rows, columns, depth = shape
    wishes = [f"all @ {side}: mark block 32" for side in "ij"]
    wishes += [f"all @ {side}: mark warp {size}" for side, size in zip("ij", warp, strict=True)]
    wishes += [f"all @ k: mark {n} {v}" for n, v in (("tile", 128), ("slices", slices), ("register_stages", register))]
    left = (depth, rows) if gemm.get("transA") else (rows, depth)
    right = (columns, depth) if gemm.get("transB") else (depth, columns)
    return advised(product_group(folder, left, right, kind, **gemm), *wishes)


CASES = [
    # slices, warp, stages of registers, transpositions
    (2, (16, 16), 1, {}),
    (4, (16, 16), 2, {}),
    (8, (16, 16), 1, {"transA": 1, "transB": 1}),
    (2, (32, 16), 2, {"transB": 1}),
    (4, (32, 32), 1, {"transA": 1}),
]


@needs_compiler
@pytest.mark.parametrize(("slices", "warp", "register", "gemm"), CASES)
def test_slices_add_up(
    slices: int, warp: tuple[int, int], register: int, gemm: dict[str, int], tmp_path: Path
) -> None:
    """More slices than a warp has rows of instructions too: those have sums, but none to store."""
    kernel = sliced(tmp_path, slices, warp, register=register, **gemm)
    assert kernel.source.block[0] == 32 * slices * (32 // warp[0]) * (32 // warp[1])
    assert kernel.tile.register_stages == register
    left, right = halves(1, (50, 600), 600**-0.5), halves(2, (600, 40))
    given = (left.T if gemm.get("transA") else left, right.T if gemm.get("transB") else right)
    arrays = product_arrays(kernel, *map(np.ascontiguousarray, given))
    check_against_numpy(kernel, left.astype(np.float64) @ right, arrays)
    assert engine.check(kernel).status == "pass"


@needs_compiler
def test_the_order_of_the_sums_is_fixed(tmp_path: Path) -> None:
    """Whatever order threads, warps and blocks run in, every bit is the same; nothing conflicts for a bank."""
    kernel = sliced(tmp_path, 4, kind="float16")
    arrays = product_arrays(kernel, halves(3, (50, 600)), halves(4, (600, 40)))
    runs = [emulate(kernel.source, arrays, order=order) for order in ORDERS]
    (name,) = runs[0][1]
    assert np.array_equal(runs[0][1][name], runs[1][1][name])
    counted = [count for count in runs[0][0].counts if "shared" in count.kind or "async" in count.kind]
    assert counted and all(count.conflicts == 0 for count in counted)


@needs_nvrtc
@pytest.mark.parametrize("slices", [2, 4])
def test_slices_do_not_spill(slices: int, tmp_path: Path) -> None:
    """As they are advised."""
    kernel = sliced(tmp_path, slices, (16, 16), (1024, 64, 4096), register=2)
    assert [compile_cuda(kernel.source.text, a).spill_bytes for a in ARCHITECTURES] == [0, 0]


def test_slices_that_a_block_has_no_room_for(tmp_path: Path) -> None:
    """Four warps to a slice and 32 to a block: eight slices at most."""
    kernel = sliced(tmp_path, 16)
    (verdict,) = (v for v in kernel.verdicts if "slices" in str(v.placed.entry) and v.placed.author == "user")
    assert verdict.outcome == "relaxed"
    assert verdict.because.startswith("slices 8: this kernel takes a power of two up to 8: slices share a block")


def test_slices_whose_sums_do_not_fit(tmp_path: Path) -> None:
    """128 x 128 sums of a slice are 64 KB, and 16 KB more are for their way out."""
    wishes = [f"all @ {side}: mark {name} {size}" for side in "ij" for name, size in (("block", 128), ("warp", 64))]
    wishes += ["all @ k: mark tile 64", "all @ k: mark slices 4"]
    kernel = advised(product_group(tmp_path, (256, 512), (512, 256)), *wishes)
    (verdict,) = (v for v in kernel.verdicts if "slices" in str(v.placed.entry) and v.placed.author == "user")
    assert verdict.outcome == "relaxed"
    assert verdict.because.startswith("slices 2: this kernel takes a power of two up to 2: slices share a block")
    assert kernel.source.shared_bytes <= kernel.target.shared_limit


def test_slices_are_advised_where_tiles_leave_sms_empty(tmp_path: Path) -> None:
    """64 tiles of 32 x 32 for 132 SMs: the long products are sliced, the short one and the wide one are not."""
    for shape, slices in [((1024, 64, 512), 4), ((1024, 64, 256), 2), ((1024, 64, 128), 0), ((4096, 4096, 4096), 0)]:
        rows, columns, depth = shape
        kernel = advised(product_group(tmp_path, (rows, depth), (depth, columns)))
        found = [v for v in kernel.verdicts if "slices" in str(v.placed.entry) and v.outcome != NOT_REACHED]
        assert kernel.tile.config.slices == max(1, slices)
        assert len(found) == (slices > 0)
        assert all(v.outcome == "honoured" and "tiles leave SMs empty" in v.placed.entry.because for v in found)


@lru_cache
def good() -> engine.Kernel:
    return sliced(Path(FOLDER.name), 4)


FAULTS = (
    Fault("sums read before all are there", good, r"(slice_sums\.store.*[\s\S]*?)barrier\(\);", r"\1;", ("race",),
          "slice_sums"),
    Fault("tiles overwritten while they are read", good, r"(async_wait<0>\(\);\s*)barrier\(\);", r"\1;", ("race",),
          r"slice_sums|ldmatrix"),
    Fault("a slice left out", good, "q < 4", "q < 3", ("wrong result",), r"\.store"),
    Fault("sums of another warp", good, r"(slice_sums\.load.*\(thread / 32\)) % 4", r"\1 % 2", ("wrong result",),
          r"\.store"),
    Fault("every slice stores", good, r"/ 4 == 0;", "/ 4 >= 0;", ("written twice",), r"\.store"),
)  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_caught_at_its_line(fault: Fault) -> None:
    assert_caught(fault)
