"""Rows of a suite on this machine's GPU: our kernels and the peers that are installed, in one process a row.

    python -m tests.benchmarks.gpu --suite alcop --minutes 20 -o alcop.json

Rows are taken in the suite's order as long as the next one is expected to fit into the minutes.  The file is written
after each row; a second run with the same file goes on where the first one stopped.  A system that is missing, fails
or prepares for longer than it may is an entry with its reason, and the rest of the row goes on without it.
`--dry-run` lists the rows and the systems, and needs no GPU.  Exit codes: 0 done, 2 bad input, 3 no GPU.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean, median
from threading import Event, Timer
from typing import Any

from engine.errors import BadInput, EngineError, MissingCapability
from engine.run.measure import GPU_HINT, gpu_name
from engine.suite import Row, Suite, read_suite, suite_names
from tests.benchmarks import report
from tests.benchmarks.peers import LOOMSCOPE, PEERS, versions

WORKER = (sys.executable, "-m", "tests.benchmarks.gpu_worker")
ROOT = Path(__file__).resolve().parents[2]
FIRST_GUESS = 30.0
"""Seconds that a row is expected to take before any was measured."""
PREPARE_SECONDS = 120.0
"""A system that says nothing for so long (a compiler that does not end) is left out of the row."""
NAME = "gpu"


@dataclass(frozen=True, slots=True)
class Plan:
    """What one run is to do."""

    suite: Suite
    rows: tuple[Row, ...]
    systems: tuple[str, ...]
    seconds: float
    output: Path
    quiet: float = PREPARE_SECONDS
    """Seconds without a word after which the system at work is left out."""
    worker: Sequence[str] = WORKER


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the status is the exit code."""
    options = _parser().parse_args(arguments)
    try:
        suite = read_suite(options.suite)
        rows = tuple(row for row in suite.rows if not options.row or row.name in options.row)
        unknown = set(options.row or ()) - {row.name for row in rows}
        if unknown:
            raise BadInput("benchmark", f"row {sorted(unknown)[0]}", f"suite {suite.name} has no such row")
        systems = tuple(options.systems.split(","))
        strange = [name for name in systems if name != LOOMSCOPE and name not in PEERS]
        if strange:
            raise BadInput("benchmark", strange[0], "is no system", f"known: {', '.join((LOOMSCOPE, *PEERS))}")
        plan = Plan(suite, rows, systems, options.minutes * 60, options.output or Path(f"gpu-{suite.name}.json"))
        if options.dry_run:
            list_rows(plan)
            return 0
        device = gpu_name()
        if device is None:
            raise MissingCapability("benchmark", "this machine", "there is no NVIDIA GPU", GPU_HINT)
        run(plan, device)
    except EngineError as error:
        print(f"{error.subject}: {error.reason}", file=sys.stderr)
        if error.hint:
            print(f"  hint: {error.hint}", file=sys.stderr)
        return error.exit_code
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.gpu", description=__doc__.partition("\n")[0])
    parser.add_argument("--suite", required=True, help=f"one of {', '.join(suite_names())}")
    parser.add_argument("--row", action="append", help="only this row; may be given several times")
    parser.add_argument("--minutes", type=float, default=10.0, help="no row is begun that would not fit")
    parser.add_argument("--systems", default=",".join((LOOMSCOPE, *PEERS)), help="what to compare, with commas")
    parser.add_argument("-o", "--output", type=Path, help="JSON file to write and to go on with")
    parser.add_argument("--dry-run", action="store_true", help="list rows and systems; needs no GPU")
    return parser


def list_rows(plan: Plan) -> None:
    """What a run would do, with the floor of each row: the rates behind it are the suite's, not this machine's."""
    ceilings = plan.suite.ceilings
    print(f"{plan.suite.title}\n{plan.suite.source}\nfloors: {ceilings.origin}\n")
    print(f"{'row':48} {'GFLOP':>9} {'MB':>9} {'floor us':>9}  bound")
    for row in plan.rows:
        figures = f"{row.flops / 1e9:9.3g} {row.bytes / 1e6:9.3g} {row.floor(ceilings):9.3g}"
        print(f"{plan.suite.reference(row):48} {figures}  {row.bound(ceilings)}")
    print()
    for name, version in versions(plan.systems).items():
        print(f"{name:16} {version or 'missing: its column stays empty'}")


def run(plan: Plan, device: str, clock: Callable[[], float] = time.monotonic) -> dict[str, Any]:
    """Measure rows until the seconds are used up; the document that was written last."""
    started = clock()
    environment = {"device": device, **report.environment("numpy", "onnx"), "systems": versions(plan.systems)}
    done = _kept(plan, environment)
    spent: list[float] = []
    for row in plan.rows:
        if plan.suite.reference(row) in done:
            continue
        before = clock()
        if before - started + (median(spent) if spent else FIRST_GUESS) > plan.seconds:
            break
        systems = measure_row(plan, row)
        done[plan.suite.reference(row)] = _entry(plan, row, systems)
        spent.append(clock() - before)
        _write(plan, environment, done)
        print(_line(plan, row, systems))
    document = _write(plan, environment, done)
    print(json.dumps(document["summary"], indent=1))
    return document


def measure_row(plan: Plan, row: Row) -> dict[str, Any]:
    """Every system's entry for one row; those that hang or take the process down are left out and the rest repeated."""
    out: dict[str, Any] = {}
    left = list(plan.systems)
    while left:
        found, culprit, reason = _attempt(plan, row, left)
        out |= found
        if not culprit:
            break
        out[culprit] = {"failure": "hang" if "no word" in reason else "crash", "message": reason}
        left = [name for name in left if name != culprit and name not in found]
    return {name: out.get(name, {"failure": "crash", "message": "said nothing"}) for name in plan.systems}


def _attempt(plan: Plan, row: Row, systems: Sequence[str]) -> tuple[dict[str, Any], str, str]:
    """One process over one row: the entries it made, the system that ended it ("" for none), and why."""
    request = {"reference": plan.suite.reference(row), "systems": list(systems)}
    process = subprocess.Popen(
        plan.worker, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )  # fmt: skip
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.close()
    except BrokenPipeError:
        pass  # a process that ends before it reads is told by its status
    found: dict[str, Any] = {}
    at_work = systems[0]
    overdue = Event()
    for message in _messages(process, plan.quiet, overdue):
        if message["event"] == "begin":
            at_work = message["system"]
        elif message["event"] == "entry":
            found[message["system"]] = message["entry"]
        elif message["event"] == "done":
            process.wait()
            return found, "", ""
    status = process.wait()
    if overdue.is_set():
        return {}, at_work, f"no word for {plan.quiet:g} s"
    return {}, at_work, f"the process ended with status {status}"


def _messages(process: subprocess.Popen[str], quiet: float, overdue: Event) -> Iterator[dict[str, Any]]:
    """What the process says; it is ended, and `overdue` set, once it says nothing for `quiet` seconds."""
    assert process.stdout is not None

    def give_up() -> None:
        overdue.set()
        process.kill()

    with process.stdout as lines:
        alarm = Timer(quiet, give_up)
        alarm.start()
        try:
            for line in lines:
                alarm.cancel()
                if line.startswith("{"):  # libraries print what they like
                    yield json.loads(line)
                alarm = Timer(quiet, give_up)
                alarm.start()
        finally:
            alarm.cancel()


def _kept(plan: Plan, environment: dict[str, Any]) -> dict[str, Any]:
    """The rows that an earlier run left; BadInput for a file of another suite, device or set of versions."""
    if not plan.output.exists():
        return {}
    try:
        old = json.loads(plan.output.read_text(encoding="utf-8"))
        same = {key: (old["environment"][key], environment[key]) for key in ("device", "systems")}
        same["suite"] = (old["summary"]["suite"], plan.suite.name)
        rows = {row["row"]: row for row in old["rows"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput("benchmark", str(plan.output), "is no file of this benchmark", "name another with -o") from error
    for what, (then, now) in same.items():
        if then != now:
            raise BadInput(
                "benchmark", str(plan.output), f"is of another {what}: {then}, not {now}", "name another file"
            )
    return rows


def _entry(plan: Plan, row: Row, systems: dict[str, Any]) -> dict[str, Any]:
    ceilings = plan.suite.ceilings
    return {
        "row": plan.suite.reference(row), "flops": row.flops, "bytes": row.bytes,
        "floor_microseconds": row.floor(ceilings), "bound": row.bound(ceilings), "systems": systems,
    }  # fmt: skip


def _write(plan: Plan, environment: dict[str, Any], done: dict[str, Any]) -> dict[str, Any]:
    rows = list(done.values())
    left = [plan.suite.reference(row) for row in plan.rows if plan.suite.reference(row) not in done]
    summary = {"suite": plan.suite.name, "rows": len(rows), "left": left, **_ratios(rows)}
    report.write(plan.output, NAME, environment, rows, summary)
    return {"environment": environment, "rows": rows, "summary": summary}


def _ratios(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Our time against the best peer's and against the floor, over the rows that have them."""
    against, floors, beside = [], [], 0
    for row in rows:
        times = {name: entry["microseconds"] for name, entry in row["systems"].items() if "microseconds" in entry}
        ours = times.pop(LOOMSCOPE, None)
        if ours is None:
            beside += 1
            continue
        floors.append(row["floor_microseconds"] / ours)
        if times:
            against.append(min(times.values()) / ours)
    return {
        "best_peer_over_ours": geometric_mean(against) if against else None,
        "floor_over_ours": geometric_mean(floors) if floors else None,
        "rows_without_ours": beside,
    }


def _line(plan: Plan, row: Row, systems: dict[str, Any]) -> str:
    cells = (
        f"{name} {entry['microseconds']:.4g} us" if "microseconds" in entry else f"{name}: {entry['failure']}"
        for name, entry in systems.items()
    )
    return f"{plan.suite.reference(row)}: floor {row.floor(plan.suite.ceilings):.4g} us; {', '.join(cells)}"


if __name__ == "__main__":
    sys.exit(main())
