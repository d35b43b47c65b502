"""A group's schedule under its advice, before code generation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.explore.recipe_trial import switch_off
from engine.fusion.nodes import FusionGroup
from engine.poly.dependences import dependences
from engine.poly.nodes import Dependence
from engine.recipe import Advice, Recipe
from engine.rewrite.apply import rewritten
from engine.scheduling.address import TreePosition, places
from engine.scheduling.compose import compose
from engine.scheduling.legality import check_schedule
from engine.scheduling.nodes import Conflict, Member, ScheduleTree, Witness
from engine.scheduling.solve import schedule
from engine.scheduling.tiling import fold_tiles
from engine.tensor.nodes import TensorProgram

_CONFLICTS = 8
"""How many conflicts, one after the other, are switched off to find a schedule to start from."""


@dataclass(frozen=True, slots=True)
class ScheduledGroup:
    """A group with its schedule: all that questions about loop orders need."""

    group: FusionGroup
    advice: tuple[Advice, ...]
    dependences: tuple[Dependence, ...]
    tree: ScheduleTree
    program: TensorProgram
    """The group's, after the rewrites of its advice."""

    @property
    def places(self) -> dict[str, TreePosition]:
        """Where each statement stands, in the order of the text."""
        where = places(self.tree.root)
        return {s.name: where[s.name] for s in self.program.statements}

    def broken_by(self, tree: ScheduleTree) -> tuple[Witness, ...]:
        """One witness for each dependence that a tree of the same statements breaks, by exact legality."""
        found = {id(v.witness.dependence): v.witness for v in check_schedule(self.program, self.dependences, tree)}
        return tuple(found.values())


def schedule_group(group: FusionGroup, recipe: Recipe) -> ScheduledGroup:
    """The schedule of a group under a recipe.  Raises Conflict when required entries cannot hold."""
    advice = recipe.groups.get(group.name, ())
    made = rewritten(group.program, advice)
    needed = dependences(made.program)
    solved = schedule(made.program, needed, compose(advice, made.program, made.verdicts))
    return ScheduledGroup(group, advice, needed, fold_tiles(solved.tree), made.program)


def holding_part(group: FusionGroup, recipe: Recipe, conflict: Conflict) -> ScheduledGroup:
    """The schedule of a group once the entries that conflict are switched off, and those that conflict then.

    Its advice is what is left.  Raises the conflict that remains after `_CONFLICTS` of them.
    """
    for _ in range(_CONFLICTS):
        advice = switch_off(recipe.groups.get(group.name, ()), (placed.path for placed in conflict.conflicting))
        recipe = recipe.with_group(group.name, advice)
        try:
            return schedule_group(group, recipe)
        except Conflict as another:
            conflict = another
    raise conflict


def members_of(where: Mapping[str, TreePosition], name: str = "") -> tuple[Member, ...]:
    """Every dimension of a schedule, or those of a name, in the order of the tree."""
    found = {id(m): m for place in where.values() for m in place.members}
    return tuple(m for m in found.values() if name in ("", m.name))


def dimension_names(where: Mapping[str, TreePosition]) -> tuple[str, ...]:
    """Every dimension of a schedule, outer ones before inner ones."""
    found: list[str] = []
    for place in where.values():
        position = 0
        for member in place.members:
            if member.name in found:
                position = found.index(member.name) + 1
            else:  # right after the dimension around it, wherever another statement put that
                found.insert(position, member.name)
                position += 1
    return tuple(found)
