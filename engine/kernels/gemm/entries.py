"""The configuration of a contraction's kernel as entries of a recipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.kernels.advice import mark
from engine.recipe import Advice, Entry, Recipe, with_entries
from engine.tensorize.bind import GemmAxes
from engine.tensorize.space import GemmConfig


def entries_of(
    axes: GemmAxes, config: GemmConfig, before: GemmConfig | None = None, on_tensor_cores: bool = True
) -> list[Entry]:
    """The marks that ask for `config`; with `before` only those that differ from it."""
    part = "warp" if on_tensor_cores else "thread"
    rows, columns, depth = axes.rows[-1].name, axes.columns[-1].name, axes.depth[-1].name

    def values(chosen: GemmConfig) -> list[tuple[str, str, int]]:
        return [
            (rows, "block", chosen.block[0]), (rows, part, chosen.part[0]), (columns, "block", chosen.block[1]),
            (columns, part, chosen.part[1]), (depth, "tile", chosen.block[2]), (depth, "stages", chosen.stages),
            (depth, "register_stages", chosen.register_stages), (depth, "slices", chosen.slices),
            (depth, "split_k", chosen.split_k), (rows, "raster", chosen.raster),
        ]  # fmt: skip

    # Without a mark blocks go by rows.
    old = values(before) if before else [(at, name, int(name == "raster")) for at, name, _ in values(config)]
    changed = [new for new, was in zip(values(config), old, strict=True) if new != was]
    taken = [each for each in changed if on_tensor_cores or each[1] != "register_stages"]
    return [mark((axes.statement.name,), dimension, name, value, "") for dimension, name, value in taken]


def with_user_entries(recipe: Recipe, group: str, entries: Sequence[Entry]) -> Recipe:
    """The recipe of a group with the user's entries, where they say the same thing of the same dimension replaced."""
    said = {about(entry) for entry in entries}
    kept: list[Advice] = []
    for one in recipe.groups.get(group, ()):
        if one.author == "user":
            left = tuple(entry for entry in one.scenario.entries if about(entry) not in said)
            one = replace(one, scenario=replace(one.scenario, entries=left))
        kept.append(one)
    return recipe.with_group(group, with_entries(kept, "user", entries))


def about(entry: Entry) -> tuple[tuple[str, ...], str, str, str]:
    """What an entry decides: statements, dimension, field, and the name of a mark."""
    name = str(entry.value[0]) if entry.field == "mark" and isinstance(entry.value, tuple) else ""
    return entry.statements, entry.dimension, entry.field, name

