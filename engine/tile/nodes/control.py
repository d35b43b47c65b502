"""Operations that order others: loops, branches, and the meetings of threads and blocks."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import ClassVar

from engine.support.values import cached_property, value
from engine.tensor.index import Index
from engine.tile.nodes.expressions import condition_text, index_text
from engine.tile.nodes.operation import Body, Participants, TileOp
from engine.tile.nodes.values import Slot
from engine.tile.nodes.writer import CudaWriter
from engine.tile.source import NOWHERE, Line


@value(frozen=True, slots=True)
class Barrier(TileOp):
    """All threads of the block meet."""

    at: Line = NOWHERE

    execution: ClassVar[Participants] = "block"
    meets: ClassVar[Participants] = "block"

    def write(self, out: CudaWriter) -> None:
        out.line("barrier();", self.at)


@value(frozen=True, slots=True)
class WarpSync(TileOp):
    """All lanes of a warp meet and see what the others wrote."""

    at: Line = NOWHERE

    execution: ClassVar[Participants] = "warp"
    meets: ClassVar[Participants] = "warp"

    def write(self, out: CudaWriter) -> None:
        out.line("warp_sync();", self.at)


@value(frozen=True, slots=True)
class For(TileOp):
    """`for name in 0 .. extent-1`, written out on request: whole (True), or so many iterations at a time."""

    name: str
    extent: int
    body: tuple[TileOp, ...]
    unroll: bool | int = False
    at: Line = NOWHERE

    @cached_property
    def bodies(self) -> tuple[Body, ...]:
        return (
            Body(
                self.body, counter=self.name, extent=self.extent, is_unrolled=self.is_unrolled,
                written_out=max(1, int(self.unroll)),
            ),
        )  # fmt: skip

    @property
    def is_unrolled(self) -> bool:
        """Whether no loop is left."""
        return self.unroll is True or self.unroll >= max(2, self.extent)

    def write(self, out: CudaWriter) -> None:
        if self.unroll:
            factor = "" if self.is_unrolled else f" {self.unroll}"
            out.line(f"#pragma unroll{factor}", self.at)
        out.extents[self.name] = self.extent
        head = f"for (int {self.name} = 0; {self.name} < {self.extent}; ++{self.name}) {{"
        write_block(out, head, self.body, self.at)


@value(frozen=True, slots=True)
class If(TileOp):
    """A branch on a mask that may differ between threads: only operations of a single thread may stand below."""

    mask: str
    body: tuple[TileOp, ...]
    at: Line = NOWHERE
    threads: int | None = None
    """The first so many of the block take it; None where others may."""

    @cached_property
    def bodies(self) -> tuple[Body, ...]:
        return (Body(self.body, mask=self.mask, threads=self.threads),)

    def write(self, out: CudaWriter) -> None:
        write_block(out, f"if ({self.mask}) {{", self.body, self.at)


@value(frozen=True, slots=True)
class UniformIf(TileOp):
    """A branch on `condition >= 0` over loop counters and the block: all threads of the block take it together."""

    condition: Index
    body: tuple[TileOp, ...]
    at: Line = NOWHERE

    @cached_property
    def bodies(self) -> tuple[Body, ...]:
        return (Body(self.body, condition=self.condition),)

    @property
    def uniform(self) -> tuple[Index, ...]:
        return (self.condition,)

    def write(self, out: CudaWriter) -> None:
        write_block(out, f"if ({condition_text(self.condition)}) {{", self.body, self.at)


@value(frozen=True, slots=True)
class BreakIf(TileOp):
    """Leave the innermost loop where `condition >= 0`, over loop counters and the block: all threads of it do.

    It holds for all iterations after the first that it holds for.
    """

    condition: Index
    runs: tuple[int, int]
    """Of all blocks' iterations together, how many get past it, and how many there are."""
    at: Line = NOWHERE

    leaves_loop: ClassVar[bool] = True

    @property
    def uniform(self) -> tuple[Index, ...]:
        return (self.condition,)

    @property
    def passing(self) -> tuple[int, int]:
        return self.runs

    def write(self, out: CudaWriter) -> None:
        out.line(f"if ({condition_text(self.condition)}) break;", self.at)


@value(frozen=True, slots=True)
class LeaveUnless(TileOp):
    """Leave the innermost loop where a mask is false: each thread by itself, as the data say."""

    mask: str
    expected: tuple[int, int]
    """(n, of): of how many iterations how many are taken to get past it."""
    at: Line = NOWHERE

    leaves_loop: ClassVar[bool] = True

    @cached_property
    def masks(self) -> tuple[str, ...]:
        return (self.mask,)

    @property
    def passing(self) -> tuple[int, int]:
        return self.expected

    def write(self, out: CudaWriter) -> None:
        out.line(f"if (!{self.mask}) break;", self.at)


@value(frozen=True, slots=True)
class TakeNumber(TileOp):
    """`slot = counter`, and the counter one more: threads of any block get different numbers, in no order.

    Where `mask` is false the number is `otherwise`, and nothing is counted.
    """

    slot: Slot
    counters: str
    position: Index
    otherwise: int
    mask: str | None = None
    at: Line = NOWHERE

    positions: ClassVar[Mapping[str, str]] = {"position": "counters"}
    written_fields: ClassVar[tuple[str, ...]] = ("slot",)

    @cached_property
    def buffers(self) -> tuple[str, ...]:
        # The counter is named, but neither read nor written: the memory orders what threads do to it.
        return (self.slot.buffer, self.counters)

    @cached_property
    def defines(self) -> tuple[str, ...]:
        return () if self.slot.indices else (self.slot.buffer,)

    @cached_property
    def masks(self) -> tuple[str, ...]:
        return (self.mask,) if self.mask else ()

    @property
    def zeroed(self) -> tuple[str, ...]:
        return (self.counters,)

    def write(self, out: CudaWriter) -> None:
        taken = f"take_number({self.counters}, {out.place(self.counters, self.position)})"
        value = f"{self.mask} ? {taken} : {self.otherwise}" if self.mask else taken
        out.line(f"const int {self.slot.buffer} = {value};", self.at)


@value(frozen=True, slots=True)
class LastArrival(TileOp):
    """Each block of a team increments the team's counter; all but the last to arrive leave the kernel.

    The last one sees what the others stored to workspaces before, sets the counter back to zero, and alone runs what
    follows.  The blocks of a team have numbers that are equally far apart over the whole grid (split-K).
    """

    counters: str
    position: Index
    """Number of the team, and its counter."""
    team: int
    """Blocks of a team."""
    at: Line = NOWHERE

    execution: ClassVar[Participants] = "block"
    meets: ClassVar[Participants] = "block"
    positions: ClassVar[Mapping[str, str]] = {"position": "counters"}

    @cached_property
    def buffers(self) -> tuple[str, ...]:
        # Named, but neither read nor written: one thread of the block touches a counter, and no data moves.
        return (self.counters,)

    @property
    def uniform(self) -> tuple[Index, ...]:
        return (self.position,)

    @property
    def passing(self) -> tuple[int, int]:
        return 1, self.team

    @property
    def zeroed(self) -> tuple[str, ...]:
        return (self.counters,)

    def write(self, out: CudaWriter) -> None:
        out.line(f"if (!is_last_of<{self.team}>({self.counters}, {index_text(self.position)})) return;", self.at)


@value(frozen=True, slots=True)
class GridBarrier(TileOp):
    """All blocks of the launch meet, and see what the others stored to global memory before; all go on.

    Each increments the launch's counter and waits until it holds `number + 1` times the blocks of the grid, so that all
    of them must run at once (persistent kernels).  After the last meeting the counter is zero again.
    """

    counters: str
    """Its first element counts."""
    number: Index
    """How many times they met before, over loop counters: the same in all blocks."""
    of: int
    """How often they meet in all."""
    at: Line = NOWHERE

    execution: ClassVar[Participants] = "block"
    meets: ClassVar[Participants] = "block"

    @cached_property
    def buffers(self) -> tuple[str, ...]:
        # As of `LastArrival`: no data moves.
        return (self.counters,)

    @property
    def uniform(self) -> tuple[Index, ...]:
        return (self.number,)

    @property
    def zeroed(self) -> tuple[str, ...]:
        return (self.counters,)

    def write(self, out: CudaWriter) -> None:
        out.line(f"grid_barrier({self.counters}, 0, {index_text(self.number + 1)}, {self.of});", self.at)


def write_block(out: CudaWriter, head: str, body: tuple[TileOp, ...], at: Line) -> None:
    """Write operations in braces.  head: what stands before them, with the opening brace."""
    with out.block(head, at):
        out.body(body)


def before_meeting(body: tuple[TileOp, ...]) -> tuple[TileOp, ...]:
    """What every block of a team does; the last one alone goes on."""
    return tuple(itertools.takewhile(lambda op: not isinstance(op, LastArrival), body))
