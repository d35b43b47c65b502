"""Split-K inside a block on CUDA cores: slices of threads, whose sums meet in shared memory in a fixed order."""

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
from engine.kernels.gemm.limits import SEARCH_LIMITS, first_broken
from engine.kernels.gemm.promise import fused_gemm
from engine.target import ARCHITECTURES, target
from engine.tensorize.space import GemmConfig
from tests.benchmarks.work import Row, compare
from tests.kernels.test_gemm_work import assert_same_work
from tests.kernels.test_row_results import group_of, softmax_of_floats
from tests.kernels.test_tensor_cores import advised, product_group
from tests.support.needs import needs_compiler, needs_nvrtc
from tests.verify.test_planted_faults import Fault, assert_caught

FOLDER = tempfile.TemporaryDirectory()
"""Of the model whose kernel is edited, which is read again when its values are made."""


def sliced(
    folder: Path, slices: int, thread: tuple[int, int] = (4, 8), shape: tuple[int, int, int] = (50, 40, 90),
    others: tuple[str, ...] = (), **gemm: int,
) -> engine.Kernel:  # fmt: skip
    """Tiles of 32 x 32 x 32."""
    rows, columns, depth = shape
    wishes = [f"all @ {side}: mark block 32" for side in "ij"]
    wishes += [f"all @ {side}: mark thread {size}" for side, size in zip("ij", thread, strict=True)]
    wishes += ["all @ k: mark tile 32", f"all @ k: mark slices {slices}", *(f"all @ k: mark {one}" for one in others)]
    left = (depth, rows) if gemm.get("transA") else (rows, depth)
    right = (columns, depth) if gemm.get("transB") else (depth, columns)
    return advised(product_group(folder, left, right, "float32", **gemm), *wishes)


def slices_verdict(kernel: engine.Kernel) -> tuple[str, str]:
    (found,) = (v for v in kernel.verdicts if "slices" in str(v.placed.entry) and v.placed.author == "user")
    return found.outcome, found.because


CASES = [
    # slices, rows and columns of a thread, other marks, transpositions
    (2, (8, 8), (), {}),
    (4, (4, 8), (), {"transB": 1}),
    (4, (2, 4), ("register_stages 2",), {"transA": 1}),
    (4, (1, 8), ("stages 1",), {}),
    (4, (8, 1), ("split_k 2",), {"transA": 1, "transB": 1}),
    (8, (4, 4), ("stages 3",), {"transA": 1}),
]


@needs_compiler
@pytest.mark.parametrize(("slices", "thread", "others", "gemm"), CASES)
def test_slices_add_up(
    slices: int, thread: tuple[int, int], others: tuple[str, ...], gemm: dict[str, int], tmp_path: Path
) -> None:
    """More slices than a thread has rows too: the others have sums, but none to store.  Ragged on all sides."""
    kernel = sliced(tmp_path, slices, thread, others=others, **gemm)
    assert kernel.tile.config.slices == slices and slices_verdict(kernel)[0] == "honoured"
    assert kernel.source.block[0] == slices * (32 // thread[0]) * (32 // thread[1])
    assert engine.check(kernel).status == "pass"
    assert assert_same_work(kernel)


@needs_compiler
@pytest.mark.parametrize("slices", [1, 4])
def test_its_work_is_what_the_emulator_counts(slices: int, tmp_path: Path) -> None:
    row = compare(sliced(tmp_path, slices, shape=(64, 64, 128)))
    assert isinstance(row, Row) and row.is_equal


@pytest.mark.slow(sentinel=True)
@needs_compiler
@needs_nvrtc
def test_the_compiled_text_adds_up_too(tmp_path: Path) -> None:
    report = engine.check(sliced(tmp_path, 4), level="ptx")
    assert report.status == "pass"


@needs_compiler
@pytest.mark.parametrize("slices", [2, 4])
def test_rows_that_are_reduced_stay_in_the_threads_that_finish_them(slices: int, tmp_path: Path) -> None:
    group = group_of(softmax_of_floats(), tmp_path)
    kernel = advised(group, "all @ i: mark thread 4", "all @ k: mark tile 32", f"all @ k: mark slices {slices}")
    assert not kernel.tile.intrinsic and kernel.tile.config.slices == slices
    assert engine.check(kernel).status == "pass" and assert_same_work(kernel)


@needs_compiler
def test_the_order_of_the_sums_is_fixed(tmp_path: Path) -> None:
    """Whatever order threads, warps and blocks run in, every bit is the same; the sums conflict for no bank."""
    kernel, chance = sliced(tmp_path, 4), np.random.default_rng(3)
    arrays = {"left": chance.standard_normal((50, 90)), "right": chance.standard_normal((90, 40))}
    values = {name: array.astype(np.float32) for name, array in arrays.items()}
    runs = [emulate(kernel.source, values, order=order) for order in ORDERS]
    (name,) = runs[0][1]
    assert np.array_equal(runs[0][1][name], runs[1][1][name])
    expected = arrays["left"] @ arrays["right"]
    assert np.abs(runs[0][1][name].reshape(expected.shape) - expected).max() < 1e-4
    lines = kernel.source.text.splitlines()
    exchanged = [count for count in runs[0][0].counts if "slice_sums" in lines[count.line - 1]]
    assert len(exchanged) == 2 and all(count.conflicts == 0 for count in exchanged)


@needs_nvrtc
def test_slices_do_not_spill(tmp_path: Path) -> None:
    kernel = sliced(tmp_path, 4, (4, 8), (1024, 64, 4096))
    assert [compile_cuda(kernel.source.text, a).spill_bytes for a in ARCHITECTURES] == [0, 0]


@pytest.mark.parametrize(
    ("asked", "thread", "given"),
    [(8, (4, 8), 8), (16, (4, 8), 8), (8, (1, 1), 1), (4, (2, 2), 4), (8, (2, 2), 4)],
)
def test_a_block_has_as_many_slices_as_it_has_threads_and_depths_for(
    asked: int, thread: tuple[int, int], given: int, tmp_path: Path
) -> None:
    """32 depths are eight steps of a fragment, and a block has up to 1,024 threads."""
    kernel = sliced(tmp_path, asked, thread)
    assert kernel.tile.config.slices == given
    outcome, because = slices_verdict(kernel)
    assert outcome == ("honoured" if asked == given else "relaxed")
    assert asked == given or because.startswith(f"slices {given}: this kernel takes a power of two up to {given}")


@pytest.mark.parametrize(
    ("config", "rule", "figures"),
    [
        (GemmConfig((32, 32, 32), (4, 8), slices=8), "", ""),
        (GemmConfig((32, 32, 16), (4, 8), slices=8), "register stages", "8 slices of 16 depths are no whole steps"),
        (GemmConfig((64, 64, 32), (8, 8), slices=4), "", ""),
        (GemmConfig((128, 128, 32), (8, 8), slices=4), "exchange of sums", "4 slices exchange 64 KiB of sums each"),
        (GemmConfig((32, 32, 32), (2, 2), slices=8), "tile shape", "2048 threads"),
    ],
    ids=str,
)
def test_a_search_drops_slices_without_room(config: GemmConfig, rule: str, figures: str, tmp_path: Path) -> None:
    group = product_group(tmp_path, (512, 2048), (2048, 512), "float32")
    found = first_broken(fused_gemm(group.program, None).problem, config, target("h200"), SEARCH_LIMITS)
    assert (found[0].name if found else "") == rule
    assert found is None or figures in found[1]


@lru_cache
def good() -> engine.Kernel:
    return sliced(Path(FOLDER.name), 4)


FAULTS = (
    Fault("sums read before all are there", good, r"(slice_sums\.store.*[\s\S]*?)barrier\(\);", r"\1;", ("race",),
          "slice_sums"),
    Fault("tiles overwritten while they are read", good, r"(async_wait<0>\(\);\s*)barrier\(\);(\s*// sums)", r"\1;\2",
          ("race",), r"slice_sums|_tile"),
    Fault("a slice left out", good, r"q < 4(; \+\+q\) \{\s*#pragma unroll\s*for \(int s = 0; s < 2)", r"q < 3\1",
          ("wrong result",), r"\.store"),
    Fault("sums of another thread", good, r"(slice_sums\.load.*)slice_thread \* 4", r"\1(slice_thread ^ 1) * 4",
          ("wrong result",), r"\.store"),
    Fault("every slice multiplies the same depths", good, r"slice \* 8 \+ depth", "depth", ("wrong result",),
          r"\.store"),
)  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_caught_at_its_line(fault: Fault) -> None:
    assert_caught(fault)
