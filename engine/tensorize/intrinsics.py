"""The tensor-core instructions that kernels may use, from the PTX ISA's tables (mma.sync, ldmatrix).

With g = lane / 4 and t = lane % 4, a lane of a 16-bit m16n8k16 holds rows g and g + 8 of a, there pairs of columns from
2t and 2t + 8 on, and column g of b the same way; tf32's m16n8k8 holds single columns t and t + 4.

An instruction more is an entry here, its device function in `tile/include/tensor.cuh` and that function's twin for the
emulator; operands of a type with a rate of its own need a figure in `engine.target`.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.target.hardware import WARP
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Apply, Iterator, Reduction, Statement
from engine.tensorize.nodes import LANE, REGISTER, Fragment, Intrinsic

_EXTENTS = {LANE: WARP, REGISTER: 8}
_LANE, _REGISTER = Index.of(LANE), Index.of(REGISTER)
_GROUP, _IN_GROUP = _LANE.floordiv(4, _EXTENTS), _LANE.mod(4, _EXTENTS)


def _register(by: int, modulus: int) -> Index:
    """(register / by) % modulus."""
    return _REGISTER.floordiv(by, _EXTENTS).mod(modulus, _EXTENTS)


def _half_fragments(dtype: str) -> tuple[Fragment, Fragment]:
    """a and b of a 16-bit m16n8k16: two elements to a 32-bit register."""
    pair = _IN_GROUP * 2 + _register(1, 2)
    a = Fragment((16, 16), dtype, 8, _GROUP + _register(2, 2) * 8, pair + _register(4, 2) * 8)
    b = Fragment((16, 8), dtype, 4, pair + _register(2, 2) * 8, _GROUP)
    return a, b


def _single_fragments() -> tuple[Fragment, Fragment]:
    """a and b of tf32's m16n8k8."""
    a = Fragment((16, 8), "float32", 4, _GROUP + _register(1, 2) * 8, _IN_GROUP + _register(2, 2) * 4)
    b = Fragment((8, 8), "float32", 2, _IN_GROUP + _register(1, 2) * 4, _GROUP)
    return a, b


_SUMS = Fragment((16, 8), "float32", 4, _GROUP + _register(2, 2) * 8, _IN_GROUP * 2 + _register(1, 2))


def _meaning(m: int, n: int, k: int, dtype: str) -> Statement:
    """d[i, j] = sum(l) float32(a[i, l]) * float32(b[l, j])."""
    i, j, depth = (Index.of(name) for name in "ijl")
    factors: tuple[Access | Apply, ...] = (Access("a", (i, depth)), Access("b", (depth, j)))
    if dtype != "float32":
        factors = tuple(Apply("cast", (factor,), "float32") for factor in factors)
    return Statement(
        name="product",
        operator="mma",
        iterators=(Iterator("i", m), Iterator("j", n), Iterator("l", k)),
        write=Access("d", (i, j)),
        expression=Apply("mul", factors, "float32"),
        reduction=Reduction("sum", ("l",), 0.0, "float32"),
    )


def _intrinsic(
    name: str, ptx: str, k: int, fragments: tuple[Fragment, Fragment], because: str, numerics: str = ""
) -> Intrinsic:
    a, b = fragments
    return Intrinsic(name, ptx, 16, 8, k, _meaning(16, 8, k, a.dtype), a, b, _SUMS, "sm_80", numerics, because)


_ALL = (
    _intrinsic(
        "mma_m16n8k16_f16", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 16, _half_fragments("float16"),
        "products of halves are exact in float32, and are summed in float32",
    ),
    _intrinsic(
        "mma_m16n8k16_bf16", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 16, _half_fragments("bfloat16"),
        "products of bfloat16 are exact in float32, and are summed in float32",
    ),
    _intrinsic(
        "mma_m16n8k8_tf32", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 8, _single_fragments(),
        "operands are rounded to 11 significant bits, products are summed in float32", numerics="tf32",
    ),
)  # fmt: skip

INTRINSICS: Mapping[str, Intrinsic] = {intrinsic.name: intrinsic for intrinsic in _ALL}
"""By name."""

LOADS: Mapping[bool, str] = {False: "ldmatrix_x4", True: "ldmatrix_x4_trans"}
"""The function that loads four matrices of 8 rows of 16 bytes from shared memory, by whether lanes receive transposes,
which exist for elements of 2 bytes.  Lane l gives the place of row l % 8 of matrix l / 8."""
