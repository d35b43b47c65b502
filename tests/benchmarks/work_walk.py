"""A tile program walked whole: every request of every warp with its masks, beside what one warp says for all of them.

`engine.tile.work` lets one warp in its first iteration stand for all, with every mask holding.  The walk computes
what that leaves out, so that a difference between `Work` and the emulator's counts is explained to the last request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from engine.target.hardware import SECTOR, WARP
from engine.tensor.index import Index
from engine.tile.addresses import (
    DependsOnData,
    Lanes,
    Values,
    byte_addresses,
    conflicts_of,
    evaluate,
    passes_of,
    sectors_of,
)
from engine.tile.nodes import BLOCK, THREAD, BreakIf, LastArrival, LeaveUnless, Let, Mask, TileOp, TileProgram
from engine.tile.storage import shared_map
from engine.tile.trip_counts import trip_counts
from engine.tile.work import MemoryRequests, requests_of

PASSES = "shared_passes"
COUNTS = ("global_requests", "global_sectors", "shared_requests", "bank_conflicts", PASSES)
"""Fields of `Work` that the emulator counts, too; passes alone are counted of products on CUDA cores only."""
NOBODY = "no lane of the warp takes part"
SOME = "some lanes are masked off"
OTHER = "other warps and iterations meet sectors and banks otherwise than the one"
BRANCH = "the share of a branch is rounded to whole iterations"
LATER = "lanes that skipped an access are counted with the others' next one, as the emulator sees lanes one by one"
RULES = (NOBODY, SOME, OTHER, BRANCH, LATER)

Bools = np.ndarray


def _zeros() -> dict[str, int]:
    return dict.fromkeys(COUNTS, 0)


@dataclass
class Walk:
    """What a kernel requests, and why `Work` says another number."""

    counted: dict[str, int] = field(default_factory=_zeros)
    because: dict[str, dict[str, int]] = field(default_factory=lambda: {rule: _zeros() for rule in RULES})
    """Rule -> what it takes from each field of `Work` to come to `counted`."""
    depends_on_data: bool = False
    """Whether addresses or masks follow from values in memory: the walk knows no such value."""
    ends_by_data: bool = False
    """Whether values in memory end loops: `Work` takes a number of iterations for them."""


@dataclass(frozen=True)
class _Place:
    """Where the walk stands; arrays of blocks x warps x lanes, or of shapes that stand for such."""

    values: Values
    masks: Mapping[str, Bools]
    blocks: Bools
    """Blocks that come here."""
    lanes: Bools
    """Lanes that masks let come here."""


def walk(tile: TileProgram) -> Walk:
    """Every request of every launch, one iteration after the other: for kernels of few iterations."""
    found = Walk()
    for launch in tile.launches:
        walker = _Walker(launch, found)
        packed = [part for op in launch.body for part in op.bodies if part.blocks is not None]
        for blocks, body in [(part.blocks or 0, part.operations) for part in packed] or [(launch.grid, launch.body)]:
            warps = -(-launch.threads // WARP)
            threads = np.arange(warps * WARP).reshape(1, warps, WARP)
            values = {BLOCK: np.arange(blocks).reshape(-1, 1, 1), THREAD: threads}
            walker.run(body, _Place(values, {}, np.ones((blocks, 1, 1), bool), threads < launch.threads))
            walker.meet()
        walker.count_branches()
    return found


class _Walker:
    def __init__(self, tile: TileProgram, found: Walk) -> None:
        self._tile, self._found = tile, found
        self._starts = shared_map(tile.buffers)[0]
        self._threads = np.arange(-(-tile.threads // WARP) * WARP).reshape(1, -1, WARP) < tile.threads
        self._told: dict[tuple[int, str], MemoryRequests] = {}
        for one in requests_of(tile):
            key = id(one.op), one.region.buffer  # an operation may stand in several places
            before = self._told.get(key)
            self._told[key] = replace(one, count=one.count + before.count) if before else one
        self._came: dict[tuple[int, str], int] = {}
        """Requests of each that were walked, whether masks held or not."""
        self._since_meeting: dict[tuple[int, str], list[tuple[Lanes, Bools]]] = {}
        """Of global memory: (addresses, lanes that take part) of each visit since lanes met."""

    def run(self, body: tuple[TileOp, ...], place: _Place) -> Bools:
        """Walk operations; the blocks that come to the end of them."""
        for op in body:
            if not place.blocks.any():
                break
            self._access(op, place)
            if op.meets != "thread" or op.execution == "warp":
                self.meet()
            place = self._after(op, place)
            for inner in op.bodies:
                blocks = place.blocks
                lanes = place.lanes & place.masks[inner.mask] if inner.mask else place.lanes
                for n in range(inner.extent):
                    values = {**place.values, inner.counter: np.array(n)} if inner.counter else place.values
                    taken = blocks
                    if inner.condition is not None:
                        taken = blocks & self._holds(inner.condition, values)
                    end = self.run(inner.operations, _Place(values, place.masks, taken, lanes))
                    blocks = end if inner.counter else blocks  # who has left a loop stays out of it
        return place.blocks

    def _holds(self, condition: Index, values: Values) -> Bools:
        try:
            return evaluate(condition, values) >= 0
        except DependsOnData:
            self._found.depends_on_data = True
            return np.array(True)

    def _after(self, op: TileOp, place: _Place) -> _Place:
        """What is known after an operation, and who comes there."""
        match op:
            case Let(name, index, _, limit):
                try:
                    value = evaluate(index, place.values)
                except DependsOnData:
                    self._found.depends_on_data = True
                    return place
                value = value if limit is None else np.minimum(value, limit)
                return replace(place, values={**place.values, name: value})
            case Mask(name, conditions, within):
                held: Bools = np.array(True)
                for mask in within:
                    held = held & place.masks[mask]
                for condition in conditions:
                    held = held & self._holds(condition, place.values)
                return replace(place, masks={**place.masks, name: held})
            case LeaveUnless():
                self._found.depends_on_data = self._found.ends_by_data = True
                return place
            case BreakIf(condition):
                return replace(place, blocks=place.blocks & ~self._holds(condition, place.values))
            case LastArrival(team=team):
                # The emulator runs blocks in the order of their numbers: the last of a team has the highest.
                grid = len(place.blocks)
                return replace(place, blocks=place.blocks & (np.arange(grid).reshape(-1, 1, 1) >= grid - grid // team))
            case _:
                return place

    def _access(self, op: TileOp, place: _Place) -> None:
        is_copy = len(op.regions) > 1
        for region in op.regions:
            key = id(op), region.buffer
            told = self._told.get(key)
            if told is None:
                continue  # a counter that a whole block meets at
            buffer = self._tile.buffers[region.buffer]
            try:
                where = byte_addresses(region, buffer, self._starts.get(buffer.name, 0), place.values)
            except DependsOnData:
                self._found.depends_on_data = True
                where = place.values[THREAD] * SECTOR
            shape = (len(place.blocks), *self._threads.shape[1:])
            coming = np.broadcast_to(place.blocks & place.lanes, shape)
            taking = coming & place.masks[region.mask] if region.mask else coming
            addresses: Lanes = np.broadcast_to(where, shape)
            width = region.bytes_in(buffer)
            cost = sectors_of(addresses, taking) if told.is_global else conflicts_of(addresses, taking, width)
            requests = "" if is_copy and not told.is_global else COUNTS[0] if told.is_global else COUNTS[2]
            # A masked copy is issued all the same, and fills its place with zeros.
            issuing = (coming if is_copy else taking).any(axis=-1)
            self._came[key] = self._came.get(key, 0) + int(place.blocks.sum()) * shape[1]
            name = COUNTS[1 if told.is_global else 3]
            self._explain_requests(requests, place.blocks, issuing)
            self._explain(name, told.cost, cost, (place.blocks, taking))
            if told.passes:
                self._explain(PASSES, told.passes, passes_of(addresses, taking, width), (place.blocks, taking))
            if told.is_global and not is_copy:
                self._since_meeting.setdefault(key, []).append((addresses, taking))

    def meet(self) -> None:
        """Lanes meet: the emulator counts the n-th accesses of all lanes at one place since then as one request."""
        because, counted = self._found.because[LATER], self._found.counted
        for visits in self._since_meeting.values():
            taking = np.stack([taken for _, taken in visits])
            if (taking.any(axis=0) & ~taking.all(axis=0)).any():
                order = np.argsort(~taking, axis=0, kind="stable")
                lanes = np.take_along_axis(np.stack([addresses for addresses, _ in visits]), order, axis=0)
                moved = np.take_along_axis(taking, order, axis=0)
                apart = sum(int(sectors_of(addresses, taken).sum()) for addresses, taken in visits)
                for name, more in (
                    (COUNTS[0], int(moved.any(axis=-1).sum() - taking.any(axis=-1).sum())),
                    (COUNTS[1], int(sectors_of(lanes, moved).sum()) - apart),
                ):
                    counted[name] += more
                    because[name] -= more
        self._since_meeting.clear()

    def _explain_requests(self, name: str, blocks: Bools, issuing: Bools) -> None:
        """Those of one iteration of an operation, where they have a name of their own.  issuing: warps that do."""
        if name:
            coming = np.broadcast_to(blocks[..., 0], issuing.shape)
            self._found.counted[name] += int(issuing.sum())
            self._found.because[NOBODY][name] += int(coming.sum() - issuing.sum())

    def _explain(self, name: str, first: int, cost: Lanes, lanes: tuple[Bools, Bools]) -> None:
        """What the requests of one iteration of an operation cost.  first: each of them, as `Work` says.

        lanes: blocks that come there, and lanes that take part.
        """
        blocks, taking = lanes
        because = self._found.because
        self._found.counted[name] += int(cost.sum())
        some, every = taking.any(axis=-1), (taking == self._threads).all(axis=-1)
        coming = np.broadcast_to(blocks[..., 0], some.shape)
        because[NOBODY][name] += first * int((coming & ~some).sum())
        because[SOME][name] += int((first - cost)[some & ~every].sum())
        because[OTHER][name] += int((first - cost)[every].sum())

    def count_branches(self) -> None:
        """What `Work` counts beyond the iterations that were walked."""
        because = self._found.because[BRANCH]
        for key, told in self._told.items():
            over = told.count - self._came.get(key, 0)
            if told.is_global or len(told.op.regions) == 1:
                because[COUNTS[0 if told.is_global else 2]] += over
            because[COUNTS[1 if told.is_global else 3]] += over * told.cost
            because[PASSES] += over * told.passes


def visits(tile: TileProgram) -> int:
    """Requests of threads that all launches make: what a walk and an emulation cost."""
    return sum(
        times
        for launch in tile.launches
        for op, times in trip_counts(launch.body, launch.grid * launch.threads)
        if op.regions
    )
