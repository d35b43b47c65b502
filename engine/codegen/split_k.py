"""Split-K: blocks that own the same tile of the result share its depth, and the last one adds up their sums.

    split_k 3    blocks 0..t multiply the first third of the depth of every tile, t..2t the second, 2t..3t the third

A product of few tiles leaves most of a GPU idle, however deep it is.  Every block leaves its sums in global memory and
comes to the counter of its tile.  The last one to come adds all parts, always in the same order whoever is last, goes
on with what follows the sum, and stores.  One launch; nobody waits for a block that has not begun.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from engine.codegen.emit import LANE_OF_VECTOR
from engine.codegen.marks import Marks
from engine.codegen.product import Product
from engine.codegen.tile import Buffer, Comment, LastOfTeam, Load, Slot, Store
from engine.tensor.index import Index
from engine.tensor.nodes import Access, Literal

MOST_BYTES = 256 * 2**20
"""Of the sums of all blocks, which the kernel's module keeps in global memory."""
MOST_PARTS = 64
"""Of a depth: one block adds them all up."""
SUM_BYTES = 4
WIDEST = 4
"""Sums that are stored at once."""


@dataclass(frozen=True, slots=True)
class Held:
    """The sums of one thread, as vectors that are stored at once."""

    rows: int
    vectors: int
    """Of a row."""
    width: int
    """Sums of a vector: 1, 2 or 4."""
    slot: Callable[[Index, Index, Index], Slot]
    """The register of a row, a vector and a place in it."""


def parts_of(product: Product, marks: Marks, block: tuple[int, int], depth: int) -> int:
    """Blocks that share the depth of each tile of the result, as a mark asks: every one has whole tiles to multiply.

    block: rows and columns of a tile.  depth: of a tile.
    """
    steps = -(-product.depth // depth)
    most = min(steps, MOST_PARTS, max(1, MOST_BYTES // (product.tiles_of(block) * math.prod(block) * SUM_BYTES)))

    def fit(asked: int) -> int:
        each = -(-steps // max(1, min(asked, most)))
        return -(-steps // each)

    needs = f"at most {most}, and no part without one of the {steps} tiles of the depth"
    return marks.number("split_k", 1, fit, needs, product.loop.members)


def add_parts(product: Product, held: Held) -> None:
    """Make the sums of a part of the depth those of all parts, in the blocks that come last; the others leave."""
    emitter, link, parts = product.emitter, product.results_link, product.parts
    threads, tiles = emitter.extents["thread"], product.tiles
    each = held.rows * held.vectors * held.width * threads
    emitter.buffers |= {
        "parts": Buffer("parts", "float32", (parts, tiles, each), "workspace"),
        "arrivals": Buffer("arrivals", "int32", (tiles,), "workspace"),
    }
    emitter.add(Comment(f"sums of {parts} blocks that share the depth: each leaves its own, the last adds all", link))
    thread = Index.of("thread")

    def place(part: Index, r: Index, s: Index) -> Index:
        """Where this thread's vector of one part lies: neighbouring threads are neighbours."""
        tile = part * tiles + product.tile_number
        return (((tile * held.rows + r) * held.vectors + s) * threads + thread) * held.width

    with emitter.loop("r", held.rows, link) as r, emitter.loop("s", held.vectors, link) as s:
        own = emitter.register("own_part", "float32", (held.width,))
        emitter.declare(own)
        with emitter.loop(LANE_OF_VECTOR, held.width, link) as v:
            emitter.assign(Slot(own, (v,)), _value(held.slot(r, s, v)), link)
        emitter.add(Store("parts", place(product.part, r, s), Slot(own), held.width, None, link))
    emitter.add(LastOfTeam("arrivals", product.tile_number, parts, link))
    emitter.reached = (product.part - (parts - 1),)
    with emitter.loop("r", held.rows, link) as r, emitter.loop("s", held.vectors, link) as s, emitter.loop(
        LANE_OF_VECTOR, held.width, link
    ) as v:
        emitter.assign(held.slot(r, s, v), Literal(0.0, "float32"), link)
    with emitter.loop("q", parts, link, unroll=False) as q, emitter.loop("r", held.rows, link) as r, emitter.loop(
        "s", held.vectors, link
    ) as s:
        part = emitter.register("other_part", "float32", (held.width,))
        emitter.declare(part)
        emitter.add(Load(Slot(part), "parts", place(q, r, s), held.width, None, None, link))
        with emitter.loop(LANE_OF_VECTOR, held.width, link) as v:
            emitter.assign(held.slot(r, s, v), Access(part, (v,)), link, "sum")


def _value(slot: Slot) -> Access:
    return Access(slot.buffer, slot.indices)
