"""Ablation of a tuned recipe: the predicted time without each entry, the other entries kept."""

from __future__ import annotations

from collections.abc import Callable

from engine.compilation import compile_group
from engine.cost.estimate import estimate_microseconds
from engine.documents.ablation import AblationDoc, FlipDoc
from engine.execution.nodes import PREDICTED
from engine.fusion.nodes import FusionGroup
from engine.kernels.gemm.entries import about
from engine.kernels.nodes import Kernel
from engine.recipe import Recipe, replace_entry, walk_entries
from engine.support.errors import EngineError

Cost = Callable[[Kernel], float]
"""Microseconds of a kernel."""


def _predict_time(kernel: Kernel) -> float:
    return estimate_microseconds(kernel.facts, kernel.target)


def ablate(
    group: FusionGroup, best: Recipe, before: Recipe, cost: Cost = _predict_time, origin: str = PREDICTED
) -> AblationDoc:
    """Undo each entry of `best` for a group in turn; where `before` decided the same thing, its entry comes back.

    cost: microseconds of a kernel, of that origin.  Raises what `compile_group` does where `best` has no kernel.
    """
    advice = best.groups.get(group.name, ())
    said = walk_entries(before.groups.get(group.name, ()))
    earlier = {about(e): e for path, _, e in said if e.enabled and not any(path[1:-1])}  # of the first alternatives
    now = cost(compile_group(group, best))
    flips: list[FlipDoc] = []
    for path, author, entry in walk_entries(advice):
        if not entry.enabled or len(path) > 2:  # what stands in an alternative stands or falls with all of it
            continue
        old = earlier.get(about(entry))
        before_it = () if old is None or old.value == entry.value else (old,)
        without = best.with_group(group.name, replace_entry(advice, path, *before_it))
        words = str(entry), author, entry.because, "".join(map(str, before_it))
        try:
            time = cost(compile_group(group, without))
        except EngineError as error:
            flips.append(FlipDoc(*words, None, None, error.reason))
        else:
            flips.append(FlipDoc(*words, time, time - now, ""))
    ranked = sorted(flips, key=lambda flip: float("inf") if flip.gain is None else -flip.gain)
    return AblationDoc(group.name, origin, now, tuple(ranked))
