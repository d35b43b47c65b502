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

from engine.kernels.gemm.copies import TileCopy, choose_copy, reach_of
from engine.kernels.gemm.unpack import CodedFactor, Codes, copy_codes, write_elements
from engine.scheduling.nodes import Member
from engine.tensor.access import delinearize_nested
from engine.tensor.index import Extents, Index, Quotient, Remainder
from engine.tensor.nodes import Access, Literal, Statement
from engine.tensor.rewrite import plain_iterator
from engine.tensorize.codes import SourceBox
from engine.tile.emit import Emitter
from engine.tile.nodes import (
    AsyncCopy,
    Barrier,
    Buffer,
    Comment,
    Commit,
    Load,
    SetBit,
    SetPlace,
    Slot,
    Store,
    Wait,
)
from engine.tile.nodes.writer import MOST_COUNTED
from engine.tile.source import Line

MOST_UNROLLED = 15
"""Copies of a thread up to which all are written out: of more, the compiler keeps all addresses, and spills some."""
UNROLLED_COPIES = 4
"""Copies that are written out of a longer loop."""
MOST_TAPS = 32
"""Of a window that are known beforehand: bits of a register."""
FEW_TAPS = 64
"""Of all copies of a thread up to which finding out is written out."""


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
    around: tuple[Member, ...] = ()
    """Summed loops around the depths, which begin a tile anew in each round."""

    @property
    def size(self) -> int:
        """Depths of one round."""
        return math.prod(m.extent for m in self.depths)

    @property
    def rounds(self) -> int:
        """Points of the loops around the depths."""
        return math.prod(m.extent for m in self.around)

    @property
    def steps(self) -> int:
        """Tiles of all rounds."""
        return self.rounds * -(-self.size // self.tile)

    @property
    def is_ragged(self) -> bool:
        """Whether every round ends with a tile that is not full: depths are then counted with what fills it."""
        return self.rounds > 1 and self.size % self.tile > 0

    @property
    def walked(self) -> tuple[Member, ...]:
        """All loops that tiles walk, the innermost last."""
        return (*self.around, *self.depths)

    @property
    def has_single_taps(self) -> bool:
        """Whether a tile lies inside the innermost of several dimensions: the channels at one tap of a window."""
        return len(self.walked) > 1 and self.depths[-1].extent % self.tile == 0

    def indices(self, depth: Index, extents: Extents) -> dict[str, Index]:
        """The dimensions at a depth that is counted through all rounds."""
        if not self.is_ragged:
            return _by_member(self.walked, depth, extents)
        padded = self.tile * -(-self.size // self.tile)
        found = _by_member(self.around, depth.floordiv(padded, extents), extents)
        return found | _by_member(self.depths, depth.mod(padded, extents), extents)

    def edges(self, depth: Index, width: int, extents: Extents) -> list[Index]:
        """What is >= 0 where so many depths from one on are there."""
        if not self.is_ragged:
            return [Index((), self.rounds * self.size - width) - depth]
        padded = self.tile * -(-self.size // self.tile)
        last = Index((), self.rounds * padded - width) - depth
        return [last, Index((), self.size - width) - depth.mod(padded, extents)]


@dataclass(frozen=True, slots=True)
class TapPlaces:
    """What each thread keeps of its copies while the main loop walks the taps of a window."""

    inside: str
    """Registers with a bit for each tap: whether the copy is inside the image there."""
    starts: str
    """Registers with the position of the copy at the first tap."""
    start: Index
    """That position."""


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
    is_long: bool = False
    """Whether positions in its array take 64 bits."""
    window: TapPlaces | None = None
    """What is known of a window before its taps are walked."""
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
        found = _by_member(self.side.members, free, extents) | self.tiling.indices(depth, extents)
        return {**self.place, **{self.free[name]: index for name, index in found.items()}}


def _by_member(members: tuple[Member, ...], flat: Index, extents: Extents) -> dict[str, Index]:
    """Each dimension of a flattened run of them."""
    shape = tuple(m.extent for m in members)
    indices = delinearize_nested(flat, shape, extents)
    return {member.name: index for member, index in zip(members, indices, strict=True)}


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
    return Operand(factor.access, side, tiling, {}, {}, tile, factor.dtype, copy, codes=codes)


def _fresh(emitter: Emitter, name: str) -> str:
    return name if name not in emitter.buffers else f"{name}_2"


def choose_operand(
    emitter: Emitter, statement: Statement, access: Access, side: Side, place: Mapping[str, Index], tiling: Tiling
) -> Operand:
    """The widest copy that global memory allows, the tile order that goes with it, and a shared buffer for the tile."""
    array = emitter.program.arrays[access.array]
    named = {m.name: name for m in (*side.members, *tiling.walked) if (name := plain_iterator(m.rows[statement.name]))}
    along_side, along_depth = ([named[m.name] for m in members] for members in (side.members, tiling.depths))
    reach = reach_of(access, emitter.program.arrays, along_side, along_depth, statement.extents)
    copy = choose_copy(reach, (side.tile, tiling.tile), (side.size, tiling.size), emitter.extents["thread"])
    emitter.read_from.add(array.name)
    tile = _fresh(emitter, f"{array.name}_tile")
    row_bytes = copy.row * copy.element_bytes if tiling.is_swizzled else 0
    emitter.buffers[tile] = Buffer(tile, array.dtype, (copy.elements(tiling.is_swizzled),), "shared", row_bytes)
    return Operand(access, side, tiling, place, named, tile, array.dtype, copy, array.elements > MOST_COUNTED)


def with_window(emitter: Emitter, operand: Operand, tiles: int, at: Line) -> Operand:
    """The operand with its guards and positions found out beforehand, where tiles walk the taps of a window: the main
    loop asks a bit in place of comparing places with the sizes of the image, and adds the tap to where a copy starts.

    tiles: of the depth that the main loops of all blocks walk; past the last tap no bit is set.
    """
    name, shares = operand.access.array, operand.copy.shares(emitter.extents["thread"])
    taps, channels = _taps(operand), operand.tiling.depths[-1].extent
    if taps < 2 or shares > MOST_UNROLLED or tiles * operand.tiling.tile > MOST_TAPS * channels:
        return operand
    bits, starts = (
        emitter.register(f"{name}_{what}", dtype, (shares,)) for what, dtype in (("taps", "uint32"), ("start", "int32"))
    )
    emitter.add(Comment(f"which of {taps} taps of the window are inside the image, for each copy of this thread", at))
    emitter.declare(bits, Literal(0, "uint32"))
    emitter.declare(starts)
    with emitter.loop(f"{name}_share", shares, at) as share:
        place = _Place(emitter, operand, share, at)
        start = place.position(place.free, place.depth(Index()))
        emitter.add(SetPlace(Slot(starts, (share,)), start, at))
        with emitter.loop(f"{name}_tap", taps, at, unroll=taps * shares <= FEW_TAPS) as tap:
            inside = emitter.mask(f"{name}_inside", place.conditions(place.free, tap * channels), at)
            assert inside is not None, operand.access
            emitter.add(SetBit(Slot(bits, (share,)), tap, inside, at))
    return replace(operand, window=TapPlaces(bits, starts, start))


def _taps(operand: Operand) -> int:
    """Taps of the window of which a tile of the depth has one; 0 where it may have several, or no guard asks for it."""
    *window, channels = operand.tiling.walked
    moved = {name for guard in operand.access.guards for name in guard.index.iterators()}
    is_copied = operand.copy.is_async and operand.codes is None and not operand.is_long
    if not is_copied or not operand.tiling.has_single_taps:
        return 0
    if not moved or operand.free.get(channels.name) in moved:
        return 0
    return math.prod(m.extent for m in window)


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
            start, rest = place.start_of(source)
            emitter.add(AsyncCopy(operand.tile, place.target, name, source, copy.width, inside, at, start, rest))
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
        self.emitter, self.operand, self.share, self.at = emitter, operand, share, at
        per_row, name, extents = operand.copy.row // operand.copy.width, operand.access.array, emitter.extents
        chunk = emitter.bind(f"{name}_chunk", share * extents["thread"] + Index.of("thread"), at)
        self.outer = emitter.bind(f"{name}_outer", chunk.floordiv(per_row, extents), at)
        self.inner = emitter.bind(f"{name}_inner", chunk.mod(per_row, extents) * operand.copy.width, at)

    @property
    def target(self) -> Index:
        """Position in the tile."""
        return self.outer * self.operand.stride + self.inner

    @property
    def free(self) -> Index:
        """Place along the side."""
        local = self.outer if self.operand.depth_inner else self.inner
        return self.emitter.bind(f"{self.operand.access.array}_free", self.operand.side.start + local, self.at)

    def conditions(self, free: Index, depth: Index) -> list[Index]:
        """What is >= 0 where an element of the side is there at a depth."""
        operand, width, extents = self.operand, self.operand.copy.width, self.emitter.extents
        widths = (1, width) if operand.depth_inner else (width, 1)
        where = operand.where(extents, free, depth)
        edges = [Index((), operand.side.size - widths[0]) - free, *operand.tiling.edges(depth, widths[1], extents)]
        return [*edges, *(guard.index.substitute(where, extents) for guard in operand.access.guards)]

    def source(self, tile: Index) -> tuple[Index, str | None]:
        """Position in global memory of what belongs there in tile number `tile`, and the mask where there is any."""
        operand, free, depth, bits = self.operand, self.free, self.depth(tile), None
        if operand.window is not None:
            channels = operand.tiling.depths[-1].extent
            tap = (tile * operand.tiling.tile).floordiv(channels, self.emitter.extents)
            bits = Slot(operand.window.inside, (self.share,)), tap
        name = self.emitter.fresh(f"{operand.access.array}_inside")
        inside = self.emitter.mask(name, self.conditions(free, depth), self.at, bits=bits)
        return self.position(free, depth), inside

    def depth(self, tile: Index) -> Index:
        """Depth in tile number `tile`; a variable of its own unless all threads have one tap of a window."""
        operand, tiling = self.operand, self.operand.tiling
        found = tile * tiling.tile + (self.inner if operand.depth_inner else self.outer)
        return found if tiling.has_single_taps else self.emitter.bind(f"{operand.access.array}_depth", found, self.at)

    def position(self, free: Index, depth: Index) -> Index:
        """Position in global memory of an element of the side at a depth."""
        operand, extents = self.operand, self.emitter.extents
        found = self.emitter.position(operand.access, operand.where(extents, free, depth), self.at)
        return _without_remainders(found) if operand.tiling.has_single_taps else found

    def start_of(self, position: Index) -> tuple[Slot | None, Index]:
        """The register of where this copy starts, and the rest of its position; none without a window."""
        window = self.operand.window
        if window is None:
            return None, Index()
        return Slot(window.starts, (self.share,)), position - window.start


def _without_remainders(index: Index) -> Index:
    """An index with remainders computed from quotients that it has anyway: c (x % n) = c x - c n (x / n)."""
    quotients = {(a.of, a.by) for a, _ in index.terms if isinstance(a, Quotient)}
    for atom, coefficient in index.terms:
        if isinstance(atom, Remainder) and (atom.of, atom.by) in quotients:
            whole = atom.of - Index.of(Quotient(atom.of, atom.by)) * atom.by
            index = index - Index.of(atom) * coefficient + whole * coefficient
    return index
