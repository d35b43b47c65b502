"""Recipes for shapes nearby: what a person or a search chose for the groups of one plan, tried on those of another.

    matmul_0, 64 x 256 x 128:  tune: S0 @ i: mark block 64    ->    matmul_3, 64 x 512 x 128:  the same entry, where it
                                                                    fits and is predicted no slower
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.compilation import compile_group, default_recipe
from engine.cost.estimate import estimate_microseconds
from engine.fusion.nodes import FusionGroup, FusionPlan
from engine.kernels.tuned_entries import kind_of, with_tuned_entries
from engine.recipe import Advice, Recipe, walk_entries
from engine.scheduling.compose import validate
from engine.support.errors import EngineError
from engine.target.machines import refuse_cpu

CANDIDATES = 8
"""Groups whose choices are tried on one group: each is a compilation."""
USER, TUNE = CHOSEN_BY = ("user", "tune")
"""Authors whose choices are taken: those of analyses are worked out for each shape anew."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """A recipe for a plan, with what it takes from another plan's.  Prints as one line for each group."""

    recipe: Recipe
    taken: Mapping[str, str]
    """Group of the plan -> the group whose choices it has now, with predicted times."""
    left: Mapping[str, str]
    """Group of the plan that is as its advisers say -> why nothing was taken."""

    def __str__(self) -> str:
        lines = [f"{name}: {words}" for name, words in (*self.taken.items(), *self.left.items())]
        return "\n".join(lines)


def transfer(recipe: Recipe, plan: FusionPlan) -> Transfer:
    """A recipe for a plan that starts from what a recipe for another model, or another shape of it, says.

    >>> row = "suite:alcop/MM_RN50_FC"
    >>> known = engine.tune(engine.fuse(engine.load(row)), trials=4, strategy="model").best
    >>> found = engine.transfer(known, engine.fuse(engine.load("suite:alcop/MM_BERT_FC1")))
    >>> list(found.taken) + list(found.left)
    ['matmul_0']

    For each group of the plan, the entries of the user and of the tuner for a group of the same name are tried, then
    those for groups of the same kind; the first that all fit, compile and are predicted fastest are taken, where that
    is not slower than its advisers' kernel.  Nothing is measured; `engine.tune` can go on from the result.
    Raises Unsupported for a plan for a CPU.
    """
    refuse_cpu(plan.graph, plan.target)
    advised = default_recipe(plan, numerics=recipe.numerics)
    groups, taken, left = dict(advised.groups), {}, {}
    for group in plan.groups:
        found = _fastest(group, recipe, advised)
        if isinstance(found, str):
            left[group.name] = found
        else:
            groups[group.name], taken[group.name] = found
    return Transfer(Recipe(advised.target, numerics=advised.numerics, groups=groups), taken, left)


def _fastest(group: FusionGroup, recipe: Recipe, advised: Recipe) -> tuple[tuple[Advice, ...], str] | str:
    """The advice of a group with the choices that are predicted fastest, and what they are; or why none is taken."""
    try:
        before = _microseconds(group, advised)
    except EngineError as error:
        return f"has no kernel to start from: {error.reason}"
    time, advice, origin = before, None, ""
    why = "nothing is known of a group of its kind"
    for name, chosen in _candidates(group, recipe):
        try:
            tried = _with_choices(advised, group, chosen)
            validate(tried.groups[group.name], group.program)
            now = _microseconds(group, tried)
        except EngineError as error:
            why = f"what is known of {name} does not fit: {error.reason}"
            continue
        if now < time or (now == time and advice is None):
            time, advice, origin = now, tried.groups[group.name], name
        elif now > before:
            why = f"what is known of {name} is predicted slower: {now:.2f} µs, by its advisers {before:.2f} µs"
    if advice is None:
        return why
    return advice, f"as {origin}: {time:.2f} µs predicted, {before:.2f} µs by its advisers"


def _candidates(group: FusionGroup, recipe: Recipe) -> Iterator[tuple[str, tuple[Advice, ...]]]:
    """Names and chosen advice of groups that may suit, that of the same name first; equal choices once."""
    word = group.name.rpartition("_")[0]
    names = sorted((n for n in recipe.groups if n.rpartition("_")[0] == word), key=lambda name: name != group.name)
    seen: set[tuple[Advice, ...]] = set()
    for name in names:
        chosen = tuple(one for one in recipe.groups[name] if one.author in CHOSEN_BY)
        if any(walk_entries(chosen)) and chosen not in seen and len(seen) < CANDIDATES:
            seen.add(chosen)
            yield name, chosen


def _with_choices(advised: Recipe, group: FusionGroup, chosen: Sequence[Advice]) -> Recipe:
    """The advisers' recipe under a person's and a tuner's choices for one group."""
    tuned = [entry for one in chosen if one.author == TUNE for _, _, entry in walk_entries((one,))]
    recipe = with_tuned_entries(advised, group, {kind_of(entry) for entry in tuned}, tuned) if tuned else advised
    by_user = tuple(one for one in chosen if one.author == USER)
    return recipe.with_group(group.name, (*by_user, *recipe.groups.get(group.name, ())))


def _microseconds(group: FusionGroup, recipe: Recipe) -> float:
    kernel = compile_group(group, recipe)
    return estimate_microseconds(kernel.facts, kernel.target)
