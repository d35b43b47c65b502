"""The author `pipeline`: how many tiles of a contraction are under way at once."""

from __future__ import annotations

import math

from engine.fuse.nodes import FusionGroup
from engine.fuse.shape import is_contraction
from engine.recipe import Advice, Scenario
from engine.schedule.advisers.mapping import mark

DEPTH = 16


def pipeline_group(group: FusionGroup) -> Advice:
    """Stages of shared memory for the reduced dimension of a contraction; other groups have nothing to pipeline."""
    heart = next((s for s in group.program.statements if is_contraction(s)), None)
    if heart is None:
        return Advice("pipeline", Scenario())
    steps = -(-math.prod(i.extent for i in heart.reduced) // DEPTH)
    stages = 1 if steps < 2 else 2 if steps < 8 else 3
    reason = {
        1: "one tile: there is nothing to overlap",
        2: f"the copy of one tile runs under the use of the other; {steps} tiles do not fill a longer pipeline",
        3: f"two copies are under way while a tile is used: {steps} tiles hide the latency of global memory",
    }[stages]
    return Advice("pipeline", Scenario((mark((heart.name,), heart.reduced[-1].name, "stages", stages, reason),)))
