"""What the order of a product's blocks costs: bytes of its operands that are read again, as L2 has lost them.

Blocks that run at once go through the depth side by side, and read each row and each column of tiles that any of them
needs once.  With `raster` rows of tiles to a group, blocks walk a group from the left to the right, then the next one:

    raster 2, 4 blocks at once    0 2 | 4 6     the rows of a group are read in each of its waves,
                                  1 3 | 5 7     every column in each group:
                                  ---------
                                  8 .   . .     first  * (waves of a group - 1) * lost(rows and columns of a wave)
                                  9 .   . .     second * (groups - 1)           * lost(all columns, rows of a group)

lost(held) is the part of cyclic reads of so many bytes that L2 no longer has: nothing up to its capacity, all of them
from LOST capacities on.

>>> from engine.cost.nodes import TileOrder
>>> halves = 2 * 8192 * 8192
>>> orders = [TileOrder((64, 64), raster, (halves, halves)) for raster in (1, 8, 64)]
>>> print([round(lost_bytes(order, at_once=132, capacity=50e6) / 1e9, 1) for order in orders])
[4.0, 1.0, 4.0]
"""

from __future__ import annotations

from engine.cost.nodes import TileOrder

LOST = 1.7
"""Capacities of L2 from which on cyclic reads find nothing in it: 1.8 on A100, 1.7 on H100 (gpu-l2-cache)."""


def lost_part(held: float, capacity: float) -> float:
    """Of reads in turn through `held` bytes, the part that an L2 of so many bytes no longer has, 0..1."""
    return min(1.0, max(0.0, (held / capacity - 1) / (LOST - 1)))


def lost_bytes(order: TileOrder, at_once: int, capacity: float) -> float:
    """Bytes of a product's operands that are read from DRAM again.

    at_once: blocks that run at the same time.  capacity: bytes of L2.
    """
    (first, second), (rows, columns) = order.operands, order.counts
    if first + second <= capacity:
        return 0.0
    across = min(columns, max(1.0, at_once / order.raster))
    groups = rows / order.raster
    together = min(groups, max(1.0, at_once / (order.raster * columns)))
    group_rows = first / groups * together
    wave = group_rows + second / columns * across
    again = first * (columns / across - 1) * lost_part(wave, capacity)
    again += second * (groups / together - 1) * lost_part(second + group_rows, capacity)
    return order.batches * again
