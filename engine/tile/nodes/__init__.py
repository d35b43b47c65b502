"""The tile program: one kernel as loops and tile operations over buffers with a scope.

Indices are `Index` values over the variables bound so far: `block` and `thread` from the hardware, then every `Let` and
`For`.  Conditions are data (`Mask`), so a checker can see what depends on the thread.  `at` links each operation to
statements and schedule dimensions.  `operation.TileOp` says what every operation declares of itself.
"""

from engine.tensorize.space import KernelConfig
from engine.tile.nodes.block_ranges import BlockRanges
from engine.tile.nodes.compute import (
    Assign,
    Comment,
    Declare,
    Let,
    MapFragment,
    Mask,
    MatrixMultiply,
    SetBit,
    SetPlace,
    TurnRows,
    WarpReduce,
    WarpScan,
)
from engine.tile.nodes.control import (
    Barrier,
    BreakIf,
    For,
    GridBarrier,
    If,
    LastArrival,
    LeaveUnless,
    TakeNumber,
    UniformIf,
    WarpSync,
    before_meeting,
)
from engine.tile.nodes.grid_phases import GridPhases
from engine.tile.nodes.memory import AsyncCopy, Commit, Load, MatrixLoad, Store, Wait, only_copies
from engine.tile.nodes.operation import Rewrite, TileOp, names_in, operations
from engine.tile.nodes.program import Needs, Note, PipelineRequest, TileProgram
from engine.tile.nodes.values import BLOCK, THREAD, Buffer, Region, Slot

__all__ = [
    "BLOCK", "THREAD", "Assign", "AsyncCopy", "Barrier", "BlockRanges", "BreakIf", "Buffer", "Comment", "Commit",
    "Declare", "For", "GridBarrier", "GridPhases", "If", "KernelConfig", "LastArrival", "LeaveUnless", "Let", "Load",
    "MapFragment", "Mask", "MatrixLoad", "MatrixMultiply", "Needs", "Note", "PipelineRequest", "Region", "Rewrite",
    "SetBit", "SetPlace", "Slot", "Store", "TakeNumber", "TileOp", "TileProgram", "TurnRows", "UniformIf", "Wait",
    "WarpReduce", "WarpScan", "WarpSync", "before_meeting", "names_in", "only_copies", "operations",
]  # fmt: skip
