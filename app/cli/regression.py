"""The verbs `baseline` and `check`: a model's counts as a file, and whether any of them grew."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from app.cli import output
from app.cli.compile_job import CompileJob
from engine.regression import baseline as gate
from engine.support.files import check_place
from engine.support.serialization import to_json
from views.format import plural


def baseline(job: CompileJob, out: Path) -> None:
    """Count every kernel and write what was found."""
    check_place(out, "gate")
    found = _take_baseline(job)
    gate.write_baseline(found, out)
    output.say(f"{out}: {plural(len(found.groups), 'group')}, {_totals(found)}")


def check(job: CompileJob, path: Path, tolerance: float, json: bool) -> bool:
    """Count again; whether nothing grew by more than `tolerance` percent."""
    before = gate.read_baseline(path)
    target, dimensions = job.asked_target or before.target, {**before.dimensions, **job.asked_dimensions}
    found = _take_baseline(replace(job, asked_target=target, asked_dimensions=dimensions))
    result = gate.compare(before, found, tolerance / 100)
    if json:
        output.document(
            regressions=to_json(result.regressions), changes=to_json(result.changes), notes=list(result.notes)
        )
        return not result.regressions
    for note in result.notes:
        output.say(note)
    if result.changes:
        output.table("", ("group", "figure", "before>", "now>", ""), map(_cells, result.changes))
    worse = len(result.regressions)
    output.say(f"{plural(worse, 'regression')} in {_totals(found)}" if worse else f"no regression in {_totals(found)}")
    return not worse


def _take_baseline(job: CompileJob) -> gate.Baseline:
    kernels = output.track(job.kernels(), len(job.groups), "counting")
    return gate.take(job.plan, kernels, job.target, job.asked_dimensions)


def _totals(found: gate.Baseline) -> str:
    whole = found.whole
    return f"{plural(whole['kernels'], 'kernel')}, {whole['sectors']:,} sectors, {whole['conflicts']:,} bank conflicts"


def _cells(change: gate.FigureChange) -> tuple[str, ...]:
    before, after = ("" if value is None else f"{value:,}" for value in (change.before, change.after))
    return change.group or "the model", change.figure, before, after, _word(change)


def _word(change: gate.FigureChange) -> str:
    if change.worse:
        return "worse"
    if change.before is None or change.after is None:
        return ""
    return "better" if change.after < change.before else "within the tolerance"
