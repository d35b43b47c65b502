"""ALCOP's 22 operators for sm_80, pipelined and not, over a spread of tiles: what NVRTC, emulator and models say.

    python -m tests.benchmarks.pipelines [--quick] [--operator NAME ...] [--json FILE]

Needs no GPU: registers and spills are the compiler's, bank conflicts are counted by the emulator at a reduced size,
times are predicted by models that no GPU has calibrated.  Exit code 1 where a configuration among the ten that the
model ranks first spills, a classic tile of a matrix product does not fit its registers, or a read of shared memory
has a conflict.  `--quick` takes one operator of each kind and the two configurations that rank first.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from engine.execution.nvrtc import nvrtc_version
from engine.suite import read_suite
from tests.benchmarks import report
from tests.benchmarks.pipelines_rows import (
    CLASSIC,
    SUITE,
    TOP,
    UNPIPELINED,
    Configuration,
    run_operator,
)

NAME = "pipelines"
QUICK = ("MM_BERT_FC1", "BMM_BERT_SV", "Conv2D_RN50_3")
QUICK_TOP = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the status is the exit code."""
    options = _parser().parse_args(arguments)
    names = tuple(options.operator or (QUICK if options.quick else (row.name for row in read_suite(SUITE).rows)))
    started = time.monotonic()
    rows: list[Configuration] = []
    with ProcessPoolExecutor(max_workers=options.processes) as pool:
        top = QUICK_TOP if options.quick else TOP
        waiting = [pool.submit(run_operator, name, top, not options.quick) for name in names]
        for name, one in zip(names, waiting, strict=True):
            found = one.result()
            rows += found
            print(f"{name}")
            for row in found:
                print(f"  {_line(row)}", flush=True)
    summary = summarize(rows) | {"operators": len(names), "seconds": round(time.monotonic() - started, 1)}
    for key, value in summary.items():
        print(f"{key:40} {value}")
    environment = report.environment("numpy", "nvidia-cuda-nvrtc") | {"nvrtc": nvrtc_version()}
    if options.json:
        report.write(options.json, NAME, environment, [asdict(row) for row in rows], summary)
    return 1 if summary["spills_in_top_ten"] or summary["classic_tiles_that_spill"] or summary["load_conflicts"] else 0


def summarize(rows: Sequence[Configuration]) -> dict[str, Any]:
    """The figures that the goals name; speed-ups are of the best configuration of an operator under each model."""
    top = [row for row in rows if 1 <= row.rank <= TOP]
    classic = [row for row in rows if row.knobs in map(str, CLASSIC) and not row.operator.startswith("Conv")]
    counted = [row for row in rows if row.loads]
    pipelined = {row.operator for row in rows if row.level != UNPIPELINED}
    return {
        "configurations": len(rows),
        "operators_not_pipelined": sorted({row.operator for row in rows} - pipelined),
        "spills_in_top_ten": sum(row.spill_bytes > 0 for row in top),
        "spilling_configurations": sum(row.spill_bytes > 0 for row in rows),
        "classic_tiles": len(classic),
        "classic_tiles_registers": max((row.registers for row in classic), default=0),
        "classic_tiles_that_spill": sum(row.spill_bytes > 0 for row in classic),
        "conflicts_counted_in": len(counted),
        "load_conflicts": sum(row.load_conflicts for row in counted),
        "copy_conflicts": sum(row.copy_conflicts for row in counted),
        "register_estimate_error_median": round(median(_error(row) for row in rows), 3),
        "register_estimate_error_largest": round(max((_error(row) for row in rows), key=abs), 3),
        "predicted_speedup_alcop": round(_speedup(rows, "alcop_microseconds"), 3),
        "predicted_speedup_bottleneck": round(_speedup(rows, "bottleneck_microseconds"), 3),
    }


def _error(row: Configuration) -> float:
    return row.estimated_registers / row.registers - 1


def _speedup(rows: Sequence[Configuration], model: str) -> float:
    """Best unpipelined over best pipelined time, as a geometric mean over the operators that have both."""
    gains = []
    for name in dict.fromkeys(row.operator for row in rows):
        own = [row for row in rows if row.operator == name]
        plain = [getattr(row, model) for row in own if row.level == UNPIPELINED]
        piped = [getattr(row, model) for row in own if row.level != UNPIPELINED]
        if plain and piped:
            gains.append(min(plain) / min(piped))
    return geometric_mean(gains) if gains else math.nan


def _line(row: Configuration) -> str:
    counted = f", {row.load_conflicts} conflicts of {row.loads} reads, {row.copy_conflicts} of copies"
    rank = f"#{row.rank}" if row.rank else ""
    return (
        f"{row.knobs:42} {rank:>4} {row.registers:3} registers (estimated {row.estimated_registers:3}), "
        f"{row.spill_bytes:4} B spilled, {row.shared_bytes / 1024:5.1f} KiB, {row.blocks_per_sm} blocks, "
        f"{row.occupancy:4.0%}, ALCOP {row.alcop_microseconds:9.1f} us, "
        f"bottleneck {row.bottleneck_microseconds:9.1f} us{counted if row.loads else ''}"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m tests.benchmarks.{NAME}", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one operator of each kind, two configurations each")
    parser.add_argument("--operator", action="append", help="a row of the suite; may be repeated")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write rows and summary here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
