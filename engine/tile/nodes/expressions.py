"""Scalar expressions, conditions and indices as C text."""

from __future__ import annotations

import math

from engine.graph.nodes import FLOAT8, UNSIGNED
from engine.tensor.index import Index, Quotient, Remainder
from engine.tensor.nodes import Access, Apply, Literal, Position, Scalar
from engine.tile.nodes.values import Buffer, Slot

HELD = {
    "float32": "float", "float16": "float", "bfloat16": "float", "int32": "int", "int64": "i64", "bool": "bool",
    "int8": "int", "uint8": "int", "int16": "int", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    **dict.fromkeys(FLOAT8, "float"),
}  # fmt: skip
"""Type of a register."""

STORED = {
    "float32": "float", "float16": "f16", "bfloat16": "bf16", "int32": "int", "int64": "i64", "bool": "bool8",
    "int8": "i8", "uint8": "u8", "int16": "i16", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    **{dtype: dtype.removeprefix("float8_") for dtype in FLOAT8},
}  # fmt: skip
"""Element type in memory."""

ROUND = {
    "float16": "round_f16", "bfloat16": "round_bf16", "int8": "wrap_i8", "uint8": "wrap_u8", "int16": "wrap_i16",
    "uint16": "wrap_u16", **{dtype: f"round_{STORED[dtype]}" for dtype in FLOAT8},
}  # fmt: skip
"""Device function that gives a register's value as a narrower type holds it."""

INFIX = {
    "add": "+", "sub": "-", "mul": "*", "equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=",
    "greater": ">", "greater_equal": ">=", "and": "&&", "or": "||", "xor": "!=",
}  # fmt: skip


def slot_text(slot: Slot) -> str:
    """A register, or one element of a register array."""
    return slot.buffer + "".join(f"[{index_text(i)}]" for i in slot.indices)


def scalar_text(value: Scalar) -> str:
    """An expression over registers; narrow types are computed in 32 bits and rounded where they can be left."""
    match value:
        case Literal(number, dtype):
            return _literal(number, dtype)
        case Position(index, dtype):
            return f"{HELD[dtype]}({index_text(index)})"
        case Access(name, indices):
            return slot_text(Slot(name, indices))
        case Apply():
            text = _apply(value)
            return f"{ROUND[value.dtype]}({text})" if value.dtype in ROUND and not _is_exact(value) else text


def _apply(value: Apply) -> str:
    arguments = [scalar_text(o) for o in value.operands]
    match value.function:
        case "copy":
            return arguments[0]
        case "cast":
            if value.dtype in UNSIGNED:
                return f"as_{HELD[value.dtype]}({arguments[0]})"
            return f"bool({arguments[0]} != 0)" if value.dtype == "bool" else f"{HELD[value.dtype]}({arguments[0]})"
        case "select":
            return f"({arguments[0]} ? {arguments[1]} : {arguments[2]})"
        case "not":
            return f"(!{arguments[0]})"
        case "div" if HELD[value.dtype] == "float":
            return f"({arguments[0]} / {arguments[1]})"
        case name if name in INFIX:
            return f"({arguments[0]} {INFIX[name]} {arguments[1]})"
        case name:
            return f"fn_{name}({', '.join(arguments)})"


def index_text(index: Index, is_long: bool = False) -> str:
    """An index in C; every value is non-negative, so `/` and `%` are floor division and remainder.

    is_long: whether it is computed in 64 bits.
    """
    if not index.terms:
        return str(index.constant)
    pieces: list[str] = []
    # The largest step first, as people write row-major positions.
    for atom, coefficient in sorted(index.terms, key=lambda term: -abs(term[1])):
        match atom:
            case str():
                name = f"i64({atom})" if is_long else atom
            case Quotient(of, by):
                name = f"{_factor(of, is_long)} / {by}"
            case Remainder(of, by):
                name = f"{_factor(of, is_long)} % {by}"
            case _:
                raise ValueError(f"{atom} was not loaded before it is used as an index")
        if abs(coefficient) != 1:
            name = f"{name} * {abs(coefficient)}" if isinstance(atom, str) else f"({name}) * {abs(coefficient)}"
        elif not isinstance(atom, str) and len(index.terms) > 1:
            name = f"({name})" if isinstance(atom, Remainder) else name
        sign = ("-" if coefficient < 0 else "") if not pieces else (" - " if coefficient < 0 else " + ")
        pieces.append(sign + name)
    if index.constant:
        pieces.append(f" {'-' if index.constant < 0 else '+'} {abs(index.constant)}")
    return "".join(pieces)


def permuted_text(position: Index, buffer: Buffer, stored: str) -> str:
    """Where an element of a buffer of permuted chunks lies; whole periods of the permutation stay outside it.

    stored: the element type.
    """
    period = buffer.period
    # The compiler folds what stays outside into the address; inside the permutation it would compute it each time.
    whole = Index.sum(((a, c) for a, c in position.terms if c % period == 0), position.constant // period * period)
    text = f"swizzle<{buffer.row_bytes}, {stored}>({index_text(position - whole)})"
    return f"{index_text(whole)} + {text}" if whole != Index() else text


def _factor(index: Index, is_long: bool) -> str:
    text = index_text(index, is_long)
    return text if len(index.terms) == 1 and not index.constant and text.isidentifier() else f"({text})"


def condition_text(index: Index, is_long: bool = False) -> str:
    """`index >= 0` the way people write it: what is subtracted on the left; no index is ever negative.

    is_long: as in `index_text`.
    """
    negative = Index.sum((a, -c) for a, c in index.terms if c < 0)
    positive = Index.sum((a, c) for a, c in index.terms if c > 0)
    if not negative.terms:
        return f"{index_text(positive, is_long)} >= {-index.constant}"
    right = positive + index.constant
    if not positive.terms and not index.constant:
        return f"{index_text(negative, is_long)} == 0"
    if not positive.terms:
        return f"{index_text(negative, is_long)} < {index.constant + 1}"
    return f"{index_text(negative, is_long)} <= {index_text(right, is_long)}"


def _is_exact(value: Apply) -> bool:
    """Whether a narrow result needs no rounding: a selection, copy or extremum of values of its type, or a change of
    sign, which only the lowest integer does not have."""
    operands = value.operands[1:] if value.function == "select" else value.operands
    narrow = all(isinstance(o, Access) or o.dtype == value.dtype for o in operands)
    chosen = value.function in {"select", "copy", "max", "min"}
    return narrow and (chosen or (value.function in {"neg", "abs"} and "float" in value.dtype))


def _literal(number: float | int | bool, dtype: str) -> str:
    if dtype == "bool":
        return "true" if number else "false"
    if "int" in dtype:
        # The lowest number has no literal of its own: its magnitude does not fit the type.
        lowest = int(number) == -(2 ** (31 if dtype == "int32" else 63))
        if dtype in UNSIGNED:
            return f"{HELD[dtype]}({int(number)}u{'ll' * (dtype == 'uint64')})"
        suffix = "LL" if dtype == "int64" else ""
        text = f"{int(number) + 1}{suffix} - 1" if lowest else f"{int(number)}{suffix}"
        return f"{HELD[dtype]}({text})" if lowest or dtype == "int64" else text
    value = float(number)
    if math.isnan(value):
        return "NAN_F"
    if math.isinf(value):
        return "INF" if value > 0 else "NEG_INF"
    text = f"{value:.9g}"
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"
