"""Matrix loads and products on tensor cores: the GPU's compiler takes them, and their emulation is NumPy's product.

Operands are small integers, so that every product and sum is exact: results must be equal.
"""

from __future__ import annotations

import numpy as np
import pytest

from engine.execution.emulate.emulate import emulate
from engine.execution.nodes import ORDERS
from engine.execution.nvrtc import compile_cuda, compile_ptx
from engine.target import ARCHITECTURES
from engine.target.hardware import WARP
from engine.tensorize.intrinsics import INTRINSICS
from engine.tensorize.nodes import Fragment, Intrinsic
from engine.tile.nodes.expressions import HELD
from engine.tile.source import CudaSource, Parameter
from tests.support.needs import needs_compiler, needs_nvrtc

ALL = pytest.mark.parametrize("intrinsic", INTRINSICS.values(), ids=list(INTRINSICS))

EXACT = {**dict.fromkeys(("float16", "bfloat16", "float32"), (-8, 9)), "int8": (-128, 128), "uint8": (0, 256)}
"""Element type -> range of integers whose products and sums are exact."""

PRODUCT = """#include "loom.cuh"
extern "C" __global__ void __launch_bounds__(32)
k(const {stored}* __restrict__ a_, const {stored}* __restrict__ b_, {held}* __restrict__ d_) {{
  const Global<const {stored}> a(a_, 128), b(b_, 64);
  const Global<{held}> d(d_, 128);
  const int lane = threadIdx.x;
  {word} x[4], y[2];
  {held} sums[2][2];
  for (int w = 0; w < 4; ++w) x[w] = {word}(a.load(lane * 4 + w));
  for (int w = 0; w < 2; ++w) y[w] = {word}(b.load(lane * 2 + w));
  for (int h = 0; h < 2; ++h) for (int v = 0; v < 2; ++v) sums[h][v] = {held}(lane);
  {name}(sums, x, y);
  for (int h = 0; h < 2; ++h) for (int v = 0; v < 2; ++v) d.store(lane * 4 + h * 2 + v, sums[h][v]);
}}
"""
LOAD = """#include "loom.cuh"
extern "C" __global__ void __launch_bounds__(32)
k(const f16* __restrict__ x_, int* __restrict__ y_) {{
  const Global<const f16> x(x_, 256);
  const Global<int> y(y_, 128);
  LOOM_SHARED(512);
  const Shared<f16> tile(shared_memory, 256);
  const int lane = threadIdx.x;
  tile.store<8>(swizzle<32, f16>(lane * 8), x.load<8>(lane * 8));
  barrier();
  u32 words[4];
  {name}(words, tile, swizzle<32, f16>(lane % 16 * 16 + lane / 16 * 8));
  for (int q = 0; q < 4; ++q) y.store(lane * 4 + q, int(words[q]));
}}
"""


def product_text(intrinsic: Intrinsic) -> str:
    """One product of operands given as registers."""
    stored, word = ("float", "float") if intrinsic.element_bytes == 4 else ("int", "u32")
    return PRODUCT.format(name=intrinsic.name, stored=stored, word=word, held=HELD[intrinsic.held])


def source(text: str, *buffers: Parameter) -> CudaSource:
    return CudaSource(text, "k", (1, 1, 1), (32, 1, 1), 512, buffers, ())


@needs_compiler
@pytest.mark.parametrize("order", ORDERS)
@ALL
def test_emulated_product_is_numpys(intrinsic: Intrinsic, order: str) -> None:
    rng = np.random.default_rng(3)
    a, b = (
        np.arange(*EXACT[f.dtype])[rng.integers(0, len(range(*EXACT[f.dtype])), f.shape)].astype(np.float32)
        for f in (intrinsic.a, intrinsic.b)
    )
    arrays = {"a": words_of(intrinsic.a, a), "b": words_of(intrinsic.b, b)}
    kernel = source(
        product_text(intrinsic), Parameter("a_", "a", str(arrays["a"].dtype), 128, True, False),
        Parameter("b_", "b", str(arrays["b"].dtype), 64, True, False),
        Parameter("d_", "d", intrinsic.held, 128, False, True),
    )  # fmt: skip
    emulation, outputs, _ = emulate(kernel, arrays, order=order)
    assert not emulation.findings
    result = np.zeros(intrinsic.c.shape, np.float32)
    for lane, register, row, column in intrinsic.c.places():
        result[row, column] = outputs["d"].reshape(WARP, 4)[lane, register] - lane
    np.testing.assert_array_equal(result, a @ b)


@needs_compiler
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("name", "transposed"), [("ldmatrix_x4", False), ("ldmatrix_x4_trans", True)])
def test_emulated_matrix_load(name: str, transposed: bool, order: str) -> None:
    """Four matrices of a 16 x 16 tile of halves: what a lane receives is what the table of fragment a says."""
    fragment = INTRINSICS["mma_m16n8k16_f16"].a
    x = np.arange(256, dtype=np.float16).reshape(16, 16)
    kernel = source(
        LOAD.format(name=name), Parameter("x_", "x", "float16", 256, True, False),
        Parameter("y_", "y", "int32", 128, False, True),
    )  # fmt: skip
    emulation, outputs, _ = emulate(kernel, {"x": x}, order=order)
    assert not emulation.findings
    assert sum(count.conflicts for count in emulation.counts if count.kind == "shared load") == 0
    got = outputs["y"].view(np.float16).reshape(WARP, 8)
    turned = np.block([[x[:8, :8].T, x[:8, 8:].T], [x[8:, :8].T, x[8:, 8:].T]])
    expected = turned if transposed else x
    for lane, register, row, column in fragment.places():
        assert got[lane, register] == expected[row, column]


def words_of(fragment: Fragment, matrix: np.ndarray) -> np.ndarray:
    """The 32-bit registers of all lanes, as the table says they hold a matrix."""
    held = np.zeros((WARP, fragment.registers), np.float32)
    for lane, register, row, column in fragment.places():
        held[lane, register] = matrix[row, column]
    match fragment.dtype:
        case "float16":
            return held.astype(np.float16).view(np.int32).reshape(-1)
        case "bfloat16":
            return (held.view(np.uint32) >> 16).astype(np.uint16).view(np.int32).reshape(-1)
        case "int8" | "uint8":
            return held.astype(fragment.dtype).view(np.int32).reshape(-1)
        case _:
            return held.reshape(-1)


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@ALL
def test_instruction_is_in_the_machine_code(intrinsic: Intrinsic, architecture: str) -> None:
    text = product_text(intrinsic)
    assert intrinsic.ptx in compile_ptx(text, architecture)
    assert compile_cuda(text, architecture).spill_bytes == 0


@needs_nvrtc
@pytest.mark.parametrize("name", ["ldmatrix_x4", "ldmatrix_x4_trans"])
def test_matrix_load_compiles(name: str) -> None:
    assert "ldmatrix.sync.aligned.m8n8.x4" in compile_ptx(LOAD.format(name=name), "sm_80")
