"""Entries in place of what the advisers say of the same."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from engine.fusion.nodes import FusionGroup
from engine.kernels.advice import with_content
from engine.recipe import FAMILY, Advice, Entry, Recipe, Scenario, with_entries


def with_tuned_entries(
    recipe: Recipe, group: FusionGroup, decided: Collection[str], entries: Sequence[Entry]
) -> Recipe:
    """The recipe with entries of author `tune` in place of what the advisers decide of these marks and fields."""
    advice = (one for one in recipe.groups.get(group.name, ()) if one.author != "tune")
    return recipe.with_group(group.name, with_entries(without_decided(advice, {*decided, FAMILY}), "tune", entries))


def without_decided(advice: Iterable[Advice], decided: Collection[str]) -> tuple[Advice, ...]:
    """A person's advice, and that of analyses without what they decide of these marks and fields."""
    return with_content(*(
        one if one.author == "user" else replace(one, scenario=_without_decided(one.scenario, decided))
        for one in advice
    ))  # fmt: skip


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
