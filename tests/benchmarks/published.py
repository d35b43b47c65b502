"""Our model held against published measurements, row by row: `python -m tests.benchmarks.published --measured FOLDER`.

    python -m tests.benchmarks.published --measured shared/measured [--json FILE] [--only CLASS] [--half even|odd]

Every row that can be expressed is planned and given the default kernel of its device, whose time the estimate predicts
with the target's own figures; nothing is compiled and nothing is sampled.  A prediction is of *our* kernel, a measured
time of *theirs*: what is compared is model and kernel at once.  Where a library's kernel says tile and threads by its
name, the row counts for the same schedule too: these are required entries of ours then.  What a source's way of
measuring adds (`published_method`) is added to ours, and shown.

`--half` takes the rows whose name has an even or an odd digest: what the targets' descriptions call fitted was fitted
to even rows.
"""

from __future__ import annotations

import argparse
import sys
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any

import numpy as np

import engine
from engine.cost.estimate import model_microseconds
from engine.cost.nodes import Work
from engine.fusion.nodes import FusionGroup, FusionPlan
from engine.kernels.gemm.advise import advise_tiles, intrinsic_of
from engine.kernels.gemm.limits import CORE_BLOCK, CORE_PART, LIMITS, first_broken
from engine.kernels.gemm.promise import fused_gemm
from engine.kernels.gemm.work import work
from engine.support.errors import EngineError
from engine.target import Target, target
from engine.target.hardware import SUM_BYTES
from engine.tensor.nodes import TensorProgram
from engine.tensorize.space import GemmConfig
from tests.benchmarks import report
from tests.benchmarks.published_method import added_microseconds
from tests.benchmarks.published_problems import Problem, floor_microseconds, graph_of, is_above_ceiling, least_bytes
from tests.benchmarks.published_rows import Row, Schedule, read_rows

NAME = "published"
PRODUCTS = ("matmul", "batched-matmul")
STATIC_BYTES = 48 * 2**10
"""Of shared memory that a kernel may declare: libraries' kernels without cp.async have no other."""
FEWEST = 20
"""Rows of a tile whose median is printed."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """Microseconds of our kernels for a problem on a device; why there are none."""

    own: float | None
    """By default."""
    floor: float
    forced: float | None = None
    """With the schedule of the published kernel."""
    why: str = ""


@lru_cache(maxsize=4)
def _planned(one: Problem, device: str) -> tuple[FusionPlan, int]:
    graph = graph_of(one)
    return engine.fuse(graph, target=device), least_bytes(graph)


def predict(one: Problem, device: str, schedule: Schedule | None) -> Predicted:
    """The default kernel's time, and with a schedule that of the kernel that has it."""
    try:
        plan, moved = _planned(one, device)
    except EngineError as error:
        return Predicted(None, 0.0, why=error.reason)
    floor, machine = floor_microseconds(one, moved, device), target(device)
    try:
        if plan.unsupported:
            return Predicted(None, floor, why=next(iter(plan.unsupported.values())))
        if one.operator in PRODUCTS and len(plan.groups) == 1:
            return _predict_product(plan.groups[0].program, one, machine, schedule, floor)
        works = [(len(group.instances), default_work(group, device, one)) for group in plan.groups]
    except EngineError as error:
        return Predicted(None, floor, why=error.reason)
    return Predicted(sum(times * model_microseconds(work, machine) for times, work in works), floor)


def default_work(group: FusionGroup, device: str, one: Problem) -> Work:
    """Of the kernel that the advisers choose."""
    return engine.compile(group, engine.default_recipe(group, device, one.numerics)).facts


def _predict_product(
    program: TensorProgram, one: Problem, machine: Target, schedule: Schedule | None, floor: float
) -> Predicted:
    """From the counts in closed form, which are those of the compiled kernel: thousands of products in minutes."""
    intrinsic = intrinsic_of(program, one.numerics)
    gemm = fused_gemm(program, intrinsic)
    _, chosen = advise_tiles(program, intrinsic, machine)
    own = model_microseconds(work(gemm, chosen, machine), machine)
    config = forced_config(schedule, chosen) if schedule and intrinsic is None else None
    if config is None or first_broken(gemm.problem, config, machine, LIMITS):
        return Predicted(own, floor)
    return Predicted(own, floor, model_microseconds(work(gemm, config, machine), machine))


def forced_config(schedule: Schedule, chosen: GemmConfig) -> GemmConfig | None:
    """The published kernel's tile, threads and, where it says them, depth and stages; None where no kernel of ours has
    such threads."""
    part = _part(schedule)
    if part is None or max(part) > CORE_PART or max(schedule.block) > CORE_BLOCK:
        return None
    depth, stages = schedule.depth or chosen.block[2], schedule.stages or max(2, chosen.stages)
    if schedule.slices > 1 and schedule.depth is None:
        depth, stages = _sliced_depth(schedule.block, chosen.block[2] * schedule.slices), 2
    return GemmConfig((*schedule.block, depth), part, stages, slices=schedule.slices)


def _sliced_depth(block: tuple[int, int], most: int) -> int:
    """A slice has as much of the depth as the whole of an unsliced tile, as long as static memory holds two tiles.

    A launch of `ampere_sgemm_32x32_sliced1x4_nn` as Nsight Systems lists it has 33 kB of static shared memory: two
    tiles of 64 depths.
    """
    depth = most
    while 2 * sum(block) * depth * SUM_BYTES > STATIC_BYTES:
        depth //= 2
    return depth


def _part(schedule: Schedule) -> tuple[int, int] | None:
    """Results of a thread, as square as they divide the tile, no fewer columns than rows."""
    results = schedule.block[0] * schedule.block[1] * schedule.slices // schedule.threads
    shapes = [(r, results // r) for r in (16, 8, 4, 2, 1) if results % r == 0]
    fitting = [(r, c) for r, c in shapes if schedule.block[0] % r == 0 and schedule.block[1] % c == 0]
    return min(fitting, key=lambda shape: (abs(shape[0] - shape[1]), shape[0]), default=None)


def in_half(name: str, half: str) -> bool:
    """Whether a row is in one half, by the digest of its name: the other half may be fitted to."""
    return not half or zlib.crc32(name.encode()) % 2 == ("even", "odd").index(half)


Task = tuple[Problem, str, Schedule | None]


def _predict_all(tasks: Sequence[Task]) -> list[Predicted]:
    return [predict(*task) for task in tasks]


def predict_rows(rows: Sequence[Row], processes: int) -> list[tuple[Row, Predicted]]:
    """Every row with its prediction; rows of one problem, device and schedule share one."""
    tasks: dict[Task, None] = {}
    for row in rows:
        if row.problem:
            tasks.setdefault((row.problem, row.device, row.schedule))
    ordered = sorted(tasks, key=lambda task: (repr(task[0]), task[1]))
    chunks = [list(part) for _, part in groupby(enumerate(ordered), key=lambda pair: pair[0] // 64)]
    lists = [[task for _, task in chunk] for chunk in chunks]
    with ProcessPoolExecutor(max_workers=processes) as pool:
        found = [one for part in pool.map(_predict_all, lists) for one in part]
    by_task = dict(zip(ordered, found, strict=True))
    none = Predicted(None, 0.0)
    return [
        (row, by_task[row.problem, row.device, row.schedule] if row.problem else replace(none, why=row.why_not))
        for row in rows
    ]


def documents(
    found: Sequence[tuple[Row, Predicted]], added: Mapping[str, float] = MappingProxyType({})
) -> list[dict[str, Any]]:
    """The rows of the JSON document: a row of a schedule that our kernel can have stands for that schedule alone.

    added: source -> microseconds that its way of measuring adds to a kernel.
    """
    rows = []
    for row, one in found:
        same, more = one.forced is not None, added.get(row.source, 0.0)
        kernel = one.forced if same else one.own
        rows.append({
            "class": row.kind, "row": row.name, "device": row.device, "measured": row.microseconds,
            "predicted": None if kernel is None else kernel + more, "kernel": kernel, "measuring": more,
            "default": one.own, "floor": one.floor or None,
            "same_schedule": same, "tile": row.schedule.name if row.schedule else None, "because": one.why or None,
            "above_ceiling": bool(
                row.problem and one.own and is_above_ceiling(row.problem, row.device, one.own)
            ),
        })  # fmt: skip
    return rows


def summarize(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Figures of each class and of each tile."""
    expressed = [row for row in rows if row["predicted"] is not None]
    classes: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    tiles: dict[str, list[float]] = defaultdict(list)
    for row in expressed:
        classes[row["class"]].append(row)
        if row["same_schedule"]:
            tiles[row["tile"]].append(row["predicted"] / row["measured"])
    missing = Counter(row["class"] for row in rows if row["predicted"] is None)
    return {
        "rows": len(rows),
        "classes": {name: _class_summary(classes[name], missing[name]) for name in sorted(classes)},
        "same_schedule": {name: {"rows": len(r), "median": median(r)} for name, r in sorted(tiles.items())},
        "below_floor": sum(row["kernel"] < row["floor"] for row in expressed),
        "above_ceiling": sum(row["above_ceiling"] for row in expressed),
        "not_expressed": len(rows) - len(expressed),
        "why_not": dict(Counter(str(row["because"]) for row in rows if row["predicted"] is None).most_common(20)),
    }


def _class_summary(rows: Sequence[Mapping[str, Any]], missing: int) -> dict[str, Any]:
    ratios = np.array([row["predicted"] / row["measured"] for row in rows])
    ours = [row["predicted"] / row["floor"] for row in rows]
    theirs = [row["measured"] / row["floor"] for row in rows]
    low, middle, high = np.quantile(ratios, (0.1, 0.5, 0.9))
    return {
        "rows": len(rows), "not_expressed": missing, "median": float(middle), "p10": float(low), "p90": float(high),
        "efficiency_rank": report.rank_figure(ours, theirs), "mean_error": float(np.abs(ratios - 1).mean()),
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 where a prediction breaks its floor or a published ceiling."""
    options = _parser().parse_args(arguments)
    started = time.monotonic()
    published = read_rows(options.measured)
    added = added_microseconds(published)
    rows = [row for row in published if options.only in row.kind and in_half(row.name, options.half)]
    found = documents(predict_rows(rows, options.processes), added)
    summary = summarize(found) | {"measuring": added, "seconds": round(time.monotonic() - started, 1)}
    for name, figures in summary["classes"].items():
        print(f"{name:45} {', '.join(report.figures_in_words(figures))}")
    for name, figures in summary["same_schedule"].items():
        if figures["rows"] >= FEWEST:
            print(f"same schedule {name:31} {', '.join(report.figures_in_words(figures))}")
    for name in ("rows", "below_floor", "above_ceiling", "not_expressed", "why_not", "measuring", "seconds"):
        print(f"{name:20} {summary[name]}")
    if options.json:
        report.write(options.json, NAME, report.environment("numpy"), found, summary)
    return 1 if summary["below_floor"] or summary["above_ceiling"] else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m tests.benchmarks.{NAME}", description=__doc__.partition("\n")[0])
    parser.add_argument("--measured", type=Path, required=True, help="a folder laid out like shared/measured")
    parser.add_argument("--json", type=Path, help="write rows and summary here")
    parser.add_argument("--only", default="", help="classes whose name contains this")
    parser.add_argument("--half", default="", choices=("", "even", "odd"), help="one half of the rows")
    parser.add_argument("--processes", type=int, default=2)
    return parser


if __name__ == "__main__":
    sys.exit(main())
