"""One factor of a contraction: how its tile is copied to shared memory and read from there.

Along whichever iterator is contiguous in global memory the copy moves up to 16 bytes at once, and the tile keeps that
order, so nothing is transposed on the way:
    depth inner   tile[row][depth + pad]     a thread reads 4 depths of one of its rows at a time
    free inner    tile[depth][row + pad]     a thread reads 4 neighbouring rows at one depth
The pad of 16 bytes keeps alignment and puts neighbouring rows into different banks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.codegen.emit import LANE_OF_VECTOR, Emitter
from engine.codegen.nodes import NOWHERE, Line
from engine.codegen.tile import AsyncCopy, Buffer, Load, Slot, Store
from engine.graph.nodes import DTYPES
from engine.schedule.nodes import Member
from engine.tensor.access import VECTOR_BYTES
from engine.tensor.index import Index, delinearize
from engine.tensor.nodes import Access, Literal, Statement
from engine.tensor.rewrite import plain_iterator

COPY_BYTES = (16, 8, 4)
"""Sizes of one cp.async."""
FRAGMENT = 4
"""Most elements of one shared-memory read."""


def fragment_elements(dtype: str) -> int:
    """Elements that one shared-memory read brings into registers."""
    return min(FRAGMENT, VECTOR_BYTES // DTYPES[dtype])


@dataclass(frozen=True, slots=True)
class Side:
    """The free dimension of an operand: rows of the first factor, columns of the second."""

    name: str
    members: tuple[Member, ...]
    tile: int
    """Elements of a block's tile."""
    owned: int
    """Elements of a thread's part."""
    size: int
    start: Index
    """First element of this block's tile."""
    slot: Index
    """Number of this thread along the side."""

    def local(self, owned: Index, run: int, extents: Mapping[str, int]) -> Index:
        """Place in the tile of a thread's element: runs of `run` neighbours, dealt round the threads."""
        across = self.tile // self.owned
        return owned.floordiv(run, extents) * (across * run) + self.slot * run + owned.mod(run, extents)

    def owned_at(self, owned: Index, run: int, extents: Mapping[str, int]) -> Index:
        """The element itself."""
        return self.start + self.local(owned, run, extents)


@dataclass(frozen=True, slots=True)
class Operand:
    """A factor with its place in shared memory."""

    access: Access
    side: Side
    place: Mapping[str, Index]
    """Batch iterators of the statement in kernel variables."""
    free: Mapping[str, str]
    """Dimension -> iterator of the statement, for the side and the depth."""
    depths: tuple[Member, ...]
    tile: str
    """Shared buffer."""
    fragment: str
    """Register buffer."""
    dtype: str
    depth_inner: bool
    width: int
    """Elements of one copy."""
    is_async: bool
    tile_depth: int
    stages: int
    step: int
    """Depths of one fragment."""

    @property
    def run(self) -> int:
        """Neighbouring elements of the side that a thread owns together."""
        return 1 if self.depth_inner else min(fragment_elements(self.dtype), self.side.owned)

    @property
    def stride(self) -> int:
        """Elements of one row of the tile, pad included."""
        return (self.tile_depth if self.depth_inner else self.side.tile) + 16 // DTYPES[self.dtype]

    @property
    def stage_elements(self) -> int:
        return self.stride * (self.side.tile if self.depth_inner else self.tile_depth)

    def element(self, owned: Index, depth: Index) -> Access:
        """The fragment register of one owned element at one depth of the step."""
        if self.depth_inner:
            return Access(self.fragment, (owned, depth))
        run = self.run
        extents = dict.fromkeys(owned.iterators(), self.side.owned)
        return Access(self.fragment, (depth, owned.floordiv(run, extents), owned.mod(run, extents)))

    def position(self, emitter: Emitter, free: Index, depth: Index, at: Line) -> Index:
        """Position in global memory of an element of the side at a depth."""
        where = dict(self.place)
        for members, flat in ((self.side.members, free), (self.depths, depth)):
            shape = tuple(m.extent for m in members)
            for member, index in zip(members, delinearize(flat, shape, emitter.extents), strict=True):
                where[self.free[member.name]] = index
        return emitter.position(self.access, where, at)


def choose_operand(
    emitter: Emitter,
    statement: Statement,
    access: Access,
    side: Side,
    place: Mapping[str, Index],
    depths: tuple[Member, ...],
    tile_depth: int,
    stages: int,
    step: int,
) -> Operand:
    """The widest copy that global memory allows, and the tile order that goes with it.

    step: depths that are brought into registers together.
    """
    array = emitter.program.arrays[access.array]
    members = {m.name: name for m in (*side.members, *depths) if (name := plain_iterator(m.rows[statement.name]))}

    def make(depth_inner: bool, width: int, is_async: bool) -> Operand:
        return Operand(
            access, side, place, members, depths, tile="", fragment="", dtype=array.dtype, depth_inner=depth_inner,
            width=width, is_async=is_async, tile_depth=tile_depth, stages=stages, step=step,
        )  # fmt: skip

    widths = [b // DTYPES[array.dtype] for b in COPY_BYTES if b >= DTYPES[array.dtype]]
    candidates = [make(inner, width, True) for width in widths for inner in (True, False)]
    chosen = next((c for c in candidates if _allowed(emitter, c, depths)), make(True, 1, False))
    emitter.read_from.add(array.name)
    tile = f"{array.name}_tile" if f"{array.name}_tile" not in emitter.buffers else f"{array.name}_tile_2"
    emitter.buffers[tile] = Buffer(tile, array.dtype, (stages * chosen.stage_elements,), "shared")
    shape = (side.owned, step) if chosen.depth_inner else (step, side.owned // chosen.run, chosen.run)
    fragment = emitter.register(f"{array.name}_part", array.dtype, shape)
    return replace(chosen, tile=tile, fragment=fragment)


def _allowed(emitter: Emitter, operand: Operand, depths: tuple[Member, ...]) -> bool:
    """Whether every copy of this width is contiguous, aligned, whole, and the threads share the copies evenly."""
    width, side = operand.width, operand.side
    depth_size = math.prod(m.extent for m in depths)
    inner_tile, inner_size = (operand.tile_depth, depth_size) if operand.depth_inner else (side.tile, side.size)
    copies = side.tile * operand.tile_depth // width
    if inner_tile % width or inner_size % width or copies % emitter.extents["thread"]:
        return False
    if width == 1:
        return operand.depth_inner
    probes = {"probe_free": side.size, "probe_depth": depth_size, LANE_OF_VECTOR: width}
    inner = "probe_depth" if operand.depth_inner else "probe_free"
    probes[inner] //= width
    emitter.extents |= probes
    free, depth = Index.of("probe_free"), Index.of("probe_depth")
    moved = Index.of(inner) * width + Index.of(LANE_OF_VECTOR)
    free, depth = (free, moved) if operand.depth_inner else (moved, depth)
    return emitter.contiguous(operand.position(emitter, free, depth, NOWHERE), width)


def copy_tile(emitter: Emitter, operand: Operand, tile: Index, stage: Index, at: Line) -> None:
    """Every thread copies its share of tile number `tile` into `stage`; beyond the array it fills zeros."""
    side, width, threads = operand.side, operand.width, emitter.extents["thread"]
    depth_size = math.prod(m.extent for m in operand.depths)
    inner_tile = operand.tile_depth if operand.depth_inner else side.tile
    per_row = inner_tile // width
    name = operand.access.array
    shares = side.tile * operand.tile_depth // width // threads
    with emitter.loop(f"{name}_share", shares, at) as share:
        chunk = emitter.bind(f"{name}_chunk", share * threads + Index.of("thread"), at)
        outer = emitter.bind(f"{name}_outer", chunk.floordiv(per_row, emitter.extents), at)
        inner = emitter.bind(f"{name}_inner", chunk.mod(per_row, emitter.extents) * width, at)
        local_free, local_depth = (outer, inner) if operand.depth_inner else (inner, outer)
        free = emitter.bind(f"{name}_free", side.start + local_free, at)
        depth = emitter.bind(f"{name}_depth", tile * operand.tile_depth + local_depth, at)
        widths = (1, width) if operand.depth_inner else (width, 1)
        inside = emitter.mask(
            emitter.fresh(f"{name}_inside"),
            [Index((), side.size - widths[0]) - free, Index((), depth_size - widths[1]) - depth],
            at,
        )
        source = operand.position(emitter, free, depth, at)
        target = stage * operand.stage_elements + outer * operand.stride + inner
        if operand.is_async:
            emitter.add(AsyncCopy(operand.tile, target, name, source, width, inside, at))
            return
        held = emitter.register(f"{name}_element", operand.dtype)
        emitter.add(Load(Slot(held), name, source, 1, inside, Literal(0, operand.dtype), at))
        emitter.add(Store(operand.tile, target, Slot(held), 1, None, at))


def load_fragment(emitter: Emitter, operand: Operand, stage: Index, depth: Index, step: int, at: Line) -> None:
    """A thread's elements of `step` depths from shared memory into registers."""
    side, run = operand.side, operand.run
    base = stage * operand.stage_elements
    emitter.declare(operand.fragment)
    if operand.depth_inner:
        with emitter.loop("r", side.owned, at) as owned:
            row = side.local(owned, 1, emitter.extents)
            place = base + row * operand.stride + depth
            emitter.add(Load(Slot(operand.fragment, (owned,)), operand.tile, place, step, None, None, at))
        return
    with emitter.loop("q", step, at) as q, emitter.loop("r", side.owned // run, at) as group:
        place = base + (depth + q) * operand.stride + side.local(group * run, run, emitter.extents)
        slot = Slot(operand.fragment, (q, group) if run > 1 else (q, group, Index()))
        emitter.add(Load(slot, operand.tile, place, run, None, None, at))
