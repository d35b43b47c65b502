"""What the matching of intrinsics needs to know of one: its product and its sizes, whoever makes the machine.

The tensor-core instructions come first.  The other is one of CPUs: nothing in the matching is tied to one vendor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.tensor.index import Index
from engine.tensor.nodes import Access, Apply, Iterator, Reduction, Statement
from engine.tensorize.intrinsics import INTRINSICS
from engine.tensorize.product import ProductForm, meaning


@dataclass(frozen=True, slots=True)
class Abstraction:
    """The compute abstraction of an intrinsic: d = d + sum of a * b over a small box."""

    name: str
    product: ProductForm
    """Its own sum of products."""
    scope: str
    """Who executes it together: "warp" or "thread"."""
    why_not: str = ""
    """Why no kernel can be generated with it; "" where one can."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Extent of each axis."""
        return tuple(i.extent for i in self.product.iterators)

    @property
    def multiplications(self) -> int:
        """Of one call."""
        return self.product.multiplications

    def __str__(self) -> str:
        box = " x ".join(f"{i.name}{i.extent}" for i in self.product.iterators)
        return f"{self.name} ({box}): {self.product}"


def abstraction(
    name: str, box: Mapping[str, int], operands: tuple[str, str, str], dtypes: tuple[str, str, str],
    scope: str = "warp", why_not: str = "",
) -> Abstraction:  # fmt: skip
    """An intrinsic from one letter for each axis: d[operands[2]] = sum of a[operands[0]] * b[operands[1]], over the
    axes that d has not.

    box: extent of each axis in order.  dtypes: of a, b and the sums.

        abstraction("toy", {"i": 2, "j": 2, "l": 2}, ("il", "lj", "ij"), ("float16", "float16", "float32"))
    """
    a, b, d = (tuple(Index.of(letter) for letter in letters) for letters in operands)
    held = dtypes[2]
    factors = tuple(
        access if dtype == held else Apply("cast", (access,), held)
        for access, dtype in ((Access("a", a), dtypes[0]), (Access("b", b), dtypes[1]))
    )
    iterators = tuple(Iterator(axis, extent) for axis, extent in box.items())
    total = Reduction("sum", tuple(axis for axis in box if axis not in operands[2]), 0.0, held)
    statement = Statement("product", name, iterators, Access("d", d), Apply("mul", factors, held), total)
    return Abstraction(name, meaning(statement, dict(zip("ab", dtypes, strict=False))), scope, why_not)


AVX512_VNNI = abstraction(
    "avx512_vpdpbusd_16x4",
    {"i": 16, "l": 4},
    ("l", "il", "i"),
    ("uint8", "int8", "int32"),
    scope="thread",
    why_not="it is an instruction of CPUs: kernels for `--target cpu` multiply codes with it",
)
"""A broadcast group of 4 bytes times 16 groups of 4 (Intel's VPDPBUSD on 512-bit registers): a matrix and a vector."""

ABSTRACTIONS: Mapping[str, Abstraction] = {
    one.name: one
    for one in (
        *(
            Abstraction(i.name, meaning(i.meaning, {"a": i.a.dtype, "b": i.b.dtype}), "warp")
            for i in INTRINSICS.values()
        ),
        AVX512_VNNI,
    )
}
"""By name."""
