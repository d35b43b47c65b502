"""The advice for a product whose kernel reduces rows of its results: loops around whole rows, tiles that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.fusion.nodes import FusionGroup
from engine.fusion.row_sides import reduced_columns
from engine.fusion.shape import is_contraction
from engine.recipe import Advice, Entry, Scenario
from engine.tensor.nodes import Statement
from engine.tensorize.bind import Binding


def row_pins(group: FusionGroup) -> Advice:
    """One loop around all statements for each axis that no reduction of results walks; nothing for other groups."""
    program = group.program
    anchor = next((s for s in program.statements if is_contraction(s)), None)
    columns = reduced_columns(program.statements, anchor) if anchor else ()
    if anchor is None or not columns:
        return Advice("stitch", Scenario())
    everyone = tuple(s.name for s in program.statements)
    entries: list[Entry] = []
    where = "outermost"
    for iterator in anchor.parallel:
        if iterator.name not in columns:
            because = f"rows are independent: what {iterator.name} makes of one stays in its block"
            entries.append(Entry(everyone, where, "pin", (iterator.name,), because=because))
            where = f"after {iterator.name}"
    return Advice("stitch", Scenario(tuple(entries)))


def row_binding(statements: Sequence[Statement], anchor: Statement, binding: Binding) -> Binding:
    """The binding of a product whose rows are reduced: the columns are what is reduced, and no others."""
    columns = reduced_columns(statements, anchor)
    if not columns:
        return binding
    is_swapped = columns[0] in {i.name for i in binding.rows}
    rows, wide = (binding.columns, binding.rows) if is_swapped else (binding.rows, binding.columns)
    beside = tuple(i for i in wide if i.name not in columns)
    whole = tuple(i for i in wide if i.name in columns)
    return replace(binding, batch=(*binding.batch, *beside), rows=rows, columns=whole, has_whole_rows=True)
