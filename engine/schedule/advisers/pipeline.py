"""The author `pipeline`: how many tiles of a contraction are under way at once."""

from __future__ import annotations

import math

from engine.fuse.nodes import FusionGroup
from engine.fuse.shape import is_contraction
from engine.recipe import Advice, Scenario
from engine.schedule.advisers.mapping import mark

DEPTH = 16
"""Depths of a tile where no adviser asks for another number."""


def pipeline_group(group: FusionGroup, depth: int = DEPTH, most: int = 3) -> Advice:
    """Stages of shared memory for the reduced dimension of a contraction; other groups have nothing to pipeline.

    depth: reduced elements of one tile.  most: stages that fill the time of a load.
    """
    heart = next((s for s in group.program.statements if is_contraction(s)), None)
    if heart is None:
        return Advice("pipeline", Scenario())
    steps = -(-math.prod(i.extent for i in heart.reduced) // depth)
    stages = 1 if steps < 2 else 2 if steps < 8 else most
    if stages == 1:
        reason = "one tile: there is nothing to overlap"
    elif stages == 2:
        reason = f"the copy of one tile runs under the use of the other; {steps} tiles do not fill a longer pipeline"
    else:
        ahead = {2: "two", 3: "three"}[stages - 1]
        reason = f"{ahead} copies are under way while a tile is used: {steps} tiles hide the latency of global memory"
    return Advice("pipeline", Scenario((mark((heart.name,), heart.reduced[-1].name, "stages", stages, reason),)))
