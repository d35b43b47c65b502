"""Searches on this CPU: how a few trials do against the default program, and how the model ranks programs."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import engine
from engine.execution.reference import input_values
from engine.kernels.space import Program
from engine.tuning.problem import SearchProblem, problem
from engine.tuning.strategies import make_strategy
from tests.benchmarks.cpu_side_by_side import OurModel
from tests.benchmarks.report import rank_figure

REPETITIONS = 12


@dataclass(frozen=True, slots=True)
class SearchRow:
    """What came of one space, in microseconds."""

    default: float
    best: float
    """Of the search's trials."""
    rank: float | None
    """Of predicted and measured times of programs that were drawn at random."""
    programs: int
    """Of the space before pruning."""


def search(path: Path, trials: int, drawn: int) -> SearchRow:
    """Search the one product of a model in all of its mappings, and measure some programs that were drawn at random."""
    graph = engine.load(path)
    plan = engine.fuse(graph, target="cpu")
    values = input_values(graph, 0)
    found = problem(plan.groups[0], engine.default_recipe(plan))
    assert isinstance(found, SearchProblem)

    def times_of(programs: Sequence[Program]) -> list[float]:
        """Processor time of each, taken in turns."""
        models = [OurModel(plan, found.recipe_of(program), values) for program in programs]
        best = [float("inf")] * len(models)
        for _ in range(REPETITIONS):
            for number, model in enumerate(models):
                begin = time.process_time()
                model.run()
                best[number] = min(best[number], (time.process_time() - begin) * 1e6)
        return best

    known: dict[Program, float] = {}
    for number, task in enumerate(found.tasks, 1):  # the trials in equal parts
        strategy = make_strategy("learned", task, random.Random(1))
        end = trials * number // len(found.tasks)
        while len(known) < end and (proposed := strategy.propose(min(6, end - len(known)))):
            measured = dict(zip(proposed, times_of(proposed), strict=True))
            known |= measured
            strategy.learn(list(measured.items()))
    quickest = min(known, key=lambda program: known[program])
    advised = found.advised or quickest
    default, best = times_of([advised, quickest])
    sample = random.Random(2).sample(found.programs, min(drawn, len(found.programs)))
    rank = rank_figure([found.rank(program) for program in sample], times_of(sample)) if drawn else None
    return SearchRow(default, min(default, best), rank, found.total)
