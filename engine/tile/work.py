"""Counting a tile program: what its threads request from each level of memory."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.cost.nodes import Work, phased_work, total_work
from engine.fusion.row_sides import reduced_columns
from engine.fusion.shape import is_contraction
from engine.graph.nodes import DTYPES
from engine.target.hardware import SECTOR, WARP
from engine.target.teams import parts_read
from engine.tensor.nodes import TensorProgram
from engine.tensor.shifted_exponentials import is_shifted
from engine.tensor.traffic import compulsory_bytes, flop_counts
from engine.tensorize.bind import GemmAxes, axes_of_contraction, unpacking_flops
from engine.tensorize.intrinsics import INTRINSICS
from engine.tensorize.nodes import Intrinsic
from engine.tensorize.space import GemmConfig
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
from engine.tile.nodes import (
    BLOCK,
    THREAD,
    BlockRanges,
    GridPhases,
    LeaveUnless,
    Let,
    Load,
    Region,
    TileOp,
    TileProgram,
    before_meeting,
    only_copies,
    operations,
)  # fmt: skip
from engine.tile.nodes.operation import Body
from engine.tile.storage import shared_map, workspaces
from engine.tile.trip_counts import trip_counts

OUTSIDE = ("global", "workspace")
"""Scopes of buffers in global memory."""
FIRST = np.array(0)
"""The value of a counter in the iteration that stands for all."""
Counts = Sequence[tuple[TileOp, int]]
"""Operations, and how often all threads of a launch run them."""


def work_of_tile(program: TensorProgram, tile: TileProgram, registers: int | None = None) -> Work:
    """The figures that `estimate` works with, all launches together.  Masked accesses count as if they happened.

    registers: of one thread, estimated or as the compiler says; None where they are not known.
    """
    if tile.later:
        return total_work([_work_of_launch(_part(program, one), one, registers) for one in tile.launches])
    phases = _phases(tile)
    if phases:
        return phased_work([_work_of_launch(_part(program, one), one, registers) for one in phases])
    return _work_of_launch(program, tile, registers)


def _phases(tile: TileProgram) -> tuple[TileProgram, ...]:
    """What all blocks do between two of their meetings, as launches of their own; () where they do not meet."""
    whole = tile.body[0] if len(tile.body) == 1 else None
    if not isinstance(whole, GridPhases):
        return ()
    return tuple(
        replace(tile, body=work, statements=statements)
        for work, statements in zip(whole.works, whole.statements, strict=True)
    )


def _part(program: TensorProgram, tile: TileProgram) -> TensorProgram:
    """What one of several launches computes."""
    statements = [program.statement(name) for name in tile.statements]
    return program.cut_out(statements, program.needed_outside(statements))


def _work_of_launch(program: TensorProgram, tile: TileProgram, registers: int | None) -> Work:
    read, written = compulsory_bytes(program)
    flops, special = flop_counts(program)
    if tile.needs:
        flops, read, written = tile.needs.flops, tile.needs.read, tile.needs.written
    intrinsic = INTRINSICS.get(tile.intrinsic)
    products = [s for s in program.statements if is_contraction(s) or is_shifted(s)]
    multiplied = tile.config.product if tile.config else None
    on_cores = multiplied is not None and not intrinsic
    """Whether it is a product on CUDA cores."""
    if intrinsic or on_cores:
        flops -= sum(2 * math.prod(s.extents.values()) for s in products)
    if multiplied is not None:
        for one in filter(is_contraction, products):
            axes = axes_of_contraction(one, reduced_columns(program.statements, one), multiplied.outer)
            flops += _padded_flops(axes, multiplied) if on_cores else 0
            flops += 0 if tile.needs else _unpacking_flops(axes, multiplied)
    ranges = _ranges(tile)
    counts = [one for blocks, body in ranges for one in trip_counts(body, blocks * tile.threads, threads=tile.threads)]
    moved = _bytes_moved(tile, counts)
    asked = tuple(requests_of(tile))
    again = _read_again(program, tile, counts)
    turns = tile.config.load_turns if tile.config else 1
    steps = [turns * _serial_steps(tile, body) for _, body in ranges]
    return Work(
        blocks=tile.grid,
        threads=tile.threads,
        flops=flops,
        special=special,
        dram_bytes_read=read,
        dram_bytes_written=written,
        l2_bytes=sum(moved[scope] for scope in OUTSIDE),
        shared_bytes=shared_map(tile.buffers)[1],
        shared_bytes_moved=moved["shared"],
        shared_bytes_loaded=sum(one.bytes_loaded(tile) for one in asked) if on_cores else 0,
        shared_passes=sum(one.count * one.passes for one in asked) if on_cores else 0,
        registers=registers,
        tensor_flops=_tensor_flops(tile, intrinsic) if intrinsic else 0,
        tensor_type=intrinsic.dtype if intrinsic else "",
        stages=tile.stages,
        serial_steps=max(steps),
        block_steps=sum(blocks * n for (blocks, _), n in zip(ranges, steps, strict=True)) if len(set(steps)) > 1 else 0,
        team=tile.team,
        team_bytes=_team_bytes(tile),
        global_requests=sum(one.count for one in asked if one.is_global),
        global_sectors=sum(one.count * one.cost for one in asked if one.is_global),
        # A copy to shared memory is one instruction, counted where it reads.
        shared_requests=sum(one.count for one in asked if not one.is_global and len(one.op.regions) == 1),
        bank_conflicts=sum(one.count * one.cost for one in asked if not one.is_global),
        copies_tiles=tile.config is not None and tile.config.copies_tiles,
        orders=tile.orders,
        again_bytes=sum(requested - own for requested, own in again),
        again_set=sum(own for _, own in again) // tile.grid,
    )


def _read_again(program: TensorProgram, tile: TileProgram, counts: Counts) -> list[tuple[int, int]]:
    """(bytes requested, bytes it has) of each input that every block reads its part of more than once.

    Left out is what blocks share, tiles or whole arrays: those beside each other read it at about the same time.
    """
    if tile.config is not None and tile.config.copies_tiles:
        return []
    requested: Counter[str] = Counter()
    for op, times in counts:
        for region in op.regions_read:
            if region.buffer in program.inputs:
                requested[region.buffer] += times * region.bytes_in(tile.buffers[region.buffer])
    sizes = {name: tile.buffers[name].elements * DTYPES[tile.buffers[name].dtype] for name in requested}
    return [(requested[name], size) for name, size in sizes.items() if size < requested[name] < tile.grid * size]


def _team_bytes(tile: TileProgram) -> int:
    """Of what one team leaves in global memory, those that its last block reads: of the workspaces that teams share
    evenly; their counters, which begin as zeros, are not read again."""
    if tile.team == 1:
        return 0  # what steps hand to each other is no sum of a team
    parts = parts_read(tile.team) if isinstance(tile.config, GemmConfig) else tile.team
    return sum(w.bytes for w in workspaces(tile) if not w.zeroed) * parts // tile.grid


def _ranges(tile: TileProgram) -> tuple[tuple[int, tuple[TileOp, ...]], ...]:
    """(blocks, what they do): all of them the same, but in a packed kernel."""
    ranges = tile.body[0] if len(tile.body) == 1 else None
    return ranges.parts if isinstance(ranges, BlockRanges) else ((tile.grid, tile.body),)


def _padded_flops(axes: GemmAxes, config: GemmConfig) -> int:
    """Operations of all threads in the main loop of a product, those on the zeros of ragged tiles included."""
    rows, columns, depth = config.block
    return 2 * rows * columns * depth * _tile_steps(axes, config)


def _unpacking_flops(axes: GemmAxes, config: GemmConfig) -> int:
    """Operations that compute factors from codes: of each element of a tile once, not of each product of it."""
    of_elements = unpacking_flops(axes)
    once = sum(of * side for of, side in zip(of_elements, config.block, strict=False)) * config.block[2]
    return once * _tile_steps(axes, config) - sum(of_elements) * axes.statement.points


def _tile_steps(axes: GemmAxes, config: GemmConfig) -> int:
    """Tiles of the depth that all blocks of a product walk together."""
    tiles = [-(-size // tile) for size, tile in zip(axes.sizes, config.block, strict=True)]
    return axes.batches * tiles[0] * tiles[1] * config.split_k * -(-axes.rounds * tiles[2] // config.split_k)


def _tensor_flops(tile: TileProgram, intrinsic: Intrinsic) -> int:
    """Operations of all warps of the grid."""
    products = sum(
        times for blocks, body in _ranges(tile) for op, times in trip_counts(body, blocks) if op.tensor_instruction
    )
    return tile.threads // WARP * products * 2 * intrinsic.m * intrinsic.n * intrinsic.k


@dataclass(frozen=True, slots=True)
class MemoryRequests:
    """What the warps of a launch request at one operation, of one of the regions that it touches."""

    op: TileOp
    region: Region
    count: int
    """Instructions of a warp."""
    is_global: bool
    cost: int
    """Of each of them: sectors of global memory, or bank conflicts of shared memory."""
    passes: int
    """Of each load from shared memory: passes over the banks; of others 0."""

    def bytes_loaded(self, tile: TileProgram) -> int:
        """From shared memory to registers, of all threads."""
        if not self.passes:
            return 0
        size = self.region.bytes_in(tile.buffers[self.region.buffer])
        return self.count // -(-tile.threads // WARP) * tile.threads * size


def requests_of(tile: TileProgram) -> Iterator[MemoryRequests]:
    """All requests of a launch, one for each region of an operation.

    One warp stands for all, in its first iteration, with every mask holding: of the middle block, as those at the edges
    lie in what is padded.  `tests.benchmarks.work` computes what masks and other warps change.  Lanes that load an
    index from one place have the same one, from others indices far apart; any other address that depends on data is a
    sector of its own in every lane.
    """
    starts, warps = shared_map(tile.buffers)[0], -(-tile.threads // WARP)
    lanes = np.arange(min(WARP, tile.threads))
    everywhere = np.ones(lanes.shape, bool)
    for blocks, body in _ranges(tile):
        values: dict[str, Lanes] = {BLOCK: np.array(blocks // 2), THREAD: lanes}
        for op, times in trip_counts(body, blocks):
            values |= {inner.counter: FIRST for inner in op.bodies if inner.counter}
            if isinstance(op, Let):
                values |= _lane_values(op, values)
            for region in op.regions:
                buffer = tile.buffers[region.buffer]
                try:
                    place = byte_addresses(region, buffer, starts.get(buffer.name, 0), values)
                except DependsOnData:
                    place = lanes * SECTOR
                else:
                    values |= _loaded_indices(op, np.broadcast_to(place, lanes.shape))
                where, width = np.broadcast_to(place, lanes.shape), region.bytes_in(buffer)
                is_global = buffer.scope in OUTSIDE
                cost = sectors_of(where, everywhere) if is_global else conflicts_of(where, everywhere, width)
                is_load = not is_global and not op.regions_written
                passes = passes_of(where, everywhere, width) if is_load else 0
                yield MemoryRequests(op, region, times * warps, is_global, int(cost), int(passes))


def _lane_values(op: Let, values: Values) -> dict[str, Lanes]:
    """The value of a variable in each lane; nothing where it depends on data."""
    try:
        value = evaluate(op.index, values)
    except DependsOnData:
        return {}
    return {op.name: value if op.limit is None else np.minimum(value, op.limit)}


def _loaded_indices(op: TileOp, places: Lanes) -> Values:
    """What a single element that each lane loads stands for where it is used as an index."""
    if not isinstance(op, Load) or op.slot.indices or op.width > 1:
        return {}
    return {op.slot.buffer: np.unique(places, return_inverse=True)[1].reshape(places.shape) * SECTOR}


def _bytes_moved(tile: TileProgram, counts: Counts) -> Counter[str]:
    """Bytes that all threads move to or from each scope of memory."""
    moved: Counter[str] = Counter()
    for op, times in counts:
        if op.regions:
            for scope, size in op.bytes_moved(tile.buffers).items():
                moved[scope] += size * times
    return moved


def _serial_steps(tile: TileProgram, body: tuple[TileOp, ...]) -> int:
    """Times that a thread waits for loads: iterations of loops, those counted once that are written out together.

    What the last block of a team does after the meeting is counted as the meeting's.
    """
    loops = [inner for op in before_meeting(body) for inner in op.bodies if inner.counter and not inner.is_unrolled]
    waiting = [loop for loop in loops if not only_copies(loop.operations)]
    turns = [(-(-_turns(tile, loop) // loop.written_out), loop.operations) for loop in waiting]
    return max([1, *(number * _serial_steps(tile, operations) for number, operations in turns)])


def _turns(tile: TileProgram, loop: Body) -> int:
    """Iterations of a loop; of one that the data end those that are taken to be made, where they load from afar."""
    ends = [op.expected for op in loop.operations if isinstance(op, LeaveUnless)]
    if not ends:
        return loop.extent
    is_far = any(tile.buffers[r.buffer].scope in OUTSIDE for op in operations(loop.operations) for r in op.regions_read)
    return min(-(-loop.extent * some // every) for some, every in ends) if is_far else 1
