"""What `loomscope tune` does: a search whose every trial is kept, with its progress, its result and how it ended."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import engine
from app.cli import output
from app.cli.compile_job import CompileJob
from app.session.named_models import path_of
from engine import BadInput
from engine.execution.nodes import MEASURED, PREDICTED
from engine.suite import is_reference
from engine.support.files import check_place
from engine.tuning.final_validation import AGREES
from engine.tuning.report import TunedGroup, TuningReport
from engine.tuning.tuning_run import TuningRun
from views.format import duration, plural

FORMATS = (".csv", ".json")
"""Of a table of trials."""

TITLES = {PREDICTED: "Predicted times: a model's, not measured", MEASURED: "Measured times"}


@dataclass(frozen=True)
class Wishes:
    """The options of `tune`."""

    records: Path
    trials: int
    minutes: float | None
    patience: int
    strategy: str
    runner: str
    resume: bool
    start: Path | None
    check: bool
    jobs: int
    cluster: str | None
    out: Path | None
    table: Path | None
    seed: int


def tune(job: CompileJob, wishes: Wishes, json: bool) -> None:
    """Search, show what was found, write the best recipe; an interrupt ends the search and nothing is lost."""
    _check_places(wishes)
    source = job.file if is_reference(job.file) else str(path_of(job.file).resolve())
    subject = job.plan if job.only is None else job.groups[0]
    recipe = job.recipe
    start = None if wishes.start is None else wishes.start.resolve()
    with output.steps("searching") as step:
        run: TuningRun | None = None

        def tell_group(group: str, before: int, groups: int) -> None:
            done, total = (run.spent, run.budget) if run else (0, groups * wishes.trials)
            step(f"programs of {group}, {before + 1} of {groups}", done, total)

        run = engine.tune(
            subject, recipe, trials=wishes.trials, minutes=wishes.minutes, records=wishes.records,
            runner=wishes.runner, strategy=wishes.strategy, jobs=wishes.jobs, resume=wishes.resume, start=start,
            cluster=wishes.cluster, patience=wishes.patience, check=wishes.check, seed=wishes.seed, source=source,
            observe=tell_group,
        )  # fmt: skip
        with run:
            was_interrupted = _run(run, step)
            if wishes.out is not None:
                engine.write_recipe(run.best_so_far, wishes.out)
            if wishes.table is not None:
                run.export(wishes.table)
            attempts = run.attempts
    report = run.report()
    if json:
        output.document(**report.to_json())
    else:
        _show(report)
    _say_what_is_kept(report, attempts, was_interrupted)
    if was_interrupted:
        raise KeyboardInterrupt


def _check_places(wishes: Wishes) -> None:
    """Raise BadInput for places where no result can be written once it is found."""
    for place in filter(None, (wishes.out, wishes.table)):
        check_place(place, "command line")
    if wishes.table is not None and wishes.table.suffix not in FORMATS:
        hint = f"end it in {' or '.join(FORMATS)}"
        raise BadInput("command line", f"--export {wishes.table}", "does not name a format by its ending", hint)


def _run(run: TuningRun, step: Callable[[str, int, int], None]) -> bool:
    """Spend the trials; whether Ctrl-C ended it."""
    run.on_notice(output.note)
    failed = 0
    with _signals_interrupt(run):
        try:
            for attempt in run:
                failed += bool(attempt.failure)
                best = run.progress[attempt.group].time
                told = f"best {duration(best)}" if best < float("inf") else "nothing ran yet"
                step(f"{attempt.group} {told}, {failed} failed", run.spent, run.budget)
        except KeyboardInterrupt:
            return True
    return run.was_interrupted


@contextlib.contextmanager
def _signals_interrupt(run: TuningRun) -> Iterator[None]:
    """Ctrl-C, SIGTERM and SIGHUP end a search once its program is done, and at once where they come again.

    An exception that a handler raises may land in a callback that cannot pass it on (a weak reference's) and be lost.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        if run.was_interrupted:
            raise KeyboardInterrupt
        run.interrupt()

    wanted = (number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN)
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, *wanted)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show(report: TuningReport) -> None:
    def row(one: TunedGroup) -> tuple[str, ...]:
        mappings, *programs = one.sizes
        times = ("" if time is None else duration(time) for time in (one.before, one.time))
        counts = str(mappings), *(f"{count:,}" for count in programs), str(one.trials), str(sum(one.failures.values()))
        return one.group, *counts, *times, str(one.program) if one.is_faster else "as it was"

    counts = ("mappings>", "programs>", "after pruning>", "trials>", "failed>")
    columns = ("group", *counts, "before>", "best>", "program")
    title = TITLES.get(report.origin, f"Times of origin {report.origin}")
    output.table(title, columns, [row(one) for one in report.groups.values()])
    checked = [name for name, one in report.groups.items() if one.note == AGREES]
    if checked:
        output.say(f"{plural(len(checked), 'best kernel')} compared with the reference: no difference found")
    for name, why in (*report.notes.items(), *report.skipped.items()):
        output.say(f"{name}: {why}")


def _say_what_is_kept(report: TuningReport, attempts: int, was_interrupted: bool) -> None:
    """On standard error, for a document may be on the other."""
    kept = f"{report.ended}: {plural(attempts, 'attempt')} of run {report.run}, {report.reused} cached, "
    hint = "; --resume goes on" if was_interrupted else ""
    output.note(f"{kept}all kept in {report.records}{hint}")
