"""Small kernels written in Triton by hand, as its tutorials write them: what a user of Triton would have.

Imported only where Triton is installed.  Each is tried in a few configurations for a set of sizes; the fastest stays.
Accumulation is in float32.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

MOST_ELEMENTS = 64
"""Of a row, in the registers of one thread."""


def _products() -> list[Any]:
    """Tiles that suit Hopper and Ampere: (rows, columns, depth, stages, warps)."""
    tiles = ((128, 256, 64, 3, 8), (128, 128, 64, 3, 8), (128, 128, 32, 4, 4), (128, 64, 64, 4, 4), (64, 64, 64, 4, 4))
    return [
        triton.Config({"TILE_M": m, "TILE_N": n, "TILE_K": k, "BAND": 8}, num_stages=stages, num_warps=warps)
        for m, n, k, stages, warps in tiles
    ]


def _widths() -> list[Any]:
    """Elements of one program of an element-wise kernel."""
    return [triton.Config({"WIDTH": width}, num_warps=warps) for width, warps in ((1024, 4), (2048, 8), (4096, 8))]


def _warps() -> list[Any]:
    """Programs that hold one row each."""
    return [triton.Config({}, num_warps=warps) for warps in (4, 8, 16, 32)]


def fitting(configs: list[Any], named: Any, **given: Any) -> list[Any]:
    """Those that leave a thread at most MOST_ELEMENTS of a row; others spill, and compile for minutes."""
    kept = [config for config in configs if given["ROW"] <= config.num_warps * 32 * MOST_ELEMENTS]
    return kept or configs[-1:]


@triton.autotune(configs=_products(), key=["M", "N", "K"])
@triton.jit
def product(
    a, b, bias, out, M, N, K, step_a, step_b, step_out,
    HAS_BIAS: tl.constexpr, GELU: tl.constexpr,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr, BAND: tl.constexpr,
):  # fmt: skip
    """out = epilogue(a b), row-major; the third axis of the grid is the batch, `step_*` apart."""
    batch = tl.program_id(1).to(tl.int64)
    a, b, out = a + batch * step_a, b + batch * step_b, out + batch * step_out
    # Tiles are walked in bands of rows, so that those at work together share operands in L2.
    number, rows, columns = tl.program_id(0), tl.cdiv(M, TILE_M), tl.cdiv(N, TILE_N)
    first = number // (BAND * columns) * BAND
    height = min(rows - first, BAND)
    m = (first + number % (BAND * columns) % height) * TILE_M + tl.arange(0, TILE_M)
    n = number % (BAND * columns) // height * TILE_N + tl.arange(0, TILE_N)
    k = tl.arange(0, TILE_K)
    total = tl.zeros((TILE_M, TILE_N), tl.float32)
    for start in range(0, K, TILE_K):
        depth = start + k
        left = tl.load(a + m[:, None] * K + depth[None, :], (m[:, None] < M) & (depth[None, :] < K), 0.0)
        right = tl.load(b + depth[:, None] * N + n[None, :], (depth[:, None] < K) & (n[None, :] < N), 0.0)
        total = tl.dot(left, right, total)
    if HAS_BIAS:
        total += tl.load(bias + n, n < N, 0.0).to(tl.float32)[None, :]
    if GELU:
        total = _gelu(total)
    place = out + m[:, None].to(tl.int64) * N + n[None, :]
    tl.store(place, total.to(out.dtype.element_ty), (m[:, None] < M) & (n[None, :] < N))


@triton.jit
def _gelu(x):
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    return x * tl.sigmoid(2.0 * inner)


@triton.autotune(configs=_warps(), key=["N"], prune_configs_by={"early_config_prune": fitting})
@triton.jit
def softmax(x, out, N, ROW: tl.constexpr):
    """One row a program, held whole."""
    n = tl.arange(0, ROW)
    start = tl.program_id(0).to(tl.int64) * N
    value = tl.load(x + start + n, n < N, float("-inf")).to(tl.float32)
    power = tl.exp(value - tl.max(value, 0))
    tl.store(out + start + n, (power / tl.sum(power, 0)).to(out.dtype.element_ty), n < N)


@triton.autotune(configs=_warps(), key=["N"], prune_configs_by={"early_config_prune": fitting})
@triton.jit
def layer_norm(x, gain, shift, out, N, epsilon, ROW: tl.constexpr):
    """One row a program, held whole: mean, then variance, then the scaled row."""
    n = tl.arange(0, ROW)
    start = tl.program_id(0).to(tl.int64) * N
    value = tl.load(x + start + n, n < N, 0.0).to(tl.float32)
    centred = tl.where(n < N, value - tl.sum(value, 0) / N, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / N + epsilon)
    g, s = tl.load(gain + n, n < N, 0.0).to(tl.float32), tl.load(shift + n, n < N, 0.0).to(tl.float32)
    tl.store(out + start + n, (centred * scale * g + s).to(out.dtype.element_ty), n < N)


@triton.autotune(configs=_widths(), key=["COUNT"])
@triton.jit
def add(a, b, out, COUNT, WIDTH: tl.constexpr):
    """out = a + b."""
    i = tl.program_id(0).to(tl.int64) * WIDTH + tl.arange(0, WIDTH)
    tl.store(out + i, tl.load(a + i, i < COUNT) + tl.load(b + i, i < COUNT), i < COUNT)


@triton.autotune(configs=_widths(), key=["COUNT"])
@triton.jit
def negate(x, out, COUNT, WIDTH: tl.constexpr):
    """out = -x."""
    i = tl.program_id(0).to(tl.int64) * WIDTH + tl.arange(0, WIDTH)
    tl.store(out + i, -tl.load(x + i, i < COUNT), i < COUNT)


@triton.autotune(configs=_widths(), key=["COUNT"])
@triton.jit
def bias_gelu(x, bias, out, COUNT, N, WIDTH: tl.constexpr):
    """out = gelu(x + bias), rows of N."""
    i = tl.program_id(0).to(tl.int64) * WIDTH + tl.arange(0, WIDTH)
    value = tl.load(x + i, i < COUNT).to(tl.float32) + tl.load(bias + i % N, i < COUNT).to(tl.float32)
    tl.store(out + i, _gelu(value).to(out.dtype.element_ty), i < COUNT)


@triton.autotune(configs=_widths(), key=["COUNT"])
@triton.jit
def swiglu(a, b, out, COUNT, WIDTH: tl.constexpr):
    """out = a sigmoid(a) b."""
    i = tl.program_id(0).to(tl.int64) * WIDTH + tl.arange(0, WIDTH)
    left, right = tl.load(a + i, i < COUNT).to(tl.float32), tl.load(b + i, i < COUNT).to(tl.float32)
    tl.store(out + i, (left * tl.sigmoid(left) * right).to(out.dtype.element_ty), i < COUNT)
