"""Read and write an instruction's operands, resolved once: a register of the running lanes, a number, an address."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np

from engine.execution.ptx.lanes import RunningLanes
from engine.execution.ptx.nodes import Instruction, PtxFault, PtxKernel
from engine.execution.ptx.parse import TYPES, split_operands
from engine.support.errors import Unsupported

Values = np.ndarray
Dtype = np.dtype[np.generic]
Read = Callable[[RunningLanes], Values]
Write = Callable[[RunningLanes, Values], None]
Step = Callable[[RunningLanes], None]
"""What an instruction does to the lanes that run."""

_UNWRITTEN = (b"\xa7\x5b\xc3\x6d" * 2, b"\x5a\xb4\x39\x96" * 2)
"""What a part of a packed register holds that nothing has written: in the late order, in the early one."""
_ADDRESS = re.compile(r"\[\s*([%\w$]+)\s*(?:\+\s*(-?\d+))?\s*\]")


def refuse(instruction: Instruction, why: str = "is not known to this interpreter") -> Unsupported:
    """An instruction that is not executed rather than guessed at."""
    hint = "check this kernel by its source: --level source"
    return Unsupported("run", f"PTX instruction {instruction.opcode} (line {instruction.line})", why, hint)


def type_of(instruction: Instruction, kind: str = "") -> Dtype:
    """The NumPy type of a PTX type: that which the opcode ends with, where none is named.  Raises Unsupported."""
    kind = kind or instruction.parts[-1]
    if kind not in TYPES:
        raise refuse(instruction)
    return np.dtype(TYPES[kind])


class Operands:
    """The names of one kernel."""

    def __init__(self, entry: PtxKernel, addresses: Mapping[str, int]) -> None:
        """addresses: of variables, in the space of each."""
        self._numbers = {name: number for number, name in enumerate(entry.registers)}
        self._kept = tuple(entry.registers.values())
        self._addresses = addresses
        self.parameters = entry.parameters

    def register_type(self, text: str) -> Dtype | None:
        """How a register's bits are kept; None for what is no register."""
        number = self._numbers.get(text)
        return None if number is None else self._kept[number]

    def read(self, text: str, dtype: Dtype) -> Read:
        """An operand's value in every running lane as some type; bits are not converted."""
        if text.startswith("!"):
            positive = self.read(text[1:], dtype)
            return lambda lanes: ~positive(lanes)
        number = self._numbers.get(text)
        if number is not None:
            return _register(number, text, dtype, self._kept[number])
        if text.startswith("%"):
            return _special(text, dtype)
        value = self._constant(text, dtype)
        return lambda lanes: value

    def read_part(self, text: str, dtype: Dtype) -> Read:
        """A part of what is packed: bits without a meaning where nothing has written it.

        Compilers pack such registers where what follows drops them.  The bits differ between the orders of a check, so
        that a result that depends on them is wrong in one at least.
        """
        number, read = self._numbers.get(text), self.read(text, dtype)

        def part(lanes: RunningLanes) -> Values:
            if number is None or number in lanes.registers:
                return read(lanes)
            return np.frombuffer(_UNWRITTEN[lanes.lands_early][: dtype.itemsize], dtype)

        return part

    def write(self, text: str) -> Write:
        """Store values of every running lane; of a smaller type, with their sign or zeros in front; "_" drops them."""
        if text == "_":
            return lambda lanes, values: None
        number = self._numbers[text]
        kept = self._kept[number]

        def store(lanes: RunningLanes, values: Values) -> None:
            held = lanes.registers.get(number)
            if held is None:
                held = lanes.registers[number] = np.zeros(lanes.count, kept)
            held[lanes.select] = as_kept(values, kept)

        return store

    def vector(self, text: str) -> tuple[str, ...]:
        """The parts of "{%r1, %r2}", or the operand alone."""
        return tuple(split_operands(text[1:-1])) if text.startswith("{") else (text,)

    def address(self, text: str) -> Read:
        """The sum in "[%rd1+8]", as int64."""
        found = _ADDRESS.fullmatch(text)
        if found is None:
            raise Unsupported("run", f"PTX address {text}", "is of a form that is not known")
        base, offset = found[1], int(found[2] or 0)
        read = self.read(base, self.register_type(base) or np.dtype(np.uint64))
        return lambda lanes: read(lanes).astype(np.int64) + offset

    def _constant(self, text: str, dtype: Dtype) -> Values:
        if text in self._addresses:
            return np.array([self._addresses[text]], np.uint64).astype(f"u{dtype.itemsize}").view(dtype)
        if text[:2].lower() in ("0f", "0d"):
            held = int(text[2:], 16).to_bytes(len(text) // 2 - 1, "little")
            return np.frombuffer(held, np.float32 if len(held) == 4 else np.float64).view(dtype)
        try:
            number = int(text.rstrip("U"), 0)
        except ValueError:
            raise Unsupported("run", f"PTX operand {text}", "is not known to this interpreter") from None
        if dtype == np.bool_:
            return np.array([number != 0])
        bits = number & ((1 << 8 * dtype.itemsize) - 1)
        return np.array([bits], f"u{dtype.itemsize}").view(dtype)


def as_kept(values: Values, kept: Dtype) -> Values:
    """Values as a register keeps them."""
    if values.dtype == kept:
        return values
    if values.dtype.itemsize < kept.itemsize:
        return values.astype(f"{'i' if values.dtype.kind == 'i' else 'u'}{kept.itemsize}").view(kept)
    return values.view(kept)


def _register(number: int, name: str, dtype: Dtype, kept: Dtype) -> Read:
    def read(lanes: RunningLanes) -> Values:
        held = lanes.registers.get(number)
        if held is None:
            raise PtxFault("uninitialised", f"reads register {name}, which nothing has written")
        values = held[lanes.select]
        if dtype == kept:
            return values
        if dtype.itemsize != kept.itemsize:
            values = values.astype(f"u{dtype.itemsize}")
        return values.view(dtype)

    return read


def _special(name: str, dtype: Dtype) -> Read:
    def read(lanes: RunningLanes) -> Values:
        values = lanes.special.get(name)
        if values is None:
            raise Unsupported("run", f"PTX register {name}", "is not known to this interpreter")
        return values[lanes.select].astype(dtype)

    return read
