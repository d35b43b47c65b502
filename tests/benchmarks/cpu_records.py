"""Spaces of products that were measured whole, as files, and how searches and the estimate do on them.

`resources/measurements/DATE-cpu-ROW.json`::

    {"schema": "loomscope cpu space 1", "row": "gemm-256x1024x256", "date": "2026-11-27", "compiler": "g++ ...",
     "clock": "processor time of one thread; ...", "rejected": groups that were measured again,
     "cpu": {"title", "features", "figures": {name: {value, unit, source}}}, "mapping": "fma/k/staged_j",
     "dimensions": ["rows", ...],
     "programs": [[rows, vectors, tiles, panels, depths, median, p20, p80, samples], ...]}

Times are in microseconds.  Judged by them: the best that 50 trials of the default strategy find in the programs that
pruning leaves, as a part of the best of all; what is lost where only a sixth of all programs is kept by the estimate;
the rank correlation of the estimate over all programs.  The estimate is that of the CPU whose figures the file has.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from statistics import mean
from typing import Any
from unittest.mock import patch

import numpy as np

from engine.execution.emulate.build import compiler_identity, require_compiler
from engine.kernels.prune import promising
from engine.kernels.space import Funnel, Program, Task
from engine.target.cpu import NAMED_CPUS, CpuTarget
from engine.target.nodes import Figure
from engine.tuning.strategies import STRATEGIES, make_strategy
from tests.benchmarks.cpu_truth import Built, Group, WholeSpace
from tests.benchmarks.report import rank_figure

FOLDER = Path(__file__).parents[2] / "resources" / "measurements"
SCHEMA = "loomscope cpu space 1"
RECORDED = "recorded"
"""Name of the target that is the CPU of a file."""
SEEDS, TRIALS, SHARE = 20, 50, 6
"""Searches, trials of each, and the part of all programs that pruning is asked to keep."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One measured space."""

    row: str
    cpu: CpuTarget
    date: str
    mapping: str
    """Of the product."""
    times: Mapping[Program, float]
    """Median microseconds of every program."""


@dataclass(frozen=True, slots=True)
class SpaceFigures:
    """How searches and the estimate do on one space."""

    row: str
    cpu: str
    date: str
    programs: int
    best: float
    """Microseconds, of all programs."""
    chosen: float
    """Microseconds, of the program that the estimate chooses of all."""
    best_of_50: float
    """The best over what the default strategy finds, the mean over its seeds."""
    random_best_of_50: float
    """The same for programs that are drawn from all."""
    pruned_loss: float
    """How much slower the best of the sixth is than the best of all, as a part of it."""
    rank: float | None


def write_record(space: WholeSpace, built: Sequence[Built], groups: Sequence[Group], rejected: int) -> Path:
    """The file of a space, of today."""
    names = [name for name, _ in built[0].program.values]
    samples: dict[int, list[float]] = {}
    for group in groups:
        for at, found in group.samples.items():
            samples.setdefault(at, []).extend(found)
    lines = []
    for at, one in enumerate(built):
        middle, low, high = (round(float(np.percentile(samples[at], part)), 1) for part in (50, 20, 80))
        lines.append(json.dumps([*(v for _, v in one.program.values), middle, low, high, len(samples[at])]))
    machine, today = space.machine, date.today().isoformat()
    about = {
        "schema": SCHEMA, "row": space.row.what, "date": today, "compiler": compiler_identity(require_compiler()),
        "clock": f"processor time of one thread, caches warm; {machine.clock}", "rejected": rejected,
        "cpu": {
            "title": machine.title, "features": machine.features,
            "figures": {name: asdict(figure) for name, figure in machine.figures().items()},
        },
        "mapping": space.task.name, "dimensions": names,
    }  # fmt: skip
    path = FOLDER / f"{today}-cpu-{space.row.what}.json"
    path.write_text(json.dumps(about)[:-1] + ', "programs": [\n' + ",\n".join(lines) + "\n]}\n")
    return path


def recorded_spaces(folder: Path = FOLDER) -> list[Recorded]:
    """The newest file of each row."""
    found = {record.row: record for record in map(_read, sorted(folder.glob("*-cpu-*.json")))}
    return list(found.values())


def _read(path: Path) -> Recorded:
    document: dict[str, Any] = json.loads(path.read_text())
    assert document["schema"] == SCHEMA, f"{path} has schema {document['schema']}"
    known, names = document["cpu"], document["dimensions"]
    figures = {name: Figure(**figure) for name, figure in known["figures"].items()}
    cpu = replace(NAMED_CPUS["zen4"], name=RECORDED, title=known["title"], features=tuple(known["features"]), **figures)
    times = {
        Program("", tuple(zip(names, line, strict=False))): float(line[len(names)]) for line in document["programs"]
    }
    return Recorded(document["row"], cpu, document["date"], document["mapping"], times)


@contextmanager
def space_of(record: Recorded) -> Iterator[tuple[Task, dict[Program, float]]]:
    """The task of a record's row for its CPU, with pruning as it is, and all recorded times."""
    with patch.dict(NAMED_CPUS, {RECORDED: record.cpu}):
        whole = WholeSpace(record.row, RECORDED, record.mapping)
        times = {replace(program, mapping=whole.task.name): time for program, time in record.times.items()}
        dimensions = {name: tuple(sorted({p.number(name) for p in times})) for name, _ in next(iter(times)).values}
        promised = {program: whole.template.rank(program) for program in times}
        funnel = promising(Funnel(len(times), (), tuple(times)), promised, ())
        yield Task(whole.task.name, dimensions, funnel, (), whole.template), times


def judge(record: Recorded, seeds: int = SEEDS) -> SpaceFigures:
    """How searches and the estimate do on a space."""
    with space_of(record) as (task, times):
        ranks = {program: task.rank(program) for program in times}
        ordered, best = sorted(times, key=lambda program: ranks[program]), min(times.values())
        kept = min(times[program] for program in ordered[: len(ordered) // SHARE])
        found = [_search(task, times, seed) for seed in range(seeds)]
        drawn = [min(random.Random(seed).sample(list(times.values()), TRIALS)) for seed in range(seeds)]
        return SpaceFigures(
            record.row, record.cpu.title, record.date, len(times), best, times[ordered[0]],
            mean(best / one for one in found), mean(best / one for one in drawn), kept / best - 1,
            rank_figure([ranks[program] for program in times], list(times.values())),
        )  # fmt: skip


def _search(task: Task, times: Mapping[Program, float], seed: int) -> float:
    """The best time that a search of the default strategy finds, a trial at a time."""
    strategy, best = make_strategy(next(iter(STRATEGIES)), task, random.Random(seed)), math.inf
    for _ in range(TRIALS):
        for program in strategy.propose(1):
            best = min(best, times[program])
            strategy.learn([(program, times[program])])
    return best


def summarise_spaces(found: Sequence[SpaceFigures]) -> dict[str, Any]:
    """`best_of_50` and `rank` as means, `pruned_loss` as the worst; None where no space is recorded."""
    if not found:
        return {"best_of_50": None, "pruned_loss": None, "rank": None, "spaces": []}
    ranks = [one.rank for one in found if one.rank is not None]
    return {
        "best_of_50": mean(one.best_of_50 for one in found), "pruned_loss": max(one.pruned_loss for one in found),
        "rank": mean(ranks), "spaces": [asdict(one) for one in found],
    }  # fmt: skip
