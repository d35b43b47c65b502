"""What can be searched of one group: its programs after rules and pruning, and how one becomes a recipe."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from engine.compile import compile_group
from engine.errors import EngineError, Unsupported
from engine.explore.knobs import about, entries_of
from engine.explore.limits import Limit
from engine.fuse.nodes import FusionGroup
from engine.predict.alcop import predict_pipeline
from engine.predict.alcop_nodes import Contraction
from engine.predict.alcop_problem import contraction_of, sides_of
from engine.predict.alcop_work import work_of_knobs
from engine.predict.calibration import predict
from engine.recipe import Advice, Recipe, with_entries
from engine.target import Target
from engine.tensorize.space import Knobs
from engine.tune.prune import RULES, Funnel, prune
from engine.tune.rules import Applied, Situation, sketch


@dataclass(frozen=True, slots=True)
class Problem:
    """One group with everything that a search may choose of it."""

    group: FusionGroup
    recipe: Recipe
    """That of the user and the advisers."""
    situation: Situation
    applied: tuple[Applied, ...]
    """What each rule opened."""
    funnel: Funnel
    flops: float
    """Of one launch."""
    before: float
    """Predicted time under `recipe`, in microseconds."""

    def tuned(self, knobs: Knobs) -> Recipe:
        """The recipe of one program: entries of author `tune` in place of the advisers', the user's untouched."""
        contraction = self.situation.contraction
        entries = entries_of(self.situation.sides, knobs, on_tensor_cores=bool(contraction.unit))
        said = {about(entry) for entry in entries}
        kept = [one if one.author == "user" else _without(one, said) for one in self.recipe.groups[self.group.name]]
        return self.recipe.with_group(self.group.name, with_entries(kept, "tune", entries))

    def rank(self, knobs: Knobs) -> float:
        """The time that the pipeline model promises a program, in microseconds, before it is compiled."""
        return predict_pipeline(work_of_knobs(self.situation.contraction, knobs), self.situation.machine).microseconds


def problem(group: FusionGroup, recipe: Recipe) -> Problem | str:
    """What can be searched of a group, or why nothing can.

    Only contractions have programs here; what the user's entries say of them stays fixed.
    """
    try:
        kernel = compile_group(group, recipe)
    except EngineError as error:
        return error.reason
    sides = sides_of(kernel.program)
    contraction = contraction_of(kernel.program, kernel.tile, kernel.facts)
    if sides is None or contraction is None:
        return "is no product with tiles: its recipe is the advisers'"
    situation = Situation(group, sides, contraction, kernel.target)
    made, applied = sketch(situation)
    wishes = {about(e): e for one in kernel.advice if one.author == "user" for e in one.scenario.entries if e.enabled}

    def contradicts(contraction: Contraction, knobs: Knobs, machine: Target) -> str:
        for entry in entries_of(sides, knobs, on_tensor_cores=bool(contraction.unit)):
            wish = wishes.get(about(entry))
            if wish is not None and wish.value != entry.value:
                return f"the user asks for {wish}"
        return ""

    fixed = Limit("entries of the user", contradicts, "what a person decided is not searched")
    funnel = prune(made.points(), contraction, kernel.target, (fixed, *RULES))
    if not funnel.left:
        worst = max(funnel.dropped, key=lambda dropped: dropped.count)
        raise Unsupported(
            "tune", group.name, f"no program is left of {funnel.total:,}: {worst.rule} drops {worst.count:,}",
            worst.example,
        )
    flops, before = kernel.facts.tensor_flops + kernel.facts.flops, predict(kernel.facts, kernel.target).microseconds
    return Problem(group, recipe, situation, applied, funnel, flops, before)


def _without(advice: Advice, said: Collection[object]) -> Advice:
    """An adviser's entries but those that say something of what is searched."""
    left = tuple(entry for entry in advice.scenario.entries if about(entry) not in said)
    return replace(advice, scenario=replace(advice.scenario, entries=left))
