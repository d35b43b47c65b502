"""What code generation hands on: CUDA text with its launch, buffers, line map and the footprint of its stores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    """Global memory that one run of a kernel has for itself: a raw pointer after those of the buffers."""

    parameter: str
    """Identifier in the CUDA text."""
    name: str
    """Of the tile program's buffer."""
    dtype: str
    elements: int
    alignment: int
    """As that of a buffer."""
    zeroed: bool
    """Whether it must hold zeros when the run begins; then it does again when the run ends."""

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
class KernelLaunch:
    """One entry of the CUDA text, with the grid that it is launched on."""

    entry: str
    """Name of the `extern "C" __global__` function."""
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    """Dynamic shared memory of one block."""
    footprints: tuple[Footprint, ...] = ()
    team: int = 1
    """Blocks that hand sums to each other and must run in one launch: their numbers are grid / team apart."""
    resident: int = 0
    """Blocks of one SM that run at once, where all blocks wait for each other; 0 where they do not."""

    @property
    def blocks(self) -> int:
        """Blocks of its grid."""
        return math.prod(self.grid)

    @property
    def meets_as_grid(self) -> bool:
        """Whether all its blocks wait for each other, so that all must run at once."""
        return self.resident > 0

    @property
    def least_sms(self) -> int:
        """SMs that a GPU must have."""
        return -(-self.blocks // self.resident) if self.meets_as_grid else 1

    def to_launch(self) -> dict[str, object]:
        """What whoever launches it has to know, for a JSON file."""
        names = ("entry", "grid", "block", "shared_bytes", "least_sms")
        return {name: getattr(self, name) for name in names}

    def whole_teams(self, blocks: Iterable[int]) -> tuple[int, ...]:
        """Some blocks with all others of their teams, in order: all, where they meet as a grid."""
        if self.meets_as_grid:
            return tuple(range(self.blocks)) if any(True for _ in blocks) else ()
        apart = self.blocks // self.team
        return tuple(sorted({part * apart + block % apart for block in blocks for part in range(self.team)}))


@dataclass(frozen=True, slots=True)
class CudaSource:
    """One kernel as CUDA text.  The text includes "loom.cuh" from `tile/include` (or the emulator's twin).

    The fields of its first launch are those of `KernelLaunch`; others may follow in `later`.  All take the same
    pointers, and what one leaves in a workspace, the next ones read.
    """

    text: str
    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    buffers: tuple[Parameter, ...]
    lines: tuple[Line, ...]
    """Entry n describes line n + 1 of `text`."""
    footprints: tuple[Footprint, ...] = ()
    team: int = 1
    workspaces: tuple[GlobalWorkspace, ...] = ()
    """Memory that whoever launches has to give besides the buffers, in the order of their parameters."""
    later: tuple[KernelLaunch, ...] = ()
    """Launches that follow, each once the one before it has ended."""
    resident: int = 0

    @property
    def launches(self) -> tuple[KernelLaunch, ...]:
        """All launches in order."""
        first = KernelLaunch(
            self.entry, self.grid, self.block, self.shared_bytes, self.footprints, self.team, self.resident
        )
        return (first, *self.later)

    @property
    def meets_as_grid(self) -> bool:
        """Whether all blocks of a launch wait for each other."""
        return any(launch.meets_as_grid for launch in self.launches)

    @property
    def blocks(self) -> int:
        """Blocks of all launches, which are numbered on from one launch to the next."""
        return sum(launch.blocks for launch in self.launches)

    def by_launch(self, blocks: Sequence[int]) -> Iterator[tuple[KernelLaunch, Sequence[int]]]:
        """Each launch with those of some blocks that are its own, by their numbers in its grid."""
        first = 0
        for launch in self.launches:
            yield launch, [block - first for block in blocks if first <= block < first + launch.blocks]
            first += launch.blocks

    def whole_grids(self, blocks: Sequence[int]) -> Sequence[int]:
        """Some blocks with all others of each launch whose blocks wait for each other."""
        if not self.meets_as_grid:
            return blocks
        found: list[int] = []
        first = 0
        for launch, own in self.by_launch(blocks):
            found += [first + block for block in (launch.whole_teams(own) if launch.meets_as_grid else own)]
            first += launch.blocks
        return found

    def whole_teams(self, blocks: Iterable[int]) -> tuple[int, ...]:
        """Some blocks with all others that they need: those of their teams, and all of the launches before."""
        parts = list(self.by_launch(tuple(blocks)))
        last, own = max(((n, own) for n, (_, own) in enumerate(parts) if own), default=(0, ()))
        before = sum(launch.blocks for launch, _ in parts[:last])
        return (*range(before), *(before + block for block in parts[last][0].whole_teams(own)))


NO_TEXT = CudaSource("", "", (0, 0, 0), (0, 0, 0), 0, (), ())
"""Of a kernel of which only the figures are known."""
