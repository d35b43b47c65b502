"""Arithmetic of single lanes.

Float32 is NumPy's, rounded to nearest; a fused multiply-add is made in float64 and rounded once more, which differs
from one rounding in about one of 2^29 results.  Approximate functions are made in float64 and rounded: a GPU's differ
by up to 2 units in the last place, which the tolerances of checks allow for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from engine.execution.ptx.lanes import RunningLanes
from engine.execution.ptx.nodes import Instruction
from engine.execution.ptx.operands import Dtype, Operands, Step, Values, refuse, type_of

Function = Callable[..., Any]

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
BOOL = np.dtype(np.bool_)
U32 = np.dtype(np.uint32)


def _multiply_add(x: Values, y: Values, z: Values) -> Values:
    return np.asarray(x.astype(F64) * y + z)


def _wide(function: Function) -> Function:
    return lambda x: function(x.astype(F64))


_FLOAT: Mapping[str, tuple[int, Function, frozenset[str]]] = {
    name: (arity, function, frozenset(modifiers.split()))
    for name, arity, function, modifiers in (
        ("add", 2, np.add, "rn"),
        ("sub", 2, np.subtract, "rn"),
        ("mul", 2, np.multiply, "rn"),
        ("div", 2, np.divide, "rn full approx"),
        ("fma", 3, _multiply_add, "rn rm"),
        ("max", 2, np.fmax, "NaN"),
        ("min", 2, np.fmin, "NaN"),
        ("neg", 1, np.negative, ""),
        ("abs", 1, np.abs, ""),
        ("copysign", 2, lambda x, y: np.copysign(y, x), ""),
        ("rcp", 1, _wide(np.reciprocal), "rn approx"),
        ("sqrt", 1, np.sqrt, "rn approx"),
        ("rsqrt", 1, _wide(lambda x: 1 / np.sqrt(x)), "approx"),
        ("ex2", 1, _wide(np.exp2), "approx"),
        ("lg2", 1, _wide(np.log2), "approx"),
        ("sin", 1, _wide(np.sin), "approx"),
        ("cos", 1, _wide(np.cos), "approx"),
        ("tanh", 1, _wide(np.tanh), "approx"),
    )
}
"""Name -> number of operands, function, modifiers besides ftz and sat."""


def decode_arithmetic(instruction: Instruction, operands: Operands) -> Step:
    """add, mul, fma, ...: of the type that the opcode ends with."""
    name, *modifiers, kind = instruction.parts
    if kind in ("f32", "f64"):
        return _decode_float(instruction, operands, name, frozenset(modifiers))
    if kind == "f16":  # NumPy's minimum of halves is not PTX's where one is NaN
        raise refuse(instruction)
    decode = _decode_bits if kind == "pred" or kind.startswith("b") else _decode_integer
    return decode(instruction, operands, name, type_of(instruction))


def _decode_float(i: Instruction, operands: Operands, name: str, modifiers: frozenset[str]) -> Step:
    known = _FLOAT.get(name)
    if known is None or modifiers - known[2] - {"ftz", "sat"}:
        raise refuse(i)
    arity, function, _ = known
    dtype = type_of(i)
    if "NaN" in modifiers:
        function = np.maximum if name == "max" else np.minimum
    reads = [operands.read(text, dtype) for text in i.operands[1 : 1 + arity]]
    write = operands.write(i.operands[0])
    flush, saturates, down = "ftz" in modifiers, "sat" in modifiers, "rm" in modifiers

    def step(lanes: RunningLanes) -> None:
        values = [read(lanes) for read in reads]
        if flush:
            values = [flush_subnormals(value) for value in values]
        exact = function(*values)
        result = exact.astype(dtype)
        if down:
            result = np.where(result.astype(F64) > exact, np.nextafter(result, dtype.type(-np.inf)), result)
        if flush:
            result = flush_subnormals(result)
        write(lanes, saturate(result) if saturates else result)

    return step


def flush_subnormals(values: Values) -> Values:
    """Subnormal numbers as zeros of their sign."""
    return np.where(np.abs(values) < np.finfo(values.dtype).tiny, np.copysign(values.dtype.type(0), values), values)


def saturate(values: Values) -> Values:
    """Values cut to 0..1; 0 for NaN."""
    return np.asarray(np.where(np.isnan(values), 0, np.clip(values, 0, 1)), values.dtype)


_BITS: Mapping[str, tuple[int, Function]] = {
    "and": (2, np.bitwise_and), "or": (2, np.bitwise_or), "xor": (2, np.bitwise_xor), "not": (1, np.invert),
}  # fmt: skip


def _decode_bits(i: Instruction, operands: Operands, name: str, dtype: Dtype) -> Step:
    if name in ("shl", "shr") and dtype != BOOL:
        return _decode_shift(i, operands, name, dtype)
    if name not in _BITS or len(i.parts) != 2:
        raise refuse(i)
    arity, function = _BITS[name]
    return _apply(operands, i, [dtype] * arity, function)


def _decode_shift(i: Instruction, operands: Operands, name: str, dtype: Dtype) -> Step:
    """Shifts by the register's width and more leave zeros, or copies of the sign."""
    bits = 8 * dtype.itemsize

    def shift(x: Values, by: Values) -> Values:
        cut = np.minimum(by, bits - 1).astype(dtype)
        moved = np.left_shift(x, cut) if name == "shl" else np.right_shift(x, cut)
        return moved if name == "shr" and dtype.kind == "i" else np.where(by < bits, moved, dtype.type(0))

    return _apply(operands, i, [dtype, U32], shift)


_INTEGER: Mapping[str, tuple[int, Function]] = {
    "add": (2, np.add), "sub": (2, np.subtract), "min": (2, np.minimum), "max": (2, np.maximum),
    "neg": (1, np.negative), "abs": (1, np.abs),
}  # fmt: skip


def _decode_integer(i: Instruction, operands: Operands, name: str, dtype: Dtype) -> Step:
    modifiers = i.parts[1:-1]
    if name in ("mul", "mad") and len(modifiers) == 1:
        return _decode_multiply(i, operands, name, modifiers[0], dtype)
    if name in ("shl", "shr"):
        return _decode_shift(i, operands, name, dtype)
    if name in ("div", "rem") and not modifiers:
        return _apply(operands, i, [dtype, dtype], _quotient if name == "div" else np.fmod)
    if name not in _INTEGER or modifiers:
        raise refuse(i)
    arity, function = _INTEGER[name]
    return _apply(operands, i, [dtype] * arity, function)


def _quotient(x: Values, y: Values) -> Values:
    """Rounded to zero, as C does; NumPy rounds down."""
    return np.asarray((x - np.fmod(x, y)) // y)


def _decode_multiply(i: Instruction, operands: Operands, name: str, part: str, dtype: Dtype) -> Step:
    """Products: their lower half, their upper half or all of them; mad adds a third operand."""
    if part not in ("lo", "hi", "wide") or (part == "wide" and dtype.itemsize > 4):
        raise refuse(i)
    double = np.dtype(f"{dtype.kind}{2 * min(dtype.itemsize, 4)}")
    result = double if part == "wide" else dtype

    def multiply(x: Values, y: Values, *added: Values) -> Values:
        if part == "lo":
            product = x * y
        elif dtype.itemsize > 4:
            product = _upper_half(x, y)
        else:
            whole = x.astype(double) * y.astype(double)
            product = whole if part == "wide" else (whole >> (8 * dtype.itemsize)).astype(dtype)
        return np.asarray(product + added[0] if added else product)

    return _apply(operands, i, [dtype, dtype, *([result] if name == "mad" else [])], multiply)


def decode_dot(i: Instruction, operands: Operands) -> Step:
    """dp4a.TYPE.TYPE d, a, b, c: c and the products of the four bytes of a and b; dp2a.lo|hi: of the halves of a and
    the lower or the upper two bytes of b."""
    kinds, (name, *half, first, second) = {"u32": "u", "s32": "i"}, i.parts
    if {first, second} - kinds.keys() or half not in ([[]] if name == "dp4a" else [["lo"], ["hi"]]):
        raise refuse(i)
    held = U32 if first == second == "u32" else np.dtype(np.int32)
    count, start = (4, 0) if name == "dp4a" else (2, 2 * (half == ["hi"]))

    def dot(*operands_of: Values) -> Values:
        a, b, c = (np.ascontiguousarray(each) for each in np.broadcast_arrays(*operands_of))
        left = a.view(f"{kinds[first]}{4 // count}").reshape(-1, count).astype(np.int64)
        right = b.view(f"{kinds[second]}1").reshape(-1, 4)[:, start : start + count].astype(np.int64)
        return np.asarray(((left * right).sum(axis=1).reshape(c.shape) + c).astype(held))

    return _apply(operands, i, [U32, U32, held], dot)


def _upper_half(x: Values, y: Values) -> Values:
    """The upper 64 bits of products of 64 bits, from those of their halves."""
    word, a, b = np.uint64(32), x.astype(np.uint64), y.astype(np.uint64)
    (a1, a0), (b1, b0) = ((v >> word, v & np.uint64(0xFFFFFFFF)) for v in (a, b))
    middle = a1 * b0 + (a0 * b0 >> word)
    carried = (middle & np.uint64(0xFFFFFFFF)) + a0 * b1
    upper = a1 * b1 + (middle >> word) + (carried >> word)
    if x.dtype.kind == "i":  # a negative number stands for itself and 2^64
        upper = upper - np.where(x < 0, b, 0).astype(np.uint64) - np.where(y < 0, a, 0).astype(np.uint64)
    return np.asarray(upper.astype(x.dtype))


def _apply(operands: Operands, i: Instruction, dtypes: list[Dtype], function: Function) -> Step:
    reads = [operands.read(text, dtype) for text, dtype in zip(i.operands[1:], dtypes, strict=True)]
    write = operands.write(i.operands[0])
    return lambda lanes: write(lanes, function(*(read(lanes) for read in reads)))


_ORDERED: Mapping[str, Function] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip


def decode_compare(i: Instruction, operands: Operands) -> Step:
    """setp.OP[.and|.or|.xor][.ftz].TYPE p[|q], a, b[, c]: of NaN an ordered comparison is false, OPu is true."""
    _, name, *modifiers, _ = i.parts
    joins = [each for each in modifiers if each in ("and", "or", "xor")]
    if set(modifiers) - {*joins, "ftz"}:
        raise refuse(i)
    dtype = type_of(i)
    compare = _comparison(i, name, dtype)
    reads = [operands.read(text, dtype) for text in i.operands[1:3]]
    third = operands.read(i.operands[3], BOOL) if joins else None
    first, _, second = i.operands[0].partition("|")
    writes = operands.write(first), operands.write(second or "_")

    def step(lanes: RunningLanes) -> None:
        x, y = (read(lanes) for read in reads)
        for write, value in zip(writes, (found := compare(x, y), ~found), strict=True):
            write(lanes, _BITS[joins[0]][1](value, third(lanes)) if third else value)

    return step


def _comparison(i: Instruction, name: str, dtype: Dtype) -> Function:
    if dtype.kind != "f":
        if name not in _ORDERED:
            raise refuse(i)
        return _ORDERED[name]
    if name in ("nan", "num"):
        return lambda x, y: (np.isnan(x) | np.isnan(y)) == (name == "nan")
    plain = name[:2]
    if plain not in ("eq", "ne", "lt", "le", "gt", "ge") or name not in (plain, f"{plain}u"):
        raise refuse(i)
    ordered, of_nan = _ORDERED[plain], name.endswith("u")
    return lambda x, y: np.where(np.isnan(x) | np.isnan(y), of_nan, ordered(x, y))


def decode_select(i: Instruction, operands: Operands) -> Step:
    """selp.TYPE d, a, b, p: a where p holds, else b."""
    dtype = type_of(i)
    first, second = (operands.read(text, dtype) for text in i.operands[1:3])
    condition, write = operands.read(i.operands[3], BOOL), operands.write(i.operands[0])
    return lambda lanes: write(lanes, np.where(condition(lanes), first(lanes), second(lanes)))


def decode_permute(i: Instruction, operands: Operands) -> Step:
    """prmt.b32 d, a, b, c: each half byte of c picks one of the 8 bytes of {b, a}; with its bit 3, that byte's sign."""
    if i.opcode != "prmt.b32":
        raise refuse(i)
    first, second, picks = (operands.read(text, U32) for text in i.operands[1:4])
    write = operands.write(i.operands[0])

    def step(lanes: RunningLanes) -> None:
        both = first(lanes).astype(np.uint64) | second(lanes).astype(np.uint64) << np.uint64(32)
        pick, result = picks(lanes), np.zeros(both.shape, np.uint32)
        for byte in range(4):
            wanted = pick >> np.uint32(4 * byte)
            value = (both >> (8 * (wanted & 7)).astype(np.uint64)).astype(np.uint32) & np.uint32(0xFF)
            sign = np.where(value & 0x80, np.uint32(0xFF), np.uint32(0))
            result = result | np.where(wanted & 8, sign, value) << np.uint32(8 * byte)
        write(lanes, result)

    return step


def decode_insert(i: Instruction, operands: Operands) -> Step:
    """bfi.TYPE d, a, b, first, count: b with `count` bits of it from `first` on replaced by the lowest ones of a."""
    if i.opcode not in ("bfi.b32", "bfi.b64"):
        raise refuse(i)
    dtype = type_of(i)

    def insert(a: Values, b: Values, first: Values, count: Values) -> Values:
        first, count = np.minimum(first & 0xFF, 64).astype(np.uint64), np.minimum(count & 0xFF, 64).astype(np.uint64)
        ones = np.where(count < 64, (np.uint64(1) << (count & 63)) - np.uint64(1), ~np.uint64(0))
        mask = np.where(first < 64, ones << (first & 63), np.uint64(0))
        moved = np.where(first < 64, a.astype(np.uint64) << (first & 63), np.uint64(0))
        return np.asarray((b & ~mask | moved & mask).astype(dtype))

    return _apply(operands, i, [dtype, dtype, U32, U32], insert)


DECODERS = {
    **dict.fromkeys((*_FLOAT, *_BITS, *_INTEGER, "mad", "rem", "shl", "shr"), decode_arithmetic),
    "setp": decode_compare, "selp": decode_select, "prmt": decode_permute, "bfi": decode_insert, "dp2a": decode_dot,
    "dp4a": decode_dot,
}  # fmt: skip
"""Decoder of each first part of an opcode."""
