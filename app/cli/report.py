"""The verb `report`: gathers what is known of a model or a workspace, and writes one HTML file."""

from __future__ import annotations

import platform
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import engine
from app.cli import output
from app.cli.compile_job import CompileJob
from app.cli.doctor import PACKAGES, version_of
from app.session.fusion_constraints import FUSION
from app.session.history import Checked, History, HistoryRecord, HistoryStep
from app.session.loom_file import digest
from app.session.named_models import path_of
from app.session.roofline import roofline
from engine import BadInput, Conflict, EngineError, NoKernel
from engine.documents.model import Check, KernelDoc, Time
from engine.documents.report import CurveDoc, EditDoc, GroupReport, ReportDoc, SearchDoc
from engine.execution.machine import machine
from engine.present.comparison import entry_lines
from engine.records.nodes import Attempt
from engine.records.reader import RunReader
from engine.scheduling.text import from_text, to_text
from engine.support.files import check_place, write_whole
from engine.target.machines import machine as find_machine
from views.format import amount, plural

if TYPE_CHECKING:
    from engine.fusion.nodes import FusionGroup
    from engine.recipe import Recipe

DETAILS = 40
"""Groups whose schedule and code are told, by default."""
CURVES = 6
"""Groups of a search whose trials are drawn."""
DOTS = 800
"""Trials drawn of one group."""
STAGE = "report"

Step = Callable[[str, int, int], None]


def report(job: CompileJob, out: Path, records: Sequence[Path], details: int, check: bool) -> None:
    """Writes the report; a file is there when all of it is."""
    check_place(out, STAGE)
    searches = tuple(_search(path) for path in records)
    with output.steps("opening") as step:
        made = _gather(job, searches, details, check, step)
        step("writing", 1, 1)
    times = {group.name: group.time for group in made.model.groups if group.time}
    before = {each.group.name: each.edits[0].time for each in made.details if each.edits}
    baselines = {**times, **{name: time for name, time in before.items() if time}}
    roofs = roofline(made.model, find_machine(made.model.target), (times,), (baselines,))
    from views.report.page import report_page

    page = report_page(made, roofs)
    write_whole(out, page, STAGE)
    told = plural(len(made.details), "group")
    size = amount(len(page.encode()))
    output.say(f"{out}: {size}, {plural(len(made.model.nodes), 'kernel')}, {told} in full")


def _gather(job: CompileJob, searches: tuple[SearchDoc, ...], most: int, check: bool, step: Step) -> ReportDoc:
    step("opening", 0, 1)
    plan, advised, model = job.plan, job.advised, job.model
    trails = dict(job.workspace.groups) if job.workspace else {}
    edited = [group for group in plan.groups if _is_edited(job.recipe, advised, group, trails)]
    baseline = engine.model_doc(job.graph, plan).total if edited else None
    names = {group.name for group in edited}
    told = {group.name for group in job.groups} if job.only else None
    rest = sorted(model.groups, key=lambda group: -group.share)
    chosen = [*edited, *(plan.group(group.name) for group in rest if group.name not in names)]
    chosen = [group for group in chosen if told is None or group.name in told][: max(most, len(edited))]
    of_name = {group.name: group for group in model.groups}
    found: list[GroupReport] = []
    for done, group in enumerate(chosen):
        step(f"{'checking' if check else 'scheduling'} {group.name}", done, len(chosen))
        kernel, refusal, checked = _kernel(group, job.recipe, check)
        edits = tuple(_edits(group, job, advised, trails.get(group.name))) if group.name in names else ()
        found.append(GroupReport(of_name[group.name], kernel, refusal, edits, checked))
    return ReportDoc(
        Path(job.file).name, datetime.now(UTC).isoformat(timespec="seconds"), digest(path_of(job.model_file)),
        tuple(job.asked_dimensions.items()) or tuple(job.recipe.dimensions.items()), model,
        baseline, tuple(found), tuple(_fusion_steps(trails.get(FUSION))), searches, tuple(_machine()),
    )  # fmt: skip


def _is_edited(recipe: Recipe, advised: Recipe, group: FusionGroup, trails: dict[str, HistoryRecord]) -> bool:
    """Whether a group's advice is not the advisers', or its history says more than that."""
    trail = trails.get(group.name)
    has_steps = trail is not None and len(trail.steps) > 1
    return has_steps or recipe.groups.get(group.name) != advised.groups.get(group.name)


def _kernel(group: FusionGroup, recipe: Recipe, check: bool) -> tuple[KernelDoc | None, str, Check | None]:
    """The kernel of a group, why there is none, and how it compares with the reference."""
    try:
        kernel = engine.compile(group, recipe)
    except (Conflict, NoKernel) as error:
        return engine.refused_doc(group, recipe, error), error.reason, None
    except EngineError as error:
        return None, error.reason, None
    return engine.kernel_doc(kernel), "", engine.check(kernel) if check else None


def _edits(group: FusionGroup, job: CompileJob, advised: Recipe, trail: HistoryRecord | None) -> Iterator[EditDoc]:
    """The steps from a group's first advice to its present one, with their predicted times under the same model."""
    if trail is not None and job.recipe_file is None and job.tree_file is None:
        history = History.of(trail)
        steps = [trail.steps[number] for number in history.path(trail.current)]
    else:
        texts = (to_text(recipe.groups.get(group.name, ())) for recipe in (advised, job.recipe))
        titles = ("Default schedule", str(job.recipe_file or job.tree_file or "edited"))
        steps = [HistoryStep(text, title, 0) for text, title in zip(texts, titles, strict=True)]
    before = advised.with_group(group.name, from_text(steps[0].text))
    first: Time | None = None
    for place, one in enumerate(steps):
        now = advised.with_group(group.name, from_text(one.text))
        time = _predict_advice(group, now)
        first = first if place else time
        gain = 1 - time.microseconds / first.microseconds if place and time and first and first.microseconds else None
        lines = entry_lines(before, now, group.name)
        yield EditDoc(one.title, lines, time, gain, one.measured, _checked_text(one.checked), one.note)
        before = now


def _predict_advice(group: FusionGroup, recipe: Recipe) -> Time | None:
    try:
        return engine.predict(engine.compile(group, recipe)).time()
    except EngineError:
        return None


def _checked_text(checked: Checked | None) -> str:
    if checked is None:
        return ""
    return f"{checked.status}, {checked.blocks_run:,} of {checked.blocks_total:,} blocks, {checked.extent}"


def _fusion_steps(trail: HistoryRecord | None) -> Iterator[EditDoc]:
    """What was fixed about groups, step by step; their effect on the time is in the model's own figures."""
    if trail is not None and len(trail.steps) > 1:
        for number in History.of(trail).path(trail.current):
            one = trail.steps[number]
            yield EditDoc(one.title, (), one.predicted, None, note=one.note)


def _search(path: Path) -> SearchDoc:
    """The last run of a file of records; BadInput where it holds none with a finished trial."""
    with RunReader(path) as reader:
        run = reader.run()
        attempts = reader.attempts(run.number)
    by_group: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        by_group[attempt.group].append(attempt)
    curves = [curve for name, mine in by_group.items() for curve in (_curve(name, mine),) if curve is not None]
    if not curves:
        reason = f"run {run.number} has no finished trial"
        raise BadInput(STAGE, str(path), reason, "`loomscope tune --resume` goes on with it")
    curves.sort(key=lambda curve: -curve.attempts)
    request = run.request
    return SearchDoc(
        path.name, run.number, run.started, run.state_at(datetime.now(UTC).timestamp()), request.method,
        request.origin, tuple(curves[:CURVES]),
    )  # fmt: skip


def _curve(group: str, attempts: Sequence[Attempt]) -> CurveDoc | None:
    """The times of a group's attempts, thinned to `DOTS` but for every new best."""
    timed = [(place, one.microseconds) for place, one in enumerate(attempts, 1) if one.microseconds is not None]
    if not timed:
        return None
    best, kept, every = float("inf"), [], max(1, -(-len(timed) // DOTS))
    for place, (number, time) in enumerate(timed):
        if time < best or place % every == 0 or place == len(timed) - 1:
            kept.append((number, time))
        best = min(best, time)
    failed = sum(bool(one.failure) for one in attempts)
    return CurveDoc(group, tuple(kept), len(attempts), failed, best)


def _machine() -> Iterator[tuple[str, str]]:
    has = machine()
    yield "Loomscope", version_of("loomscope")
    yield "system", f"{platform.system()} {platform.release()} {platform.machine()}"
    yield "Python", platform.python_version()
    yield from (("C++ compiler", has.compiler), ("NVRTC", has.nvrtc), ("GPU", has.gpu))
    yield from ((name, version_of(name)) for name in PACKAGES)
