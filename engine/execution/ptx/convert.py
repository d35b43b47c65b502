"""Moves and conversions: mov with its packing of vectors, cvt with its roundings, cvta."""

from __future__ import annotations

import numpy as np

from engine.execution.ptx.arithmetic import F32, F64, flush_subnormals, saturate
from engine.execution.ptx.lanes import RunningLanes
from engine.execution.ptx.nodes import Instruction
from engine.execution.ptx.operands import Dtype, Operands, Step, Values, refuse, type_of

_TO_INTEGER = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
# Far from `memory.ORIGIN`: a generic address that is used in another space lies outside of everything there.
_WINDOWS = {"global": 0, "shared": 1 << 44, "local": 2 << 44}
_BITS_OF_HALF = np.dtype(np.uint16)


def decode_move(i: Instruction, operands: Operands) -> Step:
    """mov: a register, a number, the address of a variable, or the parts of a register as a vector and back."""
    target, source = i.operands
    dtype = type_of(i)
    if target.startswith("{"):
        parts = operands.vector(target)
        small = np.dtype(f"u{dtype.itemsize // len(parts)}")
        read, writes = operands.read(source, np.dtype(f"u{dtype.itemsize}")), [operands.write(part) for part in parts]

        def unpack(lanes: RunningLanes) -> None:
            values = np.ascontiguousarray(read(lanes)).view(small).reshape(-1, len(parts))
            for number, write in enumerate(writes):
                write(lanes, values[:, number])

        return unpack
    write = operands.write(target)
    if source.startswith("{"):
        parts = operands.vector(source)
        small = np.dtype(f"u{dtype.itemsize // len(parts)}")
        reads = [operands.read_part(part, small) for part in parts]

        def pack(lanes: RunningLanes) -> None:
            held = np.stack(np.broadcast_arrays(*(read(lanes) for read in reads)), axis=1)
            write(lanes, held.view(np.dtype(f"u{dtype.itemsize}")).reshape(-1))

        return pack
    plain = operands.read(source, dtype)
    return lambda lanes: write(lanes, plain(lanes))


def decode_address_space(i: Instruction, operands: Operands) -> Step:
    """cvta[.to].SPACE: a generic address is that of global memory itself, or of a window that the space begins at."""
    window = np.uint64(_WINDOWS[i.parts[-2]])
    read, write = operands.read(i.operands[1], np.dtype(np.uint64)), operands.write(i.operands[0])
    if "to" in i.parts:
        return lambda lanes: write(lanes, read(lanes) - window)
    return lambda lanes: write(lanes, read(lanes) + window)


def decode_convert(i: Instruction, operands: Operands) -> Step:
    """cvt[.ROUNDING][.sat][.ftz].TO.FROM."""
    *modifiers, to, source = i.parts[1:]
    write = operands.write(i.operands[0])
    if to in ("f16x2", "bf16x2") and modifiers == ["rn"] and source == "f32":
        high, low = (operands.read(text, F32) for text in i.operands[1:3])
        narrow = to_bfloat16 if to == "bf16x2" else to_half

        def pair(lanes: RunningLanes) -> None:
            upper, lower = narrow(high(lanes)).astype(np.uint32), narrow(low(lanes)).astype(np.uint32)
            write(lanes, upper << np.uint32(16) | lower)

        return pair
    if (to, source) in _NARROWING and modifiers == [_NARROWING[to, source]]:
        read = operands.read(i.operands[1], F32)
        function = {"bf16": to_bfloat16, "tf32": to_tf32, "f16": to_half}[to]
        return lambda lanes: write(lanes, function(read(lanes)))
    return _decode_plain(i, operands, frozenset(modifiers), type_of(i, to), type_of(i, source))


_NARROWING = {("bf16", "f32"): "rn", ("f16", "f32"): "rn", ("tf32", "f32"): "rna"}
"""Conversion -> the one rounding that is known of it."""


def _decode_plain(i: Instruction, operands: Operands, modifiers: frozenset[str], to: Dtype, source: Dtype) -> Step:
    whole = next((_TO_INTEGER[each] for each in modifiers if each in _TO_INTEGER), None)
    between = to.kind == "f" and source.kind == "f"
    if modifiers - {"rn", "sat", "ftz", *_TO_INTEGER} or (to.kind != "f" and source.kind == "f" and whole is None):
        raise refuse(i)
    if "sat" in modifiers and not between:
        raise refuse(i)
    read, write = operands.read(i.operands[1], source), operands.write(i.operands[0])

    def step(lanes: RunningLanes) -> None:
        values = read(lanes)
        if "ftz" in modifiers and source == F32:
            values = flush_subnormals(values)
        if whole is not None:
            values = whole(values)
        result = _to_integer(values, to) if source.kind == "f" and to.kind != "f" else values.astype(to)
        if "sat" in modifiers:
            result = saturate(result)
        write(lanes, result.view(_BITS_OF_HALF) if to == np.float16 else result)

    return step


def _to_integer(values: Values, to: Dtype) -> Values:
    """Whole floats as integers; those outside as the nearest one, NaN as 0 (of 64 bits, its largest negative)."""
    bits = 8 * to.itemsize - (to.kind == "i")
    low, high = -(1 << bits) if to.kind == "i" else 0, (1 << bits) - 1
    wide = np.where(np.isnan(values), low if to.itemsize == 8 else 0, values.astype(F64))
    # As a float the largest integer of 64 bits is one too large: converting that would overflow.
    inside = np.clip(wide, float(low), np.nextafter(float(high), 0))
    return np.where(wide >= float(high), np.array(high, to), inside.astype(to))


def to_half(values: Values) -> Values:
    """Bits of float32 values in float16, rounded to nearest, ties to even."""
    return values.astype(np.float16).view(_BITS_OF_HALF)


def to_bfloat16(values: Values) -> Values:
    """Bits of float32 values in bfloat16, rounded to nearest, ties to even; NaN is 0x7fff."""
    bits = values.view(np.uint32).astype(np.uint64)
    # Half of the lowest bit that stays, less one unless that bit is odd: then a tie is carried up to the even one.
    rounded = (bits + 0x7FFF + (bits >> np.uint64(16) & np.uint64(1))) >> np.uint64(16)
    return np.where(np.isnan(values), 0x7FFF, rounded).astype(_BITS_OF_HALF)


def to_tf32(values: Values) -> Values:
    """Float32 values with 10 bits of mantissa, rounded to nearest, ties away from zero, as their 32 bits."""
    bits = values.view(np.uint32)
    rounded = (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)  # half of the lowest bit that stays
    return np.where(np.isfinite(values), rounded, bits)


DECODERS = {"mov": decode_move, "cvta": decode_address_space, "cvt": decode_convert}
"""Decoder of each first part of an opcode."""
