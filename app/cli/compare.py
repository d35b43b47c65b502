"""The verb `compare`: two recipes, and the kernels that a model has under each of them; or two files of outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import engine
from app.cli import output
from app.cli.compile_job import CompileJob
from engine import BadInput, Recipe, Unsupported
from engine.documents.exploration import DiffDoc, DiffLine, FigureDoc
from engine.recipe import diff
from engine.regression import outcomes
from engine.regression.outcomes import TimeRow, compare_manifests, compare_times
from engine.support.serialization import fields_to_json, to_json
from views.format import duration, figure, percent

TIME = "time"


def compare(a: Path, b: Path, model: str | None, only: str | None, limit: float | None, json: bool) -> bool:
    """Prints what changes from `a` to `b`; whether no kernel is slower than `limit` percent allow."""
    kind, other = outcomes.kind_of(a), outcomes.kind_of(b)
    if kind != other:
        raise BadInput("compare", str(b), f"holds a {other}, {a} a {kind}", "compare two files of one kind")
    if kind != outcomes.RECIPE and (model or only):
        option = "--model" if model else "--group"
        raise BadInput("command line", option, f"goes with recipes; {a} holds a {kind}", "leave it out")
    if kind == outcomes.TIMES:
        return _compare_times(a, b, limit, json)
    if kind == outcomes.MANIFEST:
        return _compare_manifests(a, b, limit, json)
    return _compare_recipes(a, b, model, only, limit, json)


def _compare_recipes(a: Path, b: Path, model: str | None, only: str | None, limit: float | None, json: bool) -> bool:
    before, after = (_restrict_to_group(engine.read_recipe(path), path, only, model) for path in (a, b))
    if limit is not None and model is None:
        raise BadInput("command line", "--max-slowdown", "needs kernels to predict", "add --model FILE")
    differences = diff(before, after)
    documents = () if model is None else tuple(_documents(model, a, before, b, after, only))
    rows = [{**fields_to_json(document), "slowdown": _slowdown(document)} for document in documents]
    if json:
        output.document(a=str(a), b=str(b), differences=differences, rows=rows)
    else:
        _say(differences, documents)
    slow = [row for row in rows if limit is not None and row["slowdown"] * 100 > limit]
    for row in slow:
        output.warn(f"{row['group']}: predicted {percent(row['slowdown'])} slower, {limit:g} % are allowed")
    return not slow


def _restrict_to_group(recipe: Recipe, path: Path, only: str | None, model: str | None) -> Recipe:
    """The recipe with what it says of one group; with a model, groups that it does not speak of are advised."""
    if only is None:
        return recipe
    if model is None and only not in recipe.groups:
        names = ", ".join(recipe.groups) or "none"
        raise BadInput("recipe", f"group {only}", f"{path} says nothing of it", f"it speaks of {names}")
    return replace(recipe, groups={name: advice for name, advice in recipe.groups.items() if name == only})


def _documents(model: str, a: Path, before: Recipe, b: Path, after: Recipe, only: str | None) -> Iterator[DiffDoc]:
    """The groups whose kernels the two recipes may make different."""
    if dict(before.dimensions) != dict(after.dimensions):
        raise BadInput("recipe", "dimensions", f"{a} and {b} bind them to other sizes", "compare at equal sizes")
    job = CompileJob(model, before.target, dict(before.dimensions), only)
    old, new = (engine.complete_recipe(recipe, job.plan, str(path)) for recipe, path in ((before, a), (after, b)))
    same_machine = replace(old, groups={}) == replace(new, groups={})
    changed = [group for group in job.groups if not same_machine or old.groups[group.name] != new.groups[group.name]]
    for group in output.track(changed, len(changed), "comparing"):
        try:
            yield engine.compare(engine.compile(group, old), engine.compile(group, new))
        except Unsupported:
            if only is not None:
                raise


def _slowdown(document: DiffDoc) -> float:
    """Part of A's predicted time that B takes longer; negative where it is faster."""
    time = next(each for each in document.figures if each.name == TIME)
    assert time.a and time.b is not None, "both sides are predicted"
    return (time.b - time.a) / time.a


def _say(differences: Sequence[str], documents: Sequence[DiffDoc]) -> None:
    for line in differences or ("no difference",):
        output.say(line)
    for document in documents:
        output.say(f"\n{document.group}")
        _say_lines("schedule", document.schedule)
        _say_lines("CUDA", document.cuda)
        rows = (_cells(each) for each in document.figures if each.a != each.b)
        output.table("", ("figure", "A>", "B>", "unit", "origin"), rows)


def _say_lines(what: str, lines: Sequence[DiffLine]) -> None:
    if lines:
        output.say(f"  {what}")
    for line in lines:
        output.say(f"  {line.mark} {line.b or line.a:>4}  {line.text}")


def _cells(each: FigureDoc) -> tuple[str, ...]:
    a, b = ("" if value is None else figure(value) for value in (each.a, each.b))
    return each.name, a, b, each.unit, each.origin


def _compare_times(a: Path, b: Path, limit: float | None, json: bool) -> bool:
    """Prints the change of every kernel's time; whether none is surely slower than `limit` percent allow."""
    rows = compare_times(a, b)
    if json:
        output.document(a=str(a), b=str(b), rows=to_json(rows))
    else:
        columns = ("kernel", "A>", "B>", "change>", "origin", "verdict", "because")
        output.table("", columns, (_time_cells(row) for row in rows))
    slow = [row for row in rows if limit is not None and row.slower_than(limit / 100)]
    for row in slow:
        assert row.ratio is not None
        output.warn(f"{row.name}: {row.origin} {percent(row.ratio - 1)} slower, {limit:g} % are allowed")
    return not slow


def _compare_manifests(a: Path, b: Path, limit: float | None, json: bool) -> bool:
    """Prints the figures of generated kernels that differ; always True: a manifest holds nothing to be slower in."""
    if limit is not None:
        raise BadInput("command line", "--max-slowdown", "manifests hold no times", "compare files of times instead")
    rows = compare_manifests(a, b)
    if json:
        output.document(a=str(a), b=str(b), rows=to_json(rows))
    elif rows:
        cells = ((row.name or "the model", row.figure, _value_text(row.a), _value_text(row.b)) for row in rows)
        output.table("", ("kernel", "figure", "A>", "B>"), cells)
    else:
        output.say("no difference")
    return True


def _time_cells(row: TimeRow) -> tuple[str, ...]:
    times = ("" if time is None else duration(time) for time in (row.a, row.b))
    change = "" if row.ratio is None else f"{100 * (row.ratio - 1):+.1f} %"
    return row.name, *times, change, row.origin, row.verdict, row.because


def _value_text(value: float | str | None) -> str:
    return "" if value is None else str(value) if isinstance(value, str) else f"{value:,}"
