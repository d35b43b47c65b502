"""The verb `diff`: two models or two workspaces side by side."""

from __future__ import annotations

from collections.abc import Sequence

import engine
from app.cli import output
from app.cli.compile_job import CompileJob
from engine.documents.difference import ADDED, CHANGED, REMOVED, GroupChange, ModelDiffDoc, OperatorChange
from engine.documents.exploration import FigureDoc
from engine.support.serialization import fields_to_json
from views.format import duration, plural, with_unit

SHOWN = 60
"""Operators that are listed for people; --json has them all."""
MARKS = {ADDED: "+", REMOVED: "-", CHANGED: "~"}


def diff(a: CompileJob, b: CompileJob, json: bool) -> None:
    """Print what changes from `a` to `b`."""
    models = []
    with output.steps("opening") as step:
        for done, job in enumerate((a, b)):
            step(f"opening {job.file}", done, 3)
            models.append(job.model)
        step("comparing", 2, 3)
        found = engine.compare_models(models[0], models[1], (a.recipe, b.recipe))
    if json:
        output.document(**{**fields_to_json(found), "a": a.file, "b": b.file})
        return
    output.say(summary(found))
    output.table("", ("", "A>", "B>", "change>", "origin"), map(_figure_cells, found.figures))
    if found.groups:
        columns = ("", "group in A", "group in B", "what", "times>", "A each>", "B each>", "why")
        output.table("\nKernels", columns, map(_group_cells, found.groups))
        for group in found.groups:
            for line in group.entries:
                output.say(f"{group.b}: {line}")
    if found.operators:
        rows = found.operators[:SHOWN]
        output.table("\nOperators", ("", "in A", "in B", "kind", "what differs"), map(_operator_cells, rows))
        if len(found.operators) > SHOWN:
            output.say(f"and {len(found.operators) - SHOWN:,} more; --json lists them all")


def summary(found: ModelDiffDoc) -> str:
    """What differs, counted, on one line."""
    operators = _count([each.state for each in found.operators])
    kernels = _count([each.state for each in found.launches])
    renamed = f", {found.renamed:,} of them under other names" if found.renamed else ""
    if not (operators or kernels):
        return f"no difference: {plural(found.same_operators, 'equal operator')}{renamed}"
    parts = [f"operators: {operators or 'all equal'}", f"kernels: {kernels or 'all equal'}"]
    return "; ".join([*parts, f"{plural(found.same_operators, 'equal operator')}{renamed}"])


def _count(states: Sequence[str]) -> str:
    return ", ".join(f"{states.count(state):,} {state}" for state in MARKS if state in states)


def _figure_cells(row: FigureDoc) -> tuple[str, ...]:
    assert row.a is not None and row.b is not None, "both models have every figure"
    texts = [with_unit(value, row.unit) for value in (row.a, row.b)]
    change = f"{100 * (row.b / row.a - 1):+.1f} %" if row.a and row.a != row.b else ""
    return row.name, *texts, change, row.origin


def _group_cells(row: GroupChange) -> tuple[str, ...]:
    a, b = ("" if time is None else duration(time) for time in row.microseconds)
    return MARKS[row.state], row.a, row.b, row.title, str(row.launches), a, b, row.because


def _operator_cells(row: OperatorChange) -> tuple[str, ...]:
    return MARKS[row.state], row.a, row.b, row.kind, row.because
