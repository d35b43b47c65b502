"""How many blocks share the keys of one tile of queries, by what keeps a GPU busy against what their meeting costs.

    time = max(moving, arithmetic, waiting) + meeting

With b tiles of queries, n tiles of keys and p blocks to a tile of queries, the busiest of M multiprocessors runs
ceil(b p / M) blocks of ceil(n / p) tiles of keys.  It moves its share of all bytes, has a scheduler at work for every
warp, and waits for the latency of global memory once for as many tiles as are under way.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.target.hardware import SCHEDULERS, SUM_BYTES
from engine.target.nodes import Target
from engine.target.teams import most_parts, team_seconds, whole_parts

FEWEST_TILES = 4
"""Tiles of keys of a block that shares: they fill its pipeline.  Shorter loops are written out by compilers, which then
run out of registers."""


@dataclass(frozen=True, slots=True)
class KeyWalk:
    """What the blocks of an attention do, in numbers."""

    blocks: int
    """Tiles of queries, of all batches."""
    steps: int
    """Tiles of keys."""
    moving: float
    """Seconds to move all bytes, with all multiprocessors at it."""
    arithmetic: float
    """Seconds of all arithmetic at the full rate, the same."""
    reached: float
    """Part of that rate which busy schedulers reach."""
    warps: int
    """Of a block."""
    resident: int
    """Blocks that fit a multiprocessor at once."""
    left: int
    """Sums that a block leaves for others: results, and a row's maximum and sum."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """One number of blocks to a tile of queries, and the predicted seconds of all."""

    parts: int
    blocks: int
    """Tiles of queries."""
    sms: int
    meeting: float
    """Seconds until the last block of a team has the sums of all."""
    seconds: float
    """Of the work and the meeting, without the launch."""

    def __str__(self) -> str:
        """ "32 blocks for 132 SMs: 4 share the keys of each tile of queries, 1.2 µs to meet (predicted)"."""
        blocks = f"{self.blocks} tile{'s' * (self.blocks > 1)} of queries for {self.sms} SMs"
        return f"{blocks}: {self.parts} blocks share the keys of each, {self.meeting * 1e6:.2g} µs to meet (predicted)"


def share_keys(walk: KeyWalk, target: Target) -> Sharing:
    """The number of blocks to a tile of queries that is predicted to be fastest; 1 where tiles keep the GPU busy."""
    if walk.blocks >= target.sms.value:
        return Sharing(1, walk.blocks, int(target.sms.value), 0.0, max(walk.moving, walk.arithmetic / walk.reached))
    most = most_parts(max(1, walk.steps // FEWEST_TILES), walk.blocks * walk.left)
    choices = dict.fromkeys(whole_parts(walk.steps, asked) for asked in range(1, most + 1))
    return min((share_between(walk, parts, target) for parts in choices), key=lambda sharing: sharing.seconds)


def share_between(walk: KeyWalk, parts: int, target: Target) -> Sharing:
    """What it comes to with so many blocks to each tile of queries."""
    sms = int(target.sms.value)
    rounds, each = -(-walk.blocks * parts // sms), -(-walk.steps // parts)
    resident = min(rounds, walk.resident)
    idle = max(1.0, rounds * each * sms / (walk.blocks * walk.steps))
    reached = min(walk.reached, resident * walk.warps / SCHEDULERS)
    waiting = -(-rounds // resident) * each * target.dram_latency.value / stages_of(each)
    meeting = team_seconds(parts * walk.left * SUM_BYTES, target) if parts > 1 else 0.0
    busiest = max(walk.moving * idle, walk.arithmetic * idle / reached, waiting)
    return Sharing(parts, walk.blocks, sms, meeting, busiest + meeting)


def stages_of(steps: int) -> int:
    """Tiles of keys under way: two, three where many follow each other in a block."""
    return 1 if steps < 2 else 2 if steps < 8 else 3
