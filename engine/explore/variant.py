"""Compile a kernel with other tile sizes and stages: registers, spills and occupancy by NVRTC beside the prediction."""

from __future__ import annotations

from engine.compilation import compile_group
from engine.cost.estimate import estimate
from engine.documents.pipeline import VariantDoc
from engine.execution.nvrtc import compile_cuda
from engine.explore.what_if import why_refused
from engine.fusion.nodes import FusionGroup
from engine.kernels.gemm.block_order import with_order_of
from engine.kernels.gemm.entries import entries_of, with_user_entries
from engine.kernels.gemm.problem import config_of_tile, gemm_axes
from engine.kernels.gemm.promise import fused_gemm_of_tile
from engine.kernels.nodes import Kernel
from engine.recipe import Recipe
from engine.scheduling.text import to_text
from engine.support.errors import BadInput, Unsupported
from engine.target.occupancy import occupancy
from engine.tensorize.space import GemmConfig


def variant(group: FusionGroup, recipe: Recipe, knobs: GemmConfig) -> VariantDoc:
    """The kernel of a contraction at other knobs, compiled by NVRTC for the recipe's target.

    The order of its blocks follows from the tiles: it is no knob.
    Raises BadInput for a group without a contraction, Unsupported where the kernel cannot take the knobs, and what
    `compile` and NVRTC raise.
    """
    now = compile_group(group, recipe)
    before = config_of_tile(now.tile)
    axes = gemm_axes(now.program, before.outer if before else ())
    if axes is None or before is None:
        raise BadInput("explore", group.name, "is no contraction with tiles: it has no such knobs")
    gemm = fused_gemm_of_tile(now.program, now.tile)
    knobs = with_order_of(before, knobs, gemm.problem, now.target) if gemm else knobs
    refusal = why_refused(gemm, knobs, now.target) if gemm else None
    if refusal is not None:
        offer = f"the nearest that can be: {refusal.offer}" if refusal.offer else ""
        raise Unsupported("explore", f"{group.name} at {knobs}", refusal.text, offer)
    entries = entries_of(axes, knobs, before, bool(now.tile.intrinsic))
    changed = with_user_entries(recipe, group.name, entries)
    kernel = compile_group(group, changed)
    if config_of_tile(kernel.tile) != knobs:
        raise Unsupported("explore", group.name, f"cannot be {knobs}: {_why_not(kernel)}", _nearest(kernel))
    compiled = compile_cuda(kernel.source.text, kernel.target.architecture)
    room = occupancy(kernel.tile.threads, kernel.source.shared_bytes, compiled.registers, kernel.target)
    return VariantDoc(
        group=group.name,
        recipe=to_text(now.advice),
        knobs=knobs,
        changed=to_text(kernel.advice),
        entries=tuple(str(entry) for entry in entries),
        architecture=compiled.architecture,
        registers=compiled.registers,
        spill_bytes=compiled.spill_bytes,
        shared_bytes=kernel.source.shared_bytes,
        blocks_per_sm=room.blocks,
        time=estimate(kernel.facts, kernel.target).time(),
    )


def _why_not(kernel: Kernel) -> str:
    """What became of the user's entries that were not taken as given."""
    found = [v for v in kernel.verdicts if v.placed.author == "user" and v.outcome != "honoured"]
    return "; ".join(f"{v.placed.entry}: {v.because}" for v in found) or "the kernel takes other tiles"


def _nearest(kernel: Kernel) -> str:
    taken = config_of_tile(kernel.tile)
    return f"nearest is {taken}" if taken else ""
