"""Teams of blocks that share what one tile is made from: how many there may be of a tile, and what meeting costs.

Every block leaves its sums in global memory, and the last one to come reads them all; of two, the other's alone.
"""

from __future__ import annotations

from engine.target.hardware import SUM_BYTES
from engine.target.nodes import Target

MOST_BYTES = 256 * 2**20
"""Of the sums of all blocks, which a launch keeps in global memory."""
MOST_PARTS = 64
"""Of a depth: one block adds them all up."""

PAIR = 2
"""Parts of a sum of which the last block has one and reads one: a + b is b + a, bit by bit."""


def parts_read(parts: int) -> int:
    """Of a product's tile by the last of the blocks that share its depth; 0 where one block has all of it."""
    return parts if parts > PAIR else parts - 1


def most_parts(steps: int, sums: int) -> int:
    """Parts of a depth of `steps` tiles that leave global memory room for their sums.  sums: of one part."""
    return max(1, min(steps, MOST_PARTS, MOST_BYTES // (sums * SUM_BYTES)))


def whole_parts(steps: int, parts: int) -> int:
    """The most parts up to a number of which each has one of `steps` tiles, all but the last one as many."""
    each = -(-steps // max(1, parts))
    return -(-steps // each)


def team_seconds(size: float, target: Target, reads: int = 1) -> float:
    """Time in which `reads` teams whose last block is on one SM hand over `size` bytes each, that this block reads.

    What was stored must be seen before the counter moves, and the last block waits for the first sums that it reads.
    """
    return 2 * target.dram_latency.value + reads * size / (target.l2_bandwidth.value / target.sms.value)


def meeting_seconds(blocks: int, target: Target) -> float:
    """Time in which all blocks of a launch meet at one counter in L2: what they stored is seen, their additions to the
    counter come one in each cycle, and the last of them is seen.  Assumed: no meeting was measured yet."""
    return 2 * target.dram_latency.value + blocks / target.clock.value
