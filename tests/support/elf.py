"""What a cubin, which is an ELF file, keeps in global memory of its module."""

from __future__ import annotations

import struct
from typing import NamedTuple

SYMBOL_TABLE, WRITE, ALLOCATED = 2, 1, 2
"""Kind of a section, and flags of one (gABI)."""


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
    """The sections of memory that all launches of a module share and may write, and the symbols in them.

    Static shared memory is a block's own.
    """
    table, size, count, names = (*struct.unpack_from("<Q", cubin, 40), *struct.unpack_from("<HHH", cubin, 58))
    sections = [Section(*struct.unpack_from("<IIQQQQI", cubin, table + n * size)) for n in range(count)]
    called = [_text(cubin, sections[names].start + one.name) for one in sections]
    shared = {
        n
        for n, one in enumerate(sections)
        if one.flags & WRITE and one.flags & ALLOCATED and not called[n].startswith(".nv.shared")
    }
    found = [called[n] for n in sorted(shared)]
    for one in sections:
        if one.kind == SYMBOL_TABLE:
            for at in range(one.start, one.start + one.size, 24):
                name, _, _, where = struct.unpack_from("<IBBH", cubin, at)
                text = _text(cubin, sections[one.link].start + name)
                found += [text] if where in shared and text not in found else []
    return found


def _text(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode()
