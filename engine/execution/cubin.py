"""The layout of a compiled kernel, read from its cubin: parameters, registers, stack, memory of the module.

A cubin is an ELF file.  `.nv.info` and `.nv.info.ENTRY` are lists of attributes, each a format byte, a number and a
value; NVIDIA names them in the output of `cuobjdump -elf` (EIATTR_...).  What is read here: the figures that the driver
launches a kernel by, and the variables that all launches of a module share.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

_SYMBOL_TABLE, _WRITE, _ALLOCATED, _VARIABLE = 2, 1, 2, 1
"""Kind of a section, flags of one, and kind of a symbol (gABI)."""
_LIBRARY = "__cudart_"
"""How the names of the mathematics library's own tables begin: nothing writes them, though their section could be."""
_SIZED = 4
"""Format of an attribute whose value is longer than two bytes: its size stands before it."""
_MAX_THREADS, _REQUIRED_THREADS, _FRAME_SIZE, _PARAMETER, _PARAMETER_BYTES, _REGISTERS = (
    0x05, 0x10, 0x11, 0x17, 0x19, 0x2F,
)  # fmt: skip
"""EIATTR_MAX_THREADS, _REQNTID, _FRAME_SIZE, _KPARAM_INFO, _CBANK_PARAM_SIZE, _REGCOUNT."""


class ParameterSlot(NamedTuple):
    """Where a launch has to put one parameter, in bytes."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class EntryLayout:
    """One `__global__` function of a cubin."""

    name: str
    parameters: tuple[ParameterSlot, ...]
    """By their ordinals."""
    parameter_bytes: int
    """Of all parameters together, as the driver copies them."""
    registers: int
    """Of one thread."""
    stack_bytes: int
    """Local memory of one thread: spilled registers, and arrays that are indexed at run time."""
    most_threads: int
    """Threads of a block that it was compiled for."""
    shared_alignment: int
    """What the block's shared memory begins at a multiple of; 0 where it has none."""


class ModuleVariable(NamedTuple):
    """Memory that all launches of a module share and may write."""

    name: str
    """Of its section, where no symbol lies in that."""
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class CubinLayout:
    """What a cubin says about its launches."""

    entries: tuple[EntryLayout, ...]
    variables: tuple[ModuleVariable, ...]


def read_cubin(cubin: bytes) -> CubinLayout:
    """The layout of a cubin; ValueError for what is no ELF file of 64 bits."""
    if not cubin.startswith(b"\x7fELF\x02"):
        raise ValueError("the machine code is no 64-bit ELF file")
    file = _Elf(cubin)
    shared = dict(file.attributes(".nv.info", by_symbol=True))
    names = [name.removeprefix(".nv.info.") for name in file.sections if name.startswith(".nv.info.")]
    return CubinLayout(tuple(_entry(file, name, shared) for name in names), tuple(file.variables()))


def _entry(file: _Elf, name: str, shared: dict[tuple[int, str], bytes]) -> EntryLayout:
    own = list(file.attributes(f".nv.info.{name}"))
    slots = dict(_parameter(value) for (number, _), value in own if number == _PARAMETER)
    figures = {number: value for (number, _), value in own}

    def word(key: int) -> int:
        return int.from_bytes(shared.get((key, name), b"\0"), "little")

    threads = figures.get(_REQUIRED_THREADS) or figures.get(_MAX_THREADS)
    x, y, z = struct.unpack("<3I", threads) if threads else (0, 0, 0)
    memory = file.sections.get(f".nv.shared.{name}")
    return EntryLayout(
        name, tuple(slots[n] for n in sorted(slots)), int.from_bytes(figures.get(_PARAMETER_BYTES, b"\0"), "little"),
        word(_REGISTERS), word(_FRAME_SIZE), x * y * z, memory.alignment if memory else 0,
    )  # fmt: skip


def _parameter(value: bytes) -> tuple[int, ParameterSlot]:
    """Ordinal and place of a parameter: its size is in the upper 14 bits of the last word."""
    _, ordinal, offset, flags = struct.unpack("<IHHI", value)
    return ordinal, ParameterSlot(offset, flags >> 18)


class _Section(NamedTuple):
    """A section header of ELF64."""

    name: int
    kind: int
    flags: int
    address: int
    start: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class _Elf:
    """Sections and symbols of an ELF file."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        (table,) = struct.unpack_from("<Q", data, 40)
        size, count, names = struct.unpack_from("<HHH", data, 58)
        headers = [_Section(*struct.unpack_from("<IIQQQQIIQQ", data, table + n * size)) for n in range(count)]
        self._names = [self._text(headers[names].start + one.name) for one in headers]
        self.sections = dict(zip(self._names, headers, strict=True))
        table_of_symbols = next((one for one in headers if one.kind == _SYMBOL_TABLE), None)
        self._symbols: list[tuple[str, int, int, int, int]] = []
        """(name, kind, number of its section, offset in that, bytes)."""
        if table_of_symbols is not None:
            strings = headers[table_of_symbols.link].start
            for at in range(table_of_symbols.start, table_of_symbols.start + table_of_symbols.size, 24):
                name, kind, _, where, offset, length = struct.unpack_from("<IBBHQQ", data, at)
                self._symbols.append((self._text(strings + name), kind & 15, where, offset, length))

    def attributes(self, section: str, by_symbol: bool = False) -> Iterator[tuple[tuple[int, str], bytes]]:
        """((number, symbol or ""), value) of each attribute.  by_symbol: the first word of a value names a symbol."""
        where = self.sections.get(section)
        at, end = (where.start, where.start + where.size) if where else (0, 0)
        while at < end:
            kind, number, value = self._data[at], self._data[at + 1], self._data[at + 2 : at + 4]
            at += 4
            if kind == _SIZED:
                size = int.from_bytes(value, "little")
                value = self._data[at : at + size]
                at += size
            symbol = ""
            if by_symbol and len(value) > 4:
                symbol, value = self._symbols[int.from_bytes(value[:4], "little")][0], value[4:]
            yield (number, symbol), value

    def variables(self) -> Iterator[ModuleVariable]:
        """Memory of the module; static shared memory is a block's own, and the library's tables are no kernel's."""
        for number, (name, one) in enumerate(zip(self._names, self.sections.values(), strict=True)):
            if one.flags & _WRITE and one.flags & _ALLOCATED and not name.startswith(".nv.shared"):
                held = [symbol for symbol in self._symbols if symbol[1:3] == (_VARIABLE, number)]
                for variable, _, _, offset, size in held:
                    if not variable.startswith(_LIBRARY):
                        yield ModuleVariable(variable, offset, size)
                if not held:
                    yield ModuleVariable(name, 0, one.size)

    def _text(self, start: int) -> str:
        return self._data[start : self._data.index(b"\0", start)].decode()
