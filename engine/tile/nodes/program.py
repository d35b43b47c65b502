"""One kernel before it becomes text: its operations, its buffers, and what its lowering asks for and notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from engine.cost.nodes import TileOrder
from engine.support.values import value
from engine.target.hardware import BLOCK_REGISTERS
from engine.tensorize.space import KernelConfig
from engine.tile.nodes.control import GridBarrier, LastArrival
from engine.tile.nodes.operation import TileOp, operations
from engine.tile.nodes.values import Buffer
from engine.tile.source import Footprint

AMPLE = 128
"""Registers of a thread that are enough where nobody knows how many it needs."""


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
class Needs:
    """What a launch must compute and move, where that is less than its statements say."""

    flops: int
    read: int
    """Bytes."""
    written: int
    """Bytes."""


@value(frozen=True)  # without slots, so that what is counted of it is kept
class TileProgram:
    """One kernel before it becomes text: one launch, and those in `later`."""

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
    requests: tuple[PipelineRequest, ...] = ()
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
    family: str = ""
    """The kernel family that made it."""
    misfit: str = ""
    """Why the group's own family does not fit the schedule, where the general one made the program."""
    statements: tuple[str, ...] = ()
    """Those that it runs, of one of several launches; none for a program that runs all."""
    orders: tuple[TileOrder, ...] = ()
    """Of the tiles of each product that it computes by tiles."""
    needs: Needs | None = None
    """None where its statements say it."""
    later: tuple[TileProgram, ...] = ()
    """Launches that follow in order; what one leaves in a workspace, the next ones read."""

    def with_registers(self, sms: int, needed: float = AMPLE) -> TileProgram:
        """The same, with the registers of as many blocks as an SM gets for each of them, where these leave a thread as
        many as it needs: left to itself, the compiler may spill some to have room for blocks that do not come."""
        each = -(-self.grid // sms)
        has_room = each * self.threads * needed <= BLOCK_REGISTERS
        return replace(self, together=each) if has_room and not self.together else self

    def of(self, before: str, name: str, title: str) -> TileProgram:
        """The same for another group.  before, name: of its program; title: of the group, in the first line."""
        later = tuple(one.of(before, name, title) for one in self.later)
        header = (f"{name}: {title}", *self.title[1:])
        return replace(self, name=name + self.name.removeprefix(before), title=header, later=later)

    @property
    def launches(self) -> tuple[TileProgram, ...]:
        """All launches in order."""
        return (self, *self.later)

    @property
    def intrinsic(self) -> str:
        """The instruction that multiplies on tensor cores, or ""."""
        return next(filter(None, (op.tensor_instruction for op in operations(self.body))), "")

    @property
    def team(self) -> int:
        """Blocks that hand sums to each other: block b works with b + grid / team, b + 2 * grid / team and so on."""
        return next((op.team for op in operations(self.body) if isinstance(op, LastArrival)), 1)

    @property
    def meets_as_grid(self) -> bool:
        """Whether all blocks of the launch wait for each other, so that all must run at once."""
        return any(isinstance(op, GridBarrier) for op in operations(self.body))
