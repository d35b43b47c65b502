"""Advice lines for a dragged loop interchange or tile size, and whether the new order is legal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from engine.compilation import default_recipe
from engine.documents.exploration import OrderDoc
from engine.explore.candidates import pins_of_user
from engine.explore.hypothetical_schedules import interchange_dimensions
from engine.explore.interchange import pins
from engine.explore.recipe_trial import AdviceChange, apply_change, attempt
from engine.explore.scheduled_group import ScheduledGroup, holding_part, schedule_group
from engine.explore.space import check_order, tile_mark, verdict
from engine.fusion.nodes import FusionGroup
from engine.recipe import Entry, Path, Recipe, entry_at
from engine.scheduling.nodes import Conflict
from engine.scheduling.text import to_text
from engine.support.errors import BadInput


def order(
    group: FusionGroup, recipe: Recipe | None = None, order: Sequence[str] = (), tiles: Mapping[str, int] | None = None
) -> OrderDoc:
    """The entries for an order of dimensions, outermost first, and for tiles of some; one edit for all statements.

    tiles: dimension -> values of one tile, 1 for none.

    An order is legal if every dependence holds while the statements go on to share the loops that they share now.
    The pins are required, so that an illegal order that is applied is refused and not quietly dropped; where required
    entries of the recipe conflict, the user's pins among them give way.
    Raises BadInput for names that are no dimensions.
    """
    recipe, tiles = recipe or default_recipe(group), tiles or {}
    gone: tuple[Path, ...] = ()
    try:
        now = schedule_group(group, recipe)
    except Conflict as conflict:
        now = holding_part(group, recipe, conflict)
        gone = tuple(p.path for p in conflict.conflicting if p.author == "user" and p.entry.field == "pin")
    check_order(now, order)
    check_order(now, tuple(tiles))
    moved = pins(now.places, order, required=True)
    asked = [_tile(now, name, size) for name, size in tiles.items()]
    entries = (*moved, *(entry for entry, _ in asked))
    gone += pins_of_user(now.advice, {s for entry in moved for s in entry.statements})
    gone += tuple(path for _, paths in asked for path in paths)
    change = AdviceChange(entries, tuple(dict.fromkeys(gone)))
    advice, _ = apply_change(recipe.groups.get(group.name, ()), change)
    legal, because = _judge(now, recipe, order if moved else (), change)
    return OrderDoc(tuple(map(str, entries)), to_text(advice), legal, because)


def _tile(now: ScheduledGroup, dimension: str, size: int) -> tuple[Entry, tuple[Path, ...]]:
    """The entry for a tile of a dimension, and what gives way to it: the number of the mark that tiles it now.

    Without one, blocks take tiles of the dimensions that are parallel for all statements, vectors those of others.
    """
    if size < 1:
        raise BadInput("order", f"tile {size} of {dimension}", "must be at least 1")
    found = {id(m): (s, m) for s, place in now.places.items() for m in place.members if m.name == dimension}
    mark = tile_mark([member for _, member in found.values()])
    if mark is None:
        statement, member = next(iter(found.values()))
        name = "block" if member.parallel and len(found) == 1 else "vector"
        return Entry((statement,), dimension, "mark", (name, size)), ()
    old = entry_at(now.advice, mark.path)
    value = size if old.field == "split" else (mark.name, size)
    own = mark.author == "user"
    return replace(old, value=value, required=own and old.required, because=""), (mark.path,) if own else ()


def _judge(now: ScheduledGroup, recipe: Recipe, order: Sequence[str], change: AdviceChange) -> tuple[bool, str]:
    """Whether a change breaks no dependence, with the reason, or with what a kernel makes of it."""
    if change == AdviceChange(()):
        return True, "that is the order in use"
    broken = now.broken_by(interchange_dimensions(now.tree, order))
    if broken:
        return False, verdict(now, broken)
    trial = attempt(now.group, recipe, change)
    count = len(now.dependences)
    hold = f"{count} of {count} dependences hold"
    if trial.kernel is None and not trial.is_illegal:
        return True, f"{hold}, but {trial.why_not}"
    return not trial.is_illegal, trial.why_not or hold
