"""Suggested next edits of a group's schedule, each compiled before it is shown: predicted gain, or why not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from time import process_time

from engine.compilation import compile_group
from engine.documents.exploration import MoveDoc, MovesDoc
from engine.explore.candidates import Candidate, candidates
from engine.explore.hypothetical_schedules import interchange_dimensions
from engine.explore.recipe_trial import RecipeTrial, apply_change, attempt, predicted_time
from engine.fusion.nodes import FusionGroup
from engine.kernels.nodes import Kernel
from engine.recipe import Recipe
from engine.scheduling.legality import check_schedule
from engine.scheduling.text import to_text

MOST_STEPS = 40
"""Steps that are tried at most."""
SECONDS = 4.0
"""Of the processor that one call tries; asked again, it goes on from there."""

Known = dict[str, MoveDoc | None]
"""Results for one group under one recipe, by the text of the candidate; None: it changes nothing."""


def moves(
    group: FusionGroup,
    recipe: Recipe | None = None,
    should_stop: Callable[[], bool] | None = None,
    known: Known | None = None,
) -> MovesDoc:
    """Next steps from a recipe (by default the advisers'): possible ones by predicted gain, impossible ones with why.

    should_stop: asked before each trial; once it says so, or after `SECONDS`, what has been found is the answer, with
    `complete` False.
    known: what earlier calls for the same group and recipe found; new findings are added to it.
    Raises what `compile_group` raises where the recipe itself makes no kernel.
    """
    known = {} if known is None else known
    deadline = process_time() + SECONDS
    now = compile_group(group, recipe)
    found: list[MoveDoc] = []
    complete = True
    for candidate in candidates(now)[:MOST_STEPS]:
        # By its text: each call makes the candidates anew.
        key = f"{candidate.kind} {candidate.title} {'; '.join(map(str, candidate.change.entries))}"
        if key not in known:
            if (should_stop and should_stop()) or process_time() > deadline:
                complete = False
                break
            known[key] = _try_candidate(now, candidate)
        move = known[key]
        if move is not None:
            found.append(move)
    possible = sorted((m for m in found if not m.why_not), key=lambda move: -move.gain)
    impossible = tuple(_merge_alike([m for m in found if m.why_not]))
    return MovesDoc(group.name, to_text(now.advice), tuple(possible), impossible, complete)


def _merge_alike(moves: list[MoveDoc]) -> Iterator[MoveDoc]:
    """Merge steps of one kind that fail for the same reason into one with their number."""
    alike: dict[tuple[str, str, str], list[MoveDoc]] = {}
    for move in moves:
        alike.setdefault((move.kind, move.why_not, move.witness), []).append(move)
    for first, *others in alike.values():
        yield replace(first, title=f"{first.title}, and {len(others)} more") if others else first


def _try_candidate(now: Kernel, candidate: Candidate) -> MoveDoc | None:
    """Compile one step: its document, or None if it changes nothing."""
    if candidate.why_not:
        advice, _ = apply_change(now.advice, candidate.change)
        trial = RecipeTrial(advice, None, candidate.why_not, candidate.witness)
    else:
        trial = attempt(now.group, now.recipe, candidate.change)
    kernel = trial.kernel
    if kernel is None and candidate.order:
        trial = _with_dependence(now, candidate, trial)
    if kernel is not None and _without_names(kernel.source.text) == _without_names(now.source.text):
        return None
    before, after = predicted_time(now), predicted_time(kernel) if kernel else None
    why_not = trial.why_not
    if kernel is not None and after is None:
        why_not = f"not one block of it fits an SM of {kernel.target.name}"
    entries = candidate.lines or tuple(map(str, candidate.change.entries))
    return MoveDoc(
        candidate.kind, candidate.title, candidate.statements, entries, "" if why_not else to_text(trial.advice),
        time=after, gain=1 - after.microseconds / before.microseconds if before and after else 0.0, why_not=why_not,
        witness=trial.witness,
    )  # fmt: skip


def _without_names(text: str) -> str:
    """CUDA text without comments, its integer variables numbered: loops of other names make no other kernel."""
    code = re.sub(r"//[^\n]*", "", text)
    numbers = {name: f"v{n}" for n, name in enumerate(dict.fromkeys(re.findall(r"\bint (\w+) =", code)))}
    return re.sub(r"[A-Za-z_]\w*", lambda name: numbers.get(name.group(), name.group()), code)


def _with_dependence(now: Kernel, candidate: Candidate, trial: RecipeTrial) -> RecipeTrial:
    """Add the violated dependence to an interchange that makes no kernel."""
    tree = interchange_dimensions(now.schedule, candidate.order)
    broken = check_schedule(now.program, now.dependences, tree)
    if not broken:
        return trial
    witness = broken[0].witness
    return replace(trial, why_not=f"breaks the {witness.dependence}", witness=witness.text)
