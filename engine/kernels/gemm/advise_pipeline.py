"""The author `pipeline`: how many tiles of a contraction are under way at once, in shared memory and in registers."""

from __future__ import annotations

import math
from collections.abc import Iterator

from engine.fusion.nodes import FusionGroup
from engine.fusion.shape import is_contraction
from engine.kernels.advice import mark
from engine.kernels.gemm.tiles import Asked, stages_of
from engine.recipe import Advice, Entry, Scenario
from engine.tensor.nodes import Statement

DEPTH = 16
"""Depths of a tile where no adviser asks for another number."""


def pipeline_group(group: FusionGroup, asked: Asked | None = None) -> Advice:
    """Stages for the reduced dimension of a contraction; other groups have nothing to pipeline.

    asked: the tile for tensor cores; None on CUDA cores, where the compiler moves loads of registers ahead by itself.
    """
    anchor = next((s for s in group.program.statements if is_contraction(s)), None)
    return Advice("pipeline", Scenario(tuple(_entries(anchor, asked)) if anchor else ()))


def _entries(anchor: Statement, asked: Asked | None) -> Iterator[Entry]:
    along = ((anchor.name,), anchor.reduced[-1].name)
    tiles = -(-math.prod(i.extent for i in anchor.reduced) // (asked.depth if asked else DEPTH))
    tiles = -(-tiles // asked.split_k) if asked else tiles
    if asked and asked.through_registers and tiles > 1:
        reason = "elements go one by one through registers, which hold one tile: it is loaded while another is used"
        yield mark(*along, "stages", 2, reason)
    else:
        stages = stages_of(tiles, on_tensor_cores=asked is not None)
        yield mark(*along, "stages", stages, _because(stages, tiles))
    steps = asked.depth // asked.step if asked else 1
    if steps > 1:
        reason = f"a tile has {steps} steps: the next one's fragments are loaded while one is multiplied, across tiles"
        yield mark(*along, "register_stages", 2, reason)


def _because(stages: int, tiles: int) -> str:
    if stages == 1:
        return "one tile: there is nothing to overlap"
    if stages == 2:
        return f"the copy of one tile runs under the use of the other; {tiles} tiles do not fill a longer pipeline"
    ahead = {3: "two", 4: "three"}[stages]
    return f"{ahead} copies are under way while a tile is used: {tiles} tiles hide the latency of global memory"
