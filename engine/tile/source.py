"""What code generation hands on: CUDA text with its launch, buffers, line map and the footprint of its stores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from engine.graph.nodes import DTYPES
from engine.target.hardware import VECTOR_BYTES
from engine.tensor.index import Index


@dataclass(frozen=True, slots=True)
class Parameter:
    """One kernel parameter: a raw pointer, in this order."""

    parameter: str
    """Identifier in the CUDA text."""
    array: str
    """Array of the group's program."""
    dtype: str
    elements: int
    read: bool
    written: bool
    alignment: int = VECTOR_BYTES
    """Bytes that its address must be a multiple of: those of the widest access through it."""


@dataclass(frozen=True, slots=True)
class GlobalWorkspace:
    """Global memory that one launch has for itself: a raw pointer after those of the buffers."""

    parameter: str
    """Identifier in the CUDA text."""
    name: str
    """Of the tile program's buffer."""
    dtype: str
    elements: int
    alignment: int
    """As that of a buffer."""
    zeroed: bool
    """Whether it must hold zeros when the launch begins; then it does again when the launch ends."""

    @property
    def bytes(self) -> int:
        """Its size."""
        return self.elements * DTYPES[self.dtype]


@dataclass(frozen=True, slots=True)
class Line:
    """What stands behind one line of the text; empty tuples where nothing corresponds."""

    statements: tuple[str, ...] = ()
    dimensions: tuple[str, ...] = ()


NOWHERE = Line()
"""Text that belongs to no statement: declarations, braces."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """The elements that block b of a store writes: `position` over the block number and `counters`, where guards hold.

    The iterator "block" runs over the grid; every other iterator has its extent in `counters`.
    """

    array: str
    position: Index
    counters: Mapping[str, int]
    guards: tuple[Index, ...]
    """All must be >= 0 for the element to be written."""


@dataclass(frozen=True, slots=True)
class CudaSource:
    """One kernel as CUDA text.  The text includes "loom.cuh" from `tile/include` (or the emulator's twin)."""

    text: str
    entry: str
    """Name of the `extern "C" __global__` function."""
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    """Dynamic shared memory of one block."""
    buffers: tuple[Parameter, ...]
    lines: tuple[Line, ...]
    """Entry n describes line n + 1 of `text`."""
    footprints: tuple[Footprint, ...] = ()
    team: int = 1
    """Blocks that hand sums to each other and must run in one launch: their numbers are grid / team apart."""
    workspaces: tuple[GlobalWorkspace, ...] = ()
    """Memory that whoever launches has to give besides the buffers, in the order of their parameters."""

    def whole_teams(self, blocks: Iterable[int]) -> tuple[int, ...]:
        """Some blocks with all others of their teams, in order."""
        apart = self.grid[0] // self.team
        return tuple(sorted({part * apart + block % apart for block in blocks for part in range(self.team)}))
