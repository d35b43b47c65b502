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
from dataclasses import dataclass

from engine.kernels.gemm.copies import TileCopy, choose_copy, reach_of
from engine.kernels.gemm.unpack import CodedFactor, Codes, copy_codes, write_elements
from engine.scheduling.nodes import Member
from engine.tensor.access import delinearize_nested
from engine.tensor.index import Extents, Index
from engine.tensor.nodes import Access, Literal, Statement
from engine.tensor.rewrite import plain_iterator
from engine.tensorize.codes import SourceBox
from engine.tile.emit import Emitter
from engine.tile.nodes import AsyncCopy, Barrier, Buffer, Commit, Load, Slot, Store, Wait
from engine.tile.source import Line

MOST_UNROLLED = 15
"""Copies of a thread up to which all are written out: of more, the compiler keeps all addresses, and spills some."""
UNROLLED_COPIES = 4
"""Copies that are written out of a longer loop."""


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
    copy: TileCopy
    codes: Codes | None = None
    """What its elements are computed from; None where they are copied as they are."""

    @property
    def copied(self) -> tuple[str, ...]:
        """The shared buffers that copies fill."""
        return tuple(buffer for buffer, _ in self.codes.boxes.values()) if self.codes else (self.tile,)

    def starts(self, tile: Index) -> tuple[Index, Index]:
        """First row or column, and first depth, of tile number `tile`."""
        return self.side.start, tile * self.tiling.tile

    @property
    def stride(self) -> int:
        """Elements from one row of the tile to the next, pad included."""
        return self.copy.stride(self.tiling.is_swizzled)

    @property
    def depth_inner(self) -> bool:
        """Whether rows of the tile run along the depth."""
        return self.copy.depth_inner

    def local(self, free: Index, depth: Index) -> Index:
        """Position within the tile."""
        row, column = (free, depth) if self.depth_inner else (depth, free)
        return row * self.stride + column

    def where(self, extents: Extents, free: Index, depth: Index) -> dict[str, Index]:
        """Iterators of the statement for an element of the side at a depth."""
        found = dict(self.place)
        for members, flat in ((self.side.members, free), (self.tiling.depths, depth)):
            shape = tuple(m.extent for m in members)
            for member, index in zip(members, delinearize_nested(flat, shape, extents), strict=True):
                found[self.free[member.name]] = index
        return found


def operand_of_codes(emitter: Emitter, factor: CodedFactor, side: Side, tiling: Tiling) -> Operand:
    """A factor of codes: a shared buffer for its elements, and one for what is copied of each array that they are
    computed from."""
    copy = choose_copy(factor.reach, (side.tile, tiling.tile), (side.size, tiling.size), emitter.extents["thread"])
    boxes: dict[Access, tuple[str, SourceBox]] = {}
    for access, box in zip(factor.reads, copy.boxes, strict=True):
        buffer = _fresh(emitter, f"{access.array}_copied")
        stored = emitter.program.arrays[access.array].dtype
        emitter.buffers[buffer] = Buffer(buffer, stored, (math.prod(box.shape),), "shared")
        emitter.read_from.add(access.array)
        boxes[access] = buffer, box
    tile = _fresh(emitter, f"{factor.access.array}_tile")
    row_bytes = copy.row * copy.element_bytes if tiling.is_swizzled else 0
    emitter.buffers[tile] = Buffer(tile, factor.dtype, (copy.elements(tiling.is_swizzled),), "shared", row_bytes)
    codes = Codes(factor.element, boxes, factor.iterators)
    return Operand(factor.access, side, tiling, {}, {}, tile, factor.dtype, copy, codes)


def _fresh(emitter: Emitter, name: str) -> str:
    return name if name not in emitter.buffers else f"{name}_2"


def choose_operand(
    emitter: Emitter, statement: Statement, access: Access, side: Side, place: Mapping[str, Index], tiling: Tiling
) -> Operand:
    """The widest copy that global memory allows, the tile order that goes with it, and a shared buffer for the tile."""
    array = emitter.program.arrays[access.array]
    named = {m.name: name for m in (*side.members, *tiling.depths) if (name := plain_iterator(m.rows[statement.name]))}
    along_side, along_depth = ([named[m.name] for m in members] for members in (side.members, tiling.depths))
    reach = reach_of(access, emitter.program.arrays, along_side, along_depth, statement.extents)
    copy = choose_copy(reach, (side.tile, tiling.tile), (side.size, tiling.size), emitter.extents["thread"])
    emitter.read_from.add(array.name)
    tile = _fresh(emitter, f"{array.name}_tile")
    row_bytes = copy.row * copy.element_bytes if tiling.is_swizzled else 0
    emitter.buffers[tile] = Buffer(tile, array.dtype, (copy.elements(tiling.is_swizzled),), "shared", row_bytes)
    return Operand(access, side, tiling, place, named, tile, array.dtype, copy)


def copy_tile(emitter: Emitter, operand: Operand, tile: Index, at: Line) -> None:
    """Every thread copies its share of tile number `tile`; beyond the array it fills zeros.

    Without cp.async a thread loads all of its share before it stores any, so that a pipeline can move the two apart;
    a large share is copied in turns.
    """
    if operand.codes:
        copy_codes(emitter, operand.codes, operand.starts(tile), at)
        return
    copy, threads = operand.copy, emitter.extents["thread"]
    shares, together = copy.shares(threads), copy.together(threads)
    name, counter = operand.access.array, f"{operand.access.array}_share"
    if copy.is_async:
        unroll = True if shares <= MOST_UNROLLED else UNROLLED_COPIES
        with emitter.loop(counter, shares, at, unroll=unroll) as share:
            place = _Place(emitter, operand, share, at)
            source, inside = place.source(tile)
            emitter.add(AsyncCopy(operand.tile, place.target, name, source, copy.width, inside, at))
        return
    filler = operand.access.otherwise or Literal(0, operand.dtype)
    with emitter.loop(f"{name}_round", shares // together, at, unroll=False) as number:
        held = emitter.register(f"{name}_held", operand.dtype, (together,), is_raw=not filler.value)
        emitter.declare(held)
        with emitter.loop(counter, together, at) as share:
            source, inside = _Place(emitter, operand, number * together + share, at).source(tile)
            emitter.add(Load(Slot(held, (share,)), name, source, 1, inside, filler, at))
        with emitter.loop(counter, together, at) as share:
            target = _Place(emitter, operand, number * together + share, at).target
            emitter.add(Store(operand.tile, target, Slot(held, (share,)), 1, None, at))


def unpack_tile(emitter: Emitter, operand: Operand, tile: Index, at: Line) -> None:
    """Every thread computes its share of the elements of tile number `tile` from the codes that were copied."""
    assert operand.codes is not None
    write_elements(emitter, operand.codes, (operand.tile, operand.copy, operand.stride), operand.starts(tile), at)


def await_copies(emitter: Emitter, at: Line) -> None:
    """All threads see what all of them have copied."""
    for op in (Commit(at), Wait(0, at), Barrier(at)):
        emitter.add(op)


class _Place:
    """Where one of a thread's copies of a tile comes from and goes to.  Making it binds the chunk's coordinates."""

    def __init__(self, emitter: Emitter, operand: Operand, share: Index, at: Line) -> None:
        self.emitter, self.operand, self.at = emitter, operand, at
        per_row, name, extents = operand.copy.row // operand.copy.width, operand.access.array, emitter.extents
        chunk = emitter.bind(f"{name}_chunk", share * extents["thread"] + Index.of("thread"), at)
        self.outer = emitter.bind(f"{name}_outer", chunk.floordiv(per_row, extents), at)
        self.inner = emitter.bind(f"{name}_inner", chunk.mod(per_row, extents) * operand.copy.width, at)

    @property
    def target(self) -> Index:
        """Position in the tile."""
        return self.outer * self.operand.stride + self.inner

    def source(self, tile: Index) -> tuple[Index, str | None]:
        """Position in global memory of what belongs there in tile number `tile`, and the mask where there is any."""
        emitter, operand, at = self.emitter, self.operand, self.at
        side, tiling, name, width = operand.side, operand.tiling, operand.access.array, operand.copy.width
        local = (self.outer, self.inner) if operand.depth_inner else (self.inner, self.outer)
        free = emitter.bind(f"{name}_free", side.start + local[0], at)
        depth = emitter.bind(f"{name}_depth", tile * tiling.tile + local[1], at)
        widths = (1, width) if operand.depth_inner else (width, 1)
        where = operand.where(emitter.extents, free, depth)
        conditions = [Index((), side.size - widths[0]) - free, Index((), tiling.size - widths[1]) - depth]
        conditions += [guard.index.substitute(where, emitter.extents) for guard in operand.access.guards]
        inside = emitter.mask(emitter.fresh(f"{name}_inside"), conditions, at)
        return emitter.position(operand.access, where, at), inside
