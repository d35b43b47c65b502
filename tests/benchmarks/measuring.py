"""One program on both paths, in interleaved rounds.

Times are processor time: both paths compute on one thread, and what else the machine does must not count.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from time import process_time

from engine.kernels.loop_nest import loop_nest
from engine.poly.dependences import dependences
from engine.scheduling.nodes import ConstraintTree, ScheduleTree
from engine.scheduling.solve import schedule
from engine.scheduling.tree_text import show
from engine.support.errors import Unsupported
from engine.tensor.nodes import TensorProgram
from tests.benchmarks.isl import request
from tests.benchmarks.isl_process import Answer, IslProcess
from tests.benchmarks.parallel import Levels, tree_levels

LIMIT = 60.0
"""Seconds after which isl is killed; it then counts as having taken them."""
FIXED, SYMBOLIC = "fixed", "symbolic"
"""Two ways to give isl the sizes of the boxes: as numbers, or as parameters.  The faster one counts."""

Times = Mapping[str, float]
"""Stage -> milliseconds."""
Count = Callable[[Levels], int]


@dataclass(frozen=True, slots=True)
class Ours:
    """One run of our path."""

    milliseconds: Times
    dependences: int
    structure: str
    """"nest", or "tree" where the schedule needs more than the nest of one kernel and its tree is printed instead."""
    tree: ScheduleTree


@dataclass(frozen=True, slots=True)
class Comparison:
    """One program on both paths."""

    program: TensorProgram
    kind: str
    """"case", "chain" or "model"."""
    ours: Ours
    our_runs: Sequence[Times]
    isl_runs: Mapping[str, Sequence[Times]]
    """For each way to give the sizes; empty where isl was killed."""
    levels: Mapping[str, Mapping[str, Levels]]
    """"ours" and the ways in which isl came to an end -> statement -> what stands around it."""

    @property
    def our_time(self) -> float:
        return _total(self.our_runs)

    def isl_time(self, way: str) -> float:
        """Median in milliseconds; the limit where isl was killed."""
        return _total(self.isl_runs[way]) if self.isl_runs[way] else LIMIT * 1e3

    @property
    def ratio(self) -> float:
        """How many times as long isl takes in its faster way."""
        return min(self.isl_time(FIXED), self.isl_time(SYMBOLIC)) / self.our_time

    def loops(self, whose: str, count: Count) -> int | None:
        """Parallel loops over all statements; None where isl was killed."""
        return sum(map(count, self.levels[whose].values())) if whose in self.levels else None

    def fewer(self, count: Count) -> dict[str, tuple[int, int]]:
        """Statement -> (ours, isl's) parallel loops, where isl keeps more in at least one of its ways."""
        found: dict[str, tuple[int, int]] = {}
        for name, levels in self.levels["ours"].items():
            best = max((count(isl[name]) for way, isl in self.levels.items() if way != "ours"), default=0)
            if count(levels) < best:
                found[name] = (count(levels), best)
        return found


def stage_medians(runs: Sequence[Times]) -> dict[str, float]:
    """The median of each stage over the runs."""
    return {stage: median(run[stage] for run in runs) for stage in (runs[0] if runs else ())}


def _total(runs: Sequence[Times]) -> float:
    return median(sum(run.values()) for run in runs)


def compare(program: TensorProgram, kind: str, isl: IslProcess, rounds: int) -> Comparison:
    """Run both paths `rounds` times by turns; isl once only where it is killed."""
    asked = {FIXED: request(program, symbolic=False), SYMBOLIC: request(program, symbolic=True)}
    our_runs: list[Times] = []
    isl_runs: dict[str, list[Times]] = {FIXED: [], SYMBOLIC: []}
    answers: dict[str, Answer] = {}
    for number in range(rounds):
        ours = run_ours(program)
        our_runs.append(ours.milliseconds)
        for way in asked if number == 0 else tuple(answers):
            answer = isl.run(asked[way])
            if answer is not None:
                isl_runs[way].append(answer.milliseconds)
                answers[way] = answer
    names = [s.name for s in program.statements]
    levels: dict[str, Mapping[str, Levels]] = {"ours": tree_levels(program, ours.tree)}
    for way, answer in answers.items():
        levels[way] = {name: answer.levels[f"S{k}"] for k, name in enumerate(names)}
    return Comparison(program, kind, ours, our_runs, isl_runs, levels)


def run_ours(program: TensorProgram) -> Ours:
    """Our path from the program to its loops, from empty caches: isl starts from nothing, too."""
    with _undisturbed():
        begin = process_time()
        needed = dependences(program)
        analysed = process_time()
        solved = schedule(program, needed, ConstraintTree())
        scheduled = process_time()
        structure = _loops(program, solved.tree)
        end = process_time()
    milliseconds = {
        "dependences": (analysed - begin) * 1e3,
        "schedule": (scheduled - analysed) * 1e3 - solved.checking,
        "legality": solved.checking,
        "loops": (end - scheduled) * 1e3,
    }
    return Ours(milliseconds, len(needed), structure, solved.tree)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """No cached results of the engine, and no garbage collection inside (the worker of isl has none either)."""
    for name, module in list(sys.modules.items()):
        if name.startswith("engine."):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _loops(program: TensorProgram, tree: ScheduleTree) -> str:
    try:
        loop_nest(program, tree)
    except Unsupported:
        show(tree, program)
        return "tree"
    return "nest"
