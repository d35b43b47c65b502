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
from engine.tensorize.nodes import ROW_BYTES
from engine.tile.nodes import (
    BLOCK,
    THREAD,
    AsyncCopy,
    Barrier,
    BlockRanges,
    For,
    If,
    LastArrival,
    Let,
    Load,
    MatrixLoad,
    Store,
    TileOp,
    TileProgram,
    UniformIf,
    WarpSync,
    operations,
)
from engine.tile.storage import shared_map

ROUNDS = 3
"""Iterations of a loop with barriers after which alternating buffers come around again."""


def hazards(program: TileProgram) -> Iterator[str]:
    """Accesses to the same bytes of shared memory without a barrier between them, one of which is a store."""
    if not any(isinstance(op, AsyncCopy | WarpSync) for op in operations(program.body)):
        scope = _Scope({BLOCK: program.grid, THREAD: program.threads}, {})
        yield from dict.fromkeys(_Walk(program).body(program.body, scope))


@dataclass(frozen=True, slots=True)
class _Touched:
    """Bytes of shared memory that one operation of any thread can touch."""

    buffer: str
    first: int
    last: int

    def meets(self, other: _Touched) -> bool:
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class _Scope:
    """Variables that are known at one place of the program."""

    extents: Mapping[str, int]
    values: Mapping[str, Index]
    """What bound variables stand for, in terms of those with extents."""

    def bind(self, name: str, index: Index, limit: int | None) -> _Scope:
        values = {n: value for n, value in self.values.items() if n != name}
        if self._is_known(index):
            expanded = index.substitute(self.values, self.extents)
            if limit is None or expanded.bounds(self.extents)[1] <= limit:
                return _Scope(self.extents, {**values, name: expanded})
        extents = {n: extent for n, extent in self.extents.items() if n != name}
        return _Scope(extents if limit is None else {**extents, name: limit + 1}, values)

    def count(self, name: str, extent: int) -> _Scope:
        values = {n: value for n, value in self.values.items() if n != name}
        return _Scope({**self.extents, name: extent}, values)

    def bounds(self, index: Index) -> tuple[int, int] | None:
        """Smallest and largest value; None for one that was loaded."""
        return index.substitute(self.values, self.extents).bounds(self.extents) if self._is_known(index) else None

    def _is_known(self, index: Index) -> bool:
        return all(name in self.extents or name in self.values for name in index.iterators())


class _Walk:
    def __init__(self, program: TileProgram) -> None:
        self._buffers = program.buffers
        self._offsets = shared_map(program.buffers)[0]
        self._stored: list[_Touched] = []
        self._read: list[_Touched] = []

    def body(self, body: tuple[TileOp, ...], scope: _Scope) -> Iterator[str]:
        """Faults of a body; what it touched since the last barrier is kept."""
        for op in body:
            match op:
                case Barrier() | LastArrival():
                    self._stored, self._read = [], []
                case Let(name, index, _, limit):
                    scope = scope.bind(name, index, limit)
                case For(name, extent, inner, unroll) if any(isinstance(o, Barrier) for o in operations(inner)):
                    for value in range(extent if unroll else min(extent, ROUNDS)):
                        yield from self.body(inner, scope.bind(name, Index((), value), None))
                case For(name, extent, inner):
                    yield from self.body(inner, scope.count(name, extent))
                case UniformIf(condition, inner):
                    if (scope.bounds(condition) or (0, 0))[1] >= 0:
                        yield from self.body(inner, scope)
                case If(_, inner):
                    yield from self.body(inner, scope)
                case BlockRanges(parts):
                    for blocks, inner in parts:  # no block does two of them
                        self._stored, self._read = [], []
                        yield from self.body(inner, scope.count(BLOCK, blocks))
                case Load(_, buffer, position, width) if buffer in self._offsets:
                    yield from self._load(self._touched(buffer, position, width, scope))
                case MatrixLoad(_, _, buffer, position) if buffer in self._offsets:
                    width = ROW_BYTES // DTYPES[self._buffers[buffer].dtype]
                    yield from self._load(self._touched(buffer, position, width, scope))
                case Store(buffer, position, _, width) if buffer in self._offsets:
                    yield from self._store(self._touched(buffer, position, width, scope))
                case _:
                    continue

    def _load(self, touched: _Touched) -> Iterator[str]:
        for other in self._stored:
            if touched.meets(other):
                yield f"{touched.buffer} is read with no barrier after the stores to {other.buffer}"
        self._read.append(touched)

    def _store(self, touched: _Touched) -> Iterator[str]:
        for other in self._read:
            if touched.meets(other):
                yield f"{touched.buffer} is stored with no barrier after the reads of {other.buffer} at the same bytes"
        for other in self._stored:
            if touched.meets(other) and other.buffer != touched.buffer:
                yield f"{touched.buffer} and {other.buffer} are stored at the same bytes with no barrier between them"
        self._stored.append(touched)

    def _touched(self, buffer: str, position: Index, width: int, scope: _Scope) -> _Touched:
        size, offset = DTYPES[self._buffers[buffer].dtype], self._offsets[buffer]
        last = self._buffers[buffer].elements - 1  # masks keep accesses inside
        low, high = scope.bounds(position) or (0, last)
        high += width - 1
        if self._buffers[buffer].row_bytes:  # chunks change places within a period
            period = self._buffers[buffer].period
            low, high = low // period * period, (high // period + 1) * period - 1
        return _Touched(buffer, offset + max(low, 0) * size, offset + (min(high, last) + 1) * size - 1)
