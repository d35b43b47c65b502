"""The author `pipeline`: how many tiles of a contraction are under way at once, in shared memory and in registers."""

from __future__ import annotations

import math
from collections.abc import Iterator

from engine.fusion.nodes import FusionGroup
from engine.fusion.shape import is_contraction
from engine.kernels.advice import mark
from engine.kernels.gemm.advise_tensor_cores import goes_through_registers
from engine.kernels.gemm.tiles import stages_of
from engine.recipe import Advice, Entry, Scenario
from engine.tensor.nodes import Statement
from engine.tensorize.intrinsics import INTRINSICS


def pipeline_group(group: FusionGroup, tiles: Advice) -> Advice:
    """Stages for the reduced dimension of a contraction.

    tiles: what another author asks for; on CUDA cores the compiler moves loads of registers ahead by itself.
    """
    anchor = next(s for s in group.program.statements if is_contraction(s))
    return Advice("pipeline", Scenario(tuple(_entries(anchor, tiles))))


def _entries(anchor: Statement, advice: Advice) -> Iterator[Entry]:
    along = ((anchor.name,), anchor.reduced[-1].name)
    marks = {e.value[0]: e.value[1] for e in advice.scenario.entries if isinstance(e.value, tuple)}
    depth, slices, split_k = (int(str(marks.get(name, 1))) for name in ("tile", "slices", "split_k"))
    intrinsic = INTRINSICS.get(str(marks.get("intrinsic")))
    tiles = math.ceil(-(-math.prod(i.extent for i in anchor.reduced) // depth) / split_k)
    if intrinsic and goes_through_registers(anchor, intrinsic) and tiles > 1:
        reason = "elements go one by one through registers, which hold one tile: it is loaded while another is used"
        yield mark(*along, "stages", 2, reason)
    else:
        stages = stages_of(tiles, on_tensor_cores=intrinsic is not None)
        yield mark(*along, "stages", stages, _because(stages, tiles))
    steps = depth // (intrinsic.k * slices) if intrinsic else 1
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
