"""The threads of several blocks as lanes of NumPy arrays: which of them run now, their registers and their memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.execution.ptx.memory import BlockMemory, GlobalMemory, Memory
from engine.execution.ptx.nodes import PtxFault
from engine.execution.ptx.ordering import BlockOrder, GridOrder, Threads

WARP_LANES = 32


@dataclass(frozen=True, slots=True)
class LaunchState:
    """What all blocks of one launch share."""

    memory: GlobalMemory
    parameters: tuple[int, ...]
    """Pointers, as the launcher packs them."""
    order: GridOrder
    shape: tuple[int, int, int]
    """Threads of a block."""
    grid: tuple[int, int, int]
    shared_bytes: int
    local_bytes: int


@dataclass(slots=True)
class Copies:
    """Asynchronous copies of one instruction that have not landed."""

    lanes: np.ndarray
    group: np.ndarray
    """Of each lane: number of the group that the copy is or will be in."""
    target: np.ndarray
    source: np.ndarray
    """Places in shared and global memory."""
    size: int
    filled: np.ndarray
    """Bytes of each that come from the source; the rest is zeros."""

    def part(self, chosen: np.ndarray) -> Copies:
        """Some of the lanes."""
        lanes, group, target, source, filled = (
            part[chosen] for part in (self.lanes, self.group, self.target, self.source, self.filled)
        )
        return Copies(lanes, group, target, source, self.size, filled)


class RunningLanes:
    """Blocks that run side by side.

    Lanes are ordered by warp, then block, then lane of the warp: one warp of all blocks is a slice.  Threads that fill
    the last warp of a block up to whole warps never run.
    """

    def __init__(self, launch: LaunchState, blocks: Sequence[int], first: int, lands_early: bool) -> None:
        """blocks: numbers in the grid.  first: how many blocks of the launch ran before.
        lands_early: whether asynchronous copies land when they are issued; else at their wait.
        """
        x, y, z = launch.shape
        self.launch, self.threads, self.blocks = launch, x * y * z, len(blocks)
        self.warps = -(-self.threads // WARP_LANES)
        self.count = self.warps * self.blocks * WARP_LANES
        axes = (np.arange(self.warps), np.arange(self.blocks), np.arange(WARP_LANES))
        self.warp, self.slot, lane = (n.reshape(-1) for n in np.meshgrid(*axes, indexing="ij"))
        thread = self.warp * WARP_LANES + lane
        self.exists = thread < self.threads
        self.memory, self.parameters = launch.memory, launch.parameters
        self.shared = BlockMemory(launch.shared_bytes, self.blocks, "shared")
        self.local = BlockMemory(launch.local_bytes, self.count if launch.local_bytes else 0, "local")
        self.registers: dict[int, np.ndarray] = {}
        """By number; one that nobody wrote is missing."""
        special = {
            "%laneid": lane, **_by_axis("%tid", thread, launch.shape),
            **_by_axis("%ctaid", np.asarray(blocks, np.int64)[self.slot], launch.grid),
            **{f"%ntid.{axis}": np.full(self.count, n) for axis, n in zip("xyz", launch.shape, strict=True)},
            **{f"%nctaid.{axis}": np.full(self.count, n) for axis, n in zip("xyz", launch.grid, strict=True)},
        }  # fmt: skip
        self.special = {name: values.astype(np.uint32) for name, values in special.items()}
        self.selected, self.select = np.arange(self.count), slice(None)
        self.clock = 0
        """Instructions executed since the launch began."""
        self._thread = thread
        self._barrier, self._sync = np.zeros(self.count, np.int64), np.zeros(self.count, np.int64)
        """Of each lane: when its block, and when its warp met last."""
        self.group = np.zeros(self.count, np.int64)
        """Of each lane: groups of asynchronous copies that it has committed."""
        self._copies: list[Copies] = []
        self.lands_early = lands_early
        self._block_order = BlockOrder(self.shared.data.size)
        self._first = first
        self._run_thread = (first + self.slot) * self.threads + thread

    select: slice | np.ndarray
    selected: np.ndarray

    def choose(self, selected: np.ndarray) -> None:
        """Let some lanes run, given by their numbers in order."""
        self.selected = selected
        # Neighbours as a slice: NumPy then reads registers in place, where numbers would copy them.
        first, last = int(selected[0]), int(selected[-1])
        self.select = slice(first, last + 1) if last - first + 1 == selected.size else selected

    def whole_warps(self) -> int:
        """How many warps run; PtxFault where lanes of one are missing."""
        if not self.are_whole():
            raise PtxFault("divergent warp", "not all lanes of a warp come to an instruction of the whole warp")
        return self.selected.size // WARP_LANES

    def are_whole(self) -> bool:
        """Whether no lanes are missing of the warps that run."""
        if self.selected.size % WARP_LANES:
            return False
        by_warp = self.selected.reshape(-1, WARP_LANES)
        first = by_warp[:, 0]
        return bool(((first % WARP_LANES == 0) & (by_warp[:, -1] - first == WARP_LANES - 1)).all())

    def space(self, name: str) -> Memory:
        """Memory by PTX's name of its space."""
        return self.memory if name == "global" else self.shared if name == "shared" else self.local

    def locate(self, space: str, addresses: np.ndarray, size: int) -> np.ndarray:
        """Where the running lanes' accesses of `size` bytes lie in a space's memory; PtxFault where they may not."""
        addresses = np.broadcast_to(addresses, self.selected.shape)
        if space == "global":
            return self.memory.locate(addresses, size)
        if space == "shared":
            return self.shared.locate(addresses, self.slot[self.select], size)
        return self.local.locate(addresses, self.selected, size)

    def before_read(self, space: str, at: np.ndarray, size: int) -> None:
        """PtxFault where what is read is not ordered after its store."""
        if space == "shared":
            self._block_order.read(at, size, self._threads(self.select), self.clock)
        elif space == "global":
            self.launch.order.read(at, size, self._run_thread[self.select])

    def before_write(self, space: str, at: np.ndarray, size: int) -> None:
        """PtxFault where what is overwritten is not ordered before."""
        if space == "shared":
            self._block_order.write(at, size, self._threads(self.select), self.clock)
        elif space == "global":
            self.launch.order.write(at, size, self._run_thread[self.select])

    def fence(self) -> None:
        """The running lanes' stores are seen by other blocks."""
        self.launch.order.fence(self._run_thread[self.select])

    def add_to_counter(self) -> None:
        """The running lanes' atomic additions tell other blocks that they have come."""
        self.launch.order.add(self._run_thread[self.select], self.clock)

    def look_at_counter(self) -> None:
        """The running lanes see which blocks have come."""
        self.launch.order.look(self._run_thread[self.select], self.clock)

    def begin(self, copies: Copies) -> None:
        """Issue asynchronous copies of the running lanes."""
        if self.lands_early:
            self._land(copies)
        else:
            self._copies.append(copies)

    def commit(self) -> None:
        """The running lanes' copies so far are a group."""
        self.group[self.select] += 1

    def wait(self, left: int, everything: bool = False) -> None:
        """Land the running lanes' groups but the last `left`; everything: also what is in no group."""
        runs = np.zeros(self.count, bool)
        runs[self.select] = True
        waiting, self._copies = self._copies, []
        for copies in waiting:
            due = runs[copies.lanes] & (everything | (copies.group < self.group[copies.lanes] - left))
            if due.any():
                self._land(copies.part(due))
            if not due.all():
                self._copies.append(copies.part(~due))

    def pass_barrier(self, blocks: np.ndarray) -> None:
        """All threads of some blocks have met.  blocks: bool, of each."""
        self._barrier[blocks[self.slot]] = self.clock
        self.launch.order.meet(self._first + np.flatnonzero(blocks))

    def pass_warp_barrier(self) -> None:
        """The running lanes have met, each with those of its warp."""
        self._sync[self.select] = self.clock

    def _threads(self, chosen: slice | np.ndarray) -> Threads:
        return Threads(self._thread[chosen], self._barrier[chosen], self._sync[chosen])

    def end(self) -> None:
        """PtxFault where a thread ended before its copies landed."""
        if self._copies:
            raise PtxFault("unfinished copy", "a thread ends before its asynchronous copies have landed")

    def _land(self, copies: Copies) -> None:
        self._block_order.write(copies.target, copies.size, self._threads(copies.lanes), self.clock)
        values = np.zeros((copies.lanes.size, copies.size), np.uint8)
        for count in np.unique(copies.filled[copies.filled > 0]):
            own = copies.filled == count
            values[own, :count] = self.memory.read(copies.source[own], 1, int(count))
        self.shared.write(copies.target, values)


def _by_axis(name: str, number: np.ndarray, extents: tuple[int, int, int]) -> Mapping[str, np.ndarray]:
    """Coordinates of linear numbers, x fastest."""
    x, y, _ = extents
    return {f"{name}.x": number % x, f"{name}.y": number // x % y, f"{name}.z": number // (x * y)}
