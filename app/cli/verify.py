"""The verb verify: kernels, or a model end to end, run on the CPU against references."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import engine
from app.cli import output
from app.cli.compile_job import CompileJob
from engine import BadInput, Check, Conflict, EngineError, Unsupported
from engine.verify.levels import AUTO, SOURCE, choose_levels, join_levels, levels_of
from views.format import figure

if TYPE_CHECKING:
    from engine.verify.size_range import RangedPlan


def verify(job: CompileJob, whole: bool, level: str, json: bool) -> bool:
    """Check kernels, or the model end to end; whether everything that could be checked is right."""
    if level != AUTO:
        levels_of(level)  # before the model is opened
    if whole:
        return _verify_whole(job, level, json)
    rows: list[dict[str, Any]] = []
    texts: list[str] = []
    for group, kernel in output.track(job.kernels((Conflict,)), len(job.groups), "checking"):
        if isinstance(kernel, EngineError):
            status = "unsupported" if isinstance(kernel, Unsupported) else "fail"
            # Of entries that cannot hold, the subject says which.
            message = f"{kernel.subject}: {kernel.reason}" if isinstance(kernel, Conflict) else kernel.reason
            rows.append({"name": group.name, "status": status, "message": message})
        else:
            levels = choose_levels(level, kernel)
            row = _level_row({each: engine.check(kernel, level=each) for each in levels})
            rows.append(row if job.ranged is None else _with_sizes(job.ranged, kernel, levels, row))
            texts.append(kernel.source.text)
    if job.only is None:
        left_out = job.plan.unsupported.items()
        rows += [{"name": name, "status": "unsupported", "message": reason} for name, reason in left_out]
    good = _report_checks(rows, json)
    if texts and not json and job.only and rows[0]["counts"]:
        _say_counts(rows[0]["counts"], texts[0].splitlines())
    return good


def _with_sizes(
    ranged: RangedPlan, kernel: engine.AnyKernel, levels: tuple[str, ...], row: dict[str, Any]
) -> dict[str, Any]:
    """A row with what became of smaller sizes of the dimension: the first fault, or why there are none."""
    try:
        checks = [engine.check_sizes(ranged, kernel, level=each) for each in levels]
    except Unsupported as error:
        return {**row, "status": "unsupported" if row["status"] == "pass" else row["status"], "message": str(error)}
    told = {**row, "sizes": list(ranged.checked_sizes())}
    wrong = next((check for check in checks if check.status == "fail"), None)
    if wrong is not None and row["status"] != "fail":
        return {**told, "status": "fail", "message": wrong.message}
    sizes = ", ".join(map(str, told["sizes"]))
    return {**told, "message": row["message"] or f"at {ranged.sizes.name} = {sizes}, too"}


def _say_counts(counts: list[dict[str, Any]], lines: list[str]) -> None:
    """What every line of a kernel asked of memory."""

    def row(line: int, kind: str, width: int, requests: int, sectors: int, conflicts: int, **_: Any) -> tuple[str, ...]:
        figures = (f"{sectors:,}", figure(sectors / requests)) if sectors else ("", "")
        shared = f"{conflicts:,}" if kind.startswith("shared") else ""
        return str(line), kind, f"{width} B", f"{requests:,}", *figures, shared, lines[line - 1].strip()

    columns = ("line>", "access", "width>", "requests>", "sectors>", "a request>", "conflicts>", "CUDA")
    output.table("\nCounted over the blocks that ran", columns, (row(**count) for count in counts))


def _verify_whole(job: CompileJob, level: str, json: bool) -> bool:
    if job.only:
        raise BadInput("command line", "--whole", "runs every group of the model", f"leave out --group {job.only}")
    if job.asked_sizes:
        reason = f"runs the model at one size of {job.asked_sizes[0]}, none of a range"
        raise BadInput("command line", "--whole", reason, f"leave it out, or give {job.asked_sizes[0]} one size")
    levels = (SOURCE,) if level == AUTO else levels_of(level)
    with output.steps("running the model") as step:
        found = [engine.check_model(job.graph, job.plan, job.recipe, progress=step, level=each) for each in levels]
    of_outputs = zip(*(result.checks for result in found), strict=True)
    return _report_checks([_level_row(dict(zip(levels, checks, strict=True))) for checks in of_outputs], json)


def _level_row(checks: Mapping[str, Check]) -> dict[str, Any]:
    """What is printed of checks at several levels: that which is worst, with what each level came to."""
    shown = join_levels(checks)
    return {
        **output.row_about_group(shown),
        "findings": [[each.line, each.kind, each.message] for each in shown.findings],
    }


def _report_checks(rows: list[dict[str, Any]], json: bool) -> bool:
    count = Counter(row["status"] for row in rows)
    summary = {status: count[status] for status in ("pass", "fail", "unsupported")}
    if json:
        output.document(summary=summary, groups=rows)
    else:
        columns = ("name", "status", "levels", "error>", "tolerance>", "blocks>", "compared>", "orders", "message")
        output.table("", columns, map(_check_cells, rows))
        output.say(", ".join(f"{number} {status}" for status, number in summary.items()))
    return summary["fail"] == 0


def _check_cells(row: dict[str, Any]) -> tuple[str, ...]:
    """A row of what was checked; one that came to no comparison has no figures."""
    figures = ("",) * 4
    if "max_error" in row:
        blocks = f"{row['blocks_run']:,}/{row['blocks_total']:,}"
        error, tolerance = f"{float(row['max_error']):.2g}", f"{row['tolerance']:.2g}"
        figures = (error, tolerance, blocks, f"{row['elements_compared']:,}")
    at = ", ".join(level for level, outcome in row.get("levels", {}).items() if outcome == "pass")
    return row["name"], row["status"], at, *figures, ", ".join(row.get("orders", ())), row.get("message", "")
