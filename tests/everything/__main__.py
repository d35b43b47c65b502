"""Every kernel of every real graph and operator checked: `python -m tests.everything [--only PART] [--resume]`.

One row a file: loaded, fused, compiled, and every group's kernel run on the CPU against the reference: its CUDA text,
with `--level ptx` what NVRTC compiles it to, with `--level both` one after the other; with `--target cpu` the C++ of
this machine.  A kernel that another file has
too is checked once, and what passed is kept on disk by its text, so that a second run takes little longer than
compiling.  `--whole` runs files end to end instead, those of at most `--work` GFLOP.  Every file has a process of its
own, which may crash.  Exit code 1 where anything failed.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import engine
from engine import EngineError
from engine.support.cache import digest
from engine.target import DEFAULT_TARGET
from engine.target.machines import is_cpu
from tests.benchmarks import report
from tests.everything.files import PARTS, SHARED, SIZES, SUITES, files
from tests.everything.kept import engine_state

Row = dict[str, Any]
LEVELS = ("source", "ptx", "both")
EMULATED = 15.0
"""GFLOP of the largest model of which the emulator runs all launches."""
ROOT = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Check, print the table, write the document; the exit code."""
    options = _options(arguments)
    chosen = list(files(options.only))
    if not chosen:
        print(f"nothing to check: {SHARED} has no {options.only or 'files'}", file=sys.stderr)
        return 2
    too_large: dict[str, float] = {}
    if options.whole:
        chosen = [(part, path) for part, path in chosen if part != SUITES]  # rows are single kernels
        work = {path.name: _gflop(path, options.target) for _, path in chosen if math.isfinite(options.work)}
        too_large = {name: size for name, size in work.items() if size > options.work}
        chosen = [(part, path) for part, path in chosen if path.name not in too_large]
    rows: list[Row] = []
    before = _earlier(options) if options.resume and options.json else {}
    for row in _rows(chosen, options, before):
        rows.append(row)
        print(_line(row), file=sys.stderr, flush=True)
        if options.json:
            _write(options, sorted(rows, key=lambda r: (r["part"], r["file"])), too_large)
    rows.sort(key=lambda row: (row["part"], row["file"]))
    _show(rows, too_large, options)
    return int(any(_count(row, "fail") for row in rows))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.everything", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write rows and summary there, file by file")
    parser.add_argument("--only", default="", metavar="PART", help=f"{', '.join(PARTS)}, or a part of a file's name")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="files at a time (1)")
    parser.add_argument("--resume", action="store_true", help="keep the rows of --json FILE that still hold")
    parser.add_argument("--level", choices=LEVELS, default="source", help="what of a kernel runs (source)")
    parser.add_argument("--target", default=DEFAULT_TARGET, help=f"what kernels are for ({DEFAULT_TARGET})")
    parser.add_argument("--whole", action="store_true", help="run models end to end instead")
    help_of_work = f"largest model that runs whole ({EMULATED}; all of them for a CPU)"
    parser.add_argument("--work", type=float, metavar="GFLOP", help=help_of_work)
    parser.add_argument("--timeout", type=float, default=3600.0, metavar="S", help="seconds for one file (3600)")
    options = parser.parse_args(arguments)
    if options.work is None:
        options.work = math.inf if is_cpu(options.target) else EMULATED
    return options


def _rows(
    chosen: Sequence[tuple[str, Path]], options: argparse.Namespace, before: Mapping[tuple[str, str], Row]
) -> Iterator[Row]:
    """The row of every file as it is finished; rows of an earlier run where file and engine are the same."""
    state = engine_state()
    with ThreadPoolExecutor(options.jobs) as pool:
        running = []
        for part, path in chosen:
            asked = digest(state, path.read_bytes(), str(options.whole), options.level, options.target)
            row: Row = {"part": part, "file": path.stem, "state": asked}
            known = before.get((part, path.stem))
            if known and known["state"] == row["state"] and not _count(known, "fail"):
                yield known
            else:
                running.append(pool.submit(_checked, row, path, options))
        for done in as_completed(running):
            yield done.result()


def _checked(row: Row, path: Path, options: argparse.Namespace) -> Row:
    """The row of one file, from a process of its own."""
    asked = ["--level", options.level, "--target", options.target, *(["--whole"] if options.whole else [])]
    command = [sys.executable, "-m", "tests.everything.one", str(path), *asked]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=options.timeout, check=False
        )
        if done.returncode == 0:
            return {**row, **json.loads(done.stdout)}
        last = (done.stderr.strip().splitlines() or ["without a word"])[-1]
        message = f"ended with {done.returncode}: {last}"
    except subprocess.TimeoutExpired:
        message = f"still running after {options.timeout:g} s"
    problem = {"group": "", "status": "fail", "message": message}
    return {**row, "groups": 0, "passed": 0, "cached": 0, "seconds": 0.0, "problems": [problem]}


def _gflop(path: Path, target: str) -> float:
    """Arithmetic of all launches of a model, in units of 10^9; infinite where a kernel is missing."""
    try:
        plan = engine.fuse(engine.load(path, SIZES.get(path.stem)), target=target)
        return sum(engine.compile(g).facts.flops * len(g.instances) for g in plan.groups) / 1e9
    except EngineError:
        return float("inf")


def _earlier(options: argparse.Namespace) -> dict[tuple[str, str], Row]:
    """The rows of the document that a run before this one wrote."""
    try:
        rows = json.loads(options.json.read_text(encoding="utf-8"))["rows"]
        return {(row["part"], row["file"]): row for row in rows}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _count(row: Row, status: str) -> int:
    return sum(problem["status"] == status for problem in row["problems"])


def summary(rows: Sequence[Row]) -> dict[str, int | float]:
    """Totals, and the files of each part on which nothing failed and nothing is unsupported."""
    clean = [row for row in rows if not row["problems"]]
    return {
        "files": len(rows),
        "groups": sum(row.get("groups", 0) for row in rows),
        "pass": sum(row.get("passed", 0) for row in rows),
        "fail": sum(_count(row, "fail") for row in rows),
        "unsupported": sum(_count(row, "unsupported") for row in rows),
        "cached": sum(row["cached"] for row in rows),
        **{f"{part}_files": sum(row["part"] == part for row in rows) for part in PARTS},
        **{f"{part}_without_problem": sum(row["part"] == part for row in clean) for part in PARTS},
        "seconds": round(sum(row["seconds"] for row in rows), 1),
    }


def _write(options: argparse.Namespace, rows: Sequence[Row], too_large: Mapping[str, float]) -> None:
    where = report.environment("numpy", "onnx", "onnxruntime")
    figures = {**summary(rows), **({"left_out_gflop": too_large} if options.whole else {})}
    beside = options.json.with_name(f".{options.json.name}.new")
    report.write(beside, "everything, whole" if options.whole else "everything", where, rows, figures)
    beside.replace(options.json)


def _line(row: Row) -> str:
    return f"{row['file'][:60]}: {row['seconds']:.0f} s, {len(row['problems'])} problems"


def _show(rows: Sequence[Row], too_large: Mapping[str, float], options: argparse.Namespace) -> None:
    """The table, then every problem with its reason, then the totals."""
    console = Console(width=max(Console().width, 130))
    table = Table(box=SIMPLE_HEAD)
    figures = ("launches", "outputs", "max_error") if options.whole else ("groups", "passed")
    for name in ("part", "file"):
        table.add_column(name, overflow="ellipsis", no_wrap=True, max_width=60)
    for name in (*figures, "fail", "unsupported", "cached", "seconds"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        cells = [f"{row[name]:.3g}" if name in row else "" for name in figures]
        table.add_row(
            row["part"], row["file"], *cells, *(str(_count(row, status)) for status in ("fail", "unsupported")),
            str(row["cached"]), f"{row['seconds']:.1f}",
        )  # fmt: skip
    console.print(table)
    for row in rows:
        for problem in row["problems"]:
            where = f"{row['file'][:60]}{', ' if problem['group'] else ''}{problem['group']}"
            console.print(f"{problem['status']}: {where}: {problem['message'][:300]}", markup=False, highlight=False)
    for name, size in sorted(too_large.items(), key=lambda item: item[1]):
        console.print(f"left out: {name}: {size:.1f} GFLOP, more than {options.work:g}", markup=False)
    console.print(", ".join(f"{name} {value}" for name, value in summary(rows).items()), markup=False)


if __name__ == "__main__":
    raise SystemExit(main())
