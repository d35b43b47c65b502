"""Tiles of products whose block keeps whole rows, and how a block's tile is cut for its warps or threads."""

from __future__ import annotations

import math

from engine.target.hardware import WARP
from engine.tensorize.nodes import FRAGMENT_SIZE

HEIGHTS = (128, 64, 32, 16, 8)
"""Rows that a block may keep whole, the most reuse of the second factor first; the last ones on CUDA cores only."""
MOST_SUMS = 16384
"""Of a tile of whole rows: 64 in the registers of each of 256 threads, and room for what is made of them.  It has one
for each lane of a warp."""
WARPS, THREADS = (32, 64), (8, 8)
"""Largest parts of a tile: rows and columns of a warp on tensor cores, of a thread without them."""


def covering(columns: int, least: int = FRAGMENT_SIZE) -> int:
    """Columns of the smallest tile that holds a whole row.  least: 1 on CUDA cores, which have no instruction's."""
    return max(least, 1 << (columns - 1).bit_length())


def row_tiles(rows: int, columns: int, least: int = FRAGMENT_SIZE) -> tuple[tuple[int, int], ...]:
    """(rows, columns) of tiles that hold whole rows of a product of so many, the highest first.

    least: rows and columns, 1 on CUDA cores.
    """
    wide = covering(columns, least)
    fitting = (high for high in HEIGHTS if least <= high < 2 * max(rows, FRAGMENT_SIZE))
    return tuple((high, wide) for high in fitting if WARP <= high * wide <= MOST_SUMS)


def warp_tile(block: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of a warp: up to 64 sums to a lane, and four warps where the tile has so many parts."""
    rows, columns = (min(of_block, most) for of_block, most in zip(block, WARPS, strict=True))
    while rows * columns > FRAGMENT_SIZE**2 and block[0] // rows * (block[1] // columns) < 4:
        rows, columns = (rows, columns // 2) if columns > rows or rows == FRAGMENT_SIZE else (rows // 2, columns)
    return rows, columns


def thread_tile(block: tuple[int, int], threads: int = 256) -> tuple[int, int]:
    """Rows and columns of a thread on CUDA cores: so many threads, 32 at least, as square as can be."""
    results = math.prod(block)
    sums = min(math.prod(THREADS), max(4, results // threads), results // 32)
    columns = min(THREADS[1], block[1], 1 << (sums.bit_length() // 2))
    return min(THREADS[0], block[0], sums // columns), columns
