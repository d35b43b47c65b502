"""One factor of a contraction: how its tile is copied to shared memory.

Along whichever iterator is contiguous in global memory the copy moves up to 16 bytes at once, and the tile keeps that
order, so nothing is transposed on the way:
    depth inner   tile[row][depth + pad]
    free inner    tile[depth][row + pad]
A pad of 16 bytes keeps alignment and puts neighbouring rows into different banks.  Tiles for tensor cores have rows of
a power of two of bytes instead, whose chunks are permuted (swizzle.cuh).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.graph.nodes import DTYPES
from engine.scheduling.nodes import Member
from engine.target.copies import COPIED_IN_TURN, COPY_BYTES, MOST_HELD
from engine.target.hardware import VECTOR_BYTES
from engine.tensor.access import delinearize_nested, position, stride
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Literal, Statement
from engine.tensor.rewrite import plain_iterator
from engine.tile.emit import LANE_OF_VECTOR, Emitter
from engine.tile.nodes import AsyncCopy, Buffer, Load, Slot, Store
from engine.tile.source import NOWHERE, Line

BITS = {2: "uint16"}
"""Type of a register that holds an element of so many bytes as it is, which no conversion touches on its way."""


@dataclass(frozen=True, slots=True)
class Side:
    """The free dimension of an operand: rows of the first factor, columns of the second."""

    members: tuple[Member, ...]
    tile: int
    """Elements of a block's tile."""
    size: int
    start: Index
    """First element of this block's tile."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """What both operands share: the depths of the main loop."""

    depths: tuple[Member, ...]
    tile: int
    """Depths of one tile."""
    is_swizzled: bool = False
    """Whether the chunks of a tile's rows are permuted, instead of rows padded."""

    @property
    def size(self) -> int:
        """Depths in all."""
        return math.prod(m.extent for m in self.depths)


@dataclass(frozen=True, slots=True)
class Operand:
    """A factor with its place in shared memory."""

    access: Access
    side: Side
    tiling: Tiling
    place: Mapping[str, Index]
    """Batch iterators of the statement in kernel variables."""
    free: Mapping[str, str]
    """Dimension -> iterator of the statement, for the side and the depth."""
    tile: str
    """Shared buffer."""
    dtype: str
    depth_inner: bool
    width: int
    """Elements of one copy."""
    is_async: bool

    @property
    def row(self) -> int:
        """Elements of one row of the tile."""
        return self.tiling.tile if self.depth_inner else self.side.tile

    @property
    def stride(self) -> int:
        """From one row of the tile to the next, pad included."""
        return self.row + (0 if self.tiling.is_swizzled else VECTOR_BYTES // DTYPES[self.dtype])

    @property
    def elements(self) -> int:
        """Of the tile, pads included."""
        return self.stride * (self.side.tile if self.depth_inner else self.tiling.tile)

    def local(self, free: Index, depth: Index) -> Index:
        """Position within the tile."""
        row, column = (free, depth) if self.depth_inner else (depth, free)
        return row * self.stride + column

    def position(self, emitter: Emitter, free: Index, depth: Index, at: Line) -> Index:
        """Position in global memory of an element of the side at a depth."""
        where = dict(self.place)
        for members, flat in ((self.side.members, free), (self.tiling.depths, depth)):
            shape = tuple(m.extent for m in members)
            for member, index in zip(members, delinearize_nested(flat, shape, emitter.extents), strict=True):
                where[self.free[member.name]] = index
        return emitter.position(self.access, where, at)


def choose_operand(
    emitter: Emitter, statement: Statement, access: Access, side: Side, place: Mapping[str, Index], tiling: Tiling
) -> Operand:
    """The widest copy that global memory allows, and the tile order that goes with it."""
    array = emitter.program.arrays[access.array]
    everyone = (*side.members, *tiling.depths)
    members = {m.name: name for m in everyone if (name := plain_iterator(m.rows[statement.name]))}

    def make(depth_inner: bool, width: int, is_async: bool) -> Operand:
        return Operand(
            access, side, tiling, place, members, tile="", dtype=array.dtype, depth_inner=depth_inner, width=width,
            is_async=is_async,
        )  # fmt: skip

    singly = _is_nearer_along_depth(emitter, statement, access, side, tiling)
    widths = [b // DTYPES[array.dtype] for b in COPY_BYTES if b >= DTYPES[array.dtype]]
    orders = [(inner, width) for width in widths for inner in (True, False) if width > 1 or inner == singly]
    candidates = [make(inner, width, True) for inner, width in orders]
    chosen = next((c for c in candidates if _allowed(emitter, c)), make(singly, 1, False))
    emitter.read_from.add(array.name)
    tile = f"{array.name}_tile" if f"{array.name}_tile" not in emitter.buffers else f"{array.name}_tile_2"
    row_bytes = chosen.row * DTYPES[array.dtype] if tiling.is_swizzled else 0
    emitter.buffers[tile] = Buffer(tile, array.dtype, (chosen.elements,), "shared", row_bytes)
    return replace(chosen, tile=tile)


def _is_nearer_along_depth(
    emitter: Emitter, statement: Statement, access: Access, side: Side, tiling: Tiling
) -> bool:
    """Whether single elements are better copied along the depth: neighbouring threads then read neighbouring places.

    Where both directions step as far, the longer one has fewer jumps.
    """
    where = position(access, emitter.program.arrays)
    steps = []
    for members in (tiling.depths, side.members):
        name = plain_iterator(members[-1].rows[statement.name]) if members else None
        step = stride(where, name) if name else None
        steps.append((abs(step) or math.inf if step is not None else math.inf, -members[-1].extent if members else 0))
    return steps[0] <= steps[1]


def _allowed(emitter: Emitter, operand: Operand) -> bool:
    """Whether every copy of this width is contiguous, aligned, whole, and the threads share the copies evenly."""
    width, side, tiling = operand.width, operand.side, operand.tiling
    inner_tile, inner_size = (tiling.tile, tiling.size) if operand.depth_inner else (side.tile, side.size)
    copies = side.tile * tiling.tile // width
    if inner_tile % width or inner_size % width or copies % emitter.extents["thread"]:
        return False
    if width == 1:
        return True
    probes = {"probe_free": side.size, "probe_depth": tiling.size, LANE_OF_VECTOR: width}
    inner = "probe_depth" if operand.depth_inner else "probe_free"
    probes[inner] //= width
    emitter.extents |= probes
    free, depth = Index.of("probe_free"), Index.of("probe_depth")
    moved = Index.of(inner) * width + Index.of(LANE_OF_VECTOR)
    free, depth = (free, moved) if operand.depth_inner else (moved, depth)
    return emitter.contiguous(operand.position(emitter, free, depth, NOWHERE), width)


def copy_tile(emitter: Emitter, operand: Operand, tile: Index, at: Line) -> None:
    """Every thread copies its share of tile number `tile`; beyond the array it fills zeros.

    Without cp.async a thread loads all of its share before it stores any, so that a pipeline can move the two apart;
    a large share is copied in turns.
    """
    shares = operand.side.tile * operand.tiling.tile // operand.width // emitter.extents["thread"]
    name, counter = operand.access.array, f"{operand.access.array}_share"
    if operand.is_async:
        with emitter.loop(counter, shares, at) as share:
            place = _Place(emitter, operand, share, at)
            source, inside = place.source(tile)
            emitter.add(AsyncCopy(operand.tile, place.target, name, source, operand.width, inside, at))
        return
    together = shares if shares <= MOST_HELD else COPIED_IN_TURN
    dtype = BITS.get(DTYPES[operand.dtype], operand.dtype)
    with emitter.loop(f"{name}_round", shares // together, at, unroll=False) as number:
        held = emitter.register(f"{name}_held", dtype, (together,))
        emitter.declare(held)
        with emitter.loop(counter, together, at) as share:
            source, inside = _Place(emitter, operand, number * together + share, at).source(tile)
            emitter.add(Load(Slot(held, (share,)), name, source, 1, inside, Literal(0, dtype), at))
        with emitter.loop(counter, together, at) as share:
            target = _Place(emitter, operand, number * together + share, at).target
            emitter.add(Store(operand.tile, target, Slot(held, (share,)), 1, None, at))


class _Place:
    """Where one of a thread's copies of a tile comes from and goes to.  Making it binds the chunk's coordinates."""

    def __init__(self, emitter: Emitter, operand: Operand, share: Index, at: Line) -> None:
        self.emitter, self.operand, self.at = emitter, operand, at
        per_row, name, extents = operand.row // operand.width, operand.access.array, emitter.extents
        chunk = emitter.bind(f"{name}_chunk", share * extents["thread"] + Index.of("thread"), at)
        self.outer = emitter.bind(f"{name}_outer", chunk.floordiv(per_row, extents), at)
        self.inner = emitter.bind(f"{name}_inner", chunk.mod(per_row, extents) * operand.width, at)

    @property
    def target(self) -> Index:
        """Position in the tile."""
        return self.outer * self.operand.stride + self.inner

    def source(self, tile: Index) -> tuple[Index, str | None]:
        """Position in global memory of what belongs there in tile number `tile`, and the mask where there is any."""
        emitter, operand, at = self.emitter, self.operand, self.at
        side, tiling, name, width = operand.side, operand.tiling, operand.access.array, operand.width
        local = (self.outer, self.inner) if operand.depth_inner else (self.inner, self.outer)
        free = emitter.bind(f"{name}_free", side.start + local[0], at)
        depth = emitter.bind(f"{name}_depth", tile * tiling.tile + local[1], at)
        widths = (1, width) if operand.depth_inner else (width, 1)
        conditions = [Index((), side.size - widths[0]) - free, Index((), tiling.size - widths[1]) - depth]
        inside = emitter.mask(emitter.fresh(f"{name}_inside"), conditions, at)
        return operand.position(emitter, free, depth, at), inside
