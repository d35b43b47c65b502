"""Search strategies on spaces that others measured whole on real GPUs: no model of ours is in it.

    python -m tests.benchmarks.search --spaces FOLDER [--seeds 20] [--strategy NAME ...] [--json FILE]

A space is a table of the folder, `NAME.csv.gz`: a column for each parameter, `mean_ms`, and `status` ("ok", or why a
configuration has no time).  Strategies are those of `engine.tuning`, unchanged; the modelled time that they rank by is
the same for every program, and what they learn from are the parameters.  Beside them: random search, and a genetic
algorithm with the sizes and chances that Kernel Tuner's has by default.  A configuration that failed counts as a trial.

The score is P of arXiv 2509.26300, over trials in place of seconds: at each trial, how far the mean of the searches has
come from what random search is expected to have then (0) to the best of all (1), averaged over the trials until random
search is expected to have closed 95 % of the distance from the median to the best.

Of 20 searches the best of 50 is known to 0.01 on the products and to 0.03 on the A100's convolution: its standard error
stands beside it, and what differs by less than that is no gain.  Constants are compared over hundreds of searches.
"""

from __future__ import annotations

import csv
import gzip
import math
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from engine.kernels.space import Program, Value
from engine.support.errors import BadInput
from engine.tuning.candidate_pool import Candidates
from engine.tuning.strategies import make_strategy
from engine.tuning.strategy import Result, Strategy

MEASURED = ("mean_ms", "std_ms", "runs", "compile_ms", "benchmark_ms", "status")
"""Columns that are no parameters."""
SUFFIX = ".csv.gz"
MOST_BYTES = 1 << 28
"""Of a table once it is unpacked."""
CUTOFF = 0.95
TRIALS = 200
POPULATION, MUTATION_CHANCE = 30, 20
"""Of the genetic algorithm: programs of a generation, and one in how many children gives way to a neighbour."""
RANKS = (1.0, 2.5)
"""Parents are drawn by rank: the place of each among the sorted, as a part of all, is of this beta distribution."""


class MeasuredSpace:
    """A table as a strategy sees a task."""

    def __init__(self, name: str, times: Mapping[Program, float | None]) -> None:
        """times: milliseconds of every configuration; None where it has none."""
        self.name, self.times = name, dict(times)
        self.programs = tuple(times)
        names = [dimension for dimension, _ in self.programs[0].values]
        values = {n: sorted({p[n] for p in self.programs}, key=lambda v: (isinstance(v, str), v)) for n in names}
        self.dimensions: Mapping[str, tuple[Value, ...]] = {n: tuple(v) for n, v in values.items() if len(v) > 1}
        self._figures = {n: _figures(found) for n, found in self.dimensions.items()}
        ran = sorted(one for one in times.values() if one is not None)
        self.best, self.ran = ran[0], np.array(ran)

    def rank(self, program: Program) -> float:
        """The same for all: nothing is known before the first trial."""
        return 1.0

    def time_of_unseen(self, program: Program) -> None:
        """All are known."""

    def accesses(self, program: Program) -> tuple[int, int]:
        """The same for all."""
        return 0, 0

    def features(self, program: Program) -> tuple[float, ...]:
        """Each parameter that varies: the logarithm of one more than a count, the place of any other value."""
        return tuple(self._figures[name][value] for name, value in program.values if name in self._figures)


def _figures(choices: Sequence[Value]) -> dict[Value, float]:
    """A number for each choice; all differ, a switch's 0 and 1 too, and steps of counts are ratios."""
    are_counts = all(isinstance(choice, int) and choice >= 0 for choice in choices)
    return {choice: math.log2(1 + int(choice)) if are_counts else float(at) for at, choice in enumerate(choices)}


def read_spaces(folder: Path) -> list[MeasuredSpace]:
    """The tables of a folder by name.  Raises BadInput where there are none, or where one is damaged."""
    paths = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
    if not paths:
        raise BadInput("benchmark", str(folder), f"holds no tables *{SUFFIX}", "give the folder of measured spaces")
    return [_read(path) for path in paths]


def _read(path: Path) -> MeasuredSpace:
    try:
        with gzip.open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise BadInput("benchmark", str(path), f"has more than {MOST_BYTES:,} bytes", "split it")
        rows = list(csv.DictReader(data.decode("utf-8").splitlines()))
        name = path.name.removesuffix(SUFFIX)
        times = {_program(name, row): float(row["mean_ms"]) if row["status"] == "ok" else None for row in rows}
    except (OSError, EOFError, UnicodeDecodeError, KeyError, TypeError, ValueError) as error:
        reason = f"is no table of a measured space: {type(error).__name__} {error}"
        raise BadInput("benchmark", str(path), reason, "columns: parameters, mean_ms, status") from None
    if not any(time is not None and 0 < time < math.inf for time in times.values()):
        raise BadInput("benchmark", str(path), "has no times", "columns: parameters, mean_ms, status")
    return MeasuredSpace(name, times)


def _program(name: str, row: Mapping[str, str]) -> Program:
    values = tuple((n, int(v) if v.lstrip("-").isdigit() else v) for n, v in row.items() if n not in MEASURED)
    return Program(name, values)


class Genetic:
    """Generations of children of two parents, who are the likelier the faster; values come from either parent."""

    def __init__(self, space: MeasuredSpace, rng: random.Random) -> None:
        self._space, self._rng = space, rng
        self._pool = Candidates(space)
        self._tried: dict[Program, float] = {}
        self._population = rng.sample(space.programs, min(POPULATION, len(space.programs)))
        self._queue = list(self._population)

    def propose(self, count: int) -> list[Program]:
        """The next untried children; a generation without any is followed by the next."""
        found: list[Program] = []
        left = len(self._space.programs) - len(self._tried)
        for _ in range(100 * count):
            if len(found) == min(count, left):
                break
            if not self._queue:
                self._breed()
            program = self._queue.pop(0)
            if program not in self._tried:
                self._tried[program] = math.inf
                found.append(program)
        return found

    def learn(self, results: Sequence[Result]) -> None:
        """Times of what was proposed."""
        self._tried |= {program: math.inf if time is None else time for program, time in results}

    def _breed(self) -> None:
        ordered = sorted(self._population, key=lambda program: self._tried.get(program, math.inf))
        children: list[Program] = []
        for _ in range(100 * POPULATION):
            if len(children) >= POPULATION:
                break
            one, other = (ordered[int(self._rng.betavariate(*RANKS) * len(ordered))] for _ in range(2))
            child = self._pool.numbers.get(self._crossed(one, other))
            if child is not None and self._rng.randrange(MUTATION_CHANCE) == 0:
                child = self._rng.choice(self._pool.neighbours(child) or [child])
            if child is not None and self._space.programs[child] not in children:
                children.append(self._space.programs[child])
        while len(children) < min(POPULATION, len(self._space.programs)):  # parents are too alike
            children.append(self._rng.choice(self._space.programs))
        self._population, self._queue = children, list(children)

    def _crossed(self, one: Program, other: Program) -> Program:
        pairs = zip(one.values, other.values, strict=True)
        return Program(one.mapping, tuple(self._rng.choice(pair) for pair in pairs))


@dataclass(frozen=True, slots=True)
class SpaceFigures:
    """How one strategy did in one space: means over its seeds."""

    best_of_10: float
    """The best of the space over the best that was found."""
    best_of_50: float
    best_of_200: float
    score: float
    milliseconds_a_proposal: float
    error_of_50: float
    """Standard error of `best_of_50`, from the spread of its searches; 0 where there is only one."""


def race(space: MeasuredSpace, strategy: str, seeds: int) -> SpaceFigures:
    """Searches of one strategy, a trial at a time, as many as the score and the best of 200 ask for."""
    baseline = expected_random(space)
    trials = max(TRIALS, len(baseline))
    spent, proposals, curves = 0.0, 0, []
    for seed in range(seeds):
        searcher: Strategy = (
            Genetic(space, random.Random(seed)) if strategy == "genetic"
            else make_strategy(strategy, space, random.Random(seed))
        )  # fmt: skip
        best, found = math.inf, []
        for _ in range(min(trials, len(space.programs))):
            start = time.perf_counter()
            proposed = searcher.propose(1)
            spent, proposals = spent + time.perf_counter() - start, proposals + 1
            if not proposed:
                break
            took = space.times[proposed[0]]
            best = min(best, math.inf if took is None else took)
            found.append(best)
            searcher.learn([(proposed[0], None if took is None else 1e3 * took)])
        curves.append(found + [best] * (trials - len(found)))
    shares = [[space.best / curve[count - 1] for curve in curves] for count in (10, 50, 200)]
    return SpaceFigures(*(round(mean(share), 4) for share in shares), round(score(space, curves, baseline), 4),
                        round(1e3 * spent / max(proposals, 1), 3), round(standard_error(shares[1]), 4))  # fmt: skip


def standard_error(values: Sequence[float]) -> float:
    """Of the mean of independent values; 0 where there is only one."""
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def expected_random(space: MeasuredSpace) -> np.ndarray:
    """The expected best time of random search after 1, 2, ... trials, until it has closed `CUTOFF` of the distance.

    The best of n drawn without replacement is at least the k-th fastest with the chance that none of the k - 1 faster
    ones is drawn; failures, slower than all, count as the slowest that ran.
    """
    times = np.concatenate([space.ran, np.full(len(space.programs) - len(space.ran), space.ran[-1])])
    total, goal = len(times), np.median(space.ran) - CUTOFF * (np.median(space.ran) - space.best)
    steps, found = np.diff(times, prepend=0.0), []
    none_faster = np.ones(total)  # chance that all of the draws are at place k or behind
    places = np.arange(total)
    for drawn in range(total):
        none_faster = none_faster * np.maximum(total - places - drawn, 0) / (total - drawn)
        found.append(float((steps * none_faster).sum()))
        if found[-1] <= goal:
            break
    return np.array(found)


def score(space: MeasuredSpace, curves: Iterable[Sequence[float]], baseline: np.ndarray) -> float:
    """The score of searches, each the best time after every trial."""
    slowest = float(space.ran[-1])
    means = np.mean([[min(best, slowest) for best in curve[: len(baseline)]] for curve in curves], axis=0)
    left = baseline - space.best
    return float(np.mean((baseline - means)[left > 0] / left[left > 0]))


def summarize_spaces(figures: Mapping[str, Mapping[str, SpaceFigures]], default: str) -> dict[str, Any]:
    """`spaces{NAME{figures of the default strategy, random{}, genetic{}, and every other strategy{}}}`."""

    def fields(one: SpaceFigures) -> dict[str, float]:
        return {name: getattr(one, name) for name in SpaceFigures.__slots__}

    return {
        "default": default,
        "origin": "published",
        "spaces": {
            name: fields(of[default]) | {other: fields(one) for other, one in of.items() if other != default}
            for name, of in figures.items()
        },
    }
