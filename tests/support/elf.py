"""What a cubin, which is an ELF file, keeps in global memory of its module."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

SYMBOL_TABLE, WRITE, ALLOCATED, VARIABLE = 2, 1, 2, 1
"""Kind of a section, flags of one, and kind of a symbol (gABI)."""
LIBRARY = "__cudart_"
"""How the names of the mathematics library's own tables begin."""


class Section(NamedTuple):
    """A section header, as far as it is read here."""

    name: int
    kind: int
    flags: int
    address: int
    start: int
    size: int
    link: int


def module_memory(cubin: bytes) -> list[str]:
    """What lies in memory that all launches of a module share and may write: variables, else the section's name.

    Static shared memory is a block's own.  Constant tables of CUDA's mathematics library (`sinf` has one) are no
    kernel's: nothing writes them, though their section could be.
    """
    table, size, count, names = (*struct.unpack_from("<Q", cubin, 40), *struct.unpack_from("<HHH", cubin, 58))
    sections = [Section(*struct.unpack_from("<IIQQQQI", cubin, table + n * size)) for n in range(count)]
    called = [_text(cubin, sections[names].start + one.name) for one in sections]
    found: list[str] = []
    for number, one in enumerate(sections):
        if one.flags & WRITE and one.flags & ALLOCATED and not called[number].startswith(".nv.shared"):
            held = [name for name, where in _variables(cubin, sections) if where == number]
            found += [name for name in held if not name.startswith(LIBRARY)] if held else [called[number]]
    return found


def _variables(cubin: bytes, sections: list[Section]) -> Iterator[tuple[str, int]]:
    """Name and section of every variable."""
    for one in sections:
        if one.kind == SYMBOL_TABLE:
            for at in range(one.start, one.start + one.size, 24):
                name, kind, _, where = struct.unpack_from("<IBBH", cubin, at)
                if kind & 15 == VARIABLE:
                    yield _text(cubin, sections[one.link].start + name), where


def _text(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode()
