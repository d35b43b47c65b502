"""What pipelines of both levels cost a machine: registers by NVRTC, bank conflicts counted by the emulator."""

from __future__ import annotations

from pathlib import Path

import pytest

import engine
from engine.execution.emulate.emulate import emulate
from engine.execution.nvrtc import compile_cuda
from engine.target import ARCHITECTURES
from tests.kernels.test_tensor_cores import advised, halves, product_group
from tests.support.needs import needs_compiler, needs_nvrtc

Tile = tuple[int, int, int, int]
"""Rows and columns of a block, rows and columns of a warp."""


def tiled(folder: Path, tile: Tile, size: int, depth: int = 32, stages: int = 3, **gemm: int) -> engine.Kernel:
    """A square product with two fragment sets."""
    sizes = dict(zip(("i: mark block", "j: mark block", "i: mark warp", "j: mark warp"), tile, strict=True))
    sizes |= {"k: mark tile": depth, "k: mark stages": stages, "k: mark register_stages": 2}
    group = product_group(folder, (size, size), (size, size), **gemm)
    kernel = advised(group, *(f"all @ {name} {value}" for name, value in sizes.items()))
    assert all(v.outcome == "honoured" for v in kernel.verdicts if v.placed.author == "user")
    assert (kernel.tile.stages, kernel.tile.register_stages) == (stages, 2)
    return kernel


@pytest.mark.few(1)
@needs_nvrtc
@pytest.mark.parametrize("depth", [32, 64])
@pytest.mark.parametrize("tile", [(128, 256, 64, 64), (256, 128, 64, 64)], ids=["128x256", "256x128"])
def test_the_widest_tiles_fit_the_registers(tile: Tile, depth: int, tmp_path: Path) -> None:
    """128 sums, two sets of 32 fragment registers and the addresses: at most 255, nothing spilled."""
    kernel = tiled(tmp_path, tile, 4096, depth)
    for architecture in ARCHITECTURES:
        compiled = compile_cuda(kernel.source.text, architecture)
        assert compiled.spill_bytes == 0
        assert compiled.registers <= 255


@pytest.mark.few(2)
@needs_compiler
@pytest.mark.parametrize("trans", [0, 1])
@pytest.mark.parametrize(
    ("tile", "depth"), [((128, 256, 64, 64), 32), ((64, 128, 32, 64), 64), ((32, 64, 16, 32), 128)],
    ids=["128x256x32", "64x128x64", "32x64x128"],
)  # fmt: skip
def test_the_main_loop_has_no_bank_conflicts(tile: Tile, depth: int, trans: int, tmp_path: Path) -> None:
    """Neither matrix loads nor copies, in any stage, nor results on their way out, which fill whole sectors."""
    kernel = tiled(tmp_path, tile, 512, depth, transA=trans, transB=trans)
    arrays = {b.array: halves(1, (512, 512)) for b in kernel.source.buffers if b.read}
    emulation, _, _ = emulate(kernel.source, arrays, blocks=[0])
    assert not emulation.findings
    lines = kernel.source.text.splitlines()
    main = [c for c in emulation.counts if "ldmatrix" in lines[c.line - 1] or "async_copy" in lines[c.line - 1]]
    assert {"shared load", "async copy"} <= {count.kind for count in main}
    assert [count.conflicts for count in main] == [0] * len(main)
    results = [c for c in emulation.counts if "results" in lines[c.line - 1]]
    assert {count.kind for count in results} == {"shared load", "shared store"}
    assert [count.conflicts for count in results] == [0] * len(results)
    (stored,) = (count for count in emulation.counts if count.kind == "global store")
    assert stored.sectors == tile[0] * tile[1] * 2 // 32  # every byte of every sector, once


ADVISED = [
    # row, warps: those along the tile's rows, its columns, and its depth
    ("Conv2D_RN50_2", 2 * 2 * 1), ("Conv3D3", 1 * 4 * 1), ("MM_Conv1x1_1", 4 * 2 * 1), ("MM_RN50_FC", 1 * 1 * 2),
    ("BMM_GPT2_SV", 1 * 1 * 2),
]  # fmt: skip


@pytest.mark.few(2)
@needs_nvrtc
@pytest.mark.parametrize(("row", "warps"), ADVISED)
def test_what_is_advised_does_not_spill(row: str, warps: int) -> None:
    """Windows, copied element by element, which four warps share; tiles narrower than the widest; two slices of the
    depth of a warp's tile, where tiles are few; several products."""
    groups = [g for g in engine.fuse(engine.load(f"suite:alcop/{row}")).groups if g.kind == "contraction"]
    for group in groups:
        kernel = engine.compile(group, engine.default_recipe(group, target="a100"))
        assert kernel.tile.intrinsic == "mma_m16n8k16_f16"
        assert kernel.source.block[0] == 32 * warps
        assert [compile_cuda(kernel.source.text, a).spill_bytes for a in ARCHITECTURES] == [0, 0]
