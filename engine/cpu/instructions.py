"""The instructions that multiply on CPUs: a row for each, and a struct of include/product.hpp."""

from __future__ import annotations

from dataclasses import dataclass

from engine.target.cpu import CpuTarget

BYTES = ("int8", "uint8")
SIGN = 128
"""What makes a signed byte one without a sign, which one operand of VPDPBUSD has to be."""


@dataclass(frozen=True, slots=True)
class CpuInstruction:
    """How neighbouring depths of two factors are multiplied and summed."""

    name: str
    """As marks and the window call it."""
    struct: str
    """Of include/product.hpp."""
    feature: str
    """Of the machine that has it."""
    rows: tuple[str, ...]
    """Types that the factor with the rows may have before its conversion to that of the sums."""
    columns: tuple[str, ...]
    sums: str
    depth: int
    """Depths of one step, which lie in one word."""
    rate: int
    """Times the operations of a fused multiply-add."""


FMA = CpuInstruction("fma", "Fma", "avx2", (), (), "float32", 1, 1)
INSTRUCTIONS = (
    CpuInstruction("vpdpbusd_rows", "DotUnsignedRows", "avx512_vnni", ("uint8",), ("int8",), "int32", 4, 4),
    CpuInstruction("vpdpbusd_columns", "DotUnsignedColumns", "avx512_vnni", ("int8",), BYTES, "int32", 4, 4),
    CpuInstruction("vdpbf16ps", "DotBfloat16", "avx512_bf16", ("bfloat16",), ("bfloat16",), "float32", 2, 2),
    CpuInstruction("vpmaddwd", "MultiplyAdd16", "avx2", BYTES, BYTES, "int32", 2, 1),
    FMA,
)
"""Best first.  A fused multiply-add takes any factors that are floats once they are computed."""


def choose_instruction(rows: str, columns: str, sums: str, machine: CpuTarget) -> CpuInstruction | None:
    """The first instruction that multiplies factors of these types; None where there is none."""
    for one in INSTRUCTIONS:
        takes = one is FMA or (rows in one.rows and columns in one.columns)
        if takes and one.feature in machine.features and one.sums == sums:
            return one
    return None


def is_shifted(one: CpuInstruction, columns: str) -> bool:
    """Whether `SIGN` is added to each code of the columns, as both factors are signed."""
    return one.struct == "DotUnsignedColumns" and columns == "int8"
