"""Ablation of a tuned recipe: the predicted time without each entry, the other entries kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.compilation import compile_group
from engine.cost.estimate import estimate_microseconds
from engine.documents.ablation import AblationDoc, FlipDoc
from engine.execution.nodes import PREDICTED
from engine.fusion.nodes import FusionGroup
from engine.kernels.gemm.entries import about
from engine.kernels.nodes import Kernel
from engine.recipe import Advice, Entry, Recipe
from engine.support.errors import EngineError

Cost = Callable[[Kernel], float]
"""Microseconds of a kernel."""


def _predicted(kernel: Kernel) -> float:
    return estimate_microseconds(kernel.facts, kernel.target)


def ablate(
    group: FusionGroup, best: Recipe, before: Recipe, cost: Cost = _predicted, origin: str = PREDICTED
) -> AblationDoc:
    """Undo each entry of `best` for a group in turn; where `before` decided the same thing, its entry comes back.

    cost: microseconds of a kernel, of that origin.  Raises what `compile_group` does where `best` has no kernel.
    """
    advice = best.groups.get(group.name, ())
    earlier = {about(e): e for one in before.groups.get(group.name, ()) for e in one.scenario.entries if e.enabled}
    now = cost(compile_group(group, best))
    flips: list[FlipDoc] = []
    for number, one in enumerate(advice):
        for place, entry in enumerate(one.scenario.entries):
            if not entry.enabled:
                continue
            old = earlier.get(about(entry))
            old = None if old is not None and old.value == entry.value else old
            without = best.with_group(group.name, _replace_entry(advice, number, place, old))
            words = str(entry), one.author, entry.because, "" if old is None else str(old)
            try:
                time = cost(compile_group(group, without))
            except EngineError as error:
                flips.append(FlipDoc(*words, None, None, error.reason))
            else:
                flips.append(FlipDoc(*words, time, time - now, ""))
    ranked = sorted(flips, key=lambda flip: float("inf") if flip.gain is None else -flip.gain)
    return AblationDoc(group.name, origin, now, tuple(ranked))


def _replace_entry(advice: Sequence[Advice], number: int, place: int, old: Entry | None) -> tuple[Advice, ...]:
    """The advice with entry `place` of author `number` replaced by `old`, or removed where that is None."""
    entries = advice[number].scenario.entries
    left = (*entries[:place], *((old,) if old is not None else ()), *entries[place + 1 :])
    changed = replace(advice[number], scenario=replace(advice[number].scenario, entries=left))
    return (*advice[:number], changed, *advice[number + 1 :])
