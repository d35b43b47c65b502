"""Shared memory between two barriers: nobody may read what another thread stores, nor store over what it may read.

The program is walked once, and loops with barriers three times around (those written out, whole), with the bytes that
each operation can touch: two scratch buffers that alternate are told apart from one that is used again too early.
Asynchronous copies keep their own rules (`engine.pipeline`), and so do parts of shared memory that belong to one warp,
whose lanes meet by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from engine.graph.nodes import DTYPES
from engine.tensor.index import Index
from engine.tile.nodes import BLOCK, THREAD, Let, Region, TileOp, TileProgram, operations
from engine.tile.nodes.operation import Body
from engine.tile.storage import shared_map

ROUNDS = 3
"""Iterations of a loop with barriers after which alternating buffers come around again."""


def hazards(program: TileProgram) -> Iterator[str]:
    """Accesses to the same bytes of shared memory without a barrier between them, one of which is a store."""
    if not any(op.is_asynchronous or op.meets == "warp" for op in operations(program.body)):
        variables = _Variables({BLOCK: program.grid, THREAD: program.threads}, {})
        yield from dict.fromkeys(_HazardWalk(program).body(program.body, variables))


@dataclass(frozen=True, slots=True)
class _Touched:
    """Bytes of shared memory that one operation of any thread can touch."""

    buffer: str
    first: int
    last: int

    def meets(self, other: _Touched) -> bool:
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class _Variables:
    """Variables that are known at one place of the program."""

    extents: Mapping[str, int]
    values: Mapping[str, Index]
    """What bound variables stand for, in terms of those with extents."""

    def bind(self, name: str, index: Index, limit: int | None) -> _Variables:
        values = {n: value for n, value in self.values.items() if n != name}  # a name may be bound again
        if self._is_known(index):
            expanded = index.substitute(self.values, self.extents)
            if limit is None or expanded.bounds(self.extents)[1] <= limit:
                return _Variables(self.extents, {**values, name: expanded})
        extents = {n: extent for n, extent in self.extents.items() if n != name}
        return _Variables(extents if limit is None else {**extents, name: limit + 1}, values)

    def count(self, name: str, extent: int) -> _Variables:
        values = {n: value for n, value in self.values.items() if n != name}
        return _Variables({**self.extents, name: extent}, values)

    def bounds(self, index: Index) -> tuple[int, int] | None:
        """Smallest and largest value; None for one that was loaded."""
        return index.substitute(self.values, self.extents).bounds(self.extents) if self._is_known(index) else None

    def _is_known(self, index: Index) -> bool:
        return all(name in self.extents or name in self.values for name in index.iterators())


class _HazardWalk:
    def __init__(self, program: TileProgram) -> None:
        self._buffers = program.buffers
        self._offsets = shared_map(program.buffers)[0]
        self._stored: list[_Touched] = []
        self._read: list[_Touched] = []

    def body(self, body: tuple[TileOp, ...], variables: _Variables) -> Iterator[str]:
        """Faults of a body; what it touched since the last barrier is kept."""
        for op in body:
            for regions, note in ((op.regions_read, self._load), (op.regions_written, self._store)):
                for region in regions:
                    if region.buffer in self._offsets:
                        yield from note(self._touched_by(region, variables))
            if op.meets == "block":
                self._stored, self._read = [], []
            if isinstance(op, Let):
                variables = variables.bind(op.name, op.index, op.limit)
            for inner in op.bodies:
                yield from self._inner(inner, variables)

    def _inner(self, inner: Body, variables: _Variables) -> Iterator[str]:
        if inner.condition and (variables.bounds(inner.condition) or (0, 0))[1] < 0:
            return
        if inner.blocks is not None:  # no block does two of the ranges
            self._stored, self._read = [], []
            variables = variables.count(BLOCK, inner.blocks)
        if inner.counter and any(op.meets == "block" for op in operations(inner.operations)):
            for value in range(inner.extent if inner.is_unrolled else min(inner.extent, ROUNDS)):
                yield from self.body(inner.operations, variables.bind(inner.counter, Index((), value), None))
            return
        if inner.counter:
            variables = variables.count(inner.counter, inner.extent)
        yield from self.body(inner.operations, variables)

    def _load(self, touched: _Touched) -> Iterator[str]:
        for other in self._stored:
            if touched.meets(other):
                yield f"{touched.buffer} is read with no barrier after the stores to {other.buffer}"
        self._read.append(touched)

    def _store(self, touched: _Touched) -> Iterator[str]:
        for other in self._read:
            if touched.meets(other):
                yield f"{touched.buffer} is stored with no barrier after the reads of {other.buffer} at the same bytes"
        # Stores to one buffer are told apart by their lanes, which bounds do not see; two buffers must not overlap.
        for other in self._stored:
            if touched.meets(other) and other.buffer != touched.buffer:
                yield f"{touched.buffer} and {other.buffer} are stored at the same bytes with no barrier between them"
        self._stored.append(touched)

    def _touched_by(self, region: Region, variables: _Variables) -> _Touched:
        buffer, offset = self._buffers[region.buffer], self._offsets[region.buffer]
        size, last = DTYPES[buffer.dtype], buffer.elements - 1
        low, high = variables.bounds(region.position) or (0, last)
        high += region.bytes_in(buffer) // size - 1
        if buffer.row_bytes:  # chunks change places within a period
            low, high = low // buffer.period * buffer.period, (high // buffer.period + 1) * buffer.period - 1
        # An index may run past the buffer where a mask keeps the access itself inside.
        return _Touched(region.buffer, offset + max(low, 0) * size, offset + (min(high, last) + 1) * size - 1)
