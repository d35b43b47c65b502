"""An operand of codes: what it is computed from is copied ahead, and threads write its elements to the tile that is
multiplied.

    copies, some tiles ahead    codes 32 x 32 bytes, scales 1 x 64         asynchronous, as those of other operands
    once they are there         tile[depth][column] = float16((code - zero) * scale)    each element by one thread
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.kernels.gemm.code_loads import CodeLoad, chunk_of
from engine.kernels.gemm.copies import TileCopy
from engine.kernels.gemm.nodes import Reach
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Literal, Position, Scalar, map_leaves
from engine.tensorize.codes import SourceBox
from engine.tile.emit import LANE_OF_VECTOR, Emitter
from engine.tile.nodes import AsyncCopy, Load, Slot, Store
from engine.tile.source import Line


@dataclass(frozen=True, slots=True)
class CodedFactor:
    """A factor of codes, before its tiles are chosen."""

    access: Access
    """Of the codes."""
    element: Scalar
    """Of its tile, from elements of the arrays."""
    dtype: str
    """Of that element."""
    reads: tuple[Access, ...]
    """What it is computed from, each as a source of `reach`."""
    reach: Reach
    iterators: tuple[str, str]
    """Of the side and of the depth."""


@dataclass(frozen=True, slots=True)
class Codes:
    """What an operand is computed from."""

    element: Scalar
    """Of the tile, from elements of the arrays."""
    boxes: Mapping[Access, tuple[str, SourceBox]]
    """Read element -> the shared buffer of a tile's part of its array, and how that is copied."""
    iterators: tuple[str, str]
    """Of the side and of the depth."""


def copy_codes(emitter: Emitter, codes: Codes, starts: tuple[Index, Index], at: Line) -> None:
    """Every thread copies its share of what a tile needs.

    starts: first row or column, and first depth, of the tile.
    """
    for buffer, box in codes.boxes.values():
        name, threads = box.source.array, emitter.extents["thread"]
        whole, rest = divmod(box.chunks, threads)
        if whole:
            with emitter.loop(f"{name}_share", whole, at) as share:
                _copy_chunk(emitter, buffer, box, share * threads + Index.of("thread"), starts, at)
        if rest:
            with emitter.first_threads(rest, f"{name}_rest", at):
                _copy_chunk(emitter, buffer, box, Index.of("thread") + whole * threads, starts, at)


def _copy_chunk(
    emitter: Emitter, buffer: str, box: SourceBox, chunk: Index, starts: tuple[Index, Index], at: Line
) -> None:
    """One copy of this thread.  chunk: its number among those of the box."""
    extents, source = emitter.extents, box.source
    per_row = box.row // box.width
    outer, inner = chunk.floordiv(per_row, extents), chunk.mod(per_row, extents) * box.width
    local = (outer, inner) if box.is_depth_inner else (inner, outer)
    position, conditions = Index(), []
    for n, walk in enumerate(source.walks):
        if walk.step == 0:
            continue
        place = starts[n].floordiv(walk.shared, extents) + local[n]
        is_along = box.is_depth_inner == (n == 1)
        conditions.append(Index((), walk.size - (box.width if is_along else 1)) - place)
        position += place * walk.step
    inside = emitter.mask(emitter.fresh(f"{source.array}_inside"), conditions, at)
    target = outer * box.row + inner
    emitter.add(AsyncCopy(buffer, target, source.array, position, box.width, inside, at))


def write_elements(
    emitter: Emitter, codes: Codes, tile: tuple[str, TileCopy, int], starts: tuple[Index, Index], at: Line
) -> None:
    """Every thread computes its share of a tile's elements from what was copied.

    tile: the shared buffer of its elements, how they are shared out, and the elements from one of its rows to the next.
    """
    name, copy, stride = tile
    threads, extents = emitter.extents["thread"], emitter.extents
    with emitter.loop(f"{name}_share", copy.shares(threads), at) as share:
        chunk = emitter.bind(f"{name}_chunk", share * threads + Index.of("thread"), at)
        outer, first = chunk_of(copy, chunk, extents)
        loaded = {
            access: _load(emitter, buffer, CodeLoad(copy, box), (outer, first), at)
            for access, (buffer, box) in codes.boxes.items()
        }
        extents[LANE_OF_VECTOR] = copy.width
        lane = Index.of(LANE_OF_VECTOR) if copy.width > 1 else Index()
        local = (outer, first + lane) if copy.depth_inner else (first + lane, outer)
        where = {n: start + index for n, start, index in zip(codes.iterators, starts, local, strict=True)}

        def read(leaf: Literal | Access | Position) -> Scalar:
            if isinstance(leaf, Access):
                return loaded[leaf] if leaf in loaded else emitter.read(leaf, where, at)
            if isinstance(leaf, Position):
                return Position(leaf.index.substitute(where, extents), leaf.dtype)
            return leaf

        value = map_leaves(codes.element, read)
        element = emitter.register(f"{name}_element", emitter.buffers[name].dtype, (copy.width,))
        emitter.declare(element)
        with emitter.loop(LANE_OF_VECTOR, copy.width, at):
            emitter.assign(Slot(element, (lane,)), value, at)
        slot = Slot(element, () if copy.width > 1 else (Index(),))
        emitter.add(Store(name, outer * stride + first, slot, copy.width, None, at))


def _load(emitter: Emitter, buffer: str, load: CodeLoad, chunk: tuple[Index, Index], at: Line) -> Access:
    """The register that holds what belongs to a lane of a chunk."""
    width, parts = load.width, load.elements // load.width
    shape = ((parts,) if parts > 1 else ()) + ((width,) if width > 1 else ())
    outer, first = chunk
    register = emitter.register(f"{load.box.source.array}_code", emitter.buffers[buffer].dtype, shape)
    if shape:
        emitter.declare(register)
    with emitter.loop("part", parts, at) as part:
        place = load.place(outer, first + part * (width * load.shared), emitter.extents)
        emitter.add(Load(Slot(register, (part,) if parts > 1 else ()), buffer, place, width, None, None, at))
    lane = Index.of(LANE_OF_VECTOR).floordiv(load.shared, {LANE_OF_VECTOR: load.copy.width})
    known = {LANE_OF_VECTOR: load.copy.width}
    indices = ((lane.floordiv(width, known),) if parts > 1 else ()) + ((lane.mod(width, known),) if width > 1 else ())
    return Access(register, indices)
