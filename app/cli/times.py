"""Verbs that give times: predicted, measured on this machine, and other people's beside them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import engine
from app.cli import output
from app.cli.compile_job import CompileJob
from engine import BadInput, CpuKernel, EngineError, Failure, Timing
from engine.documents.model import PublishedTime
from engine.support.serialization import fields_to_json, from_json, to_json
from engine.target.machines import is_cpu
from views.format import duration, figure, plural, published_line


def predict(job: CompileJob, json: bool, trace: Path | None = None) -> None:
    """Modelled times, beside published ones of other kernels.  trace: a folder for the trace events of every kernel."""
    from engine.measurements.published import published_times

    if trace is not None and is_cpu(job.target):
        raise BadInput("command line", "--trace", f"shows kernels for GPUs, {job.target} is a CPU", "leave it out")
    rows: list[dict[str, Any]] = []
    for group, kernel in output.track(job.kernels(), len(job.groups), "predicting"):
        if isinstance(kernel, EngineError):
            rows.append({"group": group.name, "unsupported": kernel.reason})
            continue
        found = engine.predict(kernel)
        rows.append({
            "group": group.name, "instances": len(group.instances), "origin": found.origin,
            "microseconds": found.microseconds, "samples": [], "note": found.note, "bound": found.bound,
            "terms": to_json(found.terms), "published": to_json(published_times(group)),
        })  # fmt: skip
        if trace is not None:
            assert not isinstance(kernel, CpuKernel)
            from engine.explore.chrome_trace import write_trace
            from engine.explore.pipeline_chart import chart

            write_trace(trace / f"{group.name}.json", chart(kernel), "predict")
    _report_times(job, rows, json)


def measure(job: CompileJob, json: bool) -> bool:
    """Times on the GPU, or on this machine's CPU where that is the target; whether every kernel gave one."""
    rows: list[dict[str, Any]] = []
    for group, kernel in output.track(job.kernels(), len(job.groups), "measuring"):
        if isinstance(kernel, EngineError):
            rows.append({"group": group.name, "unsupported": kernel.reason})
            continue
        found = engine.measure(kernel)
        if isinstance(found, Failure):
            rows.append({"group": group.name, "failure": found.kind, "message": found.message})
        else:
            known: dict[str, Any] = {"group": group.name, "instances": len(group.instances)}
            if not isinstance(kernel, CpuKernel):
                known["launches"] = [to_json(engine.launch_record(kernel))]
            rows.append({**known, **fields_to_json(found), **_about_measuring(found)})
    whole = _measure_model(job) if all("microseconds" in row for row in rows) else None
    _report_times(job, rows, json, whole)
    return not any("failure" in row for row in [*rows, *([whole] if whole else [])])


def _measure_model(job: CompileJob) -> dict[str, Any] | None:
    """All launches for a CPU in one run, or why it gave no time; None on a GPU, and where one group is asked for."""
    if not is_cpu(job.target) or job.only is not None or job.plan.without_kernel:
        return None
    found = engine.measure_model(job.plan, job.recipe)
    if isinstance(found, Failure):
        return {"failure": found.kind, "message": found.message}
    return {**fields_to_json(found.timing), **_about_measuring(found.timing)}


def _about_measuring(found: Timing) -> dict[str, Any]:
    """The device of a measured time, and its percentiles by the names that statistics give them."""
    return {"device": (found.environment or {}).get("device", ""), "p20": found.low, "p80": found.high}


def _report_times(
    job: CompileJob, rows: list[dict[str, Any]], json: bool, whole: dict[str, Any] | None = None
) -> None:
    """The times of kernels, and of all launches in one run where there is one."""
    timed = [row for row in rows if "microseconds" in row]
    total = sum(row["microseconds"] * row["instances"] for row in timed)
    if json:
        environment = {"model": job.graph.name, "target": job.target}
        end_to_end = {"end_to_end": whole} if whole else {}
        output.document(environment=environment, kernels=rows, microseconds=total, **end_to_end)
        return

    def cells(all_of_row: float, row: dict[str, Any]) -> tuple[str, ...]:
        times = str(row["instances"]), duration(row["microseconds"]), duration(all_of_row)
        return row["group"], *times, f"{figure(100 * all_of_row / total)} %", row["origin"], row.get("bound", "")

    ordered = sorted(((row["microseconds"] * row["instances"], row) for row in timed), key=lambda each: -each[0])
    columns = ("group", "times>", "each>", "all>", "share>", "origin", "bound")
    output.table("", columns, (cells(*each) for each in ordered))
    for row in timed:
        say_published(row["group"], from_json(tuple[PublishedTime, ...], row.get("published", [])))
    notes = dict.fromkeys(row["note"] for row in timed if row.get("note"))
    output.say(", ".join([f"{duration(total)} in {plural(sum(row['instances'] for row in timed), 'kernel')}", *notes]))
    if whole and "microseconds" in whole:
        spread = f"{duration(whole['p20'])} to {duration(whole['p80'])}"
        output.say(f"end to end: {duration(whole['microseconds'])} {whole['origin']} ({spread})")
    elif whole:
        output.say(f"end to end: {whole['failure']}: {whole['message']}")
    for row in rows:
        if row.get("noise"):
            output.say(f"{row['group']}: noisy: {row['noise']}")
        if row not in timed:
            output.say(f"{row['group']}: {row.get('unsupported') or row['failure'] + ': ' + row['message']}")


def say_published(group: str, times: Iterable[PublishedTime]) -> None:
    """A line for each time that somebody published of another kernel."""
    for one in times:
        output.say(f"{group}: another kernel takes {published_line(one)}")
