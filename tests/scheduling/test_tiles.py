"""The tile that the advisers ask for: the simplest of those that the model promises most of."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

import engine
from engine.cost.estimate import model_microseconds
from engine.cost.nodes import side_by_side
from engine.kernels.gemm.nodes import FusedGemm
from engine.kernels.gemm.problem import config_of_tile, gemm_axes
from engine.kernels.gemm.promise import floor_of, fused_gemm
from engine.kernels.gemm.tiles import MOST_BLOCKS, NEAR, Loop, Promise, Tile, candidates, promised_best
from engine.kernels.gemm.work import work
from engine.scheduling.nodes import NOT_REACHED
from engine.support.errors import Unsupported
from engine.target import Target, target
from engine.target.devices import H200
from engine.tensorize.intrinsics import INTRINSICS
from engine.tensorize.space import GemmConfig
from tests.kernels.test_tensor_cores import advised, product_group

WIDE, SQUARE, SMALL = Tile((128, 128), (64, 64)), Tile((64, 64), (32, 32)), Tile((16, 32), (16, 16))


def nothing(knobs: GemmConfig) -> float:
    """A floor that leaves nothing out."""
    return 0.0


def depth(size: int, through_registers: bool = False) -> Loop:
    return Loop(size, 32, 16, through_registers)


def test_every_candidate_has_a_tile_for_every_block_and_slice() -> None:
    found = list(candidates((WIDE, SQUARE), depth(1100), 256 * 256, H200))
    assert len(found) == len(set(found)) >= 20
    for knobs in found:
        steps = -(-1100 // knobs.block[2])
        assert steps - (knobs.split_k - 1) * -(-steps // knobs.split_k) > 0
        assert knobs.parts <= 16 or knobs.slices == 1
    assert {k.split_k for k in found} == {1, 2, 3, 4, 6} and {k.slices for k in found} == {1, 2, 4}
    assert {k.slices for k in found if k.block[:2] == WIDE.block} == {1, 2}  # four times 64 kB of sums do not fit


def test_what_passes_registers_is_not_sliced_and_many_sums_are_not_left_to_others() -> None:
    assert {k.slices for k in candidates((SQUARE,), depth(2048, True), 4096, H200)} == {1}
    assert {k.stages for k in candidates((SQUARE,), depth(2048, True), 4096, H200)} == {2}
    assert {k.split_k for k in candidates((WIDE,), depth(2048), 2**22, H200)} == {1, 2}
    assert {k.split_k for k in candidates((WIDE,), depth(2048), 2**23, H200)} == {1}


def test_blocks_that_fill_all_places_share_no_depth() -> None:
    blocks = H200.sm_count * MOST_BLOCKS
    assert {k.split_k for k in candidates((SQUARE,), depth(2048), blocks // 2 * 64 * 64, H200)} == {1, 2}
    assert {k.split_k for k in candidates((SQUARE,), depth(2048), (blocks // 2 + 1) * 64 * 64, H200)} == {1}


def test_the_simplest_of_the_best_is_taken() -> None:
    plain, sliced, split = GemmConfig((64, 64, 32), (32, 32)), GemmConfig((64, 64, 64), (32, 32), slices=2), GemmConfig(
        (64, 64, 32), (32, 32), split_k=2
    )
    times = {plain: 10.0 * NEAR, sliced: 10.0, split: 10.5}
    assert promised_best(times, times.__getitem__, nothing) == (plain, times[plain])
    times[plain] = 11.5
    assert promised_best(times, times.__getitem__, nothing) == (sliced, 10.0)
    times[plain], times[sliced] = 10.5 * NEAR, 12.0
    assert promised_best(times, times.__getitem__, nothing) == (plain, times[plain])
    times[split] = 8.0
    assert promised_best(times, times.__getitem__, nothing) == (split, 8.0)


def test_few_warps_and_blocks_that_do_not_fit_are_the_last_resort() -> None:
    (narrow,) = candidates((Tile((16, 16), (16, 16)),), depth(32), 256, H200)
    full = GemmConfig((64, 64, 32), (32, 32))

    def promise(knobs: GemmConfig) -> float:
        if knobs == huge:
            raise Unsupported("predict", "block", "does not fit")
        return 1.0 if knobs == narrow else 5.0

    huge = GemmConfig((128, 128, 128), (64, 64), 6)
    assert promised_best((narrow, full, huge), promise, nothing) == (full, 5.0)
    assert promised_best((narrow, huge), promise, nothing) == (narrow, 1.0)


@pytest.mark.parametrize(
    ("shape", "splits"),
    [
        ((512, 768, 8192), True), ((512, 768, 768), False), ((256, 256, 8192), True), ((4096, 4096, 4096), False),
        ((1024, 64, 512), False),
    ],
)
def test_blocks_share_a_depth_where_tiles_are_few_and_deep(
    shape: tuple[int, int, int], splits: bool, tmp_path: Path
) -> None:
    rows, columns, deep = shape
    kernel = advised(product_group(tmp_path, (rows, deep), (deep, columns)))
    found = [v for v in kernel.verdicts if "split_k" in str(v.placed.entry) and v.outcome != NOT_REACHED]
    assert (kernel.source.team > 1) == splits == bool(found)
    assert all(v.outcome == "honoured" and v.placed.author == "tensorize" for v in found)
    assert all("µs predicted" in v.placed.entry.because for v in found)


def kernel_of(row: str) -> engine.Kernel:
    """A row of a suite with the advisers' kernel."""
    group = engine.fuse(engine.load(f"suite:{row}")).groups[-1]
    return engine.compile(group, engine.default_recipe(group, target="a100"))


def promise_of(gemm: FusedGemm, machine: Target) -> Promise:
    """The modelled microseconds of a product by its configuration."""
    return lambda config: model_microseconds(work(gemm, config, machine), machine)


@pytest.mark.parametrize("row", ["MM_BERT_FC1", "MM_RN50_FC", "BMM_BERT_SV"])
def test_advice_is_as_good_as_the_model_knows(row: str) -> None:
    """No tile of the adviser's is promised to be much faster than the one it took."""
    kernel = kernel_of(f"alcop/{row}")
    axes = gemm_axes(kernel.program)
    assert axes is not None
    machine = target("a100")
    promise = promise_of(fused_gemm(kernel.program, INTRINSICS[kernel.tile.intrinsic]), machine)
    taken = config_of_tile(kernel.tile)
    assert taken is not None
    deep = axes.statement.reduced[-1].extent
    others = candidates((WIDE, SQUARE, Tile((32, 32), (16, 16))), depth(deep), 1, machine)
    fitting = []
    for knobs in others:
        try:
            fitting.append(promise(knobs))
        except Unsupported:
            continue
    assert promise(taken) <= NEAR * min(fitting) * 1.001


FLOORS = (
    "alcop/MM_BERT_FC1", "alcop/MM_RN50_FC", "alcop/BMM_BERT_SV", "alcop/Conv2D_RN50_1", "gta/gemm-16x512x128",
    "transformer/8192x3072x768-bias-gelu",
)  # fmt: skip


@pytest.mark.parametrize("row", FLOORS)
@pytest.mark.parametrize("gpu", ["a100", "h200"])
def test_a_floor_is_no_more_than_the_promise_and_leaves_out_what_is_not_the_best(row: str, gpu: str) -> None:
    """On tensor cores and without, alone and with another product of the same kind in one launch."""
    machine, left_out, compared = target(gpu), 0, 0
    kernel = kernel_of(row)
    for intrinsic in (INTRINSICS.get(kernel.tile.intrinsic), None):
        gemm = fused_gemm(kernel.program, intrinsic)
        moved = (2 * gemm.dram_bytes[0], 2 * gemm.dram_bytes[1])
        alone = (promise_of(gemm, machine), floor_of([gemm], gemm.dram_bytes, machine))
        pair = (
            lambda one, g=gemm, m=moved: model_microseconds(side_by_side([work(g, one, machine)] * 2, m), machine),
            floor_of([gemm] * 2, moved, machine),
        )
        step = 16 if intrinsic else 0
        tiles = (WIDE, SQUARE, SMALL) if intrinsic else (Tile((128, 64), (8, 8)), Tile((32, 32), (4, 4)))
        size, sums = gemm.problem.k, gemm.problem.m * gemm.problem.n
        choices = list(candidates(tiles, Loop(size, 32 if intrinsic else 16, step), sums, machine))
        for promise, floor in (alone, pair):
            asked: list[GemmConfig] = []
            found = promised_best(choices, lambda one, p=promise, a=asked: (a.append(one), p(one))[1], floor)
            assert found == promised_best(choices, promise, nothing)
            left_out += len(choices) - len(asked)
            for one in choices:
                with suppress(Unsupported):
                    assert floor(one) <= promise(one)
                    compared += 1
    assert compared > 10 and left_out > 0
