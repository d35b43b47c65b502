"""The tensor-core instructions that kernels may use, from the PTX ISA's tables (mma.sync, ldmatrix).

With g = lane / 4 and t = lane % 4, a lane of a 16-bit m16n8k16 holds rows g and g + 8 of a, there pairs of columns from
2t and 2t + 8 on, and column g of b the same way; tf32's m16n8k8 holds single columns t and t + 4, the m16n8k32 of bytes
four columns each from 4t and 4t + 16 on.

An instruction more is an entry here, its device function in `tile/include/tensor.cuh` and that function's twin for the
emulator; operands of a type with a rate of its own need a figure in `engine.target`.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.target.hardware import WARP
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Apply, Iterator, Reduction, Statement
from engine.tensorize.nodes import LANE, REGISTER, Fragment, Intrinsic

_EXTENTS = {LANE: WARP, REGISTER: 16}
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


def _byte_fragments(first: str, second: str) -> tuple[Fragment, Fragment]:
    """a and b of m16n8k32 of bytes: four elements to a 32-bit register."""
    four = _IN_GROUP * 4 + _register(1, 4)
    a = Fragment((16, 32), first, 16, _GROUP + _register(4, 2) * 8, four + _register(8, 2) * 16)
    b = Fragment((32, 8), second, 8, four + _register(4, 2) * 16, _GROUP)
    return a, b


def _sums(dtype: str) -> Fragment:
    return Fragment((16, 8), dtype, 4, _GROUP + _register(2, 2) * 8, _IN_GROUP * 2 + _register(1, 2))


def _meaning(k: int, a: Fragment, b: Fragment, held: str) -> Statement:
    """d[i, j] = sum(l) held(a[i, l]) * held(b[l, j])."""
    i, j, depth = (Index.of(name) for name in "ijl")
    read = (Access("a", (i, depth)), a.dtype), (Access("b", (depth, j)), b.dtype)
    factors = tuple(access if dtype == held else Apply("cast", (access,), held) for access, dtype in read)
    (m, _), (_, n) = a.shape, b.shape
    return Statement(
        name="product",
        operator="mma",
        iterators=(Iterator("i", m), Iterator("j", n), Iterator("l", k)),
        write=Access("d", (i, j)),
        expression=Apply("mul", factors, held),
        reduction=Reduction("sum", ("l",), 0.0 if "float" in held else 0, held),
    )


def _intrinsic(
    name: str, ptx: str, k: int, fragments: tuple[Fragment, Fragment], because: str, numerics: str = ""
) -> Intrinsic:
    (a, b), held = fragments, "int32" if "int" in fragments[0].dtype else "float32"
    return Intrinsic(name, ptx, 16, 8, k, _meaning(k, a, b, held), a, b, _sums(held), "sm_80", numerics, because)


def _of_codes(first: str, second: str) -> Intrinsic:
    """The product of bytes, with a sign ("s8") or without ("u8")."""
    dtypes = {"s8": "int8", "u8": "uint8"}
    return _intrinsic(
        f"mma_m16n8k32_{first}_{second}", f"mma.sync.aligned.m16n8k32.row.col.s32.{first}.{second}.s32", 32,
        _byte_fragments(dtypes[first], dtypes[second]), "products of bytes are exact, and are summed in int32",
    )  # fmt: skip


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
    *(_of_codes(first, second) for first in ("s8", "u8") for second in ("s8", "u8")),
)  # fmt: skip

INTRINSICS: Mapping[str, Intrinsic] = {intrinsic.name: intrinsic for intrinsic in _ALL}
"""By name."""

LOADS: Mapping[bool, str] = {False: "ldmatrix_x4", True: "ldmatrix_x4_trans"}
"""The function that loads four matrices of 8 rows of 16 bytes from shared memory, by whether lanes receive transposes,
which exist for elements of 2 bytes.  Lane l gives the place of row l % 8 of matrix l / 8."""
