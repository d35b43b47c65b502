"""The second answer about an edit: the smallest sets of entries that conflict, and repairs that were tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.compilation import compile_for, default_recipe
from engine.documents.exploration import ConflictDoc
from engine.fusion.nodes import FusionGroup
from engine.present.model import entry_docs, repair_docs
from engine.recipe import Recipe
from engine.scheduling.nodes import Conflict, Options, Verdict
from engine.scheduling.text import to_text
from engine.scheduling.untaken_entries import NoKernel
from engine.support.errors import OverBudget


def conflict(
    group: FusionGroup, recipe: Recipe | None = None, should_stop: Callable[[], bool] = lambda: False
) -> ConflictDoc:
    """What the verdicts of a group's entries leave open, looked for to the end; `complete` False where it was stopped.

    should_stop: polled while it looks.  Raises what `compile_for` does, but for its refusals.
    """
    recipe = recipe or default_recipe(group)
    advice = recipe.groups.get(group.name, ())
    stopped = ConflictDoc(group.name, to_text(advice), (), (), (), complete=False)
    found: Conflict | None = None
    verdicts: Sequence[Verdict]
    try:
        verdicts = compile_for(group, recipe, options=Options(should_stop=should_stop)).verdicts
    except Conflict as refused:
        found, verdicts = refused, refused.verdicts
    except NoKernel as refused:
        verdicts = refused.scheduled.verdicts
    except OverBudget:
        if should_stop():
            return stopped
        raise
    if should_stop():  # it may have been broken off anywhere
        return stopped
    return replace(
        stopped,
        entries=entry_docs(verdicts),
        conflicting=tuple(placed.path for placed in found.conflicting) if found else (),
        repairs=repair_docs(found, advice) if found else (),
        complete=True,
    )
