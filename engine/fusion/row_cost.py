"""What a product whose block keeps whole rows saves: traffic and a launch, against a tile as wide as the row.

    f = T_memory + T_calls - T_penalty

as for any fusion (FusionStitching, section 5.4).  A tile of whole rows is low where the GPU wants many blocks, and then
every block reads the second factor for few rows; where rows are long, there are fewer blocks than multiprocessors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from engine.documents.model import Term
from engine.fusion.stitching.nodes import Gain
from engine.graph.nodes import DTYPES
from engine.support.units import MICROSECONDS
from engine.target import Target
from engine.target.hardware import SUM_BYTES
from engine.target.teams import team_seconds
from engine.tensor.terms import NARROW
from engine.tensorize.nodes import FRAGMENT_SIZE

HEIGHTS = (128, 64, 32, 16)
"""Rows that a block may keep whole, the most reuse of the second factor first."""
MOST_SUMS = 16384
"""Of a tile of whole rows: 64 in the registers of each of 256 threads, and room for what is made of them."""
CUT = ((128, 128), (128, 64), (64, 64), (64, 32), (32, 32))
"""Rows and columns of a block that may cut rows, the most reuse first."""
WARPS, THREADS = (32, 64), (8, 8)
"""Largest parts of a tile: rows and columns of a warp on tensor cores, of a thread without them."""
PARTS = (1, 2, 4, 8, 16)
"""Blocks that may share a depth."""
STEP, FEWEST = 32, 4
"""Depths of a tile of narrow elements, and tiles that each of those blocks has."""
MOST_SHARED = 2**23
"""Sums that all of them leave to each other."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """A product whose columns are the elements of its rows."""

    rows: int
    columns: int
    depth: int
    batches: int
    """What rows are not shared by: both factors move with these, or the second one alone does, and they are not
    reduced."""
    dtype: str
    """Of its factors."""
    beside: int = 1
    """Batches that would be columns if rows could be cut: the second factor alone moves with them."""

    @property
    def cut(self) -> Sizes:
        """The product by itself."""
        return replace(self, columns=self.columns * self.beside, batches=self.batches // self.beside, beside=1)

    def blocks(self, tile: tuple[int, int]) -> int:
        """Blocks with tiles of so many rows and columns."""
        counts = (-(-size // side) for size, side in zip((self.rows, self.columns), tile, strict=True))
        return self.batches * math.prod(counts)


def covering(columns: int, least: int = FRAGMENT_SIZE) -> int:
    """Columns of the smallest tile that holds a whole row.  least: 1 on CUDA cores, which have no instruction's."""
    return max(least, 1 << (columns - 1).bit_length())


def row_tiles(rows: int, columns: int, least: int = FRAGMENT_SIZE) -> tuple[tuple[int, int], ...]:
    """(rows, columns) of tiles that hold whole rows of a product of so many, the highest first.  least: columns."""
    wide = covering(columns, least)
    return tuple((high, wide) for high in HEIGHTS if high * wide <= MOST_SUMS and high < 2 * max(rows, FRAGMENT_SIZE))


def warp_tile(block: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of a warp: up to 64 sums to a lane, and four warps where the tile has so many parts."""
    rows, columns = (min(of_block, most) for of_block, most in zip(block, WARPS, strict=True))
    while rows * columns > FRAGMENT_SIZE**2 and block[0] // rows * (block[1] // columns) < 4:
        rows, columns = (rows, columns // 2) if columns > rows or rows == FRAGMENT_SIZE else (rows // 2, columns)
    return rows, columns


def thread_tile(block: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of a thread on CUDA cores: 256 threads, 32 at least, as square as can be."""
    results = math.prod(block)
    sums = min(math.prod(THREADS), max(4, results // 256), results // 32)
    columns = min(THREADS[1], block[1], 1 << (sums.bit_length() // 2))
    return min(THREADS[0], block[0], sums // columns), columns


def row_gain(sizes: Sizes, apart: int, together: int, target: Target) -> Gain:
    """What one kernel saves of a product and the kernel that reduces its rows.

    apart, together: bytes that two kernels and one move.
    """
    bandwidth, launch = target.dram_bandwidth, target.launch_overhead
    slower, because = slowdown(sizes, together, target)
    return Gain((
        Term("memory", (apart - together) / bandwidth.value * MICROSECONDS, "µs",
             f"{apart - together:,} bytes of {apart:,} no longer cross global memory ({bandwidth.source})"),
        Term("calls", launch.value * MICROSECONDS, "µs", f"a launch fewer ({launch.source})"),
        Term("penalty", -slower, "µs", because),
    ))  # fmt: skip


def row_microseconds(sizes: Sizes, moved: int, target: Target) -> float:
    """Of one kernel with whole rows, as of every kernel with a product the launch and the moving only, and what its
    tiles take longer than a product's own."""
    launched = target.launch_overhead.value + moved / target.dram_bandwidth.value
    return launched * MICROSECONDS + slowdown(sizes, moved, target)[0]


def slowdown(sizes: Sizes, moved: int, target: Target) -> tuple[float, str]:
    """Microseconds that tiles of whole rows take longer than those that a product has alone, and why.

    moved: bytes that cross global memory.
    """
    least = FRAGMENT_SIZE if sizes.dtype in NARROW else 1
    whole = min(_ways(sizes, row_tiles(sizes.rows, sizes.columns, least), moved, target))
    cut = min(_ways(sizes.cut, CUT, moved, target))
    return max(0.0, whole[0] - cut[0]), f"{whole[0]:.3g} µs in {whole[1]}, whole rows; {cut[0]:.3g} in {cut[1]}"


def _ways(sizes: Sizes, tiles: Sequence[tuple[int, int]], moved: int, target: Target) -> Iterator[tuple[float, str]]:
    """Microseconds of a product in each of these tiles, with blocks that share its depth and without, and which."""
    step = STEP if sizes.dtype in NARROW else STEP // 2
    results = sizes.batches * sizes.rows * sizes.columns
    for tile in tiles:
        for parts in PARTS:
            if parts == 1 or (parts * step * FEWEST <= sizes.depth and parts * results <= MOST_SHARED):
                blocks = sizes.blocks(tile) * parts
                yield _microseconds(sizes, tile, parts, moved, target), f"{blocks:,} blocks of {tile[0]} x {tile[1]}"


def _microseconds(sizes: Sizes, tile: tuple[int, int], parts: int, outside: int, target: Target) -> float:
    """Of a product, the launch left out: moving, multiplying or feeding on as many SMs as get a block, then adding up.

    parts: blocks that share a depth.  outside: bytes that cross global memory.
    """
    blocks, element, is_narrow = sizes.blocks(tile), DTYPES[sizes.dtype], sizes.dtype in NARROW
    rate = target.tensor_rate.value if is_narrow else target.fp32_rate.value
    part = warp_tile(tile) if is_narrow else thread_tile(tile)
    owners = math.prod(tile) // math.prod(part)
    through = target.shared_bandwidth.value * target.clock.value * target.sms.value
    sms = int(target.sms.value)
    met = team_seconds(parts * math.prod(tile) * SUM_BYTES, target, -(-blocks // sms)) if parts > 1 else 0.0
    return MICROSECONDS * (met + max(
        outside / target.dram_bandwidth.value,
        2 * blocks * math.prod(tile) * sizes.depth / rate,
        blocks * sum(tile) * sizes.depth * element / target.l2_bandwidth.value,
        blocks * owners * sum(part) * sizes.depth * (element if is_narrow else SUM_BYTES) / through,
    ) / min(1.0, blocks * parts / sms))
