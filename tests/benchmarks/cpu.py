"""Our kernels for this machine's CPU beside ONNX Runtime: python -m tests.benchmarks.cpu [--quick] [--json FILE]

Both run in one process on the same threads and values, taking turns; a row's ratio is ONNX Runtime's least time over
ours, as the machine may be shared; with `--threads 1` times are processor time.  `best_of_50` and `rank` come from
recorded spaces that name their CPU, and are left out where there are none.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.target.host_cpu import host_cpu
from tests.benchmarks.cpu_models import Row, rows
from tests.benchmarks.cpu_side_by_side import set_threads, take_turns
from tests.benchmarks.report import environment, figures_in_words, write

GOALS = {"gemm": 0.9, "fused": 1.5, "conv_int8": 1.2, "bert": 1.0, "resnet": 1.0}
"""Kind -> the ratio that its geometric mean is to reach."""
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


def summarise(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Geometric means of ratios by kind; None where a kind has no row."""
    kinds = dict.fromkeys([*GOALS, "conv", "attention"])
    means = {kind: _mean([row["ratio"] for row in found if row["kind"] == kind]) for kind in kinds}
    return {**means, "agree": all(row["agrees"] for row in found), "tuned_over_default": None, "best_of_50": None,
            "rank": None}  # fmt: skip


def _mean(ratios: Sequence[float]) -> float | None:
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def main() -> None:
    """Print a row for each, and the summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and smaller rows")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default="", help="rows whose name begins so")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=2.0, help="of each row")
    wishes = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: wishes.threads])
    set_threads(wishes.threads)
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
    summary = summarise(found)
    print(*figures_in_words(summary), sep="\n")
    if wishes.json:
        about = {**environment("numpy", "onnx", "onnxruntime"), "cpu": host_cpu().title, "threads": wishes.threads}
        write(wishes.json, "cpu", about, found, summary)


if __name__ == "__main__":
    main()
