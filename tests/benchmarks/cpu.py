"""Our kernels for this machine's CPU beside ONNX Runtime: python -m tests.benchmarks.cpu [--quick] [--json FILE]

Both run in one process on the same threads and values, taking turns; a row's ratio is ONNX Runtime's least time over
ours, as the machine may be shared; with `--threads 1` times are processor time.  `tuned_over_default` is what a search
of a few trials gains.  `best_of_50`, `pruned_loss` and `rank` are of the spaces under resources/measurements, which
`--brute-force FOLDER` measured whole (see cpu_truth.py) and which name their CPU.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.target.host_cpu import host_cpu
from tests.benchmarks.cpu_models import Row, rows
from tests.benchmarks.cpu_records import judge, recorded_spaces, summarise_spaces, write_record
from tests.benchmarks.cpu_search import search
from tests.benchmarks.cpu_side_by_side import set_threads, take_turns
from tests.benchmarks.cpu_truth import SPACES, WholeSpace, build_space, measure_space
from tests.benchmarks.report import environment, figures_in_words, write

GOALS = {"gemm": 0.9, "fused": 1.5, "conv_int8": 1.2, "bert": 1.0, "resnet": 1.0}
"""Kind -> the ratio that its geometric mean is to reach."""
SEARCHED = ("gemm-128x768x768", "gemm-512x512x512", "conv2d-C1-b1", "conv2d-C8-b1")
"""Rows whose products are searched."""
ALLOWED = 2e-3
"""Largest difference of results as a part of the largest one, or share of codes that are one off."""


def measure_row(row: Row, folder: Path, threads: int, seconds: float) -> dict[str, Any]:
    """The row's times in microseconds."""
    path = folder / "model.onnx"
    row.write(path)
    found = take_turns(path, threads, seconds)
    ours, theirs = min(found.ours), min(found.theirs)
    return {
        "kind": row.kind, "what": row.what, "ours": ours, "onnxruntime": theirs, "ratio": theirs / ours,
        "runs": len(found.ours), "difference": found.difference, "agrees": found.difference <= ALLOWED,
    }  # fmt: skip


def search_row(row: Row, folder: Path, trials: int) -> dict[str, Any]:
    """A search of the row's product against its default program."""
    path = folder / "model.onnx"
    row.write(path)
    found = search(path, trials, trials)
    return {
        "kind": "search", "what": f"tuned {row.what}", "ours": found.best, "default": found.default,
        "onnxruntime": None, "ratio": found.default / found.best, "rank": found.rank, "programs": found.programs,
    }  # fmt: skip


def summarise(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Geometric means of ratios by kind; None where a kind has no row."""
    kinds = dict.fromkeys([*GOALS, "conv", "attention"])
    means = {kind: _mean([row["ratio"] for row in found if row["kind"] == kind]) for kind in kinds}
    searched = [row for row in found if row["kind"] == "search"]
    return {
        **means, "agree": all(row.get("agrees", True) for row in found),
        "tuned_over_default": _mean([row["ratio"] for row in searched]),
    }  # fmt: skip


def brute_force(folder: Path, minutes: float, only: str) -> None:
    """Measure spaces whole, on one thread, for some minutes; what has all its times is written."""
    end = time.monotonic() + 60 * minutes
    for name in SPACES:
        if not name.startswith(only):
            continue
        space = WholeSpace(name)
        built = build_space(space, folder)
        found = measure_space(space, built, folder, end - time.monotonic()) if minutes else None
        print(f"{name}: {write_record(space, built, *found) if found else 'to be gone on with'}", flush=True)


def _mean(ratios: Sequence[float]) -> float | None:
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def main() -> None:
    """Print a row for each, and the summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and smaller rows")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default="", help="rows whose name begins so")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--trials", type=int, default=24, help="of each search; 0 for no search")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each row")
    parser.add_argument("--brute-force", type=Path, metavar="FOLDER", help="measure spaces whole, on one thread")
    parser.add_argument("--minutes", type=float, default=600.0, help="of measuring; 0 to compile only")
    wishes = parser.parse_args()
    if wishes.brute_force:
        wishes.threads = 1
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: wishes.threads])
    set_threads(wishes.threads)
    if wishes.brute_force:
        brute_force(wishes.brute_force, wishes.minutes, wishes.only)
        return
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for row in rows(wishes.quick):
            if row.what.startswith(wishes.only):
                found.append(measure_row(row, Path(folder), wishes.threads, wishes.seconds))
                one = found[-1]
                print(
                    f"{one['what']:34} {one['ours']:10.1f} µs  onnxruntime {one['onnxruntime']:10.1f} µs"
                    f"  {one['ratio']:5.2f}  off {one['difference']:.1e}", flush=True,
                )  # fmt: skip
        for row in rows(wishes.quick):
            if wishes.trials and row.what in SEARCHED and row.what.startswith(wishes.only):
                found.append(search_row(row, Path(folder), wishes.trials))
                one = found[-1]
                print(f"{one['what']:34} {one['ours']:10.1f} µs  by default {one['default']:11.1f} µs"
                      f"  {one['ratio']:5.2f}  rank {one['rank']:.2f}", flush=True)  # fmt: skip
    spaces = [judge(record) for record in recorded_spaces() if record.row.startswith(wishes.only)]
    for space in spaces:
        print(
            f"space {space.row}, {space.programs} programs on {space.cpu}, {space.date}: best {space.best:.1f} µs,"
            f" chosen {space.chosen:.1f} µs; best of 50 {space.best_of_50:.3f}, {space.random_best_of_50:.3f} drawn;"
            f" a sixth loses {space.pruned_loss:.2%}; rank {space.rank:.3f}", flush=True,
        )  # fmt: skip
    summary = {**summarise(found), **summarise_spaces(spaces)}
    print(*figures_in_words({name: figure for name, figure in summary.items() if name != "spaces"}), sep="\n")
    if wishes.json:
        about = {**environment("numpy", "onnx", "onnxruntime"), "cpu": host_cpu().title, "threads": wishes.threads}
        write(wishes.json, "cpu", about, found, summary)


if __name__ == "__main__":
    main()
