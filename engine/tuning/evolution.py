"""Evolutionary search: populations evolve under a learned cost model, and few programs of them are run.

Ansor's search with GTA's parameters: part of each population descends from the best programs tried, children mutate
one dimension or cross two parents, and a few proposals are random.  Where a task has no more programs than a population
and its children, all of them are ranked in place of breeding: of a space that is a sample, those that were looked at
and the neighbours of the best tried.  LightGBM ranks programs by their features (where
the extra `learned` is not installed, a linear model of log time does); before there are enough results, the modelled
times rank them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np

from engine.kernels.space import Program
from engine.tuning.candidate_pool import Candidates
from engine.tuning.strategy import ProgramSpace, Result, Strategy

POPULATION, GENERATIONS = 512, 6
MUTATION = 0.85
"""Part of the children that are mutations of one parent; the others are crossovers of two."""
SURVIVORS = 0.2
"""Part of a population that descends from the best programs tried."""
PARENTS = 8
"""The best programs tried whose neighbours are candidates, too."""
CHANCE = 0.05
"""Part of the proposals that are random."""
BATCH = 8
"""Proposals taken from one population, and results after which the next one evolves."""
LEAST_RESULTS = 10
"""Results from which a ranking is learned."""
LATEST_RESULTS = 2000
"""The last results that are learned from."""
RIDGE = 1.0
"""Penalty of the linear model's squared weights, of standardised features."""
LEVELS = 31
"""Grades of relevance, the fastest has the highest."""


Judge = Callable[[np.ndarray], np.ndarray]
"""Feature vectors -> expected quality of each, higher is faster."""


class Ranking:
    """LightGBM's lambdarank over the figures of programs, where it is installed, else ridge regression of log time.

    The same results in the same order give the same ranking.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def fit(self, features: np.ndarray, times: np.ndarray) -> Judge:
        """Train on the tried programs; a function from feature vectors to expected quality, higher is faster.

        features, times: the feature vector and the logarithm of the time of each program.
        """
        try:
            import lightgbm  # takes a second to import, and most runs never learn
        except ImportError:
            return fit_linear(features, times)
        order = np.argsort(np.argsort(times, kind="stable"), kind="stable")
        grades = LEVELS - (order * LEVELS) // max(len(times) - 1, 1)
        data = lightgbm.Dataset(features, grades, group=[len(times)], params={"verbosity": -1, "min_data_in_bin": 1})
        parameters = {
            "objective": "lambdarank", "label_gain": list(range(LEVELS + 1)), "learning_rate": 0.1, "num_leaves": 15,
            "min_data_in_leaf": max(2, len(times) // 25), "lambdarank_truncation_level": max(10, len(times) // 4),
            "seed": self._seed, "deterministic": True, "force_row_wise": True, "num_threads": 1, "verbosity": -1,
        }  # fmt: skip
        model = lightgbm.train(parameters, data, num_boost_round=60)
        return lambda ask: np.asarray(model.predict(ask, num_threads=1))


def fit_linear(features: np.ndarray, times: np.ndarray) -> Judge:
    """Ridge regression of the logarithm of time over standardised features; higher is faster."""
    mean, spread = features.mean(axis=0), features.std(axis=0) + 1e-9
    rows = (features - mean) / spread
    weights = np.linalg.solve(rows.T @ rows + RIDGE * np.eye(rows.shape[1]), rows.T @ (times - times.mean()))
    return lambda ask: -((ask - mean) / spread) @ weights


class Evolution:
    """Proposes the best of the last population, until enough results came in for the next."""

    def __init__(self, space: ProgramSpace, rng: random.Random) -> None:
        self._candidates, self._rng = Candidates(space), rng
        self._ranking = Ranking(rng.randrange(1 << 30))
        self._queue: list[int] = []
        """Best last."""
        self._news = 0
        """Results since the population was bred."""

    def propose(self, count: int) -> list[Program]:
        """The best of the population, and a few random programs."""
        found: list[Program] = []
        candidates = self._candidates
        while len(found) < count and candidates.is_open.any():
            if not self._queue or self._news >= BATCH:
                self._queue, self._news = self._breed(max(BATCH, count)), 0
            number = self._queue.pop()
            if self._rng.random() < CHANCE:
                number = int(self._rng.choice(np.flatnonzero(candidates.is_open)))
            if candidates.is_open[number]:
                found.append(candidates.take(number))
        return found

    def leave_out(self, program: Program) -> None:
        """See `Strategy`."""
        self._candidates.leave_out(program)

    def learn(self, results: Sequence[Result]) -> None:
        """Store results, for the next population."""
        self._news += self._candidates.learn(results)

    def _breed(self, count: int) -> list[int]:
        """The best untried programs of all generations of a new population, best last."""
        candidates, fitness = self._candidates, self._fitness()
        tried, times = candidates.observations()
        for parent in tried[np.argsort(times, kind="stable")[:PARENTS]]:
            candidates.neighbours(int(parent))  # so that those join which were not looked at
        seen = np.flatnonzero(candidates.is_open)
        if len(candidates.programs) > POPULATION * GENERATIONS:  # else breeding would miss some of them
            population = self._first()
            bred = [population]
            for _ in range(GENERATIONS):
                population = self._children(population, fitness(population))
                bred.append(population)
            numbers = np.unique(np.concatenate(bred))
            numbers = numbers[candidates.is_open[numbers]]
            seen = numbers if numbers.size else seen
        order = np.argsort(fitness(seen), kind="stable")
        return [int(number) for number in seen[order][-count:]]

    def _first(self) -> np.ndarray:
        """The first generation: the best tried programs, those with the best modelled times, and random ones."""
        candidates = self._candidates
        numbers, times = candidates.observations()
        survivors = numbers[np.argsort(times, kind="stable")][: int(SURVIVORS * POPULATION)]
        promising = np.argsort(candidates.promised, kind="stable")[: int(SURVIVORS * POPULATION)]
        left = POPULATION - survivors.size - promising.size
        others = self._rng.sample(range(len(candidates.programs)), left)
        return np.concatenate([survivors, promising, others]).astype(int)

    def _fitness(self) -> Judge:
        """Numbers of programs -> quality: by modelled time, or by the learned ranking once there are enough results."""
        candidates = self._candidates
        tried, times = candidates.observations()
        if tried.size < LEAST_RESULTS:
            return lambda numbers: -candidates.promised[numbers]
        judge = self._ranking.fit(candidates.features(tried[-LATEST_RESULTS:]), times[-LATEST_RESULTS:])
        return lambda numbers: judge(candidates.features(numbers))

    def _children(self, population: np.ndarray, fitness: np.ndarray) -> np.ndarray:
        """The next generation: parents are drawn with weights by their rank."""
        order = np.argsort(fitness, kind="stable")
        weights = np.empty(len(population))
        weights[order] = np.arange(1, len(population) + 1)
        parents = self._rng.choices([int(one) for one in population], [float(w) for w in weights], k=2 * POPULATION)
        return np.array([self._child(*pair) for pair in zip(parents[::2], parents[1::2], strict=True)])

    def _child(self, one: int, other: int) -> int:
        """A mutation of the first parent or a crossover of both; the first parent where the child was pruned."""
        candidates = self._candidates
        values = dict(candidates.programs[one].values)
        if self._rng.random() < MUTATION:
            open_dimensions = [name for name, choices in candidates.space.dimensions.items() if len(choices) > 1]
            name = self._rng.choice(open_dimensions)
            values[name] = self._rng.choice([v for v in candidates.space.dimensions[name] if v != values[name]])
        else:
            for name, value in candidates.programs[other].values:
                values[name] = value if self._rng.random() < 0.5 else values[name]
        child = Program(candidates.programs[one].mapping, tuple(values.items()))
        number = candidates.find(child)
        return one if number is None else number


def evolutionary(space: ProgramSpace, rng: random.Random) -> Strategy:
    """The evolutionary strategy."""
    return Evolution(space, rng)
