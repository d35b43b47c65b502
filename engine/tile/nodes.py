"""The tile program: one kernel as loops and tile operations over buffers with a scope.

Indices are `Index` values over the variables bound so far: `block` and `thread` from the hardware, then every `Bind`
and `For`.  Conditions are data (`Mask`), so a checker can see what depends on the thread.  `at` links each operation to
statements and schedule dimensions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from engine.graph.nodes import DTYPES
from engine.tensor.index import Index
from engine.tensor.nodes import Literal, Scalar
from engine.tile.source import NOWHERE, Footprint, Line

BLOCK, THREAD = "block", "thread"
"""The hardware variables: linear block number and linear thread number."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Storage of a kernel.  A register buffer of shape () is a scalar variable, one of each thread's own."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    scope: str
    """"global", "shared", "register", or "workspace": global memory of one launch, which no graph's tensor lies in."""
    row_bytes: int = 0
    """Of shared memory: where not 0, the 16-byte chunks of rows this long are permuted (swizzle.cuh)."""
    offset: int | None = None
    """Of shared memory: its first byte in the block's arena; None puts it behind the others, at bytes of its own."""

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def period(self) -> int:
        """Elements after which the permutation of chunks repeats: as many lines of banks as a line has chunks."""
        line, chunks = max(self.row_bytes, 128), min(self.row_bytes, 128) // 16
        return line * chunks // DTYPES[self.dtype]


@dataclass(frozen=True, slots=True)
class Slot:
    """One element of a register buffer."""

    buffer: str
    indices: tuple[Index, ...] = ()


@dataclass(frozen=True, slots=True)
class Comment:
    """A line for the reader of the CUDA text."""

    text: str
    at: Line = NOWHERE


@dataclass(frozen=True, slots=True)
class Let:
    """`const int name = index`; with `limit`, the smaller of the two."""

    name: str
    index: Index
    at: Line = NOWHERE
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Mask:
    """`const bool name = every condition >= 0`, and all masks `within`."""

    name: str
    conditions: tuple[Index, ...]
    within: tuple[str, ...] = ()
    at: Line = NOWHERE


@dataclass(frozen=True, slots=True)
class Declare:
    """A register buffer, every element set to `value` (None leaves it undefined)."""

    buffer: str
    value: Scalar | None = None
    at: Line = NOWHERE


@dataclass(frozen=True, slots=True)
class Load:
    """`width` consecutive elements of a global or shared buffer into a register buffer, from `slot` on.

    Where `mask` is false nothing is read and the elements are `otherwise`.
    """

    slot: Slot
    source: str
    position: Index
    width: int
    mask: str | None = None
    otherwise: Literal | None = None
    at: Line = NOWHERE


@dataclass(frozen=True, slots=True)
class Store:
    """`width` consecutive elements of a register buffer, from `slot` on, into a global or shared buffer."""

    target: str
    position: Index
    slot: Slot
    width: int
    mask: str | None = None
    at: Line = NOWHERE


@dataclass(frozen=True, slots=True)
class AsyncCopy:
    """cp.async: `width` consecutive elements from global to shared memory; where masked off, zeros."""

    target: str
    target_position: Index
    source: str
    source_position: Index
    width: int
    mask: str | None = None
    at: Line = NOWHERE


@dataclass(frozen=True, slots=True)
class Commit:
    """Close the group of this thread's copies issued since the last commit."""

    at: Line = NOWHERE


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until at most `pending` of this thread's newest groups are unfinished."""

    pending: int
    at: Line = NOWHERE


@dataclass(frozen=True, slots=True)
class Barrier:
    """All threads of the block meet."""

    at: Line = NOWHERE


@dataclass(frozen=True, slots=True)
class WarpSync:
    """All lanes of a warp meet and see what the others wrote."""

    at: Line = NOWHERE


@dataclass(frozen=True, slots=True)
class Assign:
    """`slot = expression`; accesses in the expression name register buffers."""

    slot: Slot
    expression: Scalar
    at: Line = NOWHERE
    combine: str | None = None
    """A reduction operation: `slot = combine(slot, expression)`."""


@dataclass(frozen=True, slots=True)
class WarpReduce:
    """Combine a register element over `width` neighbouring lanes; every lane gets the result."""

    slot: Slot
    operation: str
    width: int
    at: Line = NOWHERE


@dataclass(frozen=True, slots=True)
class MatrixLoad:
    """Four matrices of 8 rows of 16 bytes from shared memory into the words of all lanes of a warp.

    position: of the row that this lane names.
    """

    function: str
    slot: Slot
    source: str
    position: Index
    at: Line = NOWHERE


@dataclass(frozen=True, slots=True)
class MapFragment:
    """Every element of a fragment of `dtype`, called `element`, replaced by an expression of it."""

    slot: Slot
    dtype: str
    element: str
    expression: Scalar
    at: Line = NOWHERE


@dataclass(frozen=True, slots=True)
class MatrixMultiply:
    """`sums += first * second` on tensor cores, by all lanes of a warp together."""

    intrinsic: str
    sums: Slot
    first: Slot
    second: Slot
    at: Line = NOWHERE


@dataclass(frozen=True, slots=True)
class For:
    """`for name in 0 .. extent-1`, unrolled on request."""

    name: str
    extent: int
    body: tuple[TileOp, ...]
    unroll: bool = False
    at: Line = NOWHERE


@dataclass(frozen=True, slots=True)
class If:
    """A branch on a mask that may differ between threads: only operations of a single thread may stand below."""

    mask: str
    body: tuple[TileOp, ...]
    at: Line = NOWHERE


@dataclass(frozen=True, slots=True)
class UniformIf:
    """A branch on `condition >= 0` over loop counters and the block: all threads of the block take it together."""

    condition: Index
    body: tuple[TileOp, ...]
    at: Line = NOWHERE


@dataclass(frozen=True, slots=True)
class BreakIf:
    """Leave the innermost loop where `condition >= 0`, over loop counters and the block: all threads of it do.

    It holds for all iterations after the first that it holds for.
    """

    condition: Index
    runs: tuple[int, int]
    """Of all blocks' iterations together, how many get past it, and how many there are."""
    at: Line = NOWHERE


@dataclass(frozen=True, slots=True)
class LastArrival:
    """The blocks of a team meet at a counter: all but the last to come leave the kernel.

    That one sees what the others stored to workspaces before, sets the counter back to zero, and alone runs what
    follows.  A team are blocks whose numbers are equally far apart, over the whole grid.
    """

    counters: str
    position: Index
    """Number of the team, and its counter."""
    team: int
    """Blocks of a team."""
    at: Line = NOWHERE


@dataclass(frozen=True, slots=True)
class BlockRanges:
    """Ranges of the launch's blocks that do different things; inside, `block` counts from the start of its range."""

    parts: tuple[tuple[int, tuple[TileOp, ...]], ...]
    """(blocks, what they do), in the order of the ranges."""
    at: Line = NOWHERE


TileOp = (
    Comment | Let | Mask | Declare | Load | Store | AsyncCopy | Commit | Wait | Barrier | Assign | WarpReduce
    | WarpSync | MatrixLoad | MapFragment | MatrixMultiply | For | If | UniformIf
    | BreakIf | LastArrival | BlockRanges
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Note:
    """Why a kernel did not take a mark as given, and what it has in its place."""

    because: str
    name: str = ""
    value: str = ""
    """In place of the mark's: "4", "16 elements"; "" where the kernel has none of it."""

    def __str__(self) -> str:
        """ "block 4: this kernel takes whole warps"."""
        return f"{self.name} {self.value}: {self.because}" if self.value else self.because


@dataclass(frozen=True, slots=True)
class PipelineRequest:
    """Buffers that somebody wants filled ahead of their use; `engine.pipeline` decides whether they may be."""

    buffers: tuple[str, ...]
    stages: int
    mark: str
    """"stages" of shared memory or "register_stages"."""
    asked: Mapping[tuple[int, ...], int] = field(default_factory=dict)
    """Recipe entries that say how many: place in the recipe -> their number."""


@dataclass(frozen=True, slots=True)
class KernelConfig:
    """Base of what the families choose for a kernel: each has a frozen class of its own with its choices as fields."""

    def with_stages(self, stages: int, register_stages: int) -> KernelConfig:
        """The choice with the pipelines that the kernel got; a family whose configuration has no stages keeps this."""
        return self


@dataclass(frozen=True, slots=True)
class TileProgram:
    """One kernel before it becomes text."""

    name: str
    title: tuple[str, ...]
    """Lines of the header: what the kernel computes and how it is scheduled."""
    grid: int
    threads: int
    constants: Mapping[str, int]
    """Named sizes of the header, for the reader of the CUDA text alone: who needs a choice asks `config`."""
    buffers: Mapping[str, Buffer]
    """Global buffers first, in parameter order."""
    written: frozenset[str]
    """Global buffers the kernel writes."""
    read: frozenset[str]
    body: tuple[TileOp, ...]
    footprints: tuple[Footprint, ...]
    assertions: tuple[tuple[str, str], ...] = ()
    """(condition over the constants, BLOCKS and THREADS; why it must hold), checked by the CUDA compiler."""
    stages: int = 1
    """Stages of the shared-memory pipeline; 1 when copies and use alternate."""
    register_stages: int = 1
    """Stages of the register pipeline; 1 when loads from shared memory and use alternate."""
    turns: int = 1
    """Groups of rows that a block is asked to take one after the other; the grid does not count them yet."""
    wishes: tuple[PipelineRequest, ...] = ()
    """Pipelines asked for that the program does not have yet."""
    notes: Mapping[tuple[int, ...], Note] = field(default_factory=dict)
    """Recipe entries that could not be taken as given: place in the recipe -> why, and what was done instead."""
    sequential: tuple[str, ...] = ()
    """Dimensions that the schedule holds parallel and this kernel walks in order all the same."""
    together: int = 0
    """Blocks of an SM that registers must leave room for; 0 lets the compiler weigh that against spills."""
    placements: Mapping[str, str] = field(default_factory=dict)
    """Statement -> where its result lives and why."""
    schemes: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Statement -> how a block hands its result from one part of the kernel to others, and why."""
    config: KernelConfig | None = None
    """What the lowering chose, after marks that do not fit were changed; None for a program that no family made."""

    @property
    def intrinsic(self) -> str:
        """The instruction that multiplies on tensor cores, or ""."""
        return next((op.intrinsic for op in operations(self.body) if isinstance(op, MatrixMultiply)), "")

    @property
    def team(self) -> int:
        """Blocks that hand sums to each other: block b works with b + grid / team, b + 2 * grid / team and so on."""
        return next((op.team for op in operations(self.body) if isinstance(op, LastArrival)), 1)


def before_meeting(body: tuple[TileOp, ...]) -> tuple[TileOp, ...]:
    """What every block of a team does; the last one alone goes on."""
    return tuple(itertools.takewhile(lambda op: not isinstance(op, LastArrival), body))


def operations(body: tuple[TileOp, ...]) -> Iterator[TileOp]:
    """Every operation, outermost first."""
    for op in body:
        yield op
        if isinstance(op, For | If | UniformIf):
            yield from operations(op.body)
        elif isinstance(op, BlockRanges):
            for _, body in op.parts:
                yield from operations(body)
