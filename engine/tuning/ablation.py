"""What each entry of a tuned recipe is worth: taken back one at a time, the rest as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.compilation import compile_group
from engine.documents.ablation import AblationDoc, FlipDoc
from engine.fusion.nodes import FusionGroup
from engine.kernels.gemm.entries import about
from engine.kernels.nodes import Kernel
from engine.recipe import Advice, Entry, Recipe
from engine.support.errors import EngineError

Cost = Callable[[Kernel], float]
"""Microseconds of a kernel."""


def ablate(group: FusionGroup, best: Recipe, before: Recipe, cost: Cost, origin: str) -> AblationDoc:
    """Take back every entry that `best` says of a group: where `before` decided the same thing, that comes again.

    cost: of one kernel, of the origin that is named.  Raises what `compile_group` does where `best` has no kernel.
    """
    advice = best.groups.get(group.name, ())
    stood = {about(e): e for one in before.groups.get(group.name, ()) for e in one.scenario.entries if e.enabled}
    now = cost(compile_group(group, best))
    flips: list[FlipDoc] = []
    for number, one in enumerate(advice):
        for place, entry in enumerate(one.scenario.entries):
            if not entry.enabled:
                continue
            old = stood.get(about(entry))
            old = None if old is not None and old.value == entry.value else old
            flipped = best.with_group(group.name, _flipped(advice, number, place, old))
            flips.append(_flip(group, flipped, entry, one.author, old, now, cost))
    ranked = sorted(flips, key=lambda flip: float("inf") if flip.gain is None else -flip.gain)
    return AblationDoc(group.name, origin, now, tuple(ranked))


def _flipped(advice: Sequence[Advice], number: int, place: int, old: Entry | None) -> tuple[Advice, ...]:
    """The advice with one entry replaced, or left out."""
    entries = advice[number].scenario.entries
    left = (*entries[:place], *((old,) if old is not None else ()), *entries[place + 1 :])
    changed = replace(advice[number], scenario=replace(advice[number].scenario, entries=left))
    return (*advice[:number], changed, *advice[number + 1 :])


def _flip(
    group: FusionGroup, recipe: Recipe, entry: Entry, author: str, old: Entry | None, now: float, cost: Cost
) -> FlipDoc:
    said = str(entry), author, entry.because, "" if old is None else str(old)
    try:
        without = cost(compile_group(group, recipe))
    except EngineError as error:
        return FlipDoc(*said, None, None, error.reason)
    return FlipDoc(*said, without, without - now, "")
