"""What `loomscope tune` does: a search whose every trial is kept, with its progress, its result and how it ended."""

from __future__ import annotations

import contextlib
import re
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import engine
from app.cli import output
from app.cli.compile_job import CompileJob
from app.session.named_models import path_of
from engine import BadInput
from engine.execution.nodes import MEASURED, PREDICTED
from engine.kernels.space import Task
from engine.records.export import export
from engine.records.store import RecordStore
from engine.suite import is_reference
from engine.support.files import check_place
from engine.support.serialization import to_json
from engine.tuning.api import REPLAYED, judge, runner
from engine.tuning.cluster import cluster
from engine.tuning.executors import Workers, here, processes
from engine.tuning.final_validation import Judge
from engine.tuning.progress import Progress, program_of
from engine.tuning.search import Search
from engine.tuning.settings import SearchLimits, SearchSettings
from views.format import duration, plural

FORMATS = (".csv", ".json")
"""Of a table of trials."""

TITLES = {PREDICTED: "Predicted times: a model's, not measured", MEASURED: "Times measured on a GPU"}


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
    check: bool
    jobs: int
    cluster: str | None
    out: Path | None
    table: Path | None
    seed: int


def tune(job: CompileJob, wishes: Wishes, json: bool) -> None:
    """Search, show what was found, write the best recipe; an interrupt ends the search and nothing is lost."""
    _refuse(wishes)
    running = runner(wishes.runner, is_here=wishes.cluster is None)
    recipe = job.recipe
    plan = job.plan if job.only is None else replace(job.plan, groups=job.groups)
    limits = SearchLimits(wishes.trials, wishes.minutes or float("inf"), patience=wishes.patience)
    source = job.file if is_reference(job.file) else str(path_of(job.file).resolve())
    settings = SearchSettings(wishes.strategy, running, limits, wishes.seed, source, wishes.resume)
    deciding = judge(wishes.runner) if wishes.check else Judge()
    with RecordStore(wishes.records) as store, _workers(wishes, recipe.target) as workers:
        with output.steps("rules") as step:
            search = engine.tune(plan, recipe, store, settings, workers, deciding, step)
        was_interrupted = _run(search)
        if wishes.out is not None:
            engine.write_recipe(search.recipe(), wishes.out)
        if wishes.table is not None:
            export(store, running.origin, wishes.table)
        counts = Counter(one.state for one in search.log.attempts())
    if json:
        output.document(**_document(search, wishes))
    else:
        _show(search)
    _say_what_is_kept(search, wishes, counts.total(), was_interrupted)
    if was_interrupted:
        raise KeyboardInterrupt


def _refuse(wishes: Wishes) -> None:
    """Options that cannot be meant, and places where no result can be written once it is found."""
    for place in filter(None, (wishes.out, wishes.table)):
        check_place(place, "command line")
    if wishes.table is not None and wishes.table.suffix not in FORMATS:
        hint = f"end it in {' or '.join(FORMATS)}"
        raise BadInput("command line", f"--export {wishes.table}", "does not name a format by its ending", hint)
    if wishes.cluster is not None and not re.fullmatch(r"(\w+://)?.+:\d+", wishes.cluster):
        hint = "for example --cluster tcp://host:8786"
        raise BadInput("command line", f"--cluster {wishes.cluster}", "is no address of a host with a port", hint)
    if wishes.minutes is not None and not 0 < wishes.minutes < float("inf"):
        raise BadInput("command line", f"--minutes {wishes.minutes:g}", "is no time", "say a number above 0")
    if wishes.patience < 1:
        raise BadInput("command line", f"--patience {wishes.patience}", "is no number of rounds", "say 1 or more")
    if wishes.records.exists() and not wishes.records.is_file():
        raise BadInput("command line", str(wishes.records), "is not a file", "name one for the records of the search")
    if wishes.resume and not wishes.records.is_file():
        raise BadInput("command line", str(wishes.records), "is not there to go on with", "leave out --resume")
    if wishes.runner == REPLAYED and not wishes.records.is_file():
        hint = "name a file of measured trials with --records"
        raise BadInput("command line", str(wishes.records), "is not there to be replayed", hint)
    if wishes.cluster is not None and wishes.jobs != 1:
        raise BadInput("command line", "--jobs", "is for this machine alone", "a cluster has the workers that it has")
    if wishes.runner == MEASURED and wishes.jobs != 1:
        raise BadInput("command line", "--jobs", "would time kernels beside each other on one GPU", "leave it out")


@contextlib.contextmanager
def _workers(wishes: Wishes, target: str) -> Iterator[Workers]:
    """Where programs run; they are let go whatever happens."""
    if wishes.cluster is not None:
        workers = cluster(wishes.cluster, target, one_at_a_time=wishes.runner == MEASURED)
    else:
        workers = here() if wishes.jobs == 1 else processes(wishes.jobs)
    try:
        yield workers
    finally:
        workers.close()


def _run(search: Search) -> bool:
    """Spend the trials; whether Ctrl-C ended it."""
    total = search.limits.trials * len(search.progress)
    search.notice = output.note
    failed = 0
    with output.steps("searching") as step, _signals_interrupt(search):
        try:
            step(f"searching {plural(len(search.progress), 'group')}", search.spent, total)
            for attempt in search.run():
                failed += bool(attempt.failure)
                best = search.progress[attempt.group].time
                told = f"best {duration(best)}" if best < float("inf") else "nothing ran yet"
                step(f"{attempt.group} {told}, {failed} failed", search.spent, total)
        except KeyboardInterrupt:
            return True
    return search.was_interrupted


@contextlib.contextmanager
def _signals_interrupt(search: Search) -> Iterator[None]:
    """Ctrl-C, SIGTERM and SIGHUP end a search once its program is done, and at once where they come again.

    An exception that a handler raises may land in a callback that cannot pass it on (a weak reference's) and be lost.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        if search.was_interrupted:
            raise KeyboardInterrupt
        search.interrupt()

    wanted = (number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN)
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, *wanted)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _document(search: Search, wishes: Wishes) -> dict[str, Any]:
    failures = sum((one.failures for one in search.progress.values()), Counter[str]())
    progress = search.progress.items()
    return {
        "run": search.log.number, "origin": search.runner.origin, "ended": search.why_ended or "interrupted",
        "best": {name: _best(search, one) for name, one in progress if one.winner is not None},
        "trials": search.spent, "failures": dict(failures), "reused": sum(one.reused for _, one in progress),
        "repeated": search.repeated, "funnels": {name: dict(map(_funnel, one.problem.tasks)) for name, one in progress},
        "skipped": dict(search.skipped),
        "unchecked": {name: note for name, note in _notes(search).items() if "not checked" in note},
        "records": str(wishes.records),
    }  # fmt: skip


def _best(search: Search, one: Progress) -> dict[str, Any]:
    winner = one.winner
    assert winner is not None, "only groups with a winner are told"
    return {
        "microseconds": one.time, "before": to_json(one.before), "origin": search.runner.origin,
        "program": to_json(program_of(winner)), "is_faster": one.gain > 0, "note": one.note,
    }  # fmt: skip


def _funnel(task: Task) -> tuple[str, dict[str, Any]]:
    """A task's name, and how many of its programs each rule dropped."""
    dropped = {d.rule: d.count for d in task.funnel.dropped}
    return task.name, {"total": task.funnel.total, "dropped": dropped, "left": len(task.programs)}


def _notes(search: Search) -> dict[str, str]:
    """What is to be said of the best of each group that became faster."""
    faster = ((name, one) for name, one in search.progress.items() if one.gain > 0)
    return {name: one.note or "not checked" for name, one in faster if one.note != "agrees with the reference"}


def _show(search: Search) -> None:
    def row(name: str, one: Progress) -> tuple[str, ...]:
        programs = f"{one.problem.total:,}", f"{len(one.problem.programs):,}"
        is_known = one.before < float("inf")
        best = duration(min(one.before, one.time)) if is_known or one.winner else ""
        program = str(program_of(one.winner)) if one.winner and one.gain > 0 else "as it was"
        counts = str(len(one.tasks)), *programs, str(one.trials), str(one.failures.total())
        return name, *counts, duration(one.before) if is_known else "", best, program

    counts = ("mappings>", "programs>", "after pruning>", "trials>", "failed>")
    columns = ("group", *counts, "before>", "best>", "program")
    title = TITLES.get(search.runner.origin, f"Times of origin {search.runner.origin}")
    output.table(title, columns, [row(name, one) for name, one in search.progress.items()])
    checked = [name for name, one in search.progress.items() if one.note == "agrees with the reference"]
    if checked:
        output.say(f"{plural(len(checked), 'best kernel')} compared with the reference: no difference found")
    for name, why in (*_notes(search).items(), *search.skipped.items()):
        output.say(f"{name}: {why}")


def _say_what_is_kept(search: Search, wishes: Wishes, attempts: int, was_interrupted: bool) -> None:
    """On standard error, for a document may be on the other."""
    why = "interrupted" if was_interrupted else search.why_ended
    reused = sum(one.reused for one in search.progress.values())
    kept = f"{why}: {plural(attempts, 'attempt')} of run {search.log.number}, {reused} cached, "
    hint = "; --resume goes on" if was_interrupted else ""
    output.note(f"{kept}all kept in {wishes.records}{hint}")
