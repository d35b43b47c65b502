"""Strategies on a table of known times: what each has found after 10, after 50, and when it has 99 % of the best."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

import numpy as np

import engine
from engine.execution.nodes import SYNTHETIC, Timing
from engine.kernels.gemm.space import GemmTemplate, prune_programs
from engine.kernels.space import Program, Task
from engine.recipe import Recipe
from engine.records.nodes import FAILED, FINISHED, NEW, Attempt, Request, TaskRecord
from engine.records.reader import RunReader
from engine.records.runs import RunLog
from engine.records.store import RecordStore
from engine.support.errors import BadInput
from engine.tuning.problem import problem
from engine.tuning.strategies import make_strategy
from tests.benchmarks.pipelines_rows import TARGET
from tests.benchmarks.search_truth import Operator, narrow, truth

NEAR = 0.99
Times = Mapping[Program, float | None]
"""Microseconds of every program; None where it has none."""


@dataclass(frozen=True, slots=True)
class Race:
    """Which strategies search, and for how long."""

    strategies: tuple[str, ...]
    trials: int
    """Of one search."""
    seeds: int
    """Searches of each strategy."""


@dataclass(frozen=True, slots=True)
class Found:
    """How one strategy did: means over its seeds."""

    best_of_10: float
    """Best time of all over the best that it had found."""
    best_of_50: float
    trials_to_99: float
    """Trials until 99 % of the best; those that never had it count all that they were given."""
    reached_99: float
    """Share of the searches that had it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One space with its truth, and how every strategy did in it."""

    name: str
    origin: str
    total: int
    """Programs before pruning."""
    tried: int
    timed: int
    """Of those that were tried, the ones that are kernels and have a time."""
    left: int
    """Of those that were tried, the ones that pruning leaves."""
    best: float
    """Microseconds, of all that were timed."""
    correlation: float | None
    """Spearman's, of what was promised and the truth, over what is left and has a time."""
    correlation_before: float | None
    """The same before pruning."""
    found: Mapping[str, Found]
    left_share: float | None = None
    """Part of all programs that pruning leaves; None where the truth does not tell."""
    pruned_loss: float | None = None
    """How much slower the best of what is left is, as a part of the best of all; None where nothing is left."""
    sixth_loss: float | None = None
    """The same of the sixth of all programs that is promised the least time."""
    random_trials: tuple[float, float] | None = None
    """That random search needs for 99 % of the best: before pruning, and after it."""


class Space:
    """Part of a task's programs, as a strategy sees a task."""

    def __init__(self, task: Task, programs: Sequence[Program]) -> None:
        self.programs, self.dimensions = tuple(programs), task.dimensions
        self.rank, self.accesses, self.features = task.rank, task.accesses, task.features


def of_operator(operator: Operator, store: Path, processes: int, race: Race) -> tuple[Outcome, Times]:
    """Compile and time the whole space of one operator, then let every strategy search what pruning leaves of it."""
    times: dict[Program, float | None] = {
        program: outcome.microseconds if isinstance(outcome, Timing) else None
        for program, outcome in truth(operator, operator.programs, store, processes)
    }
    return outcome_of(operator.row.name, SYNTHETIC, operator.task, times, race), times


def keep(operator: Operator, times: Times, store: RecordStore) -> None:
    """The truth of an operator as a run: `of_records` finds it again without compiling anything."""
    task, name = operator.task, operator.group.name
    recipe = json.dumps(operator.problem.recipe.to_json())
    request = Request(
        operator.reference, TARGET, "exhaustive", "synthetic device", SYNTHETIC, len(times), groups=(name,),
        recipe=recipe,
    )  # fmt: skip
    sieved = task.funnel.dropped
    kept = set(task.programs)
    record = TaskRecord(name, task.name, dict(task.dimensions), task.funnel.total, sieved, len(kept), math.inf)
    log = RunLog.start(store, request, (record,))
    log.keep_all(
        (
            Attempt(
                number, None, name, task.name, program.values, task.rank(program) if program in kept else math.inf,
                FAILED if time is None else NEW, time, "compile" if time is None else "", "", 0.0,
            ),
            None,
        )
        for number, (program, time) in enumerate(times.items(), 1)
    )  # fmt: skip
    log.set_state(FINISHED)


def of_records(path: Path, race: Race, origin: str | None = None) -> Iterator[Outcome]:
    """The same for every mapping that the runs of a file tried.

    origin: of the times.  Raises BadInput where the file has times of several and none is named, for they never mix.
    """
    with RunReader(path) as reader:
        origins = sorted({searched.request.origin for searched in reader.runs()})
        if origin is None and len(origins) > 1:
            reason = f"holds times that are {' and '.join(origins)}"
            raise BadInput("benchmark", str(path), reason, "name one of them with --origin")
        for searched in reader.runs():
            if origin not in (None, searched.request.origin):
                continue
            recipe = Recipe.loads(searched.request.recipe)
            plan = engine.fuse(engine.load(searched.request.source, searched.request.dimensions), recipe.target)
            attempts = reader.attempts(searched.number)
            for record in searched.tasks:
                found = problem(plan.group(record.group), recipe)
                tasks = () if isinstance(found, str) else found.tasks
                task = next((task for task in tasks if task.name == record.mapping), None)
                if task is not None and record.dimensions != task.dimensions:
                    task = narrow(task, record.dimensions, engine.compile(found.group, found.recipe))
                times = {
                    Program(one.mapping, one.values): one.microseconds
                    for one in attempts
                    if (one.group, one.mapping) == (record.group, record.mapping)
                }
                if task is not None and any(time is not None for time in times.values()):
                    source = searched.request.source.rpartition("/")[2]
                    yield outcome_of(f"{source} {record.mapping}", searched.request.origin, task, times, race)


def outcome_of(name: str, origin: str, task: Task, times: Times, race: Race) -> Outcome:
    """Every strategy in a task's space as far as times are known."""
    kept = set(task.programs)
    left = Space(task, [program for program in times if program in kept])
    timed = [program for program in left.programs if times[program] is not None]
    truth_of = [times[program] or math.inf for program in timed]
    before = {program: time for program, time in times.items() if time is not None}
    found = Outcome(
        name, origin, task.funnel.total, len(times), len(before), len(left.programs),
        _best(times), rank_correlation([task.rank(program) for program in timed], truth_of),
        rank_correlation([task.rank(program) for program in before], tuple(before.values())),
        {strategy: run(left, times, strategy, race) for strategy in race.strategies},
    )  # fmt: skip
    if len(left.programs) == len(times):
        return found  # what was dropped was not tried
    patient = replace(race, trials=len(times))
    trials = [run(space, times, "random", patient).trials_to_99 for space in (Space(task, tuple(times)), left)]
    # Where nothing is left of what was tried, nothing is known of what pruning costs.
    loss = min(truth_of, default=math.inf) / found.best - 1 if left.programs else None
    return replace(
        found, left_share=len(kept) / task.funnel.total, pruned_loss=loss, sixth_loss=_loss_of_sixth(task, times),
        random_trials=(trials[0], trials[1]),
    )  # fmt: skip


def _loss_of_sixth(task: Task, times: Times) -> float | None:
    """How much slower the best of a sixth of all programs is than the best of all: of those of a product that break no
    limit, the ones that are promised the least time."""
    if not isinstance(task.template, GemmTemplate):
        return None
    sound = prune_programs(task.template, times).left
    promised = sorted(sound, key=task.rank)[: len(times) // 6]
    return _best({program: times[program] for program in promised}) / _best(times) - 1


def _best(times: Times) -> float:
    return min((t for t in times.values() if t is not None), default=math.inf)


def run(space: Space, times: Times, strategy: str, race: Race) -> Found:
    """Searches of one strategy, a trial at a time."""
    best = _best(times)
    curves = [curve(space, times, strategy, race.trials, seed, best) for seed in range(race.seeds)]
    near = [next((n for n, share in enumerate(one, 1) if share >= NEAR), None) for one in curves]
    return Found(
        mean(_after(one, 10) for one in curves), mean(_after(one, 50) for one in curves),
        mean(race.trials if n is None else n for n in near), mean(n is not None for n in near),
    )  # fmt: skip


def curve(space: Space, times: Times, strategy: str, trials: int, seed: int, best: float) -> list[float]:
    """After each trial, the best time of all over the best that was found; 0 while nothing ran."""
    searcher = make_strategy(strategy, space, random.Random(seed))
    found, shares = math.inf, []
    for _ in range(trials):
        proposed = searcher.propose(1)
        if not proposed:
            break
        time = times[proposed[0]]
        searcher.learn([(proposed[0], time)])
        found = min(found, math.inf if time is None else time)
        shares.append(best / found)
    return shares


def _after(shares: Sequence[float], trials: int) -> float:
    """A space with fewer programs is done earlier."""
    return shares[:trials][-1] if shares else 0.0


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's, equal values with the mean of their ranks; None for fewer than three values."""
    if len(first) < 3:
        return None
    a, b = (_ranks(np.array(values)) for values in (first, second))
    return round(float(np.corrcoef(a, b)[0, 1]), 4)


def _ranks(values: np.ndarray) -> np.ndarray:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: np.ndarray = (last - (counts - 1) / 2)[place]
    return ranks
