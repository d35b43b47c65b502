"""Split-K over blocks: parts of the depth, whose sums meet in global memory, where the last block to come adds them."""

from __future__ import annotations

import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.execution.emulate.emulate import emulate
from engine.execution.nodes import ORDERS, Finding
from engine.execution.nvrtc import compile_cuda
from engine.explore.addresses import addresses
from engine.target import ARCHITECTURES
from tests.kernels.test_tensor_cores import advised, check_against_numpy, halves, product_arrays, product_group
from tests.support.needs import needs_compiler, needs_nvrtc
from tests.verify.test_planted_faults import Fault, assert_caught

FOLDER = tempfile.TemporaryDirectory()
"""Of the model whose kernel is edited, which is read again when its values are made."""


def split(
    folder: Path, parts: int, slices: int = 1, stages: int = 3, shape: tuple[int, int, int] = (50, 40, 600),
    kind: str = "float16", **gemm: int,
) -> engine.Kernel:  # fmt: skip
    """Tiles of 32 x 32 x 64: ten of them along the depth of 600, the last one ragged."""
    rows, columns, depth = shape
    wishes = [f"all @ {side}: mark block 32" for side in "ij"]
    marks = {"tile": 64, "split_k": parts, "stages": stages}
    wishes += [f"all @ k: mark {name} {value}" for name, value in marks.items()]
    if kind == "float16":
        wishes += [f"all @ {side}: mark warp 16" for side in "ij"]
        wishes += [f"all @ k: mark slices {slices}", "all @ k: mark register_stages 2"]
    left = (depth, rows) if gemm.get("transA") else (rows, depth)
    right = (columns, depth) if gemm.get("transB") else (depth, columns)
    return advised(product_group(folder, left, right, kind, **gemm), *wishes)


CASES = [
    # parts, slices, stages, type, transpositions
    (2, 1, 1, "float16", {}),
    (3, 1, 3, "float16", {"transB": 1}),
    (5, 4, 2, "float16", {"transA": 1, "transB": 1}),
    (10, 2, 3, "float16", {"transA": 1}),
    (2, 1, 2, "float32", {"transA": 1}),
    (5, 1, 1, "float32", {"transB": 1}),
]


@pytest.mark.few(3)
@needs_compiler
@pytest.mark.parametrize(("parts", "slices", "stages", "kind", "gemm"), CASES)
def test_parts_add_up(
    parts: int, slices: int, stages: int, kind: str, gemm: dict[str, int], tmp_path: Path
) -> None:
    """On tensor cores and on CUDA cores, sliced inside the block as well; the last part is the shortest."""
    kernel = split(tmp_path, parts, slices, stages, kind=kind, **gemm)
    assert (kernel.source.team, kernel.source.grid[0]) == (parts, 4 * parts)
    left, right = halves(1, (50, 600), 600**-0.5), halves(2, (600, 40))
    given = (left.T if gemm.get("transA") else left, right.T if gemm.get("transB") else right)
    arrays = product_arrays(kernel, *(np.ascontiguousarray(value.astype(kind)) for value in given))
    check_against_numpy(kernel, left.astype(np.float64) @ right, arrays)
    assert engine.check(kernel).status == "pass"


@needs_compiler
@pytest.mark.parametrize("parts", [2, 5])
def test_the_order_of_the_sums_is_fixed(parts: int, tmp_path: Path) -> None:
    """Whichever block comes last, every bit is the same: of two, each adds the other's sums to its own."""
    kernel = split(tmp_path, parts)
    arrays = product_arrays(kernel, halves(3, (50, 600)), halves(4, (600, 40)))
    blocks = 4 * parts
    orders = [range(blocks), (*range(3, blocks), 0, 1, 2), range(blocks - 1, -1, -1)]
    runs = [emulate(kernel.source, arrays, blocks=tuple(walk), order=order) for walk in orders for order in ORDERS]
    assert not any(emulation.findings for emulation, _, _ in runs)
    (name,) = runs[0][1]
    assert all(np.array_equal(runs[0][1][name], outputs[name]) for _, outputs, _ in runs)


@needs_compiler
def test_a_team_that_is_not_whole_is_told(tmp_path: Path) -> None:
    kernel = split(tmp_path, 2)
    arrays = product_arrays(kernel, halves(3, (50, 600)), halves(4, (600, 40)))
    assert kernel.source.whole_teams((1, 6)) == (1, 2, 5, 6)
    whole, _, written = emulate(kernel.source, arrays, blocks=(1, 5))
    assert not whole.findings and sum(mask.sum() for mask in written.values()) == 32 * 8
    half, _, written = emulate(kernel.source, arrays, blocks=(1, 6))
    assert {finding.kind for finding in half.findings} == {"unfinished team"}
    assert not any(mask.any() for mask in written.values())


@needs_compiler
def test_a_traced_block_is_the_one_that_finishes(tmp_path: Path) -> None:
    found = addresses(split(tmp_path, 2), {"left": halves(3, (50, 600)), "right": halves(4, (600, 40))})
    assert not isinstance(found, Finding)
    assert {"y", "parts"} <= {access.array for access in found.lanes}


@needs_nvrtc
@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_parts_do_not_spill(kind: str, tmp_path: Path) -> None:
    kernel = split(tmp_path, 4, shape=(1024, 64, 4096), kind=kind)
    assert [compile_cuda(kernel.source.text, a).spill_bytes for a in ARCHITECTURES] == [0, 0]


@pytest.mark.parametrize(("asked", "given"), [(4, 4), (6, 5), (7, 5), (11, 10), (10**9, 10)])
def test_no_part_is_without_a_tile(asked: int, given: int, tmp_path: Path) -> None:
    """Ten tiles of depth: six parts of two tiles would leave the last one none."""
    kernel = split(tmp_path, asked)
    assert kernel.source.team == given
    (verdict,) = (v for v in kernel.verdicts if "split_k" in str(v.placed.entry))
    assert verdict.outcome == ("honoured" if asked == given else "relaxed")
    needs = "at most 10, and no part without one of the 10 tiles of the depth"
    assert asked == given or verdict.because == f"split_k {given}: this kernel takes {needs}"


def test_parts_whose_sums_take_too_much_memory(tmp_path: Path) -> None:
    """8192 x 8192 sums are 256 MB: no block leaves them to another."""
    kernel = advised(product_group(tmp_path, (8192, 256), (256, 8192)), "all @ k: mark split_k 2")
    assert kernel.source.team == 1
    (verdict,) = (v for v in kernel.verdicts if "split_k" in str(v.placed.entry))
    assert verdict.outcome == "relaxed" and verdict.because.startswith("split_k 1: this kernel takes at most 1,")


@lru_cache
def good() -> engine.Kernel:
    return split(Path(FOLDER.name), 3)


FAULTS = (
    Fault("nobody waits for the others", good, r"if \(!is_last_of.*return;", "barrier();", ("race",), r"parts\.load"),
    Fault("every block stores", good, r"if \(!(is_last_of.*)\) return;", r"\1;", ("written twice",), r"y\.store"),
    Fault("a block too few", good, "is_last_of<3>", "is_last_of<2>", ("race", "wrong result"), "parts|is_last"),
    Fault("a block too many", good, "is_last_of<3>", "is_last_of<4>", ("unfinished team", "not written"), "is_last|y"),
    Fault("a part left out", good, "q < 3", "q < 2", ("wrong result",), r"y\.store"),
    Fault("parts at the same place", good, r"store<4>\(part \* 4096 \+", "store<4>(", ("written twice",), "parts"),
    Fault("another tile's counter", good, r"\(arrivals, tile_number\)", "(arrivals, tile_number / 2)",
          ("race", "not written", "unfinished team"), "is_last|parts"),
    Fault("sums on top of the block's own", good, r"acc\[0\]\[s\]\[v / 2\]\[v % 2\] = 0.0f;", ";", ("wrong result",),
          r"y\.store"),
    Fault("sums left after the counter", good, r"( +parts\.store.*\n +\}\n)( +if \(!is_last_of.*\n)",
          r"  }\n\2  for (int s = 0; s < 2; ++s) {\n Pack<float, 4> own_part{};\n\1", ("uninitialised", "race"),
          "parts"),
)  # fmt: skip


@pytest.mark.few(4)
@needs_compiler
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_caught_at_its_line(fault: Fault) -> None:
    assert_caught(fault)
