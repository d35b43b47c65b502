"""What a scatter gives to bins, lanes and threads."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.graph.nodes import DTYPES
from engine.target.hardware import VECTOR_BYTES, WARP
from engine.tensor.nodes import TensorProgram
from engine.tensor.scatter import Scatter
from engine.tile.nodes import KernelConfig

TOGETHER = 4
"""Updates whose elements are asked for before the first of them is joined."""
JOINING_THREADS = 128
"""Of a block that joins updates."""
ROOM, LEAST_ROOM = 8, 2
"""Times the updates of a destination, were they spread evenly, that a bin should hold, and must."""
FEWEST = 32
"""Updates that any bin holds."""
MOST_ORDERED = 8192
"""Numbers that a block sorts: 32 KiB of shared memory, which leave room for seven blocks of an SM."""
MOST_NUMBERS = 2**28
"""Of all bins: 1 GiB."""


@dataclass(frozen=True, slots=True)
class ScatterConfig(KernelConfig):
    """What a scatter leaves open."""

    threads: int
    """Of a block that joins updates."""
    lanes: int
    """Threads that share a destination: a power of two of a warp."""
    vector: int
    """Neighbouring elements of a thread."""
    capacity: int
    """Updates that a bin holds: a multiple of `lanes` and of `TOGETHER`."""

    @property
    def teams(self) -> int:
        """Destinations of a block."""
        return self.threads // self.lanes

    @property
    def apart(self) -> int:
        """Words of shared memory from the numbers of one team to those of the next: in other banks."""
        return self.capacity + self.lanes


def expected_updates(scatter: Scatter) -> int:
    """Of a destination, where they are spread evenly."""
    return -(-scatter.updates // math.prod(i.extent for i in scatter.keys))


def widest_features(program: TensorProgram, scatter: Scatter) -> int:
    """Neighbours along the last iterator that one access of an update and of the result moves; 1 where none does."""
    if not scatter.features or scatter.features[-1] is not scatter.statement.parallel[-1]:
        return 1
    along, arrays = scatter.features[-1], program.arrays
    reads = [a for s in program.statements for a in s.reads() if any(along.name in i.iterators() for i in a.indices)]
    if any(a.guards for a in reads):
        return 1
    size = max(DTYPES[arrays[a.array].dtype] for a in (*reads, *(s.write for s in program.statements)))
    return math.gcd(along.extent, VECTOR_BYTES // size)


def fitting_config(program: TensorProgram, scatter: Scatter) -> ScatterConfig | None:
    """The bins that updates fit in with room for uneven ones; None where these would be too large."""
    vector = widest_features(program, scatter)
    width = math.prod(i.extent for i in scatter.features) // vector
    lanes = min(WARP, 1 << (width - 1).bit_length())
    expected = expected_updates(scatter)
    capacity = max(FEWEST, 1 << (ROOM * expected - 1).bit_length())
    if scatter.in_order:
        capacity = min(capacity, MOST_ORDERED * lanes // JOINING_THREADS)
    destinations = math.prod(i.extent for i in scatter.destinations)
    if capacity < LEAST_ROOM * expected or capacity * destinations > MOST_NUMBERS:
        return None
    return ScatterConfig(JOINING_THREADS, lanes, vector, capacity)
