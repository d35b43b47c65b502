"""Entries of author `tune` in a recipe, in place of what the advisers say of the same."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from engine.fusion.nodes import FusionGroup
from engine.kernels.advice import with_content
from engine.recipe import Entry, Recipe, Scenario, with_entries


def with_tuned_entries(
    recipe: Recipe, group: FusionGroup, decided: Collection[str], entries: Sequence[Entry]
) -> Recipe:
    """The recipe with entries of author `tune` in place of what the advisers decide of these marks and fields."""
    advice = recipe.groups.get(group.name, ())
    kept = (
        one if one.author == "user" else replace(one, scenario=_without_decided(one.scenario, decided))
        for one in advice if one.author != "tune"
    )  # fmt: skip
    return recipe.with_group(group.name, with_entries(with_content(*kept), "tune", entries))


def kind_of(entry: Entry) -> str:
    """What an entry decides: the mark's name, or the field."""
    if entry.field == "mark" and isinstance(entry.value, tuple):
        return str(entry.value[0])
    return entry.field


def _without_decided(scenario: Scenario, decided: Collection[str]) -> Scenario:
    """An adviser's entries but those that decide what is searched."""
    entries = tuple(entry for entry in scenario.entries if kind_of(entry) not in decided)
    inner = tuple(_without_decided(one, decided) for one in scenario.alternatives)
    return replace(scenario, entries=entries, alternatives=tuple(i for i in inner if i.entries or i.alternatives))
