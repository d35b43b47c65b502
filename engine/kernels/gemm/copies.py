"""How a tile of one operand is copied to shared memory: along which direction, how wide, and how it lies there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from engine.graph.nodes import DTYPES
from engine.kernels.gemm.nodes import Reach
from engine.support.errors import Unsupported
from engine.support.values import value
from engine.target.copies import COPIED_IN_TURN, COPY_BYTES, MOST_HELD
from engine.target.hardware import VECTOR_BYTES
from engine.tensor.access import contiguous_along, position, stride, uniform_along
from engine.tensor.nodes import Access, Array
from engine.tensorize.codes import SourceBox, box_of

Run = Sequence[str]
"""Iterators of a side or of the depth, outermost first."""


@value(frozen=True, slots=True)
class TileCopy:
    """The copies of one tile."""

    element_bytes: int
    tile: tuple[int, int]
    """Elements along the side, and depths."""
    depth_inner: bool
    """Whether rows of the tile run along the depth, as they are copied."""
    width: int
    """Elements of one copy."""
    is_async: bool
    """Whether they are cp.async; else they go through registers, one by one."""
    boxes: tuple[SourceBox, ...] = ()
    """What an operand of codes is computed from: these are copied, then threads write `width` elements at a time."""

    @property
    def row(self) -> int:
        """Elements of one row of the tile."""
        return self.tile[1] if self.depth_inner else self.tile[0]

    def stride(self, is_swizzled: bool) -> int:
        """Elements from one row of the tile to the next; rows that are not swizzled have a pad of 16 bytes."""
        return self.row + (0 if is_swizzled else VECTOR_BYTES // self.element_bytes)

    def elements(self, is_swizzled: bool) -> int:
        """Of the tile, pads included."""
        return self.stride(is_swizzled) * (math.prod(self.tile) // self.row)

    def shares(self, threads: int) -> int:
        """Copies of each of a block's threads."""
        return self.tile[0] * self.tile[1] // self.width // threads

    def copied_bytes(self, threads: int) -> int:
        """That all threads copy of a tile."""
        if not self.boxes:
            return threads * self.shares(threads) * self.width * self.element_bytes
        return sum(box.bytes for box in self.boxes)

    def together(self, threads: int) -> int:
        """Copies of a thread that are under way at once: registers hold only so many elements."""
        shares = self.shares(threads)
        return max(1, shares) if self.is_async or shares <= MOST_HELD else COPIED_IN_TURN


def reach_of(access: Access, arrays: Mapping[str, Array], side: Run, depth: Run, extents: Mapping[str, int]) -> Reach:
    """What memory allows of the copies of an operand.  extents: of the iterators of its statement."""
    where, element_bytes = position(access, arrays), DTYPES[arrays[access.array].dtype]
    fills_zeros = access.otherwise is None or access.otherwise.value == 0
    widest = VECTOR_BYTES // element_bytes

    def along(run: Run) -> int:
        widths = (widest >> n for n in range(widest.bit_length()))
        return next(width for width in widths if is_vector(run, width))

    def is_vector(run: Run, width: int) -> bool:
        """Whether neighbours are one vector, all of them there or none."""
        if width == 1:
            return True
        return contiguous_along(where, run, width, extents) and all(
            uniform_along(guard.index, run, width, extents) for guard in access.guards
        )

    def nearness(run: Run) -> tuple[float, int]:
        """Distance of neighbours; where two directions step as far, the longer one has fewer jumps."""
        step = stride(where, run[-1]) if run else None
        return abs(step) if step else math.inf, -extents[run[-1]] if run else 0

    # Bytes lie along the depth: matrix loads transpose elements of two bytes alone.
    if element_bytes == 1:
        return Reach(element_bytes, 1, along(depth), True, fills_zeros)
    return Reach(element_bytes, along(side), along(depth), nearness(depth) <= nearness(side), fills_zeros)


def choose_copy(reach: Reach, tile: tuple[int, int], sizes: tuple[int, int], threads: int) -> TileCopy:
    """The widest copy whose threads share a tile evenly, and the tile order that goes with it.

    tile: elements along the side, and depths, of a tile; sizes: of the product.  Raises Unsupported where a tile of
    codes is no whole copies.
    """
    if reach.sources:
        return _choose_boxes(reach, tile, threads)
    size, singly = reach.element_bytes, reach.singly_along_depth

    def is_allowed(depth_inner: bool, width: int) -> bool:
        if width > (reach.along_depth if depth_inner else reach.along_side):
            return False
        inner = 1 if depth_inner else 0
        return tile[inner] % width == 0 and sizes[inner] % width == 0 and tile[0] * tile[1] // width % threads == 0

    for width in [b // size for b in COPY_BYTES if b >= size and reach.fills_zeros]:
        for depth_inner in (True, False) if width > 1 else (singly,):
            if is_allowed(depth_inner, width):
                return TileCopy(size, tile, depth_inner, width, is_async=True)
    return TileCopy(size, tile, singly, 1, is_async=False)


def _choose_boxes(reach: Reach, tile: tuple[int, int], threads: int) -> TileCopy:
    """The copies of what a tile of an operand of codes is computed from, and the order in which its elements are
    written: that of the codes, as many at a time as all threads share evenly."""
    boxes = []
    for source in reach.sources:
        box = box_of(source, tile)
        if isinstance(box, str):
            raise Unsupported("codegen", source.array, box, "wider or deeper tiles have whole copies")
        boxes.append(box)
    inner = 1 if boxes[0].is_depth_inner else 0
    width = VECTOR_BYTES // reach.element_bytes
    while width > 1 and (tile[inner] % width or math.prod(tile) // width % threads):
        width //= 2
    return TileCopy(reach.element_bytes, tile, boxes[0].is_depth_inner, width, is_async=True, boxes=tuple(boxes))
