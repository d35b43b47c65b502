"""Rows of suites on this machine's GPU: our kernels and the peers that are installed, on the same buffers.

    python -m tests.benchmarks.gpu --suite alcop --suite memory --minutes 20 -o results

Rows are taken in the suites' order as long as the next one is expected to fit into the minutes.  A suite's file
(`results/gpu-alcop.json`) is written after each row; a second run goes on where the first one stopped, and takes a row
again, with all systems that it has, where it lacks one that is now asked for.  A system that is missing, fails or
prepares for longer than it may is an entry with its reason, and the rest of the row goes on without it.  Results are
checked on values drawn anew before and after they are timed.  `--dry-run` lists the rows and the systems, and needs no
GPU; `--kernels` takes what `python -m tests.benchmarks.prepared` compiled elsewhere.  Exit codes: 0 done, 2 bad input,
3 no GPU.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from engine.execution.measure import GPU_HINT, gpu_name
from engine.measurements.nodes import OURS
from engine.suite import Suite, SuiteRow, read_suite, suite_names
from engine.support.errors import BadInput, EngineError, MissingCapability
from tests.benchmarks import report
from tests.benchmarks.gpu_process import QUIET, Entries, GpuProcess
from tests.benchmarks.gpu_table import summary
from tests.benchmarks.peers import PEERS, versions

FIRST_GUESS = 30.0
"""Seconds that a row is expected to take before any was measured."""
NAME = "gpu"

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Plan:
    """What one run is to do with one file: rows of a suite, or of several."""

    name: str
    """Of the suite, or of what the rows were chosen for."""
    rows: tuple[tuple[Suite, SuiteRow], ...]
    systems: tuple[str, ...]
    output: Path

    def order(self) -> list[str]:
        """References of all rows of its suites."""
        suites = {suite.name: suite for suite, _ in self.rows}
        return [suite.reference(row) for suite in suites.values() for row in suite.rows]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the status is the exit code."""
    options = _parser().parse_args(arguments)
    try:
        systems = tuple(options.systems.split(","))
        strange = [name for name in systems if name != OURS and name not in PEERS]
        if strange:
            raise BadInput("benchmark", strange[0], "is no system", f"known: {', '.join((OURS, *PEERS))}")
        plans = [_plan(name, options.row or (), systems, options.output) for name in options.suite]
        if options.dry_run:
            for plan in plans:
                list_rows(plan)
            return 0
        device = gpu_name()
        if device is None:
            raise MissingCapability("benchmark", "this machine", "there is no NVIDIA GPU", GPU_HINT)
        process = GpuProcess(options.quiet, options.kernels)
        try:
            run(plans, device, process, options.minutes * 60)
        finally:
            process.close()
    except EngineError as error:
        print(f"{error.subject}: {error.reason}", file=sys.stderr)
        if error.hint:
            print(f"  hint: {error.hint}", file=sys.stderr)
        return error.exit_code
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.gpu", description=__doc__.partition("\n")[0])
    parser.add_argument("--suite", action="append", required=True, help=f"of {', '.join(suite_names())}; repeatable")
    parser.add_argument("--row", action="append", help="only this row; may be given several times")
    parser.add_argument("--minutes", type=float, default=10.0, help="no row is begun that would not fit")
    parser.add_argument("--systems", default=",".join((OURS, *PEERS)), help="what to compare, with commas")
    parser.add_argument("--quiet", type=float, default=QUIET, help="seconds that a system may say nothing")
    parser.add_argument("--kernels", type=Path, help="folder of kernels compiled elsewhere")
    parser.add_argument("-o", "--output", type=Path, default=Path(), help="folder of the files, to write and to go on")
    parser.add_argument("--dry-run", action="store_true", help="list rows and systems; needs no GPU")
    return parser


def _plan(name: str, wanted: Sequence[str], systems: tuple[str, ...], folder: Path) -> Plan:
    suite = read_suite(name)
    unknown = set(wanted) - {row.name for row in suite.rows}
    if unknown:
        raise BadInput("benchmark", f"row {sorted(unknown)[0]}", f"suite {suite.name} has no such row")
    rows = tuple(row for row in suite.rows if not wanted or row.name in wanted)
    return Plan(name, tuple((suite, row) for row in rows), systems, folder / f"{NAME}-{name}.json")


def list_rows(plan: Plan) -> None:
    """What a run would do, with the floor of each row: the rates behind it are the suite's, not this machine's."""
    for suite in {suite.name: suite for suite, _ in plan.rows}.values():
        print(f"{suite.title}\n{suite.source}\nfloors: {suite.ceilings.origin}\n")
    print(f"{'row':48} {'GFLOP':>9} {'MB':>9} {'floor us':>9}  bound")
    for suite, row in plan.rows:
        figures = f"{row.flops / 1e9:9.3g} {row.bytes / 1e6:9.3g} {row.floor(suite.ceilings):9.3g}"
        print(f"{suite.reference(row):48} {figures}  {row.limit(suite.ceilings)}")
    print()
    for name, version in versions(plan.systems).items():
        print(f"{name:16} {version or 'missing: its column stays empty'}")


def run(
    plans: Sequence[Plan], device: str, process: GpuProcess, seconds: float, clock: Clock = time.monotonic
) -> list[dict[str, Any]]:
    """Measure rows until the seconds are used up; the documents that were written last."""
    end = clock() + seconds
    spent: list[float] = []
    documents = [_run_plan(plan, device, process, end, spent, clock) for plan in plans]
    for document in documents:
        print(json.dumps(document["summary"], indent=1))
    return documents


def _run_plan(
    plan: Plan, device: str, process: GpuProcess, end: float, spent: list[float], clock: Clock
) -> dict[str, Any]:
    """One file.  spent: the seconds of every row so far, of this file and those before it."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    environment = {"device": device, "date": now, **report.environment("numpy", "onnx")}
    done, environment = _kept(plan, environment)
    known = environment["systems"]
    for suite, row in plan.rows:
        reference = suite.reference(row)
        had = done[reference]["systems"] if reference in done else {}
        if set(plan.systems) <= had.keys():
            continue
        systems = tuple(dict.fromkeys((*had, *plan.systems)))  # all in one run: only such times are compared
        before = clock()
        if before + (median(spent) if spent else FIRST_GUESS) > end:
            break
        entries = process.measure_row(reference, systems)
        told = {name: {**entry, "version": known[name]} for name, entry in entries.items()}
        done[reference] = _entry(suite, row, told)
        spent.append(clock() - before)
        _write(plan, environment, done)
        print(_line(suite, row, entries), flush=True)
    return _write(plan, environment, done)


def _kept(plan: Plan, environment: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The rows that an earlier run left, with its date and the versions of its systems and those now asked for.

    BadInput for a file of another suite, device or version of a system.
    """
    if not plan.output.exists():
        return {}, {**environment, "systems": versions(plan.systems)}
    try:
        old = json.loads(plan.output.read_text(encoding="utf-8"))
        then = old["environment"]["systems"]
        now = versions(tuple(dict.fromkeys((*then, *plan.systems))))
        same = {"device": (old["environment"]["device"], environment["device"])}
        same |= {"suite": (old["summary"]["suite"], plan.name)}
        same |= {f"version of {name}": (then[name] or "none", now[name] or "none") for name in then}
        rows = {row["row"]: row for row in old["rows"]}
        begun = old["environment"]["date"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput("benchmark", str(plan.output), "is no file of this benchmark", "name another with -o") from error
    for what, (before, after) in same.items():
        if before != after:
            reason = f"is of another {what}: {before}, not {after}"
            raise BadInput("benchmark", str(plan.output), reason, "name another folder with -o")
    return rows, {**environment, "date": begun, "systems": now}


def _entry(suite: Suite, row: SuiteRow, systems: Entries) -> dict[str, Any]:
    ceilings = suite.ceilings
    return {
        "row": suite.reference(row), "flops": row.flops, "bytes": row.bytes,
        "floor_microseconds": row.floor(ceilings), "bound": row.limit(ceilings), "systems": systems,
    }  # fmt: skip


def _write(plan: Plan, environment: dict[str, Any], done: dict[str, Any]) -> dict[str, Any]:
    order = plan.order()
    rows = sorted(done.values(), key=lambda row: order.index(row["row"]))
    left = [reference for suite, row in plan.rows if (reference := suite.reference(row)) not in done]
    head = {"suite": plan.name, "rows": len(rows), "left": left}
    document = {"environment": environment, "rows": rows}
    found = {**head, **summary(document, plan.output.name)}
    plan.output.parent.mkdir(parents=True, exist_ok=True)
    report.write(plan.output, NAME, environment, rows, found)
    return {**document, "summary": found}


def _line(suite: Suite, row: SuiteRow, entries: Entries) -> str:
    cells = (
        f"{name} {entry['microseconds']:.4g} us" if "microseconds" in entry else f"{name}: {entry['failure']}"
        for name, entry in entries.items()
    )
    return f"{suite.reference(row)}: floor {row.floor(suite.ceilings):.4g} us; {', '.join(cells)}"


if __name__ == "__main__":
    sys.exit(main())
